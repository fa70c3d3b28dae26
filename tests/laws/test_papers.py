"""Every paper's setting is an experiment file, and starts: here on random data of the same form, cut down in length."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partita.experiment.executor import executor_of
from partita.experiment.settings.files import make, read
from partita.experiment.simulate import run_stages
from repetition import repeated

EXPERIMENTS = Path(__file__).resolve().parents[2] / "examples" / "experiments"
SMALLER = {
    "fedper_cifar100": ["algorithm.epochs=1"],
    "fedbabu_cifar10": ["data.split.clients=10", "algorithm.epochs=1", "algorithm.finetune_epochs=1"],
    "flayer_cifar10": ["data.split.clients=4"],
    "flayer_ag_news": ["data.split.clients=4"],
    "fedalt_writers": [
        "pretrain.rounds=1",
        "participation=0.5",
        "algorithm.epochs=1",
        "data.split.smallest_train=2",
        "data.split.smallest_test=1",
    ],
    "fedalt_shakespeare": ["data.split.smallest_train=2", "data.split.smallest_test=1", "participation=0.5"],
    "movielens": [],
    "hapt": [],
}


def images(draw: np.random.Generator, classes: int, train: int, test: int) -> dict[str, Any]:
    """So many of each class, as CIFAR's arrays are."""
    return {
        f"{what}_{part}": value
        for part, each in (("train", train), ("test", test))
        for what, value in (
            ("x", draw.integers(256, size=(classes * each, 32, 32, 3), dtype=np.uint8)),
            ("y", np.repeat(np.arange(classes), each)),
        )
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a little of everything."""
    made = tmp_path_factory.mktemp("data")
    draw = np.random.default_rng(0)
    words = np.array(["ship", "sails", "market", "falls", "game", "won", "planet", "found", "the", "a"])
    texts = np.array([" ".join(draw.choice(words, 12)) for _ in range(160)])
    np.savez(made / "cifar100.npz", **images(draw, 100, 8, 4))
    np.savez(made / "cifar10.npz", **images(draw, 10, 40, 10))
    np.savez(
        made / "ag_news.npz",
        x_train=texts[:120],
        y_train=np.arange(120) % 4,
        x_test=texts[120:],
        y_test=np.arange(40) % 4,
    )
    writers: dict[str, Any] = {
        f"{what}_{part}": value
        for part in ("train", "test")
        for what, value in (
            ("x", draw.integers(256, size=(60, 28, 28), dtype=np.uint8)),
            ("y", np.arange(60) % 10),
            ("client", np.arange(60) // 20 + (10 if part == "test" else 0)),
        )
    }
    np.savez(made / "mnist_writers.npz", **writers)
    np.savez(
        made / "shakespeare.npz",
        x=np.array([" ".join(draw.choice(words, 60)) for _ in range(12)]),
        client=np.arange(12) // 3,
    )
    np.savez(
        made / "movielens.npz",
        x=draw.integers(50, size=120),
        y=draw.integers(1, 11, size=120) / 2,
        client=np.arange(120) // 20,
    )
    np.savez(
        made / "hapt.npz",
        x=draw.standard_normal((120, 6, 128)).astype(np.float32), y=np.arange(120) % 6, client=np.arange(120) // 30,
    )  # fmt: skip
    return made


def test_every_file_is_known_here() -> None:
    assert {path.stem for path in EXPERIMENTS.glob("*.toml")} == SMALLER.keys()


LARGE = ("fedalt_writers", "fedper_cifar100")
"""Their networks take seconds: `make test-all` starts them."""


@pytest.mark.parametrize("name", repeated(sorted(SMALLER, key=LARGE.__contains__), always=len(SMALLER) - len(LARGE)))
def test_the_experiment_starts(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTITA_DATA", str(folder))
    experiment = make(read(EXPERIMENTS / f"{name}.toml", ["rounds=1", *SMALLER[name]]))
    result = run_stages(experiment, executor_of("inline"))
    assert result.score().clients == len(experiment.data)
    assert result.traffic
