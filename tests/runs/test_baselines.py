"""Baselines beside every result: made once, used again, and gains over them client by client."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given, strategies as st
from typer.testing import CliRunner

from partita import registry
from partita.cli.main import app
from partita.core.algorithm import Algorithm
from partita.core.optimizers import SGD, adagrad, adam, yogi
from partita.core.phases import Phase, Stage
from partita.core.schedules import DECAY
from partita.core.selectors import HEAD, WEIGHTS
from partita.errors import PartitaError
from partita.evaluation.gains import gain
from partita.evaluation.metric import Metric
from partita.experiment.description import describe_experiment, optimizer_settings
from partita.experiment.files import make
from partita.experiment.settings import convert
from partita.runs import database, reuse
from partita.runs.baselines import Baseline, add_baselines, baselines_of
from partita.runs.complete import complete
from partita.runs.database import BusyError, lock
from partita.runs.folders import BESIDE, find_runs
from partita.runs.gains import gains_of
from partita.runs.reuse import folder_for, session_for
from partita.runs.session import Session
from partita.runs.store import Store
from partita.runs.stored import read_run
from partita.simulation.events import Event, OnEvent, RoundEnded, Waiting, ignore
from partita.simulation.executors.inline import inline
from partita.simulation.experiment import Experiment
from partita.simulation.simulate import run_stages
from runs.kept import record_of, rounds_told, start, stop_after

SETTINGS: dict[str, Any] = {
    "algorithm": {"name": "fedper", "epochs": 2, "optimizer": {"lr": 0.05}},
    "model": {"name": "mlp", "hidden": 8},
    "data": {"name": "digits", "split": {"name": "dirichlet", "clients": 4, "alpha": 0.3}},
    "rounds": 2,
    "participation": 0.5,
    "batching": {"size": 50},
}


def baselines_for(**changes: Any) -> list[Baseline]:
    return baselines_of(make({**SETTINGS, **changes}))


def completed(folder: Path, on_event: OnEvent = ignore) -> None:
    with Session.open(folder, on_event=on_event) as session:
        complete(session)


def added(folder: Path, place: Path | None = None) -> list[dict[str, str]]:
    with Session.open(folder) as session:
        return add_baselines(session, place)


# Which baselines.


def test_baselines_have_the_settings_of_the_run() -> None:
    chosen = make({**SETTINGS, "seed": 3, "server": {"weights": "uniform"}, "oracle_validation": True})
    alone, together = baselines_of(chosen)
    assert (alone.name, together.name) == ("local", "finetune")
    for each in (alone.experiment, together.experiment):
        assert each.model is chosen.model
        assert each.data is chosen.data
        assert (each.rounds, each.seed, each.participation) == (2, 3, chosen.participation)
        assert not each.oracle_validation, "baselines have no use for validation data"
        assert each.evaluate_every == 0
    described = describe_experiment(alone.experiment)
    assert described["algorithm"] == {"name": "local", "epochs": 2, "optimizer": {"name": "sgd", "lr": 0.05}}
    assert described["data"] == describe_experiment(chosen)["data"]
    assert alone.experiment.server is None
    assert together.experiment.server is chosen.server is not None
    assert describe_experiment(together.experiment)["algorithm"] == {
        "name": "finetune",
        "epochs": 5,
        "optimizer": {"name": "sgd", "lr": 0.05},
        "on": {"name": "fedavg", "epochs": 2, "optimizer": {"name": "sgd", "lr": 0.05}},
        "part": None,
        "penalty": None,
    }


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
    chosen, tuning = (each.experiment.algorithm for each in baselines_for(algorithm=algorithm))
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
    for each in baselines_for(algorithm=name):
        described = describe_experiment(each.experiment)
        assert json.loads(json.dumps(described)) == described
        assert convert(Algorithm, described["algorithm"], "algorithm").label == each.experiment.algorithm.label


def test_pretraining_is_part_of_the_global_model_alone() -> None:
    chosen = make({**SETTINGS, "pretrain": {"algorithm": "fedavg", "rounds": 3}})
    alone, together = (each.experiment for each in baselines_of(chosen))
    assert (alone.rounds, alone.pretrain) == (5, None)
    assert (together.rounds, together.pretrain) == (2, chosen.pretrain)


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


def test_baselines_are_made_once_and_used_again(tmp_path: Path) -> None:
    place = tmp_path / "baselines"
    told: list[str] = []

    def tell(event: Event) -> None:
        told.extend([event.stage] if isinstance(event, RoundEnded) else [])

    start(SETTINGS, tmp_path / "first", baselines=BESIDE)
    completed(tmp_path / "first", tell)
    made = find_runs(place)
    assert told == ["baseline local"] * 2 + ["baseline finetune"] * 2
    assert [path.name.partition("-")[0] for path in made] == ["finetune", "local"]
    before = [record_of(path) for path in made]
    # The head is trained more, and all is evaluated more often: the same baselines.
    changed = {**SETTINGS["algorithm"], "head_warmup_epochs": 1}
    start({**SETTINGS, "algorithm": changed, "evaluate_every": 1}, tmp_path / "second", baselines=BESIDE)
    completed(tmp_path / "second", tell)
    assert find_runs(place) == made
    assert [record_of(path) for path in made] == before
    assert len(told) == 4
    start({**SETTINGS, "seed": 1}, tmp_path / "third", baselines=BESIDE)
    completed(tmp_path / "third")
    assert len(find_runs(place)) == 4
    assert find_runs(tmp_path) == [tmp_path / name for name in ("first", "second", "third")], "baselines apart"


CHANGES: dict[str, Any] = {
    "evaluation_clients": 2,
    "evaluation_batch": 7,
    "rounds": 3,
    "seed": 1,
    "participation": "number:1",
    "batching": {"size": 20},
    "buffers": "local",
    "frozen_norm": "eval",
    "engine": "reference",
    "model": {"name": "mlp", "hidden": 9},
    "data": {**SETTINGS["data"], "newcomers": 1},
    "algorithm": {"name": "fedper", "epochs": 3, "optimizer": {"lr": 0.05}},
    "pretrain": {"algorithm": "fedavg", "rounds": 1},
}


@pytest.mark.parametrize("key", CHANGES)
def test_what_decides_a_number_of_a_baseline_decides_where_it_is(tmp_path: Path, key: str) -> None:
    places = [
        [folder_for(each.name, each.experiment, tmp_path) for each in baselines_for(**changes)]
        for changes in ({}, {key: CHANGES[key]}, {})
    ]
    assert places[0] == places[2]
    assert not set(places[0]) & set(places[1])


def test_baselines_are_the_runs_they_say(tmp_path: Path) -> None:
    start(SETTINGS, tmp_path / "run")
    found = added(tmp_path / "run")
    assert [(each["name"], each["variant"], each["label"]) for each in found] == [
        ("local", "before_local", "local"),
        ("global", "before_local", "fedavg"),
        ("global + fine-tune", "after_finetune", "finetune on fedavg"),
    ]
    assert read_run(tmp_path / "run").analyses["baselines"] == found
    plain = {
        name: run_stages(make({**SETTINGS, "algorithm": {**SETTINGS["algorithm"], "name": method}}), inline())
        for name, method in (("local", "local"), ("global", "fedavg"))
    }
    [lowest, *gains] = gains_of(read_run(tmp_path / "run"))
    assert lowest.over == "floor"
    for each, other in zip(found, gains, strict=True):
        assert (tmp_path / "run" / each["run"]).resolve().parent == (tmp_path / "baselines").resolve()
        assert other.over == each["name"]
        if each["name"] in plain:
            assert other.macro == pytest.approx(plain[each["name"]].score().macro)


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
    found = added(tmp_path / "run")
    assert [path.name.partition("-")[0] for path in find_runs(tmp_path / "baselines")] == runs
    assert {each["name"] for each in found if each["run"] == "."} == itself
    assert [each["name"] for each in found] == ["local", "global", "global + fine-tune"]
    run = read_run(tmp_path / "run")
    against = [each["name"] for each in found if (each["run"], each["variant"]) != (".", run.record.variant)]
    assert [each.over for each in gains_of(run)] == ["floor", *against], "nothing is measured against itself"


def test_an_interrupted_baseline_is_resumed(tmp_path: Path) -> None:
    start(SETTINGS, tmp_path / "run", baselines=BESIDE)
    with pytest.raises(KeyboardInterrupt):
        completed(tmp_path / "run", stop_after(1, "baseline finetune"))
    assert "baselines" not in read_run(tmp_path / "run").analyses
    told: list[tuple[str, int]] = []

    def tell(event: Event) -> None:
        if isinstance(event, RoundEnded):
            rounds_told(told)(event)

    completed(tmp_path / "run", tell)
    assert told == [("baseline finetune", 2)]
    assert len(read_run(tmp_path / "run").analyses["baselines"]) == 3


def test_they_can_be_switched_off_and_added_later(tmp_path: Path) -> None:
    start({**SETTINGS, "rounds": 1}, tmp_path / "run")
    completed(tmp_path / "run")
    assert not (tmp_path / "baselines").exists()
    assert [each.over for each in gains_of(read_run(tmp_path / "run"))] == ["floor"]
    assert len(added(tmp_path / "run", place=tmp_path / "other")) == 3
    assert len(find_runs(tmp_path / "other")) == 2


def test_a_run_that_is_not_done_has_no_baselines(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        start(SETTINGS, tmp_path / "run", on_event=stop_after(1))
    with pytest.raises(PartitaError, match=r"is not finished \(interrupted\). Continue it: partita resume"):
        added(tmp_path / "run")


# Another process.


@pytest.fixture
def small() -> Experiment:
    return make({**SETTINGS, "rounds": 1})


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.0)
    monkeypatch.setattr(reuse, "PAUSE", 0.0)


@pytest.mark.usefixtures("impatient")
def test_another_process_is_waited_for(tmp_path: Path, small: Experiment) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    held = lock(folder)
    waited: list[Path] = []

    def release(event: Event) -> None:
        if isinstance(event, Waiting):
            waited.append(event.folder)
            held.close()

    with session_for(small, folder, on_event=release) as session:
        session.run()
    assert waited == [folder]
    assert record_of(folder).done


@pytest.mark.usefixtures("impatient")
def test_a_process_that_commits_is_waited_for_as_long_as_it_takes(
    tmp_path: Path, small: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that passes a minute at each look; the other one commits within less than the patience, often."""
    monkeypatch.setattr(reuse, "PATIENCE", 150.0)
    looks = [0]
    writer = Session.start(small, tmp_path / "run").store

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return 60.0 * looks[0]

        @staticmethod
        def sleep(seconds: float) -> None:
            looks[0] += 1
            if looks[0] % 2 == 0 and not writer.closed:
                writer.note(ended=str(looks[0]))
            if looks[0] == 40:
                writer.close()

    monkeypatch.setattr(reuse, "time", Clock)
    with session_for(small, tmp_path / "run") as session:
        assert looks[0] == 40, "sixteen times as long as the patience"
        session.run()


