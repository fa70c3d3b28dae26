"""Small true runs with all that can be found out about them, for tests of reports."""

import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Literal

import torch

from partita.data.distribution import label_counts
from partita.evaluation.representation import body_features, embedding, layer_cka, layer_similarity, without_head
from partita.evaluation.scores import Record
from partita.evaluation.variants import Variant
from partita.experiment.experiment import Experiment
from partita.experiment.left_out import LeftOut
from partita.experiment.result import Result
from partita.experiment.settings.chosen import chosen_settings
from partita.experiment.settings.describe import describe
from partita.experiment.settings.files import make, trusted
from partita.experiment.traffic import Traffic
from partita.runs.commit import Commit
from partita.runs.numbers import Numbers
from partita.runs.record import BaselinesPlace, RunRecord
from partita.runs.schema import NUMBERS, SCHEMA
from partita.runs.session import Session
from partita.runs.store import Store
from partita.runs.stored import StoredRun
from partita.tensors import Tensors

SETTINGS: dict[str, Any] = {
    "model": {"name": "mlp", "hidden": 16},
    "data": {"name": "digits", "split": {"name": "dirichlet", "clients": 8, "alpha": 0.3}},
    "rounds": 4,
    "evaluate_every": 2,
}
METHODS = ("local", "fedavg", "fedper", "fedbabu")
GLOBAL, LOCAL = "fedavg", "local"
ROLES: tuple[Literal["validation", "test"], ...] = ("validation", "test")


def make_runs(
    folder: Path, methods: Sequence[str] = METHODS, seeds: int = 2, analysed: bool = True, **changes: Any
) -> dict[str, list[Path]]:
    """Folders by method, one for each seed; with `analysed`, everything that a report can show is there."""
    found: dict[str, list[Path]] = {}
    results: dict[Path, Result] = {}
    for method in methods:
        experiment = make({**SETTINGS, "algorithm": method, **changes})
        for seed in range(seeds):
            place = folder / method / f"seed-{seed}"
            results[place] = keep(replace(experiment, seed=seed), place)
            found.setdefault(method, []).append(place)
    if analysed:
        for place, result in results.items():
            _analyse(place, result, results)
    return found


def keep(experiment: Experiment, place: Path, *, baselines: BaselinesPlace | None = None) -> Result:
    """Run an experiment to its end in this process and keep it."""
    with Session.start(experiment, place, baselines=baselines, on="inline") as session:
        session.run()
        return result_of(session)


def made(settings: Mapping[str, Any]) -> Experiment:
    """The experiment of settings in which names of functions may stand."""
    experiment: Experiment = make(trusted(settings))
    return experiment


def result_of(session: Session) -> Result:
    found = session.store.server("run")
    assert found
    records, traffic = session.store.records("run"), session.store.traffic("run")
    return Result(session.setup(), found[1], dict(session.states()), records, traffic)


def fill(place: Path, analyses: dict[str, Any]) -> None:
    with Store.open(place, write=True) as store:
        for name, value in analyses.items():
            store.add_analysis(name, value)


def labels(result: Result) -> dict[str, Any]:
    counts = {role: label_counts(result.data, (role,)).tolist() for role in ("train", "validation", "test")}
    return {"classes": result.data.classes, "clients": list(range(len(result.data))), **counts}


def floor(found: dict[str, Any]) -> dict[str, Any]:
    """Worked out from the counts of labels alone."""
    right = [
        test[max(range(len(train)), key=train.__getitem__)]
        for train, test in zip(found["train"], found["test"], strict=True)
    ]
    totals = [sum(test) for test in found["test"]]
    score = [each / total for each, total in zip(right, totals, strict=True)]
    return {"clients": found["clients"], "score": score, "micro": sum(right) / sum(totals), "macro": fmean(score)}


def guard(result: Result, shared: Result) -> dict[str, Any]:
    """Either model, whichever is better on validation data."""
    models = {"global": shared, "personal": result}
    scores = {
        (name, role): {record.client: record.score for record in each.select(role=role)}
        for name, each in models.items()
        for role in ROLES
    }
    clients = sorted(scores["global", "test"])
    chosen = [
        1.0 if scores["personal", "validation"][each] > scores["global", "validation"][each] else 0.0
        for each in clients
    ]
    by_global, personal = ([scores[name, "test"][each] for each in clients] for name in models)
    guarded = [personal[at] if weight else by_global[at] for at, weight in enumerate(chosen)]
    difference = fmean(guarded) - fmean(personal)
    return {
        "weights": [0, 0.25, 0.5, 0.75, 1],
        "prior": 10,
        "clients": clients,
        "chosen": chosen,
        "global": by_global,
        "personal": personal,
        "guarded": guarded,
        "hurt_before": sum(mine < other for mine, other in zip(personal, by_global, strict=True)),
        "hurt_after": sum(mine < other for mine, other in zip(guarded, by_global, strict=True)),
        "macro_personal": fmean(personal),
        "macro_guarded": fmean(guarded),
        "difference": difference,
        "low": difference - 0.02,
        "high": difference + 0.02,
        "global_run": "elsewhere",
    }


