"""What is a run measured against? The floor, and the baselines that it names."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from ..errors import PartitaError
from ..evaluation.gains import Gain, by_client, gain
from ..evaluation.intervals import Interval
from ..evaluation.metric import Metric
from ..evaluation.outcomes import paired_interval
from ..evaluation.significance import paired_test
from ..evaluation.variants import Variant
from ..formatting import amount, listed
from .record import RunRecord
from .stored import StoredRun, read_run

LEVEL = 0.05
"""The level of the test that a difference must pass to be called sure."""
NEAR = 0.02
"""A model that beats a constant answer by no more than this (for errors: by this part) has hardly learned."""


@dataclass(frozen=True, eq=False)
class Beside:
    """A run that another one is measured against, and which of its models counts."""

    run: StoredRun
    variant: Variant | None = None
    """The variant that is compared; None is the one that its method is meant to be used with."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    """How it was chosen, and for what budget, as the other run notes it."""

    @property
    def tuned(self) -> bool | None:
        """Whether its settings were chosen on validation data; None if that is not known."""
        chosen = self.entry.get("chosen")
        return None if chosen is None else chosen == "tuned"

    @property
    def choice(self) -> str:
        """How its settings were chosen, in words."""
        if self.tuned is None:
            return "a run of its own"
        if not self.tuned:
            why = "" if self.entry.get("tunable", True) else ": there are no validation data"
            return f"not tuned{why}"
        tried = [f"{each['lr']:g}" + (f" x {each['epochs']} epochs" if each["epochs"] else "") for each in self._tried]
        return f"best on validation data of rates {', '.join(tried)}"

    @property
    def _tried(self) -> list[dict[str, Any]]:
        return list(self.entry.get("tried", []))


@dataclass(frozen=True, eq=False)
class NamedBaselines:
    """The baselines of a run: those that can be read, with the variant to use, and why others cannot."""

    found: Mapping[str, Beside]
    lost: Mapping[str, str]


def gains_of(run: StoredRun, named: NamedBaselines | None = None) -> list[Gain]:
    """Gains over the floor and every baseline that can be read, after the run's last evaluated round."""
    lowest, beside = over_floor(run), named or named_baselines(run, {})
    return [*([lowest] if lowest else []), *gains_over(run, beside.found).values()]


def over_floor(run: StoredRun, variant: Variant | None = None) -> Gain | None:
    """Gains over the best constant answer for each client; None is the variant that the method uses."""
    if not (lowest := run.analyses.get("floor")):
        return None
    scores = dict(zip(lowest["clients"], lowest["score"], strict=True))
    found = gain("floor", run.scores(variant), scores, run.metric, run.test_counts)
    return found if found.clients else None


def gains_over(run: StoredRun, others: Mapping[str, Beside]) -> dict[str, Gain]:
    """Gains over other runs on the same clients, by name.

    Clients that never train are left out. Runs that have no client in common with this one are skipped.
    """
    found = {}
    for name, other in others.items():
        _need_same_clients(run, other.run)
        scores = other.run.scores(other.variant)
        found[name] = gain(name, run.scores(), scores, run.metric, run.test_counts, _paired(run, other))
    return {name: each for name, each in found.items() if each.clients}


def _paired(run: StoredRun, other: Beside) -> dict[int, Interval]:
    """The intervals of clients whose answers to the same test samples both runs hold."""
    own, others = run.outcomes_by_client(), other.run.outcomes_by_client(other.variant)
    found = {client: paired_interval(own[client], others[client]) for client in own.keys() & others.keys()}
    return {client: interval for client, interval in found.items() if interval}


def at_the_floor(known: Mapping[int, Gain], metric: Metric) -> str | None:
    """How a method compares with a constant answer, unless it is surely better; from its gains over the floor."""
    if not known:
        return None
    floor = fmean(each.macro for each in known.values())
    where = _near_floor(fmean(each.mean for each in known.values()), floor, metric)
    if where is None and not _surely_above(known.values()):
        where = "not surely better than"
    return f"{where} a constant answer ({metric.text(floor)})" if where else None


def _surely_above(known: Iterable[Gain]) -> bool:
    """The test samples of most clients tell it, or the test over clients."""
    own = by_client(list(known)).values()
    if 2 * sum(each.interval is not None and each.interval[0] > 0 for each in own) > len(own):
        return True
    return paired_test(each.mean for each in own) < LEVEL


