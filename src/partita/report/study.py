"""What is reported? Methods, each with its runs under several seeds, and what they are measured against."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from ..errors import PartitaError
from ..evaluation.comparison import Scores
from ..evaluation.gains import Gain, hurt_text
from ..evaluation.metric import Metric
from ..evaluation.scores import Record, Summary
from ..evaluation.variants import Variant
from ..runs.gains import Beside, gains_over, named_baselines, over_floor, remarks
from ..runs.gathering import LeftOut, gather
from ..runs.grouping import grouped
from ..runs.likeness import by_clients, marks
from ..runs.scores import pooled
from ..runs.stored import StoredRun

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
    marks: tuple[str, ...] = ()
    """In what it is not on equal terms with the others."""
    against: Mapping[str, str] = field(default_factory=dict)
    """The baseline of the report that each reference of this method is."""
    choice: str = ""
    """Of a baseline: how its settings were chosen."""

    @property
    def tested(self) -> list[Replica]:
        return [each for each in self.replicas if each.last]

    @property
    def summaries(self) -> list[Summary]:
        return [summary for each in self.replicas if (summary := each.summary)]

    @property
    def mean(self) -> float:
        """The mean over clients and seeds."""
        return fmean(each.macro for each in self.summaries)

    @cached_property
    def scores(self) -> Scores:
        """By (seed, client)."""
        return {(each.run.seed, client): record.score for each in self.replicas for client, record in each.last.items()}

    @property
    def run(self) -> StoredRun:
        """The first run, for what is the same in all of them."""
        return self.replicas[0].run

    @property
    def finished(self) -> bool:
        return all(each.run.finished for each in self.replicas)

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

    def surely_count(self, reference: str) -> int | None:
        """How many of them surely; None where there are no intervals."""
        several = [each for _, each in self.over(reference)]
        return sum(len(each.surely) for each in several) if any(each.has_intervals for each in several) else None

    def hurt_text(self, reference: str) -> str:
        """The same words as of a single run."""
        count, total = self.hurt_count(reference)
        surely = self.surely_count(reference)
        return hurt_text(count, surely or 0, total, known=surely is not None)

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
    left_out: tuple[LeftOut, ...] = ()
    remarks: tuple[str, ...] = ()
    """On baselines that are hardly any, or had another budget."""

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

    @cached_property
    def by_clients(self) -> list["Study"]:
        """One study for each set of clients: what has other clients is not compared."""
        names = by_clients({method.name: [each.run for each in method.replicas] for method in self.methods})
        if len(names) == 1:
            return [self]
        found = []
        for some in names:
            methods = tuple(method for method in self.methods if method.name in some)
            used = {name for method in methods for name in method.against.values()}
            baselines = tuple(each for each in self.baselines if each.name in used)
            found.append(replace(self, methods=methods, baselines=baselines))
        return found

    @property
    def data(self) -> str:
        """The name of the data of the first run."""
        return self.runs[0].record.data

    def having(self, name: str) -> list[tuple[Method, list[Any]]]:
        """Methods with results of an analysis, and these results, one for each run."""
        return [(method, found) for method in self.methods if (found := method.analyses(name))]


def study(folders: Sequence[Path]) -> Study:
    """Read the runs that folders are or hold, and the baselines that they name."""
    if not folders:
        raise PartitaError("A report needs at least one run.")
    gathered = gather(folders)
    runs = list(gathered.runs)
    metrics = sorted({each.record.metric for each in runs})
    if len(metrics) > 1:
        raise PartitaError(f"Runs of different metrics cannot be reported together: {', '.join(metrics)}.")
    lost: list[str] = []
    read = {each.folder: each for each in runs}
    references = {each.folder: _references(each, runs, read, lost) for each in runs}
    groups = grouped(runs)
    reported: dict[tuple[Path, Variant | None], str] = {
        (each.folder, each.record.variant): name for name, some in groups.items() for each in some
    }
    baselines = _Baselines(reported, len(groups))
    apart = marks(groups)
    methods = []
    for number, (name, some) in enumerate(groups.items()):
        pooled(some)
        known = [references[each.folder] for each in some]
        against = {reference: baselines.name_of(reference, each) for one in known for reference, each in one.items()}
        gains = tuple(gains_over(each, beside) for each, beside in zip(some, known, strict=True))
        methods.append(Method(name, number, tuple(map(replica, some)), gains, apart[name], against))
    named = {name for known in references.values() for name in known}
    names = (*(name for name in BASELINES if name in named), *sorted(named - set(BASELINES)))
    said = [text for run in runs for name, each in references[run.folder].items() for text in remarks(run, name, each)]
    shown = baselines.names
    methods = [replace(each, against={to: shown.get(key, key) for to, key in each.against.items()}) for each in methods]
    return Study(
        Metric(metrics[0]),
        tuple(methods),
        baselines.methods,
        names,
        (*_divisions(methods), *lost),
        gathered.left_out,
        tuple(dict.fromkeys(said)),
    )


def replica(of: StoredRun) -> Replica:
    """A run with the variant that its method is meant to be used with."""
    return Replica(of, of.record.variant)


def _references(
    of: StoredRun, runs: Sequence[StoredRun], read: dict[Path, StoredRun], lost: list[str]
) -> dict[str, Beside]:
    """The baselines that a run names, or those among the runs reported that can serve as such.

    `read` holds the runs that were read; those that cannot be are put into `lost`.
    """
    named = named_baselines(of, read)
    lost += [f"The baseline {name} of {of.folder} cannot be read. {problem}" for name, problem in named.lost.items()]
    if named.found:
        return dict(named.found)
    found: dict[str, Beside] = {}
    for other in runs:
        alike = (other.record.fingerprint, other.seed) == (of.record.fingerprint, of.seed)
        if other.record.label in LIKE_BASELINES and other is not of and alike:
            # Of several settings of one method the first serves.
            found.setdefault(LIKE_BASELINES[other.record.label], Beside(other, other.record.variant))
    return found


class _Baselines:
    """The baselines as methods; those of other data, budgets or choices are told apart, each run counts once."""

    def __init__(self, reported: Mapping[tuple[Path, Variant | None], str], first: int) -> None:
        self._reported, self._first = reported, first
        self._found: dict[tuple[str, str], dict[Path, Beside]] = {}

    def name_of(self, reference: str, beside: Beside) -> str:
        """Of a method of the report, its name; else a key of `names`, which are known once all baselines are."""
        if shown := self._reported.get((beside.run.folder, beside.variant)):
            return shown
        key = (reference, _set_of(beside))
        self._found.setdefault(key, {})[beside.run.folder] = beside
        return json.dumps(key)

    @property
    def names(self) -> dict[str, str]:
        return {json.dumps(key): self._name(key) for key in self._found}

    @property
    def methods(self) -> tuple[Method, ...]:
        made = []
        order = sorted(self._found, key=lambda key: BASELINES.index(key[0]) if key[0] in BASELINES else len(BASELINES))
        for number, key in enumerate(order):
            several = list(self._found[key].values())
            replicas = tuple(Replica(each.run, each.variant or each.run.record.variant) for each in several)
            choice = "; ".join(dict.fromkeys(each.choice for each in several))
            made.append(
                Method(self._name(key), self._first + number, replicas, tuple({} for _ in replicas), choice=choice)
            )
        return tuple(made)

    def _name(self, key: tuple[str, str]) -> str:
        """With what sets it apart from others of the name."""
        rivals = [json.loads(other) for name, other in self._found if name == key[0]]
        own = json.loads(key[1])
        differing = [said for place, said in enumerate(own) if len({rival[place] for rival in rivals}) > 1]
        return ", ".join([key[0], *differing])


def _set_of(beside: Beside) -> str:
    """What the baselines of one set have in common, in words; their rates are chosen for each seed."""
    record, entry = beside.run.record, beside.entry
    epochs = (entry.get("budget") or {}).get("epochs")
    model = record.experiment.get("model") or {}
    said = [
        record.data,
        f"network {model.get('name')}" if isinstance(model, Mapping) else str(model),
        f"{record.rounds} rounds",
        f"{epochs} local epochs",
        f"participation {record.experiment.get('participation')}",
        f"tested on {record.evaluated}",
        {None: "", True: "tuned", False: "not tuned"}[beside.tuned],
    ]
    return json.dumps(said)


def _divisions(methods: Iterable[Method]) -> list[str]:
    """A warning if runs of one seed have different clients, which cannot be paired by their number."""
    found: dict[int, set[str]] = {}
    for method in methods:
        for each in method.replicas:
            found.setdefault(each.run.seed, set()).add(each.run.record.fingerprint)
    if all(len(known) == 1 for known in found.values()):
        return []
    return [
        "Not all runs have the same data and division: a client of one is not the client of that number of another, "
        "and differences between such runs are not paired."
    ]
