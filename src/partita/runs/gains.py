"""What is a run measured against? The floor, and the baselines that it names."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import PartitaError
from ..evaluation.gains import Gain, gain
from ..evaluation.variants import Variant
from .record import RunRecord
from .stored import StoredRun, read_run


@dataclass(frozen=True, eq=False)
class NamedBaselines:
    """The baselines of a run: those that can be read, with the variant to use, and why others cannot."""

    found: Mapping[str, tuple[StoredRun, Variant]]
    lost: Mapping[str, str]


def gains_of(run: StoredRun, named: NamedBaselines | None = None) -> list[Gain]:
    """Gains over the floor and every baseline that can be read, after the run's last evaluated round."""
    lowest, beside = over_floor(run), named or named_baselines(run, {})
    return [*([lowest] if lowest else []), *gains_over(run, beside.found).values()]


def over_floor(run: StoredRun) -> Gain | None:
    """Gains over the best constant answer for each client."""
    if not (lowest := run.analyses.get("floor")):
        return None
    found = gain("floor", run.scores(), dict(zip(lowest["clients"], lowest["score"], strict=True)), run.metric)
    return found if found.clients else None


def gains_over(run: StoredRun, others: Mapping[str, tuple[StoredRun, Variant | None]]) -> dict[str, Gain]:
    """Gains over variants of other runs on the same clients, by name; None is the variant that the method uses itself.

    Clients that never train are left out, and so are runs that have no client in common with this one.
    """
    found = {}
    for name, (other, variant) in others.items():
        _need_same_clients(run, other)
        found[name] = gain(name, run.scores(), other.scores(variant), run.metric)
    return {name: each for name, each in found.items() if each.clients}


def _need_same_clients(run: StoredRun, other: StoredRun) -> None:
    if run.record.metric != other.record.metric:
        raise PartitaError(f"Runs of different metrics cannot be compared: {run.folder} and {other.folder}.")
    if run.record.fingerprint != other.record.fingerprint:
        raise PartitaError(f"{run.folder} and {other.folder} have different clients: their data or division differ.")


def named_baselines(run: StoredRun, read: dict[Path, StoredRun]) -> NamedBaselines:
    """Nothing is measured against itself. `read` holds what was read: many runs have the same baselines."""
    found: dict[str, tuple[StoredRun, Variant]] = {}
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
            found[entry["name"]] = (read[folder], entry["variant"])
    return NamedBaselines(found, lost)


def gain_as_dict(gain: Gain, record: RunRecord) -> dict[str, Any]:
    """The gains as JSON, with clients' names beside their numbers."""
    names = {key: [record.name_of(client) for client in getattr(gain, key)] for key in ("clients", "hurt")}
    return {**asdict(gain), "names": names["clients"], "hurt_names": names["hurt"]}
