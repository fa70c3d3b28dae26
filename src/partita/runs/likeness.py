"""Are runs compared on equal terms? What must agree besides the method, and in what they differ."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import PartitaError
from ..formatting import amount
from .stored import StoredRun

Groups = Mapping[str, Sequence[StoredRun]]


def terms(run: StoredRun) -> dict[str, tuple[str, str]]:
    """The terms that decide a score besides method, data and seed: the compared value of each, and its text."""
    record, experiment = run.record, run.record.experiment
    pretrain = (experiment.get("pretrain") or {}).get("rounds", 0)
    rounds = record.rounds + pretrain
    network = experiment.get("model")
    tested = sorted(run.tested())
    batching, participation = experiment.get("batching"), experiment.get("participation")
    said = f"tested on {len(tested)} of {amount(record.clients, 'client')}"
    return {
        "rounds": (str(rounds), amount(rounds, "round")),
        "network": (_key(network), f"network {in_words(network)}"),
        "participation": (_key(participation), f"participation {in_words(participation)}"),
        "batching": (_key(batching), f"batches {_settings(batching)}"),
        "initial weights": (_key(experiment.get("weights")), "other initial weights"),
        "evaluated clients": (_key(tested), said),
        "validation": (str(record.oracle_validation), "oracle" if record.oracle_validation else "no oracle"),
    }


def marks(groups: Groups) -> dict[str, tuple[str, ...]]:
    """The terms in which each group differs from the others, in words; empty if all are on equal terms."""
    known = {name: [terms(run) for run in runs] for name, runs in groups.items()}
    found: dict[str, tuple[str, ...]] = {}
    for name, several in known.items():
        said: list[str] = []
        for term in several[0]:
            if len({each[term][0] for others in known.values() for each in others}) > 1:
                said += dict.fromkeys(each[term][1] for each in several)
        found[name] = tuple(said)
    return found


def same_clients(one: Sequence[StoredRun], other: Sequence[StoredRun]) -> bool:
    """Whether two groups have a seed in common, and the same data and division under each such seed."""
    known = {run.seed: run.record.fingerprint for run in other}
    common = [run for run in one if run.seed in known]
    return bool(common) and all(run.record.fingerprint == known[run.seed] for run in common)


def need_same_clients(groups: Groups, baseline: str) -> None:
    """Refuse groups whose clients are not those of the baseline: a client of the same number is another one."""
    own = {run.seed: run for run in groups[baseline]}
    for name, runs in groups.items():
        for run in runs:
            if run.seed in own and run.record.fingerprint != own[run.seed].record.fingerprint:
                raise PartitaError(
                    f"{name!r} and {baseline!r} have other clients under seed {run.seed}: data, division or "
                    f"preprocessing differ ({run.folder}, {own[run.seed].folder}). Compare runs on the same data."
                )


def by_clients(groups: Groups) -> list[list[str]]:
    """The names of groups, those with the same clients together."""
    found: list[list[str]] = []
    for name, runs in groups.items():
        home = next((some for some in found if same_clients(runs, groups[some[0]])), None)
        if home is None:
            found.append([name])
        else:
            home.append(name)
    return found


def _key(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def in_words(setting: Any) -> str:
    """A setting as it is shown: its name and what it is set to, without the fingerprints of objects."""
    if not isinstance(setting, Mapping):
        return str(setting)
    rest = {key: value for key, value in setting.items() if key != "name" and not key.startswith("@")}
    return " ".join([str(setting.get("name")), _settings(rest)]).strip()


def _settings(values: Any) -> str:
    if not isinstance(values, Mapping):
        return str(values)
    return " ".join(f"{key}={value}" for key, value in values.items())
