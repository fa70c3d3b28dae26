"""Baselines beside every result: made once, used again, and gains over them client by client.

One file, since all baselines stand beside the same few runs.
"""

import json
import signal
import subprocess
import sys
from dataclasses import astuple, replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given, strategies as st
from typer.testing import CliRunner

from partita.algorithms.fedavg import fedavg
from partita.algorithms.local import local
from partita.cli.main import app
from partita.core.algorithm import Algorithm
from partita.core.optimizers import SGD, adagrad, adam, yogi
from partita.core.schedules import DECAY
from partita.core.selectors import HEAD, WEIGHTS
from partita.errors import PartitaError
from partita.evaluation.gains import gain
from partita.evaluation.metric import Metric
from partita.experiment.events import Event, OnEvent, RoundEnded, Waiting, ignore
from partita.experiment.executors.inline import inline
from partita.experiment.experiment import Experiment
from partita.experiment.settings.description import optimizer_settings
from partita.experiment.settings.files import make
from partita.experiment.settings.settings import convert
from partita.experiment.simulate import run_stages
from partita.report.conclusion import conclusions
from partita.report.report import report
from partita.report.study import study
from partita.runs import database, reuse
from partita.runs.baselines import add_baselines, epochs_of, local_epochs, protocol
from partita.runs.complete import complete
from partita.runs.database import BusyError, lock
from partita.runs.folders import BESIDE, find_runs
from partita.runs.gains import gains_of, named_baselines, remarks
from partita.runs.reuse import folder_for, session_for
from partita.runs.session import Session
from partita.runs.store import Store
from partita.runs.stored import read_run
from partita.runs.tuning import Tried, best, tried_rates
from runs.kept import record_of, rounds_told, start, stop_after
from studies import write_run

SETTINGS: dict[str, Any] = {
    "algorithm": {"name": "fedper", "epochs": 2, "optimizer": {"lr": 0.05}},
    "model": {"name": "mlp", "hidden": 8},
    "data": {"name": "digits", "split": {"name": "dirichlet", "clients": 4, "alpha": 0.3}},
    "rounds": 2,
    "participation": 0.5,
    "batching": {"size": 50},
}


def candidate(method: Any = local, rate: float = 0.1, **changes: Any) -> Experiment:
    """What is tried as a baseline of a run with these settings."""
    given = make({**SETTINGS, **changes})
    return replace(protocol(given), algorithm=method(epochs=epochs_of(given.algorithm), optimizer=SGD(rate)))


def completed(folder: Path, on_event: OnEvent = ignore) -> None:
    with Session.open(folder, on_event=on_event) as session:
        complete(session)


def added(folder: Path, place: Path | None = None) -> list[dict[str, str]]:
    with Session.open(folder) as session:
        return add_baselines(session, place)


# Which baselines.


def test_baselines_have_the_protocol_of_the_run_and_none_of_the_methods_choices() -> None:
    changes = {"seed": 3, "server": {"weights": "uniform"}, "oracle_validation": True}
    chosen = make({**SETTINGS, **changes, "pretrain": {"algorithm": "fedavg", "rounds": 3}})
    found = protocol(chosen)
    assert found.data is chosen.data
    assert (found.model, found.seed, found.participation, found.batching) == (
        chosen.model,
        3,
        chosen.participation,
        chosen.batching,
    )
    assert (found.rounds, found.pretrain, found.server) == (5, None, None), "pretraining counts as rounds"
    assert not found.oracle_validation
    assert found.evaluate_every == 0


@pytest.mark.parametrize(
    ("algorithm", "epochs", "counted"),
    [
        ("fedper", 4, 4),
        ("fedbabu", 10, 10),
        ({"name": "fedalt", "epochs": 3}, 3, 4),
        ({"name": "flayer", "on": {"name": "fedper", "epochs": 3}}, 3, 3),
        ({"name": "finetune", "epochs": 7, "on": "fedavg"}, 1, 1),
        ("pfedme", 1, None),
    ],
    ids=str,
)
def test_they_have_the_local_epochs_of_the_method(algorithm: object, epochs: int, counted: int | None) -> None:
    made = convert(Algorithm, algorithm, "algorithm")
    assert epochs_of(made) == epochs
    assert local_epochs(made) == counted