def remarks(
    measured: Iterable[tuple[StoredRun, Mapping[str, Beside]]],
    label: Callable[[str, Beside], str] = lambda name, _: name,
) -> list[str]:
    """Remarks for a reader of gains over baselines: a baseline learned hardly anything, or budgets are unequal.

    Given runs, and what each is measured against. `label` tells baselines of one name apart.
    """
    known = list(measured)
    several = len({run.seed for run, _ in known}) > 1
    floors: dict[tuple[str, str], list[str]] = {}
    budgets: dict[str, tuple[list[str], list[str]]] = {}
    for run, beside in known:
        for name, each in beside.items():
            if found := _at_the_floor(run, each):
                where, scores = found
                floors.setdefault((label(name, each), where), []).append(
                    scores + (f" under seed {run.seed}" if several else "")
                )
            if text := _budget(each.entry):
                labels, names = budgets.setdefault(text, ([], []))
                labels.append(run.record.label)
                names.append(name)
    near = [
        f"The baseline {name} is {where} the floor ({', '.join(dict.fromkeys(scores))}): a gain over it says little."
        for (name, where), scores in floors.items()
    ]
    said = [
        f"{listed(list(dict.fromkeys(labels)))} against {listed(list(dict.fromkeys(names)))}: {text}"
        for text, (labels, names) in budgets.items()
    ]
    return [*near, *said]


def failed_baselines(runs: Iterable[StoredRun]) -> list[str]:
    """The baselines that could not be made, with the reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        for each in run.analyses.get("baselines_failed", []):
            found.setdefault((each["problem"], run.record.label), []).append(each["name"])
    return [
        f"{label} has no baseline {listed(list(dict.fromkeys(names)))}: {problem}"
        for (problem, label), names in found.items()
    ]


def _at_the_floor(run: StoredRun, beside: Beside) -> tuple[str, str] | None:
    """How a baseline that learned hardly anything compares with the floor, and both scores."""
    lowest = over_floor(beside.run, beside.variant) or _floor_of(run, beside)
    where = _near_floor(lowest.mean, lowest.macro, run.metric) if lowest else None
    if lowest is None or where is None:
        return None
    mean = lowest.macro + (-lowest.mean if run.metric.lower_is_better else lowest.mean)
    return where, f"{run.metric.text(mean)} against {run.metric.text(lowest.macro)}"


def _near_floor(gain: float, floor: float, metric: Metric) -> str | None:
    """How a score with this gain compares with the floor, in words; None if it is well above."""
    if gain > (NEAR * floor if metric.lower_is_better else NEAR):
        return None
    return "hardly better than" if gain > 0 else "no better than"


def _floor_of(run: StoredRun, beside: Beside) -> Gain | None:
    """The floor is that of the clients, so the run's own serves a baseline that does not know it."""
    if not (lowest := run.analyses.get("floor")):
        return None
    scores = dict(zip(lowest["clients"], lowest["score"], strict=True))
    found = gain("floor", beside.run.scores(beside.variant), scores, run.metric)
    return found if found.clients else None


def _budget(entry: Mapping[str, Any]) -> str | None:
    """The difference between the budgets of a method and its baseline, in words."""
    own, other = entry.get("own_budget"), entry.get("budget")
    if not own or not other or own == other:
        return None
    if own["epochs"] is None:
        return f"unequal budgets: only the baselines count epochs ({other['epochs']} in a round)."
    parts = [
        f"{amount(own[key], unit)} against {other[key]}"
        for key, unit in (("rounds", "round"), ("epochs", "local epoch"))
        if own[key] != other[key]
    ]
    return f"unequal budgets, {listed(parts)}."


def _need_same_clients(run: StoredRun, other: StoredRun) -> None:
    if run.record.metric != other.record.metric:
        raise PartitaError(f"Runs of different metrics cannot be compared: {run.folder} and {other.folder}.")
    if run.record.fingerprint != other.record.fingerprint:
        raise PartitaError(f"{run.folder} and {other.folder} have different clients: their data or division differ.")


def named_baselines(run: StoredRun, read: dict[Path, StoredRun]) -> NamedBaselines:
    """The baselines, without the run itself. `read` holds what was read: many runs have the same baselines."""
    found: dict[str, Beside] = {}
    lost: dict[str, str] = {}
    own = Path(os.path.normpath(run.folder))
    for entry in run.analyses.get("baselines", []):
        folder = Path(os.path.normpath(own / entry["run"]))
        if (folder, entry["variant"]) == (own, run.record.variant):
            continue
        try:
            read[folder] = read.get(folder) or (run if folder == own else read_run(folder))
            _need_same_clients(run, read[folder])
        except PartitaError as problem:
            lost[entry["name"]] = str(problem)
        else:
            found[entry["name"]] = Beside(read[folder], entry["variant"], entry)
    return NamedBaselines(found, lost)


def gain_as_dict(gain: Gain, record: RunRecord) -> dict[str, Any]:
    """The gains as JSON, with clients' names beside their numbers."""
    names = {key: [record.name_of(client) for client in getattr(gain, key)] for key in ("clients", "hurt", "surely")}
    return {
        **asdict(gain),
        "names": names["clients"],
        "hurt_names": names["hurt"],
        "surely_names": names["surely"],
        "verdicts": [gain.verdict(client) for client in gain.clients],
    }
