"""A user's own study: two data sets with natural clients, an own network, five methods, three seeds, two rates.

Everything that is shown of a number is compared with every other place that shows it. The real data are not part of
the project: where they are absent, this is skipped.
"""

import csv
import importlib.util
import json
import os
import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import partita
from partita import SGD, Algorithm, fedalt, fedavg, fedbabu, fedper, flayer, from_clients
from partita.core.batching import Batching
from partita.data.federation import Federation
from partita.formatting import MINUS
from partita.report.report import report
from partita.report.study import Study, study
from partita.runs.gains import gains_of
from partita.runs.stored import read_run

SEEDS = 3


class Net(nn.Module):
    """The user's own."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 6), nn.ReLU())
        self.head = nn.Linear(6, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.body(inputs))
        return outputs


def net(*, shape: tuple[int, ...], classes: int) -> nn.Module:
    return Net(shape, classes)


def methods() -> dict[str, Algorithm]:
    rate = SGD(0.1)
    return {
        "fedavg": fedavg(optimizer=rate),
        "fedper": fedper(epochs=1, optimizer=rate),
        "fedper-slow": fedper(epochs=1, optimizer=SGD(0.01)),
        "fedbabu": fedbabu(epochs=1),
        "fedalt": fedalt(optimizer=rate),
        "flayer": flayer(on=fedavg(optimizer=rate)),
    }


def few(inputs: Any, labels: Any, owners: Any, clients: int, scale: float) -> Federation:
    """The first clients with 24 samples of three classes, spread over their time."""
    kept = np.isin(labels, np.unique(labels)[:3])
    inputs, labels, owners = inputs[kept], labels[kept], owners[kept]
    chosen = [owner for owner in np.unique(owners) if (owners == owner).sum() >= 24][:clients]
    rows = {owner: np.flatnonzero(owners == owner) for owner in chosen}
    spread = {owner: own[np.linspace(0, len(own) - 1, 24).astype(int)] for owner, own in rows.items()}
    return from_clients(
        {
            f"person {owner}": (torch.tensor(inputs[own] / scale, dtype=torch.float32), torch.tensor(labels[own]))
            for owner, own in spread.items()
        }
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All runs of the study, with quick baselines."""
    given = os.environ.get("PARTITA_SHARED")
    base = Path(given) if given else Path(__file__).resolve().parents[3] / "shared"
    found = next((each / "export.py" for each in (base, base / "data") if (each / "export.py").is_file()), None)
    if found is None:
        pytest.skip("real data: no export.py in ../shared/data nor in PARTITA_SHARED")
    spec = importlib.util.spec_from_file_location("export_data", found)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    people, writers = module.hapt(), module.mnist_writers()
    data = {
        "activities": few(people["x"][:, :, ::8], people["y"], people["client"], 4, 1.0),
        "writers": few(writers["x_train"][:, ::4, ::4], writers["y_train"], writers["client_train"], 4, 255.0),
    }
    place = tmp_path_factory.mktemp("study")
    for name, federation in data.items():
        for method, algorithm in methods().items():
            partita.run(
                algorithm,
                net,
                federation,
                folder=place / name / method,
                seeds=SEEDS,
                rounds=2,
                batching=Batching(12),
                baselines="quick",
                on="inline",
            )
    return place


@pytest.fixture(scope="module")
def found(place: Path) -> Study:
    return study([place])


NAMES = ["fedavg", "fedper optimizer.lr=0.1", "fedper optimizer.lr=0.01", "fedbabu", "fedalt", "flayer on fedavg"]


def test_no_run_is_lost(place: Path) -> None:
    for name in ("activities", "writers"):
        groups = {method.name: len(method.replicas) for method in study([place / name]).methods}
        assert groups == dict.fromkeys(NAMES, SEEDS)
        made = partita.compare(place / name)
        assert {each.method: each.seeds for each in made.methods} == dict.fromkeys(NAMES, SEEDS)
    both = study([place])
    assert len(both.runs) == 2 * len(NAMES) * SEEDS
    assert both.passed_over == ()
    assert [len(part.methods) for part in both.by_clients] == [len(NAMES)] * 2
    with pytest.raises(partita.PartitaError, match="have other clients under seed 0: data, division or preprocessing"):
        partita.compare(place)


def test_a_report_has_one_set_of_baselines_for_each_data_set(found: Study) -> None:
    for part in found.by_clients:
        assert len(part.baselines) == 3
        assert all(len(each.replicas) == SEEDS for each in part.baselines)
        for method in part.methods:
            assert set(method.against.values()) <= {each.name for each in (*part.baselines, *part.methods)}