@pytest.mark.parametrize(
    ("scores", "tried", "chosen"),
    [
        ({0.03: 0.5, 0.1: 0.7, 0.3: 0.6}, [0.03, 0.1, 0.3], 0.1),
        ({0.03: 0.5, 0.1: 0.6, 0.3: 0.7, 1.0: 0.2}, [0.03, 0.1, 0.3, 1.0], 0.3),
        ({0.01: 0.8, 0.003: 0.7, 0.03: 0.7, 0.1: 0.6, 0.3: None}, [0.003, 0.01, 0.03, 0.1, 0.3], 0.01),
        ({0.03: 0.7, 0.1: 0.7, 0.3: 0.7}, [0.03, 0.1, 0.3], 0.1),
        ({0.03: None, 0.1: None, 0.3: None}, [0.03, 0.1, 0.3], 0.1),
    ],
)
def test_a_grid_grows_where_its_best_is_at_an_end(
    scores: dict[float, float | None], tried: list[float], chosen: float
) -> None:
    """Of equal rates the usual one is taken, and None is a training that diverged."""
    found = tried_rates(scores.__getitem__, ACCURACY.gain)
    assert [each.lr for each in found] == tried
    assert best(found, ACCURACY.gain).lr == chosen
    assert best([Tried(0.1, 0.5), Tried(0.3, 0.4)], ERROR.gain).lr == 0.3, "less error is better"


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


def inline_run(settings: dict[str, Any], folder: Path, on_event: OnEvent = ignore, **more: Any) -> Path:
    """A run with its baselines, in this process."""
    with Session.start(make(settings), folder, baselines=BESIDE, on="inline", on_event=on_event, **more) as session:
        session.run()
        add_baselines(session)
    return folder


@pytest.mark.parametrize("every", [None, 0, 1])
@pytest.mark.parametrize("name", ["local", "fedavg", "finetune"])
def test_a_method_that_is_its_own_baseline_has_the_others(name: str, every: int | None, tmp_path: Path) -> None:
    """However often it is evaluated; the rate is the one that baselines have without tuning."""
    trained = {"name": "local" if name == "local" else "fedavg", "epochs": 1, "optimizer": {"lr": 0.1}}
    tuned = {"name": "finetune", "on": trained, "epochs": 5, "optimizer": {"name": "sgd", "lr": 0.1}}
    settings = {**SETTINGS, "algorithm": tuned if name == "finetune" else trained, "evaluate_every": every}
    run = read_run(inline_run(settings, tmp_path / "mine", baseline_tuning=False))
    assert run.analyses["baselines_failed"] == []
    itself = {"local": "local", "fedavg": "global", "finetune": "global + fine-tune"}[name]
    entries = {entry["name"]: entry["run"] for entry in run.analyses["baselines"]}
    assert list(entries) == ["local", "global", "global + fine-tune"]
    assert [each for each, place in entries.items() if place == "."] == [itself]
    assert named_baselines(run, {}).found.keys() == entries.keys() - {itself}


def test_baselines_are_tuned_once_and_shared(tmp_path: Path) -> None:
    """By methods of other rates, momenta and phases; another seed has its own."""
    place = tmp_path / "baselines"
    told: list[str] = []

    def tell(event: Event) -> None:
        told.extend([event.now] if isinstance(event, RoundEnded) and event.stage == "baselines" else [])

    first = inline_run(SETTINGS, tmp_path / "first", tell)
    made = find_runs(place)
    kinds = [path.name.partition("-")[0] for path in made]
    assert (kinds.count("local"), kinds.count("fedavg"), kinds.count("finetune")) >= (3, 3, 1)
    assert told[:2] == ["baselines: local, rate 0.03"] * 2, "two rounds of each"
    assert len(told) == 2 * (len(made) - 1), "fine-tuning needs no training of its own"
    fast = {"name": "fedbabu", "epochs": 2, "optimizer": {"lr": 0.5, "momentum": 0.9}}
    second = inline_run({**SETTINGS, "algorithm": fast, "evaluate_every": 1}, tmp_path / "second", tell)
    assert find_runs(place) == made
    assert len(told) == 2 * (len(made) - 1)
    noted = [[(each["name"], each["run"]) for each in read_run(run).analyses["baselines"]] for run in (first, second)]
    assert noted[0] == noted[1]
    inline_run({**SETTINGS, "seed": 1}, tmp_path / "third", baseline_tuning=False)
    assert len(find_runs(place)) == len(made) + 3
    assert find_runs(tmp_path) == [tmp_path / name for name in ("first", "second", "third")], "baselines apart"


