"""How is a workload measured? All contenders in turn, several times, and compared turn by turn."""

import datetime
import importlib
import pkgutil
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import workloads
from benchmarks.contenders import contender, exported
from benchmarks.history import processor_name
from benchmarks.workload import Measured, Workload
from partita.errors import PartitaError
from partita.runs.environment import environment

OnMeasured = Callable[[str, str, Measured], None]


def names(*, quick: bool = False) -> list[str]:
    """Workloads there are; those that have a `quick` form."""
    found = sorted(module.name for module in pkgutil.iter_modules(workloads.__path__))
    return [name for name in found if hasattr(_module(name), "quick")] if quick else found


def bench(
    chosen: Iterable[str],
    *,
    repeat: int = 5,
    peers: Mapping[str, Path] | None = None,
    quick: bool = False,
    on_measured: OnMeasured | None = None,
) -> dict[str, Any]:
    """Measure workloads, or their quick forms; medians, ratios and all single values, with where and when."""
    if repeat < 1:
        raise PartitaError(f"{repeat} repetitions: at least 1 is needed.")
    known = names(quick=quick)
    wanted = list(chosen) or known
    for name in wanted:
        if name not in known:
            raise PartitaError(f"Unknown workload {name!r}. Known: {', '.join(known)}.")
    results = {name: _measured(name, repeat, peers or {}, quick, on_measured) for name in wanted}
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    # Where other projects are is of no interest to others.
    command = f"python -m benchmarks {' '.join(wanted)} --repeat {repeat}{' --quick' if quick else ''}"
    return {
        "command": command,
        "date": now,
        "repeat": repeat,
        "environment": environment(),
        "processor": processor_name(),
        "workloads": results,
    }


def _measured(
    name: str, repeat: int, peers: Mapping[str, Path], quick: bool, on_measured: OnMeasured | None
) -> dict[str, Any]:
    workload = load(name, quick)
    there = [peer for peer in workload.peers if peer in peers]
    with exported(workload.division if there else None) as division:
        contenders = dict(workload.contenders)
        contenders |= {peer: contender(peer, peers[peer], name, division) for peer in there}
        values: dict[str, list[Measured]] = {each: [] for each in contenders}
        for _ in range(repeat):
            for each, measure in contenders.items():
                values[each].append(measure())
                if on_measured:
                    on_measured(name, each, values[each][-1])
    return summarize(workload, values)


def load(name: str, quick: bool = False) -> Workload:
    """A workload by its name, or its quick form."""
    module = _module(name)
    made: Workload = module.quick() if quick else module.workload()
    return made


def summarize(workload: Workload, values: Mapping[str, list[Measured]]) -> dict[str, Any]:
    """Medians; and of each goal the median of the ratios, each of two measurements that followed each other."""
    goals = [
        {
            **asdict(goal),
            "ratio": (ratio := _ratio(values[goal.slow], values[goal.fast])),
            "processor_ratio": _processor_ratio(values[goal.slow], values[goal.fast]),
            "met": goal.met(ratio),
        }
        for goal in workload.goals
        if goal.slow in values and goal.fast in values
    ]
    return {
        "about": workload.about,
        "contenders": {each: _medians(measured) for each, measured in values.items()},
        "goals": goals,
        "limits": [
            {"contender": each, "unit": unit, "at_most": most, "met": _medians(values[each])[unit] <= most}
            for unit, limits in (("seconds", workload.most_seconds), ("megabytes", workload.most_megabytes))
            for each, most in limits.items()
        ],
    }


def _medians(measured: list[Measured]) -> dict[str, Any]:
    memory = [each.megabytes for each in measured if each.megabytes is not None]
    return {
        "seconds": statistics.median(each.seconds for each in measured),
        "megabytes": statistics.median(memory) if memory else None,
        "all_seconds": [each.seconds for each in measured],
        "all_processor_seconds": [each.processor for each in measured],
    }


def _ratio(slow: list[Measured], fast: list[Measured]) -> float:
    return statistics.median(a.seconds / b.seconds for a, b in zip(slow, fast, strict=True))


def _processor_ratio(slow: list[Measured], fast: list[Measured]) -> float | None:
    """The same by processor seconds, where both are known: on a busy machine, they tell more."""
    known = [a.processor / b.processor for a, b in zip(slow, fast, strict=True) if a.processor and b.processor]
    return statistics.median(known) if len(known) == len(slow) else None


def _module(name: str) -> Any:
    return importlib.import_module(f"{workloads.__name__}.{name}")
