"""What would the guard have done for a stored run? Chosen on validation data, measured on test data."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..comparison import compare
from ..errors import PartitaError
from ..evaluation import Record
from ..guard import PRIOR, WEIGHTS, choose, mixture
from ..objectives import Measures
from .gains import gain
from .models import Models, models_of
from .store import Store

Role = Literal["validation", "test"]


@dataclass(frozen=True)
class _Measured:
    """One client: sums over samples at every weight, by role."""

    validation: list[Measures]
    test: list[Measures]


def add_guard(folder: Path, *, global_run: Path | None = None, prior: float = PRIOR) -> dict[str, Any]:
    """Guard a run that is done, and note what came of it.

    The personal model is the one that the method is meant to be used with. The global one is what the method shares, if
    it shares the whole network, else the model of `global_run`, by default of the run's global baseline. The choice
    sees validation data alone; all scores are on test data. Clients that never train are left out.
    """
    with models_of(folder) as models:
        other = None if models.shares_everything and global_run is None else global_run or _global_baseline(folder)
        if other is None:
            measured = {number: _measure(models, number, models) for number in models.trainers}
        else:
            with models_of(other) as shared:
                if shared.trainers != models.trainers:
                    raise PartitaError(f"{other} has other clients than {folder}.")
                measured = {number: _measure(models, number, shared) for number in models.trainers}
        regression = models.experiment.data.kind == "regression"
    found = {
        **_outcome({client: each for client, each in measured.items() if each.test[0]}, prior, regression),
        "global_run": os.path.relpath(other or folder, folder),
    }
    with Store.open(folder, write=True) as store:
        store.add_analysis("guard", found)
    return found


def _global_baseline(folder: Path) -> Path:
    with Store.open(folder) as store:
        baselines = store.analyses.get("baselines", [])
    for entry in baselines:
        if entry["name"] == "global":
            return Path(os.path.normpath(folder / entry["run"]))
    raise PartitaError(
        f"{folder} shares only a part of its network and has no global baseline to fall back to. Name a run of a whole "
        "network on the same data: --global RUN"
    )


def _measure(models: Models, number: int, shared: Models) -> _Measured:
    client, other = models.client(number), shared.client(number)
    personal = models.tensors(client, models.model)
    whole = shared.received_network(other)

    def by_weight(role: Role) -> list[Measures]:
        samples = getattr(models.experiment.data[number], role)
        sums: list[Measures] = [{} for _ in WEIGHTS]
        answers = zip(
            models.outputs(client, personal, samples), shared.outputs(other, whole, samples, plain=True), strict=True
        )
        at = 0
        for mine, theirs in answers:
            targets = samples.take(slice(at, at + len(mine))).targets
            at += len(mine)
            for total, weight in zip(sums, WEIGHTS, strict=True):
                mixed = mixture(mine, theirs, weight, models.experiment.data.kind)
                for name, value in client.task.measure(mixed, targets).items():
                    total[name] = total.get(name, 0) + value
        return sums

    return _Measured(by_weight("validation"), by_weight("test"))


def _outcome(measured: dict[int, _Measured], prior: float, regression: bool) -> dict[str, Any]:
    clients = list(measured)
    losses = [[sums.get("loss", 0.0) for sums in each.validation] for each in measured.values()]
    places = choose(losses, [int(each.validation[0].get("count", 0)) for each in measured.values()], prior)
    scores = {
        "global": [_score(each.test[0]) for each in measured.values()],
        "personal": [_score(each.test[-1]) for each in measured.values()],
        "guarded": [_score(each.test[place]) for each, place in zip(measured.values(), places, strict=True)],
    }
    by_client = {name: dict(zip(clients, each, strict=True)) for name, each in scores.items()}
    before, after = (
        gain("global", by_client[name], by_client["global"], regression) for name in ("personal", "guarded")
    )
    pairs = {name: {(0, client): score for client, score in each.items()} for name, each in by_client.items()}
    [_, difference] = compare(
        {name: pairs[name] for name in ("personal", "global", "guarded")}, baseline="personal"
    ).differences
    low, high = difference.interval or (difference.mean, difference.mean)
    return {
        "weights": list(WEIGHTS),
        "prior": prior,
        "clients": clients,
        "chosen": [WEIGHTS[place] for place in places],
        **scores,
        "hurt_before": len(before.hurt),
        "hurt_after": len(after.hurt),
        "macro_personal": sum(scores["personal"]) / len(clients),
        "macro_guarded": sum(scores["guarded"]) / len(clients),
        "difference": difference.mean,
        "low": low,
        "high": high,
    }


def _score(sums: Measures) -> float:
    correct = int(sums["correct"]) if "correct" in sums else None
    return Record(0, 0, "before_local", "test", int(sums["count"]), correct, sums["loss"]).score
