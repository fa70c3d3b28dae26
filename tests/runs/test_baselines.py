"""Baselines beside every result: made once, used again, and gains over them client by client."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from partita.experiment.experiment import make
from partita.runs.completion import complete
from partita.runs.run import find_runs, start
from partita.runs.view import view

from partita import registry
from partita.core.algorithm import Algorithm
from partita.core.optimizers import SGD, adagrad, adam, yogi
from partita.core.phases import Phase, Stage
from partita.core.schedules import DECAY
from partita.core.selectors import HEAD, WEIGHTS
from partita.errors import PartitaError
from partita.evaluation.metric import Metric
from partita.experiment.settings import convert
from partita.runs import once
from partita.runs.baselines import add_baselines, baselines_of, optimizer_settings
from partita.runs.database import BusyError, lock
from partita.runs.gains import gain, gains_of
from partita.runs.store import Store
from partita.simulation.result import Progress

SETTINGS: dict[str, Any] = {
    "algorithm": {"name": "fedper", "epochs": 2, "optimizer": {"lr": 0.05}},
    "model": {"name": "mlp", "hidden": 8},
    "data": {"name": "digits", "split": {"name": "dirichlet", "clients": 4, "alpha": 0.3}},
    "rounds": 2,
    "participation": 0.5,
    "batching": {"size": 50},
}


def algorithm_of(settings: dict[str, Any]) -> Algorithm:
    found: Algorithm = convert(Algorithm, settings["algorithm"], "algorithm")
    return found


# Which baselines.


def test_baselines_have_the_settings_of_the_run() -> None:
    alone, together = baselines_of({**SETTINGS, "seed": 3, "server": {"weights": "uniform"}, "oracle_validation": True})
    assert (alone.name, together.name) == ("local", "finetune")
    for each in (alone, together):
        assert each.settings["model"] == {"name": "mlp", "hidden": 8}
        assert each.settings["data"] == {"seed": 3, **SETTINGS["data"]}
        assert [each.settings[key] for key in ("rounds", "seed", "participation")] == [2, 3, 0.5]
        assert "oracle_validation" not in each.settings, "baselines have no use for validation data"
    assert alone.settings["algorithm"] == {"name": "local", "epochs": 2, "optimizer": {"name": "sgd", "lr": 0.05}}
    assert "server" not in alone.settings
    assert together.settings["server"] == {"weights": "uniform"}
    assert together.settings["algorithm"] == {
        "name": "finetune",
        "epochs": 5,
        "optimizer": {"name": "sgd", "lr": 0.05},
        "on": {"name": "fedavg", "epochs": 2, "optimizer": {"name": "sgd", "lr": 0.05}},
    }
    assert make(together.settings).evaluate_every == 0


@pytest.mark.parametrize(
    ("algorithm", "epochs", "rate", "tuned", "tuning_rate"),
    [
        ("fedper", 4, 0.01, 5, 0.01),
        ("fedbabu", 10, 0.1, 5, 0.001),
        ({"name": "flayer", "on": {"name": "fedper", "epochs": 3}}, 3, 0.01, 5, 0.01),
        ({"name": "finetune", "epochs": 7, "on": "fedalt"}, 1, 0.1, 7, 0.001),
        ({"name": "fedprox", "on": {"name": "finetune", "epochs": 2}}, 1, 0.1, 2, 0.001),
        ({"name": "server_update", "epochs": 9, "on": "fedper"}, 4, 0.01, 5, 0.01),
        ("pfedme", 1, 0.1, 5, 0.1),
    ],
    ids=str,
)
def test_they_train_as_the_method_does(
    algorithm: object, epochs: int, rate: float, tuned: int, tuning_rate: float
) -> None:
    alone, together = baselines_of({**SETTINGS, "algorithm": algorithm})
    chosen, tuning = (algorithm_of(each.settings) for each in (alone, together))
    assert chosen.settings["epochs"] == epochs
    assert descent(chosen.phases[0]).lr == rate
    on = tuning.settings["on"]
    assert isinstance(on, Algorithm)
    assert repr(on.phases) == repr(chosen.phases)
    assert tuning.settings["epochs"] == tuned
    assert descent(tuning.finetune[0]).lr == tuning_rate
    assert str(descent(tuning.finetune[0]).schedule) == "constant"


def descent(stage: Stage) -> SGD:
    assert isinstance(stage, Phase)
    assert isinstance(stage.optimizer, SGD)
    return stage.optimizer


@pytest.mark.parametrize("name", registry.names("algorithms"))
def test_every_method_has_baselines(name: str) -> None:
    for each in baselines_of({**SETTINGS, "algorithm": name}):
        assert json.loads(json.dumps(each.settings)) == each.settings
        algorithm_of(each.settings)


def test_pretraining_is_part_of_the_global_model_alone() -> None:
    before = {"algorithm": "fedavg", "rounds": 3}
    alone, together = baselines_of({**SETTINGS, "pretrain": before})
    assert (alone.settings["rounds"], "pretrain" in alone.settings) == (5, False)
    assert (together.settings["rounds"], together.settings["pretrain"]) == (2, before)


@pytest.mark.parametrize(
    "optimizer",
    [
        SGD(0.1),
        SGD(0.2, momentum=0.9, nesterov=True, weight_decay=0.1, decayed=WEIGHTS, schedule=DECAY, clip=1.0),
        SGD(0.2, rates=((HEAD, 0.5),)),
        adam(0.3, beta1=0.1),
        yogi(0.3, epsilon=1e-4),
        adagrad(0.3, schedule=DECAY),
    ],
    ids=str,
)
def test_an_optimizer_is_written_and_made_again(optimizer: SGD) -> None:
    written = json.loads(json.dumps({"name": "fedavg", "optimizer": optimizer_settings(optimizer)}))
    made = convert(Algorithm, written, "algorithm").settings["optimizer"]
    assert repr(made) == repr(optimizer)
    assert optimizer_settings(made) == optimizer_settings(optimizer)


# Made once.


def started(folder: Path) -> dict[str, Any]:
    with Store.open(folder) as store:
        return store.about


def test_baselines_are_made_once_and_used_again(tmp_path: Path) -> None:
    place = tmp_path / "baselines"
    told: list[str] = []

    def tell(stage: str, progress: Progress) -> None:
        told.append(stage)

    start(SETTINGS, tmp_path / "first", baselines=place)
    complete(tmp_path / "first", tell)
    made = find_runs(place)
    assert told == ["baseline local"] * 2 + ["baseline finetune"] * 2
    assert [path.name.partition("-")[0] for path in made] == ["finetune", "local"]
    before = [started(path) for path in made]
    # The head is trained more, and all is evaluated more often: the same baselines.
    start(
        {**SETTINGS, "algorithm": {**SETTINGS["algorithm"], "head_warmup_epochs": 1}, "evaluate_every": 1},
        tmp_path / "second",
        baselines=place,
    )
    complete(tmp_path / "second", tell)
    assert find_runs(place) == made
    assert [started(path) for path in made] == before
    assert len(told) == 4
    start({**SETTINGS, "seed": 1}, tmp_path / "third", baselines=place)
    complete(tmp_path / "third")
    assert len(find_runs(place)) == 4
    assert find_runs(tmp_path) == [tmp_path / name for name in ("first", "second", "third")], "baselines apart"


def test_baselines_are_the_runs_they_say(tmp_path: Path) -> None:
    start(SETTINGS, tmp_path / "run")
    found = add_baselines(tmp_path / "run")
    assert [(each["name"], each["model"], each["label"]) for each in found] == [
        ("local", "before_local", "local"),
        ("global", "before_local", "fedavg"),
        ("global + fine-tune", "after_finetune", "finetune on fedavg"),
    ]
    assert view(tmp_path / "run").analyses["baselines"] == found
    plain = {
        "local": make({**SETTINGS, "algorithm": {**SETTINGS["algorithm"], "name": "local"}}).run(),
        "global": make({**SETTINGS, "algorithm": {**SETTINGS["algorithm"], "name": "fedavg"}}).run(),
    }
    [lowest, *gains] = gains_of(view(tmp_path / "run"))
    assert lowest.over == "floor"
    for each, other in zip(found, gains, strict=True):
        assert (tmp_path / "run" / each["run"]).resolve().parent == (tmp_path / "baselines").resolve()
        assert other.over == each["name"]
        if each["name"] in plain:
            assert other.macro == pytest.approx(plain[each["name"]].accuracy().macro)


@pytest.mark.parametrize(
    ("algorithm", "runs", "itself"),
    [
        ("local", ["finetune"], {"local"}),
        ("fedavg", ["finetune", "local"], {"global"}),
        ({"name": "finetune", "epochs": 1}, ["local"], {"global", "global + fine-tune"}),
        ("fedprox", ["finetune", "local"], set()),
    ],
)
def test_nothing_needless_is_run(tmp_path: Path, algorithm: object, runs: list[str], itself: set[str]) -> None:
    start({**SETTINGS, "algorithm": algorithm, "rounds": 1}, tmp_path / "run")
    found = add_baselines(tmp_path / "run")
    assert [path.name.partition("-")[0] for path in find_runs(tmp_path / "baselines")] == runs
    assert {each["name"] for each in found if each["run"] == "."} == itself
    assert [each["name"] for each in found] == ["local", "global", "global + fine-tune"]
    run = view(tmp_path / "run")
    against = [each["name"] for each in found if (each["run"], each["model"]) != (".", run.about["model"])]
    assert [each.over for each in gains_of(run)] == ["floor", *against], "nothing is measured against itself"


def test_an_interrupted_baseline_is_resumed(tmp_path: Path) -> None:
    start(SETTINGS, tmp_path / "run", baselines=tmp_path / "elsewhere")

    def stop(stage: str, progress: Progress) -> None:
        if (stage, progress.round) == ("baseline finetune", 1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        complete(tmp_path / "run", stop)
    assert "baselines" not in view(tmp_path / "run").analyses
    told: list[tuple[str, int]] = []
    complete(tmp_path / "run", lambda stage, progress: told.append((stage, progress.round)))
    assert told == [("baseline finetune", 2)]
    assert len(view(tmp_path / "run").analyses["baselines"]) == 3


def test_they_can_be_switched_off_and_added_later(tmp_path: Path) -> None:
    start({**SETTINGS, "rounds": 1}, tmp_path / "run")
    complete(tmp_path / "run")
    assert not (tmp_path / "baselines").exists()
    assert [each.over for each in gains_of(view(tmp_path / "run"))] == ["floor"]
    assert len(add_baselines(tmp_path / "run", place=tmp_path / "other")) == 3
    assert len(find_runs(tmp_path / "other")) == 2


def test_a_run_that_is_not_done_has_no_baselines(tmp_path: Path) -> None:
    def stop(stage: str, progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(SETTINGS, tmp_path / "run", on_round=stop)
    with pytest.raises(PartitaError, match=r"is not done \(interrupted\). Continue it with: partita resume"):
        add_baselines(tmp_path / "run")


def test_another_process_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "PAUSE", 0.0)
    folder = tmp_path / "run"
    folder.mkdir()
    held = lock(folder)
    waited: list[Path] = []

    def release(path: Path) -> None:
        waited.append(path)
        held.close()

    once.run_once({**SETTINGS, "rounds": 1}, folder, on_wait=release)
    assert waited == [folder]
    assert started(folder)["status"] == "done"


def test_waiting_is_for_locks_alone(tmp_path: Path) -> None:
    assert issubclass(BusyError, PartitaError)
    with pytest.raises(PartitaError, match="at least 1 is needed"):
        once.run_once({**SETTINGS, "rounds": 0}, tmp_path / "run")


def test_a_baseline_that_cannot_be_made_is_noted(tmp_path: Path) -> None:
    """Every client has classes of its own, so that there is no head for all."""
    data = {"name": "digits", "split": {"name": "dirichlet", "clients": 6, "alpha": 0.2}, "own_labels": True}
    start({**SETTINGS, "data": data, "rounds": 1}, tmp_path / "run")
    assert [each["name"] for each in add_baselines(tmp_path / "run")] == ["local"]
    failed = view(tmp_path / "run").analyses["baselines_failed"]
    assert [each["name"] for each in failed] == ["global", "global + fine-tune"]
    assert all("head" in each["problem"] for each in failed)
    assert [each.over for each in gains_of(view(tmp_path / "run"))] == ["floor", "local"]


# Gains.


ACCURACY, ERROR = Metric("accuracy"), Metric("RMSE")


def test_gains_by_hand() -> None:
    own, other = {0: 0.5, 1: 0.75, 2: 1.0, 9: 0.1}, {0: 0.75, 1: 0.75, 2: 0.25, 8: 0.1}
    found = gain("local", own, other, ACCURACY)
    assert (found.over, found.clients, found.gains) == ("local", (0, 1, 2), (-0.25, 0.0, 0.75))
    assert (found.hurt, found.share, found.worst_decile) == ((0,), 1 / 3, -0.25)
    assert found.mean == pytest.approx(1 / 6)
    assert found.macro == pytest.approx(1.75 / 3)
    error = gain("local", own, other, ERROR)
    assert (error.gains, error.hurt, error.worst_decile) == ((0.25, 0.0, -0.75), (2,), -0.75)
    nearly = {0: 0.1 + 0.2}
    assert gain("local", nearly, {0: 0.3}, ACCURACY).hurt == gain("x", {0: 0.3}, nearly, ACCURACY).hurt == ()


@given(
    st.dictionaries(
        st.integers(0, 60), st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(1, 8)), min_size=1, max_size=45
    ),
    st.booleans(),
)
def test_gains_agree_with_a_direct_computation(counts: dict[int, tuple[int, int, int]], lower: bool) -> None:
    own = {client: min(one, all_) / all_ for client, (one, _, all_) in counts.items()}
    other = {client: min(two, all_) / all_ for client, (_, two, all_) in counts.items()}
    found = gain("baseline", own, other, ERROR if lower else ACCURACY)
    worse = [c for c in sorted(counts) if (own[c] > other[c] if lower else own[c] < other[c])]
    assert list(found.hurt) == worse
    assert found.share == len(worse) / len(counts)
    difference = (sum(own.values()) - sum(other.values())) / len(counts)
    assert found.mean == pytest.approx(-difference if lower else difference, abs=1e-9)
    tenth = max(len(counts) // 10, 1)
    each = sorted((other[c] - own[c]) if lower else (own[c] - other[c]) for c in counts)
    assert found.worst_decile == pytest.approx(sum(each[:tenth]) / tenth, abs=1e-9)
    assert min(found.gains) <= found.worst_decile + 1e-9 <= found.mean + 2e-9


# On the command line.

COMMAND = (sys.executable, "-c", "from partita.cli.main import main; main()")
SMALL = ("data.split.clients=4", "rounds=2", "algorithm.epochs=1")


def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=120, env=environment)


def test_a_run_shows_its_baselines_and_whom_it_hurt(own_folder: Path) -> None:
    made = ask("run", *SMALL, "-o", "here/run")
    assert made.returncode == 0, made.stderr
    for text in (made.stdout, ask("show", "here/run").stdout):
        for name in ("floor", "local", "global", "global + fine-tune"):
            assert f"\n{name} " in text
        assert "clients hurt" in text
    told = json.loads(ask("show", "here/run", "--json").stdout)
    assert [each["over"] for each in told["gains"]] == ["floor", "local", "global", "global + fine-tune"]
    for each in told["gains"]:
        assert len(each["hurt"]) == sum(value < 0 for value in each["gains"])
        if each["hurt"]:
            assert f"Worse than {each['over']}: {', '.join(map(str, each['hurt']))}\n" in made.stdout
    assert "baselines" not in ask("runs", "here").stdout
    assert "local" in ask("runs", "here/baselines").stdout


def test_without_baselines(own_folder: Path) -> None:
    made = ask("run", *SMALL, "-o", "here/run", "--no-baselines")
    assert made.returncode == 0
    assert "baseline" not in made.stderr
    assert not (own_folder / "here" / "baselines").exists()
    assert ask("resume", "here/run").returncode == 0
    assert not (own_folder / "here" / "baselines").exists()


def test_replicas_share_the_folder_of_baselines(own_folder: Path) -> None:
    for method in ("fedper", "fedrep"):
        made = ask("run", "-a", method, *SMALL, "algorithm.optimizer.lr=0.1", "--seeds", "2", "-o", f"all/{method}")
        assert made.returncode == 0, made.stderr
    assert len([path for path in (own_folder / "all" / "baselines").iterdir() if path.name.startswith("local")]) >= 2
    assert not list((own_folder / "all" / "fedper").rglob("baselines"))


def test_control_c_during_baselines_keeps_everything(own_folder: Path) -> None:
    arguments = ("run", "data.split.clients=4", "rounds=60", "algorithm.epochs=2", "evaluate_every=0", "-o", "here/run")
    with subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert running.stderr.readline().startswith("run: round 60/60")
        assert running.stderr.readline().startswith("baseline local: round 60/60")
        running.send_signal(signal.SIGINT)
        rest = running.stderr.read()
    assert running.returncode == 130
    assert "partita resume here/run" in rest
    assert "The baselines are not done. Continue with: partita resume here/run" in ask("show", "here/run").stdout
    resumed = ask("resume", "here/run")
    assert resumed.returncode == 0
    assert "global + fine-tune" in resumed.stdout
