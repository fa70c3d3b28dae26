"""How is an attack counted? By what became of each trial; whatever was not expected is kept in words."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Tally:
    """Trials by outcome, and those that broke something."""

    held: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    @property
    def trials(self) -> int:
        return self.held.total() + len(self.broken)

    def as_dict(self) -> dict[str, Any]:
        return {"trials": self.trials, "held": dict(sorted(self.held.items())), "broken": self.broken}


Attack = Callable[[Path, int, int], Tally]
"""Attacks in an empty folder, with a number of trials and a seed."""
