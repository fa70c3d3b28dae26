"""Is anything missing from a run? Its rounds, its baselines, and the analyses that are made at the end of every run."""

from ..registry import is_built_in, names
from .gains import NamedBaselines
from .stored import StoredRun

AT_THE_END = ("guard",)
"""Our own analyses that are made at the end. To ask all of them would load torch, and plugins may add to them."""


def is_complete(run: StoredRun, beside: NamedBaselines) -> bool:
    """Whether resuming a run would add nothing."""
    there = run.analyses
    plugins = any(not is_built_in("analyses", name) for name in names("analyses"))
    analysed = not plugins and all(name in there or f"{name}_failed" in there for name in AT_THE_END)
    baselines = "baselines" in there and not there.get("baselines_failed") and not beside.lost
    return run.finished and (run.record.baselines is None or (baselines and analysed))