def _analyse(place: Path, result: Result, results: dict[Path, Result]) -> None:
    counts = labels(result)
    beside = {name: place.parent.parent / name / place.name for name in (LOCAL, GLOBAL)}
    baselines = [
        {"name": said, "run": f"../../{name}/{place.name}", "variant": "before_local", "label": name}
        for name, said in ((LOCAL, "local"), (GLOBAL, "global"))
        if beside[name] in results and beside[name] != place
    ]
    analyses: dict[str, Any] = {
        "labels": counts,
        "floor": floor(counts),
        "network": describe(result.algorithm, result.task).as_dict(),
        "baselines": baselines,
        "finetuning": _finetuning(result),
        "training": _training(result),
        "inside_outside": {
            "inside": {"macro": 0.9, "std": 0.05, "micro": 0.91, "clients": len(result.data)},
            "outside": None if place.parent.name == LOCAL else {"macro": 0.3, "std": 0.1, "micro": 0.31, "clients": 5},
            "before_local": None,
        },
        **_representations(result),
    }
    if beside[GLOBAL] in results and beside[GLOBAL] != place:
        analyses["guard"] = guard(result, results[beside[GLOBAL]])
    fill(place, analyses)


def _finetuning(result: Result) -> dict[str, Any]:
    """Where it begins is true; how it goes on is made up."""
    start = result.score("before_local")
    parts = {
        part: {
            "macro": [start.macro + (1 - start.macro) * share * epoch / 6 for epoch in range(6)],
            "std": [start.std] * 6,
            "micro": [start.micro] * 6,
        }
        for part, share in (("head", 0.4), ("body", 0.25), ("full", 0.6))
    }
    return {"clients": list(range(len(result.data))), "epochs": list(range(6)), "lr": 0.1, "parts": parts}


def _training(result: Result) -> dict[str, Any]:
    """What each client's model answers on the samples that it was trained on."""
    data, clients = result.data, list(range(len(result.data)))
    variants: dict[str, Variant] = {"before_local": "before_local", "used": result.variant}
    scores: dict[str, list[float]] = {name: [] for name in variants}
    for client in clients:
        samples = data.samples.take(data.roles[client]["train"])
        for name, variant in variants.items():
            answers = result.model(client, variant).predict(samples.inputs).probabilities
            assert answers is not None
            scores[name].append(float((answers.argmax(-1) == samples.targets).double().mean()))
    means = {name: {**_summary(several), "clients": len(several)} for name, several in scores.items()}
    return {"clients": clients, **means, "scores": scores}


def _representations(result: Result) -> dict[str, Any]:
    data, task = result.data, result.task
    count = len(data)
    weights = [_network(result, client) for client in range(count)]
    probe = data.samples.take(slice(0, 60))
    cosine, cka = layer_similarity(task, weights), layer_cka(task, weights, probe)
    pairs = ~torch.eye(count, dtype=torch.bool)
    whole = torch.nn.functional.normalize(torch.stack([torch.cat([t.flatten() for t in w.values()]) for w in weights]))
    right = {
        kind: [
            without_head(
                task,
                own,
                data.samples.take(data.roles[each]["train"]),
                data.samples.take(data.roles[each]["test"]),
                kind,
            )
            for each, own in enumerate(weights)
        ]
        for kind in ("cosine", "euclidean")
    }
    heads = {kind: _summary([each["correct"] / each["count"] for each in found]) for kind, found in right.items()}
    places = embedding(body_features(task, weights[0], probe))
    used = result.score()
    return {
        "similarity": {
            "clients": list(range(count)),
            "layers": list(cosine),
            "cosine": [float(each[pairs].mean()) for each in cosine.values()],
            "cosine_std": [float(each[pairs].std()) for each in cosine.values()],
            "cka": [float(cka[layer][pairs].mean()) for layer in cosine],
            "cka_std": [float(cka[layer][pairs].std()) for layer in cosine],
            "matrix": (whole @ whole.T).tolist(),
        },
        "without_head": {**heads, "with_head": {"macro": used.macro, "std": used.std, "micro": used.micro}},
        "embedding": {
            "x": places[:, 0].tolist(),
            "y": places[:, 1].tolist(),
            "label": probe.targets.tolist(),
            "client": [0] * len(probe),
        },
    }