@pytest.fixture(scope="module")
def tuned_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return inline_run(SETTINGS, tmp_path_factory.mktemp("tuned") / "run")


def test_the_choice_is_made_on_validation_data_and_noted(tuned_run: Path) -> None:
    run = read_run(tuned_run)
    alone, together, tuned = run.analyses["baselines"]
    for entry, method in ((alone, local), (together, fedavg)):
        scores = {
            each["lr"]: run_stages(candidate(method, each["lr"]), inline()).score(role="validation").macro
            for each in entry["tried"]
        }
        assert [each["score"] for each in entry["tried"]] == pytest.approx(list(scores.values()))
        chosen = read_run(tuned_run / entry["run"]).record.experiment["algorithm"]["optimizer"]["lr"]
        assert scores[chosen] == max(scores.values())
        assert entry["budget"] == entry["own_budget"] == {"rounds": 2, "epochs": 2}
    assert {each["epochs"] for each in tuned["tried"]} == {1, 5}
    beside = named_baselines(run, {}).found
    assert beside["local"].choice.startswith("best on validation data of rates 0.03, 0.1, 0.3")
    assert not any("budget" in each for each in remarks([(run, beside)]))


def test_fine_tuning_is_the_run_it_would_be_if_it_were_trained(tuned_run: Path) -> None:
    """To the bit, though its rounds are taken over."""
    entry = read_run(tuned_run).analyses["baselines"][2]
    derived = read_run(tuned_run / entry["run"])
    algorithm = convert(Algorithm, derived.record.experiment["algorithm"], "algorithm")
    trained = run_stages(replace(candidate(), algorithm=algorithm), inline())
    assert sorted(map(astuple, derived.records), key=str) == sorted(map(astuple, trained.records), key=str)
    assert [astuple(each) for each in derived.traffic] == [astuple(each) for each in trained.traffic]


def test_quick_baselines_are_one_default_and_say_so(tmp_path: Path) -> None:
    run = inline_run(SETTINGS, tmp_path / "run", baseline_tuning=False)
    assert len(find_runs(tmp_path / "baselines")) == 3
    beside = named_baselines(read_run(run), {}).found
    assert {each.choice for each in beside.values()} == {"not tuned"}
    assert "The baselines are not tuned." in conclusions(study([run]))[0]


def test_without_validation_data_nothing_is_tuned_and_it_is_said(tmp_path: Path) -> None:
    run = inline_run({**SETTINGS, "data": {**SETTINGS["data"], "validation": 0.0}}, tmp_path / "run")
    [choice] = {each.choice for each in named_baselines(read_run(run), {}).found.values()}
    assert choice == "not tuned: there are no validation data"


def test_another_budget_and_a_baseline_at_the_floor_are_told(tmp_path: Path) -> None:
    """FedAlt makes 1 + 2 epochs in a round, its baselines 2; a constant answer is right for 0.5."""
    made = inline_run(
        {**SETTINGS, "algorithm": {"name": "fedalt", "epochs": 2}}, tmp_path / "run", baseline_tuning=False
    )
    run = read_run(made)
    [said] = [each for each in remarks([(run, named_baselines(run, {}).found)]) if "budget" in each]
    assert said == "fedalt against local, global and global + fine-tune: unequal budgets, 3 local epochs against 2."
    floor = {"clients": [0, 1], "score": [0.5, 0.5], "micro": 0.5, "macro": 0.5}
    write_run(tmp_path / "base", {1: [0.5, 0.52]}, label="local", analyses={"floor": floor})
    named = [{"name": "local", "run": "../base", "variant": "before_local", "label": "local"}]
    weak = write_run(tmp_path / "weak", {1: [0.9, 0.9]}, analyses={"baselines": named, "floor": floor})
    told = "The baseline local is hardly better than the floor (51.0 % against 50.0 %): a gain over it says little."
    assert remarks([(read_run(weak), named_baselines(read_run(weak), {}).found)]) == [told]
    assert told in report(study([weak]))


