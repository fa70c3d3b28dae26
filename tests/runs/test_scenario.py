"""A user's own study: two data sets with natural clients, an own network, five methods, three seeds, two rates.

Everything that is shown of a number is compared with every other place that shows it (`benchmarks/scenario.py`, which
was run at full size too). The real data are not part of the project: where they are absent, this is skipped.
"""

import csv
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.scenario import NAMES, SEEDS, methods, net, places, walk

import partita
from partita import from_clients
from partita.core.batching import Batching
from partita.data.federation import Federation
from partita.report.study import Study, study


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


def test_no_run_is_lost(place: Path) -> None:
    for name in ("activities", "writers"):
        groups = {method.name: len(method.replicas) for method in study([place / name]).methods}
        assert groups == dict.fromkeys(NAMES, SEEDS)
        made = partita.compare(place / name)
        assert {each.method: each.seeds for each in made.methods} == dict.fromkeys(NAMES, SEEDS)
    both = study([place])
    assert len(both.runs) == 2 * len(NAMES) * SEEDS
    assert both.skipped == ()
    assert [len(part.methods) for part in both.by_clients] == [len(NAMES)] * 2
    with pytest.raises(partita.PartitaError, match="have other clients under seed 0: data, division or preprocessing"):
        partita.compare(place)


def test_a_report_has_one_set_of_baselines_for_each_data_set(found: Study) -> None:
    for part in found.by_clients:
        # The global one is fedavg itself, which has the same settings and scores.
        assert [each.name.partition(",")[0] for each in part.baselines] == ["local", "global + fine-tune"]
        assert [name.partition(" ")[0] for name in part.served.values()] == ["fedavg"]
        assert all(len(each.replicas) == SEEDS for each in part.baselines)
        for method in part.methods:
            assert set(method.against.values()) <= {each.name for each in (*part.baselines, *part.methods)}


@pytest.mark.parametrize("name", ["activities", "writers"])
def test_no_number_contradicts_another(name: str, place: Path, told: Callable[..., str]) -> None:
    """Every pair of places that show a mean, a gain, an interval or whether a client is hurt agrees."""
    met, wrong = walk(place / name, told)
    assert wrong == []
    assert met > 3000


def test_every_place_is_read(place: Path, told: Callable[..., str]) -> None:
    """Each shows all methods, and every two have something in common with a third."""
    shown = places(place / "activities", told)
    assert {each: {key[0] for key in numbers} for each, numbers in shown.items()} == {each: {*NAMES} for each in shown}
    kinds = {each: {key[1] if len(key) < 5 else key[-1] for key in numbers} for each, numbers in shown.items()}
    assert {"mean", "gain", "hurt", "surely", "over seeds", "low", "high"} <= kinds["report"]
    assert {"low", "high", "hurt"} <= kinds["export --csv"] & kinds["show --json of each run"]
    table = csv.DictReader(told("compare", str(place / "activities"), "--form", "csv").splitlines())
    assert all("optimizer=sgd lr=" in row["settings"] for row in table if not row["method"].startswith("flayer"))
