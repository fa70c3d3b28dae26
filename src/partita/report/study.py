"""What is reported? Methods, each with its runs under several seeds, and what they are measured against."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import PartitaError
from ..evaluation.gains import Gain
from ..evaluation.metric import Metric
from ..runs.gains import Beside, failed_baselines, gains_over, named_baselines, over_floor, remarks
from ..runs.gathering import Skipped, gather
from ..runs.grouping import grouped
from ..runs.likeness import by_clients, marks
from ..runs.scores import pooled
from ..runs.stored import StoredRun
from .baselines import BASELINES, Baselines, content_of
from .method import Method, Replica

LIKE_BASELINES = {"local": "local", "fedavg": "global"}
"""Methods that serve others of the same report as baselines, where these have none of their own."""


@dataclass(frozen=True, eq=False)
class Study:
    """Everything that is reported."""

    metric: Metric
    methods: tuple[Method, ...]
    baselines: tuple[Method, ...] = ()
    """Runs that methods are measured against and that are not among them."""
    references: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    skipped: tuple[Skipped, ...] = ()
    remarks: tuple[str, ...] = ()
    """Remarks on baselines that learned hardly anything, or had an unequal budget."""
    place: Path | None = None
    """The folder of the report, from which single runs are linked."""

    @property
    def runs(self) -> list[StoredRun]:
        return [replica.run for method in self.methods for replica in method.replicas]

    @property
    def seeds(self) -> list[int]:
        return sorted({replica.run.seed for method in self.methods for replica in method.replicas})

    @cached_property
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
    def served(self) -> dict[str, str]:
        """References that are methods of the report themselves, and which."""
        names = {method.name for method in self.methods}
        found = {ref: name for method in self.methods for ref, name in method.against.items() if name in names}
        return {reference: found[reference] for reference in self.references if reference in found}

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
    reported = {content_of(each, each.record.variant): name for name, some in groups.items() for each in some}
    baselines = Baselines(reported, groups)
    apart = marks(groups)
    methods = []
    for number, (name, some) in enumerate(groups.items()):
        pooled(some)
        known = [references[each.folder] for each in some]
        against = {reference: baselines.key_of(reference, each) for one in known for reference, each in one.items()}
        gains = tuple(gains_over(each, beside) for each, beside in zip(some, known, strict=True))
        methods.append(Method(name, number, tuple(map(replica, some)), gains, apart[name], against))
    named = {name for known in references.values() for name in known}
    names = (*(name for name in BASELINES if name in named), *sorted(named - set(BASELINES)))
    measured = ((run, references[run.folder]) for run in runs)
    said = [*remarks(measured, baselines.label_of), *failed_baselines(runs)]
    shown = baselines.names
    methods = [replace(each, against={to: shown.get(key, key) for to, key in each.against.items()}) for each in methods]
    return Study(
        Metric(metrics[0]),
        tuple(methods),
        baselines.methods,
        names,
        (*_divisions(methods), *lost),
        gathered.skipped,
        tuple(said),
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