def test_a_baseline_at_the_floor_under_one_seed_of_several_is_told_with_its_seed(tmp_path: Path) -> None:
    """Beside a mean over seeds that is another number."""
    floor = {"clients": [0, 1], "score": [0.5, 0.5], "micro": 0.5, "macro": 0.5}
    runs = []
    for seed, score in enumerate((0.51, 0.7, 0.51)):
        write_run(tmp_path / f"base-{seed}", {1: [score, score]}, label="local", seed=seed, analyses={"floor": floor})
        named = [{"name": "local", "run": f"../base-{seed}", "variant": "before_local", "label": "local"}]
        runs.append(write_run(tmp_path / f"run-{seed}", {1: [0.9, 0.9]}, seed=seed, analyses={"baselines": named}))
    assert remarks([(read_run(each), named_baselines(read_run(each), {}).found) for each in runs]) == [
        "The baseline local is hardly better than the floor (51.0 % against 50.0 % under seed 0, 51.0 % against 50.0 % "
        "under seed 2): a gain over it says little."
    ]


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
        [folder_for("x", candidate(method, **changes), tmp_path) for method in (local, fedavg)]
        for changes in ({}, {key: CHANGES[key]}, {})
    ]
    assert places[0] == places[2]
    assert not set(places[0]) & set(places[1])


def test_a_method_that_is_its_own_baseline_is_not_run_again(tmp_path: Path) -> None:
    settings = {**SETTINGS, "algorithm": {"name": "local", "epochs": 2, "optimizer": {"lr": 0.1}}}
    run = read_run(inline_run(settings, tmp_path / "run", baseline_tuning=False))
    assert run.analyses["baselines"][0]["run"] == "."
    assert [each.over for each in gains_of(run)] == ["floor", "global", "global + fine-tune"], "not against itself"


def test_an_interrupted_baseline_is_resumed(tmp_path: Path) -> None:
    start(SETTINGS, tmp_path / "run", baselines=BESIDE, baseline_tuning=False)
    with pytest.raises(KeyboardInterrupt):
        completed(tmp_path / "run", stop_after(3, "baselines"))
    assert "baselines" not in read_run(tmp_path / "run").analyses
    told: list[tuple[str, int]] = []

    def tell(event: Event) -> None:
        if isinstance(event, RoundEnded):
            rounds_told(told)(event)

    completed(tmp_path / "run", tell)
    assert told == [("baselines", 4)]
    assert len(read_run(tmp_path / "run").analyses["baselines"]) == 3


def test_they_can_be_switched_off_and_added_later(tmp_path: Path) -> None:
    start({**SETTINGS, "rounds": 1}, tmp_path / "run", baseline_tuning=False)
    completed(tmp_path / "run")
    assert not (tmp_path / "baselines").exists()
    assert [each.over for each in gains_of(read_run(tmp_path / "run"))] == ["floor"]
    assert len(added(tmp_path / "run", place=tmp_path / "other")) == 3
    assert len(find_runs(tmp_path / "other")) == 3


def test_a_run_that_is_not_done_has_no_baselines(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        start(SETTINGS, tmp_path / "run", on_event=stop_after(1))
    with pytest.raises(PartitaError, match=r"is not finished \(interrupted\). Continue it with: partita resume"):
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
    *_, remark = study([tmp_path / "run"]).remarks
    assert remark == f"fedper has no baseline global and global + fine-tune: {failed[0]['problem']}"
    page = report(study([tmp_path / "run"]))
    assert remark in unescape(page)
    assert "Read the remarks on the baselines." in page


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
SMALL = ("data.split.clients=4", "rounds=2", "algorithm.epochs=1", "--baselines", "quick")


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
    made = ask("run", *SMALL[:3], "-o", "here/run", "--no-baselines")
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
    with subprocess.Popen([*COMMAND, *arguments, "--baselines", "quick"], stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert running.stderr.readline().startswith("Note: digits does not name the client of each sample")
        assert running.stderr.readline().endswith("60 rounds, and 120 of baselines\n")
        assert running.stderr.readline().startswith("run: round 60/60")
        assert running.stderr.readline().startswith("baselines: local, rate 0.1, test accuracy")
        running.send_signal(signal.SIGINT)
        rest = running.stderr.read()
    assert running.returncode == 130
    assert "partita resume here/run" in rest
    assert "The baselines are not finished. Continue with: partita resume here/run" in ask("show", "here/run").stdout
    resumed = ask("resume", "here/run")
    assert resumed.exit_code == 0
    assert "global + fine-tune" in resumed.stdout
