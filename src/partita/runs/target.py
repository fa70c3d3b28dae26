"""When was a score reached? After how many rounds, seconds and bytes."""

from dataclasses import dataclass

from ..errors import PartitaError
from .view import View


@dataclass(frozen=True)
class Reached:
    """What a run had taken by the end of the round after which its score was first seen to be good enough."""

    round: int
    seconds: float
    bytes: int
    """Down and up, of all clients that took part."""


def reached(view: View, target: float) -> Reached | None:
    """The first evaluated round in which the clients' mean test score is at the target; None if there is none.

    The score is that of the model which the method is meant to be used with: an accuracy from the target upward, an
    RMSE from it downward. Rounds between evaluations are not looked at, and the rounds of a pretraining not counted.
    """
    higher = view.about["metric"] == "accuracy"
    if higher and not 0 < target <= 1:
        raise PartitaError(f"A target accuracy of {target:g}: it must be above 0 and at most 1, such as 0.9.")
    for number in view.evaluated:
        score = view.summaries(number).get(view.about["model"])
        if score and (score.macro >= target if higher else score.macro <= target):
            return Reached(
                round=number,
                seconds=sum(seconds for at, seconds, _ in view.rounds if at <= number),
                bytes=sum(each.down + each.up for each in view.traffic if each.round <= number),
            )
    return None
