"""Experiments from files and options."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from partita.algorithms.apple import apple
from partita.algorithms.fedamp import fedamp
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedper import fedper
from partita.algorithms.lg_fedavg import lg_fedavg
from partita.algorithms.scaffold import scaffold
from partita.core.algorithm import Algorithm
from partita.core.batching import Batching
from partita.core.optimizers import SGD, adam
from partita.core.server import Server
from partita.data.pool import Pool, pool
from partita.errors import PartitaError
from partita.experiment.events import Event, OnEvent, RoundEnded, ignore
from partita.experiment.executor import executor_of
from partita.experiment.experiment import Experiment, Pretraining
from partita.experiment.result import Result
from partita.experiment.settings.files import DEFAULTS, make, read, trusted
from partita.experiment.simulate import run_stages, simulate
from partita.models.mlp import mlp
from partita.servers.averaging import averaging
from toys import small_federation

DATA = small_federation((8, 6))


def double_mlp(shape: tuple[int, ...], classes: int) -> torch.nn.Module:
    return mlp(shape=shape, classes=classes, hidden=5).double()


def experiment(algorithm: Algorithm, **more: Any) -> Experiment:
    return Experiment(algorithm, double_mlp, DATA, **{"rounds": 1, "evaluate_every": 0, **more})


def run(made: Experiment, on_event: OnEvent = ignore) -> Result:
    return run_stages(made, executor_of("inline"), on_event)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], {}),
        (["rounds=5", "participation=0.5"], {"rounds": 5, "participation": 0.5}),
        (["algorithm=fedavg"], {"algorithm": "fedavg"}),
        (["algorithm.epochs=2"], {"algorithm": {"name": "fedper", "epochs": 2}}),
        (
            ["algorithm=flayer", "algorithm.on=fedper", "algorithm.on.blocks=2"],
            {"algorithm": {"name": "flayer", "on": {"name": "fedper", "blocks": 2}}},
        ),
        (["algorithm.optimizer.lr=1e-2"], {"algorithm": {"name": "fedper", "optimizer": {"lr": 0.01}}}),
        (["model.hidden=3", "model=logistic"], {"model": "logistic"}),
        (["oracle_validation=true"], {"oracle_validation": True}),
        (["a=last_blocks:2", "b=~head", "c=layer4.*"], {"a": "last_blocks:2", "b": "~head", "c": "layer4.*"}),
        (["a='5'", 'b="x=y"', "c=x=y", "d="], {"a": "5", "b": "x=y", "c": "x=y", "d": ""}),
        (["a=[1, 2]", "b={lr = 1}"], {"a": [1, 2], "b": {"lr": 1}}),
    ],
)
def test_overrides(overrides: list[str], expected: dict[str, object]) -> None:
    assert read(None, overrides) == {**DEFAULTS, **expected}


@pytest.mark.parametrize("override", ["rounds", "=5", "", "rounds:5"])
def test_an_override_has_a_key_and_a_value(override: str) -> None:
    with pytest.raises(PartitaError, match=r"not of the form key=value, as in rounds=10"):
        read(None, [override])


def test_a_number_has_no_settings_of_its_own() -> None:
    with pytest.raises(PartitaError, match="rounds"):
        read(None, ["rounds=5", "rounds.more=1"])


def test_reading_leaves_the_defaults() -> None:
    read(None, ["algorithm.optimizer.lr=5", "data.validation=0"])
    assert read(None) == {"algorithm": "fedper", "model": "mlp", "data": "digits"} == DEFAULTS


FILE = """
rounds = 3
seed = 4
algorithm = {name = "fedbabu", epochs = 2, optimizer.lr = 0.05}

[model]
name = "mlp"
hidden = 8

[data]
name = "digits"
split = {name = "iid", clients = 6}

