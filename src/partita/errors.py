"""What can go wrong, in the user's words."""

import difflib
from collections.abc import Iterable


class PartitaError(Exception):
    """A set-up or a run that cannot go on; the message says what was given, what is known and the way out."""


class DivergedError(PartitaError):
    """A loss that is not a number."""


class DegenerateWarning(UserWarning):
    """A set-up that runs, but is another method than its name says."""


class ShortcutWarning(UserWarning):
    """A faster way to compute that gave other numbers than the reference. It is not used: results are right."""


def unknown(kind: str, given: str, known: Iterable[str]) -> str:
    """The message for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"Unknown {kind} {given!r}.{hint} Known: {', '.join(names) or 'none'}."
