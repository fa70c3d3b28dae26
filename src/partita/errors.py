"""Which errors and warnings does the package raise?"""

import difflib
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path


class PartitaError(Exception):
    """A set-up that is refused or a run that cannot continue. The message says what was given and how to fix it."""


class ArgumentError(PartitaError, TypeError):
    """An argument that a function does not take."""


class DivergedError(PartitaError):
    """A loss, weights or an update of a client that are not finite, or too large."""


class DegenerateWarning(UserWarning):
    """The set-up runs, but amounts to a different method than its name says."""


class ShortcutWarning(UserWarning):
    """A fast route gave different numbers from the reference. It is not used, so the results are correct."""


def warn(message: str, category: type[Warning] = DegenerateWarning) -> None:
    """Warn at the line of the user's code that called the package, however deep the call is."""
    package, level = str(Path(__file__).parent), 2
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def in_one_line(error: Exception) -> str:
    """An error of another library: its type, and its text if it has any."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def unknown(kind: str, given: str, known: Iterable[str]) -> str:
    """The message for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"Unknown {kind} {given!r}.{hint} Known: {', '.join(names) or 'none'}."
