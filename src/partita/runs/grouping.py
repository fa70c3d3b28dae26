"""Which runs are replicas of each other? Those that differ only in the seed."""

import json
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from ..experiment.settings.flat import flat
from .stored import StoredRun


def grouped(runs: Sequence[StoredRun]) -> dict[str, list[StoredRun]]:
    """Group runs that differ only in the seed; every run is in one group.

    A group is named after its method. If several groups have the same method, the settings in which they differ are
    added: `fedper optimizer.lr=0.01`.
    """
    alike: dict[str, list[StoredRun]] = {}
    for run in runs:
        alike.setdefault(group_key(run), []).append(run)
    groups = list(alike.values())
    names = _names([group[0] for group in groups])
    return {name: sorted(group, key=lambda run: run.seed) for name, group in zip(names, groups, strict=True)}


def group_key(run: StoredRun) -> str:
    """The same for runs that differ in the seed alone."""
    return json.dumps([run.record.label, _unseeded(run.record.experiment)], sort_keys=True)


def _names(firsts: Sequence[StoredRun]) -> list[str]:
    labels = [run.record.label for run in firsts]
    described = [dict(flat(_unseeded(run.record.experiment))) for run in firsts]
    names = []
    for own, label in zip(described, labels, strict=True):
        rivals = [each for each, other in zip(described, labels, strict=True) if other == label]
        keys = sorted({key for rival in rivals for key in rival.keys() | own.keys() if rival.get(key) != own.get(key)})
        settings = [f"{key.removeprefix('algorithm.')}={own.get(key, 'default')}" for key in keys]
        names.append(" ".join([label, *settings]))
    return _numbered(names)


def _numbered(names: Sequence[str]) -> list[str]:
    """Number the names that occur more than once: two objects of one name may differ in their code."""
    found: list[str] = []
    for name in names:
        numbered = (f"{name} ({number})" for number in count(1))
        candidates = (each for each in numbered if each not in found and each not in names)
        found.append(next(candidates) if names.count(name) > 1 else name)
    return found


def _unseeded(experiment: Mapping[str, Any]) -> dict[str, Any]:
    """The description of an experiment without the seeds of the run and of the division."""
    data = {key: value for key, value in (experiment["data"] or {}).items() if key != "seed"}
    return {**{key: value for key, value in experiment.items() if key != "seed"}, "data": data}
