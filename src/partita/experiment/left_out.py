"""Which clients are left out of a round? Those whose loss or update is not finite or too large, if a run allows it.

In a federation, also sites that do not answer, or whose reply cannot be used.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..formatting import amount, listed

OnSickClient = Literal["stop", "leave_out"]
"""What becomes of a run when the loss or the update of a client is not finite or too large."""
NAMED_AFTER = 3
"""The number of its rounds in a row after which a client that is left out is named."""
MOST_NAMES = 10


@dataclass(frozen=True)
class LeftOut:
    """A client whose round (counted from 1) was dropped: it sent nothing, and its state is as it was."""

    round: int
    client: int
    name: str
    in_a_row: int
    """How many of its rounds were dropped one after another, with this one."""
    problem: str


def in_a_row(client: int, round: int, last: LeftOut | None, took_part: Callable[[int], Collection[int]]) -> int:
    """How many rounds of a client are dropped one after another, if this one is; `last` is the last that was."""
    if last is None or any(client in took_part(each) for each in range(last.round + 1, round)):
        return 1
    return last.in_a_row + 1


def last_by_client(left_out: Sequence[LeftOut]) -> Mapping[int, LeftOut]:
    return {each.client: each for each in left_out}


def newly_named(left_out: Sequence[LeftOut]) -> list[LeftOut]:
    """Those that have now been left out often enough in a row to be named."""
    return [each for each in left_out if each.in_a_row == NAMED_AFTER]


def left_out_text(left_out: Sequence[LeftOut]) -> str:
    """What a run says of clients that were left out; empty if none was."""
    if not left_out:
        return ""
    clients, rounds = len({each.client for each in left_out}), len({each.round for each in left_out})
    text = (
        f"Left out: {amount(clients, 'client')} in {amount(rounds, 'round')}. The models are without their updates of "
        f"these rounds. The last reason: {left_out[-1].problem.rstrip('.')}."
    )
    named = list(dict.fromkeys(each.name for each in left_out if each.in_a_row >= NAMED_AFTER))
    if not named:
        return text
    names = listed(named[:MOST_NAMES]) + (f" and {len(named) - MOST_NAMES} more" if len(named) > MOST_NAMES else "")
    return f"{text} At least {NAMED_AFTER} rounds in a row: {names}."