def test_no_number_contradicts_another(place: Path, tmp_path: Path, told: Callable[..., str]) -> None:
    """Every pair of places that show a mean, a gain or the clients hurt of a method agrees, as far as it is written."""
    folder = place / "activities"
    whole = study([folder])
    shown = {
        "study": _of_study(whole),
        "show": _of_table(told("show", str(folder)), whole),
        "json": _of_json(json.loads(told("show", str(folder), "--json"))),
        "report": _of_report(report(whole), whole),
        "runs": _of_runs(whole),
        "csv": _of_csv(folder, tmp_path, told, whole),
    }
    compared = partita.compare(folder)
    shown["compare"] = {(each.method, "mean", ""): each.mean for each in compared.methods}
    table = list(csv.DictReader(told("compare", str(folder), "--form", "csv").splitlines()))
    shown["compare csv"] = {(row["method"], "mean", ""): float(row["mean"]) for row in table}
    met = 0
    for (one, first), (other, second) in combinations(shown.items(), 2):
        common = first.keys() & second.keys()
        assert common, (one, other)
        met += len(common)
        for key in common:
            assert first[key] == pytest.approx(second[key], abs=0.00051), (one, other, key)
    assert met > 200
    assert all("optimizer=sgd lr=" in row["settings"] for row in table if row["method"] != "flayer on fedavg")


Numbers = dict[tuple[str, str, str], float]


def _of_study(whole: Study) -> Numbers:
    numbers: Numbers = {}
    for method in whole.methods:
        numbers[method.name, "mean", ""] = method.mean
        for name in whole.references:
            if (gain := method.mean_gain(name)) is not None:
                numbers[method.name, "gain", name] = gain
                numbers[method.name, "hurt", name] = method.hurt_count(name)[0]
                numbers[method.name, "surely", name] = method.surely_count(name) or 0
    return numbers


def _of_runs(whole: Study) -> Numbers:
    """From each run by itself, as `partita show RUN` reads it."""
    numbers: Numbers = {}
    for method in whole.methods:
        runs = [read_run(each.run.folder) for each in method.replicas]
        means = [run.summaries()[run.record.variant].macro for run in runs]
        numbers[method.name, "mean", ""] = float(np.mean(means))
        for name in whole.references:
            gains = [each for run in runs for each in gains_of(run) if each.over == name]
            if gains:
                numbers[method.name, "gain", name] = float(np.mean([value for each in gains for value in each.gains]))
                numbers[method.name, "hurt", name] = sum(len(each.hurt) for each in gains)
                numbers[method.name, "surely", name] = sum(len(each.surely) for each in gains)
    return numbers


def _of_json(said: dict[str, Any]) -> Numbers:
    numbers: Numbers = {}
    for method in said["methods"]:
        numbers[method["name"], "mean", ""] = method["mean"]
        numbers |= {(method["name"], "gain", name): value for name, value in method["gains"].items()}
        numbers |= {(method["name"], "hurt", name): value["count"] for name, value in method["hurt"].items()}
        numbers |= {(method["name"], "surely", name): value["surely"] for name, value in method["hurt"].items()}
    return numbers


def _cells(titles: list[str], row: list[str], method: str) -> Numbers:
    numbers: Numbers = {}
    for title, text in zip(titles, row, strict=True):
        cell = text.replace(MINUS, "-").replace(" *", "").strip()
        if title.startswith("mean"):
            numbers[method, "mean", ""] = float(cell.split()[0]) / 100
        elif title.startswith("gain over") and cell not in ("-", "\N{EN DASH}"):
            numbers[method, "gain", title.removeprefix("gain over ")] = float(cell) / 100
        elif title.startswith("hurt") and " of " in cell:
            name = title.removeprefix("hurt, against ")
            numbers[method, "hurt", name] = int(cell.split()[0])
            numbers[method, "surely", name] = int(cell.partition("(")[2].split()[0])
    return numbers


def _of_table(text: str, whole: Study) -> Numbers:
    lines = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
    [titles] = [line for line in lines if line[:2] == ["method", "mean ± over clients"]]
    names = {method.name for method in whole.methods}
    rows = [line for line in lines if line[0] in names and len(line) == len(titles)]
    assert len(rows) == len(names)
    return {key: value for row in rows for key, value in _cells(titles, row, row[0]).items()}


def _of_report(text: str, whole: Study) -> Numbers:
    [found] = re.findall(r'aria-label="Test accuracy of each method">(.*?)</table>', text)
    rows = [re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall("<tr>(.*?)</tr>", found)]
    titles, *others = [[re.sub("<[^>]*>", "", cell) for cell in row] for row in rows]
    names = {method.name for method in whole.methods}
    return {key: value for row in others if row[0] in names for key, value in _cells(titles, row, row[0]).items()}


def _of_csv(folder: Path, out: Path, told: Callable[..., str], whole: Study) -> Numbers:
    told("export", str(folder), "--csv", str(out))
    with (out / "gains.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    numbers: Numbers = {}
    for method in whole.methods:
        for name in whole.references:
            some = [row for row in rows if (row["method"], row["over"]) == (method.name, name)]
            if some:
                numbers[method.name, "mean", ""] = float(np.mean([float(row["score"]) for row in some]))
                numbers[method.name, "gain", name] = float(np.mean([float(row["gain"]) for row in some]))
                numbers[method.name, "hurt", name] = sum(row["hurt"] != "not" for row in some)
                numbers[method.name, "surely", name] = sum(row["hurt"] == "surely" for row in some)
    return numbers
