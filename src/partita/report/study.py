"""What is reported? Methods, each with its runs under several seeds, and what they are measured against."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from ..errors import PartitaError
from ..evaluation.gains import Gain
from ..evaluation.metric import Metric
from ..evaluation.scores import Record, Summary
from ..evaluation.variants import Variant
from ..runs.gains import gains_over, named_baselines, over_floor
from ..runs.grouping import grouped
from ..runs.stored import StoredRun, read_run

BASELINES = ("local", "global", "global + fine-tune")
"""In the order in which they are shown."""
LIKE_BASELINES = {"local": "local", "fedavg": "global"}
"""Methods that serve others of the same report as baselines, where these have none of their own."""


@dataclass(frozen=True, eq=False)
class Replica:
    """One run and one of its variants, on clients that train."""

    run: StoredRun
    variant: Variant

    @property
    def last(self) -> dict[int, Record]:
        """By client, on test data, after the last round that was evaluated."""
        return self.run.tested(self.variant)

    @property
    def summary(self) -> Summary | None:
        return self.run.summaries().get(self.variant)


@dataclass(frozen=True, eq=False)
class Method:
    """A method with its settings, under one seed or several."""

    name: str
    number: int
    """Decides its colour."""
    replicas: tuple[Replica, ...]
    gains: tuple[Mapping[str, Gain], ...]
    """Of each replica, by what it is measured against: runs on the same clients and seed."""

    @property
    def tested(self) -> list[Replica]:
        return [each for each in self.replicas if each.last]

    @property
    def summaries(self) -> list[Summary]:
        return [summary for each in self.replicas if (summary := each.summary)]

    @property
    def run(self) -> StoredRun:
        """The first run, for what is the same in all of them."""
        return self.replicas[0].run

    def over(self, reference: str) -> list[tuple[StoredRun, Gain]]:
        """Each run that is measured against the reference, and its gain."""
        return [
            (each.run, known[reference])
            for each, known in zip(self.replicas, self.gains, strict=True)
            if reference in known
        ]

    def gains_over(self, reference: str) -> list[float]:
        """The gain of every (seed, client)."""
        return [value for _, each in self.over(reference) for value in each.gains]

    def mean_gain(self, reference: str) -> float | None:
        gains = self.gains_over(reference)
        return fmean(gains) if gains else None

    def hurt_count(self, reference: str) -> tuple[int, int]:
        """How many (seed, client) pairs are worse off than with the reference, and of how many."""
        several = [each for _, each in self.over(reference)]
        return sum(len(each.hurt) for each in several), sum(len(each.clients) for each in several)

    def analyses(self, name: str) -> list[Any]:
        """The results of an analysis, one for each run that has it."""
        return [each.run.analyses[name] for each in self.replicas if each.run.analyses.get(name)]


@dataclass(frozen=True, eq=False)
class Study:
    """Everything that is reported."""

    metric: Metric
    methods: tuple[Method, ...]
    baselines: tuple[Method, ...] = ()
    """Runs that methods are measured against and that are not among them."""
    references: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def runs(self) -> list[StoredRun]:
        return [replica.run for method in self.methods for replica in method.replicas]

    @property
    def seeds(self) -> list[int]:
        return sorted({replica.run.seed for method in self.methods for replica in method.replicas})

    @property
    def floors(self) -> list[tuple[StoredRun, Gain]]:
        """Runs with a floor, and their gains over it."""
        return [(each, found) for each in self.runs if (found := over_floor(each))]

    def having(self, name: str) -> list[tuple[Method, list[Any]]]:
        """Methods with results of an analysis, and these results, one for each run."""
        return [(method, found) for method in self.methods if (found := method.analyses(name))]


def study(folders: Sequence[Path]) -> Study:
    """Read runs and the baselines that they name."""
    if not folders:
        raise PartitaError("A report needs at least one run.")
    runs = [read_run(folder) for folder in dict.fromkeys(map(_resolved, folders))]
    metrics = sorted({each.record.metric for each in runs})
    if len(metrics) > 1:
        raise PartitaError(f"Runs of different metrics cannot be reported together: {', '.join(metrics)}.")
    lost: list[str] = []
    read = {each.folder: each for each in runs}
    references = {each.folder: _references(each, runs, read, lost) for each in runs}
    methods = tuple(
        Method(name, number, tuple(map(replica, runs)), tuple(_gains(each, references[each.folder]) for each in runs))
        for number, (name, runs) in enumerate(grouped(runs).items())
    )
    named = {name for known in references.values() for name in known}
    names = (*(name for name in BASELINES if name in named), *sorted(named - set(BASELINES)))
    reported = {(each.folder, each.record.variant) for each in runs}
    baselines = _baselines(references.values(), reported, len(methods))
    return Study(Metric(metrics[0]), methods, baselines, names, (*_divisions(methods), *lost))


def replica(of: StoredRun) -> Replica:
    """A run with the variant that its method is meant to be used with."""
    return Replica(of, of.record.variant)


def _gains(of: StoredRun, references: Mapping[str, Replica]) -> dict[str, Gain]:
    return gains_over(of, {name: (each.run, each.variant) for name, each in references.items()})


def _resolved(folder: Path) -> Path:
    return Path(os.path.normpath(folder))


def _references(
    of: StoredRun, runs: Sequence[StoredRun], read: dict[Path, StoredRun], lost: list[str]
) -> dict[str, Replica]:
    """The baselines that a run names, or those among the runs reported that can serve as such.

    `read` holds the runs that were read; those that cannot be are put into `lost`.
    """
    named = named_baselines(of, read)
    lost += [f"The baseline {name} of {of.folder} cannot be read. {problem}" for name, problem in named.lost.items()]
    if named.found:
        return {name: Replica(*each) for name, each in named.found.items()}
    return {
        LIKE_BASELINES[other.record.label]: replica(other)
        for other in runs
        if other.record.label in LIKE_BASELINES
        and other is not of
        and (other.record.fingerprint, other.seed) == (of.record.fingerprint, of.seed)
    }


def _baselines(
    references: Iterable[Mapping[str, Replica]], reported: set[tuple[Path, Variant]], first: int
) -> tuple[Method, ...]:
    """The baselines as methods; each run once, however many methods are compared with it."""
    found: dict[str, dict[Path, Replica]] = {}
    for known in references:
        for name, each in known.items():
            if (each.run.folder, each.variant) not in reported:
                found.setdefault(name, {})[each.run.folder] = each
    return tuple(
        Method(name, first + number, tuple(runs.values()), tuple({} for _ in runs))
        for number, (name, runs) in enumerate(found.items())
    )


def _divisions(methods: Sequence[Method]) -> list[str]:
    """A warning if runs have different clients, which cannot be paired by their number."""
    found = {replica.run.record.fingerprint for method in methods for replica in method.replicas}
    if len(found) == 1:
        return []
    return [
        "Not all runs have the same data and division: a client of one is not the client of that number of another, "
        "and differences between such runs are not paired."
    ]