[batching]
size = 20
"""


def test_a_file_and_changes_of_it(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(FILE, encoding="utf-8")
    settings = read(path, ["rounds=2", "algorithm.optimizer.momentum=0.5", "batching.drop_last=true"])
    made = make(settings)
    assert (made.rounds, made.seed, len(made.data)) == (2, 4, 6)
    assert made.batching == Batching(20, drop_last=True)
    optimizer = made.algorithm.settings["optimizer"]
    assert isinstance(optimizer, SGD)
    assert (optimizer.lr, optimizer.momentum, str(optimizer.schedule)) == (0.05, 0.5, "decay:0.1,0.5,0.75")
    assert read(path)["rounds"] == 3


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"rounds = ", "is not valid TOML"),
        (b"rounds = 3\nrounds = 4", "is not valid TOML"),
        (b"# caf\xe9\nrounds = 3", "UTF-8|valid TOML"),
    ],
)
def test_a_file_that_is_not_toml(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "experiment.toml"
    path.write_bytes(content)
    with pytest.raises(PartitaError, match=rf"experiment\.toml.*({words})"):
        read(path)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(PartitaError, match=r"Cannot read .*missing\.toml: No such file"):
        read(tmp_path / "missing.toml")
    with pytest.raises(PartitaError, match="Cannot read"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"algoritm": "fedavg"}, "Did you mean 'algorithm'?"),
        ({"size": 3}, "Did you mean 'batching.size'?"),
        ({"rounds": "ten"}, "rounds: 'ten' is not a whole number"),
        ({"participation": "half"}, "Unknown participation 'half'"),
        ({"buffers": "locl"}, "buffers: Unknown value 'locl'. Did you mean 'local'?"),
        ({"data": {"name": "digits", "validaton": 1}}, "Did you mean 'validation'?"),
        ({"data": "digit"}, "Did you mean 'digits'?"),
        ({"model": "mpl"}, "Did you mean 'mlp'?"),
        ({"pretrain": {"rounds": 3}}, "pretrain"),
        ({"server": {"weights": "equal"}}, "server.weights: Unknown value 'equal'"),
    ],
)
def test_errors_name_the_setting(change: dict[str, object], words: str) -> None:
    with pytest.raises(PartitaError) as caught:
        make({**DEFAULTS, **change})
    assert words in str(caught.value)


@pytest.mark.parametrize("missing", DEFAULTS)
def test_an_experiment_needs_its_parts(missing: str) -> None:
    with pytest.raises(PartitaError, match=missing):
        make({key: value for key, value in DEFAULTS.items() if key != missing})


def split_of(**settings: object) -> list[list[int]]:
    return [roles["train"].tolist() for roles in make({**DEFAULTS, **settings}).data.roles]


def test_the_seed_splits_the_data_unless_they_have_their_own() -> None:
    assert split_of(seed=1) != split_of(seed=2)
    assert split_of(seed=1, data={"name": "digits", "seed": 2}) == split_of(seed=2)


def numbers(*, count: int = 200) -> Pool:
    """A source of data of one's own."""
    return pool("numbers", np.arange(count, dtype=np.float32)[:, None], np.arange(count) % 2)


def test_a_source_of_data_of_ones_own() -> None:
    settings = {"name": f"{__name__}:numbers", "count": 60, "split": {"name": "iid", "clients": 3}}
    made = make(trusted({**DEFAULTS, "data": settings, "seed": 1})).data
    assert (made.name, len(made), len(made.samples), made.classes) == ("numbers", 3, 60, 2)


@pytest.mark.parametrize("server", [averaging(optimizer=adam(0.1)), averaging(weights="uniform")])
def test_a_server_replaces_the_one_of_an_algorithm_that_averages(server: Server) -> None:
    assert run(experiment(fedper(), server=server)).algorithm.server is server


@pytest.mark.parametrize("algorithm", [fedamp(), apple(), scaffold()], ids=lambda algorithm: algorithm.name)
def test_a_server_of_another_kind_stays(algorithm: Algorithm) -> None:
    """That is known before the first round."""
    with pytest.raises(PartitaError, match=f"{algorithm.name} has a server of its own .*, which cannot be replaced"):
        experiment(algorithm, server=averaging(), pretrain=Pretraining(fedavg(), 1))


def test_pretraining_makes_the_initial_weights() -> None:
    stages: list[tuple[str, int]] = []

    def note(event: Event) -> None:
        assert isinstance(event, RoundEnded)
        stages.append((event.stage, event.round))

    result = run(experiment(lg_fedavg(), pretrain=Pretraining(fedavg(), 2), rounds=1), note)
    before = simulate(fedavg(), double_mlp, DATA, rounds=2).network_weights()
    assert stages == [("pretrain", 1), ("pretrain", 2), ("run", 1)]
    assert result.task.weights.keys() == before.keys()
    assert all(torch.equal(tensor, before[name]) for name, tensor in result.task.weights.items())
    assert result.algorithm.name == "lg_fedavg"


def test_pretraining_by_settings() -> None:
    made = make({**DEFAULTS, "algorithm": "lg_fedavg", "pretrain": {"algorithm": "fedavg", "rounds": 2}})
    assert made.pretrain is not None
    assert (made.pretrain.algorithm.name, made.pretrain.rounds) == ("fedavg", 2)


def test_everything_reaches_the_simulation() -> None:
    chosen: dict[str, Any] = {
        "participation": 0.5,
        "batching": Batching(3, shuffle=False),
        "buffers": "local",
        "frozen_norm": "eval",
        "evaluation_batch": 2,
        "oracle_validation": True,
    }
    result = run(experiment(fedavg(), seed=5, evaluation_clients=1, **chosen))
    protocol = result.setup.experiment
    assert {name: getattr(protocol, name) for name in chosen} == chosen
    assert (protocol.seed, result.rounds, len(result.setup.evaluated)) == (5, 1, 1)
    assert len({each.client for each in result.records if each.variant == "before_local"}) == 1
    assert len({each.client for each in result.traffic}) == 1
