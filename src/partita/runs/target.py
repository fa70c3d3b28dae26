"""When was a score reached? After how many rounds, seconds and bytes."""

from dataclasses import dataclass

from ..errors import PartitaError
from .view import View


@dataclass(frozen=True)
class Spent:
    """What a run had taken by the end of a round."""

    round: int
    seconds: float
    bytes: int
    """Down and up, of all clients that took part."""


def spent(view: View, round: int) -> Spent:
    return Spent(
        round,
        seconds=sum(seconds for at, seconds, _ in view.rounds if at <= round),
        bytes=sum(each.down + each.up for each in view.traffic if each.round <= round),
    )


def reached(view: View, target: float) -> Spent | None:
    """By the first evaluated round in which the clients' mean test score is at the target; None if there is none.

    The score is that of the model which the method is meant to be used with: an accuracy from the target upward, an
    RMSE from it downward. Rounds between evaluations are not looked at, and the rounds of a pretraining not counted.
    """
    if not view.metric.lower_is_better and not 0 < target <= 1:
        raise PartitaError(f"A target accuracy of {target:g}: it must be above 0 and at most 1, such as 0.9.")
    first = next((at for at, mean in view.course().items() if view.metric.gain(mean, target) >= 0), None)
    return None if first is None else spent(view, first)