@pytest.mark.usefixtures("impatient")
def test_a_process_that_does_not_commit_is_given_up(
    tmp_path: Path, small: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reuse, "PATIENCE", 0.05)
    with (
        Session.start(small, tmp_path / "run"),
        pytest.raises(PartitaError, match=r"holds .*run, but has not committed anything for 0 minutes"),
    ):
        session_for(small, tmp_path / "run")


def test_a_run_that_another_process_made_meanwhile_is_used(
    tmp_path: Path, small: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not there when it was looked for, and is done when it is to be made."""
    real = Store.create

    def create(folder: Path, *given: Any) -> Store:
        monkeypatch.undo()
        with Session.start(small, folder) as other:
            other.run()
        return real(folder, *given)

    monkeypatch.setattr(Store, "create", create)
    told: list[tuple[str, int]] = []
    with session_for(small, tmp_path / "run", on_event=rounds_told(told)) as session:
        session.run()
    assert told == []


def test_waiting_is_for_locks_alone(tmp_path: Path) -> None:
    assert issubclass(BusyError, PartitaError)
    with pytest.raises(PartitaError, match="commit_every is 0, but must be at least 1"):
        session_for(make(SETTINGS), tmp_path / "run", commit_every=0)


def test_a_baseline_that_cannot_be_made_is_noted(tmp_path: Path) -> None:
    """Every client has classes of its own, so that there is no head for all."""
    data = {"name": "digits", "split": {"name": "dirichlet", "clients": 6, "alpha": 0.2}, "own_labels": True}
    start({**SETTINGS, "data": data, "rounds": 1}, tmp_path / "run")
    assert [each["name"] for each in added(tmp_path / "run")] == ["local"]
    failed = read_run(tmp_path / "run").analyses["baselines_failed"]
    assert [each["name"] for each in failed] == ["global", "global + fine-tune"]
    assert all("head" in each["problem"] for each in failed)
    assert [each.over for each in gains_of(read_run(tmp_path / "run"))] == ["floor", "local"]


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


def ask(*arguments: str) -> Result:
    """The command line in this process."""
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_a_run_shows_its_baselines_and_whom_it_hurt(own_folder: Path) -> None:
    made = ask("run", *SMALL, "-o", "here/run")
    assert made.exit_code == 0, made.stderr
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
    assert made.exit_code == 0
    assert "baseline" not in made.stderr
    assert not (own_folder / "here" / "baselines").exists()
    assert ask("resume", "here/run").exit_code == 0
    assert not (own_folder / "here" / "baselines").exists()


def test_replicas_share_the_folder_of_baselines(own_folder: Path) -> None:
    for method in ("fedper", "fedrep"):
        made = ask("run", "-a", method, *SMALL, "algorithm.optimizer.lr=0.1", "--seeds", "2", "-o", f"all/{method}")
        assert made.exit_code == 0, made.stderr
    assert len([path for path in (own_folder / "all" / "baselines").iterdir() if path.name.startswith("local")]) >= 2
    assert not list((own_folder / "all" / "fedper").rglob("baselines"))


def test_control_c_during_baselines_keeps_everything(own_folder: Path) -> None:
    arguments = ("run", "data.split.clients=4", "rounds=60", "algorithm.epochs=2", "evaluate_every=0", "-o", "here/run")
    with subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert running.stderr.readline().startswith("Note: digits does not say whose each sample is")
        assert running.stderr.readline().endswith("60 rounds, and 120 of baselines\n")
        assert running.stderr.readline().startswith("run: round 60/60")
        assert running.stderr.readline().startswith("baseline local: round 60/60")
        running.send_signal(signal.SIGINT)
        rest = running.stderr.read()
    assert running.returncode == 130
    assert "partita resume here/run" in rest
    assert "The baselines are not finished. Continue with: partita resume here/run" in ask("show", "here/run").stdout
    resumed = ask("resume", "here/run")
    assert resumed.exit_code == 0
    assert "global + fine-tune" in resumed.stdout
