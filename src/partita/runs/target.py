"""When was a score reached? The rounds, seconds and bytes until then."""

from dataclasses import dataclass

from ..errors import PartitaError
from .stored import StoredRun


@dataclass(frozen=True)
class Spent:
    """What a run had cost by the end of a round."""

    round: int
    seconds: float
    bytes: int
    """Sent down and up, summed over all clients that took part."""


def spent(run: StoredRun, round: int) -> Spent:
    return Spent(
        round,
        seconds=sum(seconds for at, seconds, _ in run.rounds if at <= round),
        bytes=run.bytes_until(round),
    )


def reached(run: StoredRun, target: float) -> Spent | None:
    """The cost until the first evaluated round whose mean test score over clients is as good as the target.

    The score is that of the variant that the method is meant to be used with. An accuracy must be at least the target,
    an RMSE at most. Rounds between evaluations are not looked at, and rounds of a pretraining are not counted. None if
    the target was not reached.
    """
    if not run.metric.lower_is_better and not 0 < target <= 1:
        raise PartitaError(f"The target accuracy is {target:g}, but must be above 0 and at most 1, such as 0.9.")
    first = next((at for at, mean in run.course().items() if run.metric.gain(mean, target) >= 0), None)
    return None if first is None else spent(run, first)
