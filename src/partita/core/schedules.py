"""How does the learning rate change over the rounds? By a factor, constant within a round."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from ..errors import PartitaError, unknown
from ..randomness import Moment
from .signatures import Share, at_least, checked


@dataclass(frozen=True)
class Schedule:
    """A factor for each round; its text is what a configuration file says."""

    text: str
    factor: Callable[[int, int], float] = field(repr=False)

    def __call__(self, moment: Moment) -> float:
        # Fine-tuning after the last round continues with that round's rate.
        return self.factor(min(moment.round, moment.rounds - 1), moment.rounds)

    def __str__(self) -> str:
        return self.text

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """`constant`, `decay:0.1,0.5,0.75`, `step:500,0.5`, `exponential:0.99`, `linear:0.1`."""
        kind, _, rest = text.partition(":")
        if kind not in _KINDS:
            raise PartitaError(unknown("schedule", text, _KINDS))
        try:
            numbers = [float(number) for number in rest.split(",") if number]
            return _KINDS[kind](*numbers)
        except (TypeError, ValueError, PartitaError) as error:
            problem = str(error).removesuffix(".")
            raise PartitaError(f"Schedule {text!r}: {problem}. For example: {_EXAMPLES[kind]!r}.") from error


CONSTANT = Schedule("constant", lambda t, rounds: 1.0)


@checked
def decay(factor: Share = 0.1, *at: Share) -> Schedule:
    """Multiply after each of these fractions of the run; by default after a half and three quarters."""
    fractions = at or (0.5, 0.75)

    def rate(t: int, rounds: int) -> float:
        # rounds * fraction is rounded down, so that 3/4 of 30 rounds are 22.
        return factor ** sum(t >= math.floor(rounds * fraction + 1e-9) for fraction in fractions)

    return Schedule(f"decay:{factor},{','.join(map(str, fractions))}", rate)


DECAY = decay()
"""FedBABU's: a tenth after half of the rounds, a hundredth after three quarters."""


@checked
def step(every: Annotated[float, at_least(1)], factor: Share = 0.5) -> Schedule:
    """Multiply by `factor` after `every` rounds."""
    if every != int(every):
        raise PartitaError(f"step: every is {every:g}, but must be a whole number of rounds.")
    return Schedule(f"step:{int(every)},{factor}", lambda t, rounds: factor ** (t // int(every)))


@checked
def exponential(factor: Share) -> Schedule:
    """Multiply by `factor` after every round."""
    return Schedule(f"exponential:{factor}", lambda t, rounds: factor**t)


@checked
def linear(warm_up: Share = 0.1) -> Schedule:
    """Rise to 1 over a fraction of the run, then fall towards 0; without a warm-up only fall.

    Of R rounds w = warm_up * R rise. In round r, counted from 1, the factor is r / (w + 1) while r <= w, then
    (R + 1 - r) / (R - w): above 0 in every round.
    """

    def rate(t: int, rounds: int) -> float:
        rise = warm_up * rounds
        return (t + 1) / (rise + 1) if t < rise else (rounds - t) / (rounds - rise)

    return Schedule(f"linear:{warm_up}", rate)


_KINDS: dict[str, Callable[..., Schedule]] = {
    "constant": lambda: CONSTANT,
    "decay": decay,
    "step": step,
    "exponential": exponential,
    "linear": linear,
}
_EXAMPLES = {
    "constant": "constant",
    "decay": "decay:0.1,0.5,0.75",
    "step": "step:500,0.5",
    "exponential": "exponential:0.99",
    "linear": "linear:0.1",
}
