"""Has a ratio become worse? What was measured is compared with what was last kept of such a processor."""

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path("benchmarks") / "history" / "quick"
TOLERATED = 1.15
"""Times the former ratio that is still noise."""


def processor_name() -> str:
    """As the system calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def last_like(found: Mapping[str, Any], folder: Path = FOLDER) -> dict[str, Any] | None:
    """What was last measured on a processor of the same name, by its date."""
    kept = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    alike = [each for each in kept if each["processor"] == found["processor"] and each["date"] != found["date"]]
    return max(alike, key=lambda each: str(each["date"]), default=None)


def worsened(found: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """A sentence for each ratio that is worse than it was by more than is tolerated."""
    return [
        f"{name}: {slow} / {fast} was {former:.2f} and is {now:.2f}."
        for (name, slow, fast), (now, wanted) in _ratios(found).items()
        for former, _ in [_ratios(before).get((name, slow, fast), (now, wanted))]
        if (now > TOLERATED * former if wanted == "small" else now * TOLERATED < former)
    ]


def _ratios(found: Mapping[str, Any]) -> dict[tuple[str, str, str], tuple[float, str]]:
    """Ratios by processor seconds where they are known, and whether they should be small or large."""
    return {
        (name, goal["slow"], goal["fast"]): (
            goal.get("processor_ratio") or goal["ratio"],
            "large" if goal["at_least"] else "small",
        )
        for name, result in found["workloads"].items()
        for goal in result["goals"]
    }
