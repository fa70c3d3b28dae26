"""Which items represent many? Some that are evenly spread."""

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def evenly(items: Sequence[Item], most: int) -> list[Item]:
    """At most `most` of the items, evenly spread, with the first and the last.

    >>> evenly(range(10), 4)
    [0, 3, 6, 9]
    """
    if len(items) <= most:
        return list(items)
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def part_shown(shown: int, total: int, what: str) -> str:
    """A sentence that only a part is shown; empty where everything is."""
    return "" if shown >= total else f"{shown:,} of {total:,} {what} are shown, evenly spread."
