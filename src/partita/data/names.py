"""Which client is meant? Clients are found by their name or number."""

import difflib
from collections.abc import Mapping

from ..errors import PartitaError


def find_client(wanted: str | int, numbers: Mapping[str, int], owner: str) -> int:
    """The number of a client, given its name (a text) or its number; `numbers` has all clients of `owner` by name."""
    if isinstance(wanted, str):
        if wanted in numbers:
            return numbers[wanted]
        near = difflib.get_close_matches(wanted, numbers, n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        first, *_, last = [*numbers, *numbers]
        raise PartitaError(
            f"{owner} has no client called {wanted!r}.{hint} It has {len(numbers)} clients, from {first!r} to {last!r}."
        )
    if not 0 <= wanted < len(numbers):
        raise PartitaError(
            f"{owner} has no client with the number {wanted}: its {len(numbers)} clients are numbered from 0 to "
            f"{len(numbers) - 1}."
        )
    return int(wanted)