def _summary(scores: Sequence[float]) -> dict[str, float]:
    return {"macro": fmean(scores), "std": pstdev(scores), "micro": fmean(scores)}


def _network(result: Result, client: int) -> Tensors:
    own = result.own.get(client, {})
    return {name: own.get(name, tensor) for name, tensor in result.network_weights().items()}


def record(label: str = "fedper", **changes: Any) -> RunRecord:
    """Of a run that is done, of one round and three clients, unless told otherwise."""
    known: dict[str, Any] = {
        "experiment": experiment_of(label),
        "label": label,
        "variant": "before_local",
        "metric": "accuracy",
        "data": "digits",
        "origin": {"split": {"name": "iid"}},
        "fingerprint": "the same",
        "division": "whole",
        "clients": 3,
        "names": [],
        "newcomers": [],
        "evaluated": 3,
        "rounds": 1,
        "seed": 0,
        "oracle_validation": False,
        "environment": {"packages": {"partita": "0.1.0"}},
        "started": "2026-01-02T03:04:05+00:00",
        "ended": "2026-01-02T03:05:05+00:00",
        "commit_every": 1,
        "memory": 1,
        "baselines": None,
        "baseline_tuning": True,
        "status": "done",
    }
    values = known | changes
    return RunRecord(**{"settings": chosen_settings(values["experiment"])} | values)


def experiment_of(label: str, *, seed: int = 0, **settings: Any) -> dict[str, Any]:
    """The description of an experiment with a method of these settings."""
    return {
        "algorithm": {"name": label, **settings},
        "model": {"name": "mlp"},
        "data": {"name": "digits", "seed": 0},
        "participation": "1.0",
        "seed": seed,
    }


def stored(
    records: list[Record],
    *,
    folder: str = "run",
    done: Sequence[int] = (1,),
    traffic: Sequence[Traffic] = (),
    **changes: Any,
) -> StoredRun:
    """A run that was never written: each of the rounds that are done took a second."""
    about = record(**{"rounds": max(done, default=1), **changes})
    return StoredRun(Path(folder), about, [(at, 1.0, 1) for at in done], held(folder, records, traffic), {})


class Held(Numbers):
    """Numbers in a database that is in memory alone."""

    connection: sqlite3.Connection

    def rows(self, query: str, *values: object) -> Iterator[Any]:
        yield from self.connection.execute(query, values)


def held(folder: str, records: Sequence[Record], traffic: Sequence[Traffic] = ()) -> Numbers:
    rounds = [*(each.round for each in records), *(each.round for each in traffic)]
    made = Held(Path(folder), max(rounds, default=0))
    connection = sqlite3.connect(":memory:")
    connection.create_function("root", 1, math.sqrt)
    connection.executescript(SCHEMA)
    tables: dict[str, Sequence[Record | Traffic]] = {"metrics": records, "traffic": traffic}
    for table, rows in tables.items():
        places = ", ".join("?" * (1 + len(NUMBERS[table])))
        connection.executemany(f"INSERT INTO {table} VALUES ({places})", [("run", *astuple(each)) for each in rows])
    object.__setattr__(made, "connection", connection)
    return made


def write_run(
    folder: Path,
    scores: Mapping[int, Sequence[float]],
    *,
    label: str = "fedper",
    metric: str = "accuracy",
    rounds: int | None = None,
    samples: int = 100,
    variant: Variant = "before_local",
    analyses: dict[str, Any] | None = None,
    left_out: tuple[LeftOut, ...] = (),
    **changes: Any,
) -> Path:
    """A run without training: each client's score by round, of as many test samples, a second and 300 bytes a round."""
    done = max(scores, default=0)
    clients = len(next(iter(scores.values()), ()))
    known = {
        "clients": clients,
        "evaluated": clients,
        "rounds": rounds or done,
        "metric": metric,
        "status": "done" if rounds in (None, done) else "interrupted",
        **changes,
    }
    records = [
        Record(at, client, variant, role, samples, *_sums(score, samples, metric))
        for at, each in scores.items()
        for client, score in enumerate(each)
        for role in ROLES
    ]
    with Store.create(folder, record(label, **known)) as store:
        if done:
            timed = tuple((at, 1.0, 1) for at in range(1, done + 1))
            sent = tuple(Traffic(at, 0, "body", 100, 200) for at in range(1, done + 1))
            store.commit(Commit("run", done, rounds=timed, records=tuple(records), traffic=sent, left_out=left_out))
        for name, value in (analyses or {}).items():
            store.add_analysis(name, value)
    return folder


def _sums(score: float, samples: int, metric: str) -> tuple[int | None, float]:
    """Right answers and loss that give the score."""
    return (None, score**2 * samples) if metric == "RMSE" else (round(score * samples), 1.0)
