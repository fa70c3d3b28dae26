"""When was a score reached? After how many rounds, seconds and bytes."""

from dataclasses import dataclass

from ..errors import PartitaError
from .stored import StoredRun


@dataclass(frozen=True)
class Spent:
    """What a run had taken by the end of a round."""

    round: int
    seconds: float
    bytes: int
    """Down and up, of all clients that took part."""


def spent(run: StoredRun, round: int) -> Spent:
    return Spent(
        round,
        seconds=sum(seconds for at, seconds, _ in run.rounds if at <= round),
        bytes=sum(each.down + each.up for each in run.traffic if each.round <= round),
    )


def reached(run: StoredRun, target: float) -> Spent | None:
    """By the first evaluated round in which the clients' mean test score is at the target; None if there is none.

    The score is that of the model which the method is meant to be used with: an accuracy from the target upward, an
    RMSE from it downward. Rounds between evaluations are not looked at, and the rounds of a pretraining not counted.
    """
    if not run.metric.lower_is_better and not 0 < target <= 1:
        raise PartitaError(f"A target accuracy of {target:g}: it must be above 0 and at most 1, such as 0.9.")
    first = next((at for at, mean in run.course().items() if run.metric.gain(mean, target) >= 0), None)
    return None if first is None else spent(run, first)
