"""What is reported? Methods, each with its runs under several seeds, and what they are measured against."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..errors import PartitaError
from ..evaluation import Model, Record, Summary, summarize
from ..runs.grouping import grouped
from ..runs.view import View, view
from .wording import Metric

Role = Literal["validation", "test"]
BASELINES = ("local", "global", "global + fine-tune")
"""In the order in which they are told."""
LIKE_BASELINES = {"local": "local", "fedavg": "global"}
"""Methods that serve others of the same report as baselines, where these have none of their own."""


@dataclass(frozen=True, eq=False)
class Replica:
    """One run and one of its models, on clients that train."""

    view: View
    model: Model
    grouped: Mapping[tuple[int, Model, Role], Sequence[Record]]

    @property
    def seed(self) -> int:
        return int(self.view.about["settings"].get("seed", 0))

    @property
    def rounds(self) -> list[int]:
        """Those after which the model was tested."""
        return sorted(round for round, model, role in self.grouped if (model, role) == (self.model, "test"))

    @property
    def last(self) -> dict[int, Record]:
        """By client, on test data, after the last round that was evaluated."""
        rounds = self.rounds
        found = self.grouped[rounds[-1], self.model, "test"] if rounds else ()
        return {record.client: record for record in found}

    @property
    def summary(self) -> Summary | None:
        return summarize(last.values()) if (last := self.last) else None

    @property
    def chosen(self) -> int | None:
        """The evaluated round that is best on validation data, the first of equals; test data have no say."""
        known = {
            at: summarize(records).macro
            for (at, model, role), records in self.grouped.items()
            if (model, role) == (self.model, "validation")
        }
        sign = -1 if Metric(self.view.about["metric"]).lower_is_better else 1
        return max(known, key=lambda at: (sign * known[at], -at)) if known else None

    @property
    def finished(self) -> bool:
        return bool(self.view.about["status"] == "done" and self.view.done >= self.view.about["rounds"])


@dataclass(frozen=True, eq=False)
class Method:
    """What is compared: a method with its settings, under one seed or several."""

    name: str
    number: int
    """Decides its colour."""
    replicas: tuple[Replica, ...]
    references: tuple[Mapping[str, Replica], ...] = ()
    """What each replica is measured against, by name: runs on the same clients and seed."""

    @property
    def tested(self) -> list[Replica]:
        return [each for each in self.replicas if each.rounds]

    @property
    def summaries(self) -> list[Summary]:
        return [summary for each in self.replicas if (summary := each.summary)]

    @property
    def view(self) -> View:
        """What holds for all replicas alike can be read from the first."""
        return self.replicas[0].view

    def pairs(self, reference: str) -> list[tuple[int, Record, Record]]:
        """The seed, and a client's record and that of the reference; clients that both have."""
        return [
            (replica.seed, mine, others[client])
            for replica, known in zip(self.replicas, self.references, strict=True)
            if reference in known
            for others in [known[reference].last]
            for client, mine in replica.last.items()
            if client in others
        ]

    def analyses(self, name: str) -> list[Any]:
        """What was found out about its runs under that name."""
        return [each.view.analyses[name] for each in self.replicas if each.view.analyses.get(name)]


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
    def views(self) -> list[View]:
        return [replica.view for method in self.methods for replica in method.replicas]

    @property
    def seeds(self) -> list[int]:
        return sorted({replica.seed for method in self.methods for replica in method.replicas})

    def having(self, name: str) -> list[tuple[Method, list[Any]]]:
        """Methods with an analysis of that name, and what it holds for each run."""
        return [(method, found) for method in self.methods if (found := method.analyses(name))]


def study(folders: Sequence[Path]) -> Study:
    """Read runs and the baselines that they name."""
    if not folders:
        raise PartitaError("A report needs at least one run.")
    views = [view(folder) for folder in dict.fromkeys(map(_resolved, folders))]
    metrics = sorted({each.about["metric"] for each in views})
    if len(metrics) > 1:
        raise PartitaError(f"Runs of different metrics cannot be reported together: {', '.join(metrics)}.")
    lost: list[str] = []
    read = {each.folder: each for each in views}
    references = {each.folder: _references(each, views, read, lost) for each in views}
    methods = tuple(
        Method(name, number, tuple(map(replica, runs)), tuple(references[each.folder] for each in runs))
        for number, (name, runs) in enumerate(grouped(views).items())
    )
    named = {name for known in references.values() for name in known}
    names = (*(name for name in BASELINES if name in named), *sorted(named - set(BASELINES)))
    reported = {(each.folder, each.about["model"]) for each in views}
    baselines = _baselines(references.values(), reported, len(methods))
    return Study(Metric(metrics[0]), methods, baselines, names, (*_divisions(methods), *lost))


def replica(of: View, model: Model | None = None) -> Replica:
    grouped: dict[tuple[int, Model, Role], list[Record]] = {}
    newcomers = set(of.about["newcomers"])
    for record in of.records:
        # Without test or validation samples there is no score.
        if record.client not in newcomers and record.count:
            grouped.setdefault((record.round, record.model, record.role), []).append(record)
    return Replica(of, model or of.about["model"], grouped)


def _resolved(folder: Path) -> Path:
    return Path(os.path.normpath(folder))


def _references(of: View, views: Sequence[View], read: dict[Path, View], lost: list[str]) -> dict[str, Replica]:
    """The baselines that a run names, or those among the runs reported that can serve as such.

    `read` holds the runs that were read, since many runs have the same baselines; those that cannot be are put into
    `lost`.
    """
    found: dict[str, Replica] = {}
    for entry in of.analyses.get("baselines") or ():
        folder = _resolved(of.folder / entry["run"])
        if (folder, entry["model"]) == (of.folder, of.about["model"]):
            continue
        try:
            read[folder] = read.get(folder) or view(folder)
        except PartitaError as problem:
            lost.append(f"The baseline {entry['name']} of {of.folder} cannot be read. {problem}")
        else:
            found[entry["name"]] = replica(read[folder], entry["model"])
    if found:
        return found
    key = (of.about["fingerprint"], of.about["settings"].get("seed", 0))
    return {
        LIKE_BASELINES[other.about["label"]]: replica(other)
        for other in views
        if other.about["label"] in LIKE_BASELINES
        and other is not of
        and (other.about["fingerprint"], other.about["settings"].get("seed", 0)) == key
    }


def _baselines(
    references: Iterable[Mapping[str, Replica]], reported: set[tuple[Path, str]], first: int
) -> tuple[Method, ...]:
    """Each run once, however many methods are measured against it."""
    found: dict[str, dict[Path, Replica]] = {}
    for known in references:
        for name, each in known.items():
            if (each.view.folder, each.model) not in reported:
                found.setdefault(name, {})[each.view.folder] = each
    return tuple(
        Method(name, first + number, tuple(runs.values()), tuple({} for _ in runs))
        for number, (name, runs) in enumerate(found.items())
    )


def _divisions(methods: Sequence[Method]) -> list[str]:
    """Clients of the same number must be the same clients, for whatever is paired."""
    found = {replica.view.about["fingerprint"] for method in methods for replica in method.replicas}
    if len(found) == 1:
        return []
    return [
        "Not all runs have the same data and division: a client of one is not the client of that number of another, "
        "and differences between such runs are not paired."
    ]
