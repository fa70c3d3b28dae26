"""Trackers: told every round once, continued after a stop, and never the end of a run.

One file, since all trackers hear of the same run.
"""

import os
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from partita.cli.main import app
from partita.data.pool import Pool, pool
from partita.errors import PartitaError
from partita.evaluation.scores import Record
from partita.experiment.events import Event, OnEvent, RoundEnded
from partita.experiment.executor import executor_of
from partita.experiment.experiment import Experiment
from partita.experiment.settings.description import describe_experiment
from partita.experiment.settings.files import make, trusted
from partita.experiment.simulate import run_stages
from partita.experiment.traffic import Traffic
from partita.runs.session import Session
from partita.runs.stored import StoredRun, read_run
from partita.runs.trackers.tensorboard import tensorboard
from partita.runs.trackers.tracker import About, Tracker, flat
from partita.runs.trackers.tracking import TRACKERS, numbers, tracking

RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"


def tiny() -> Pool:
    """A source of data of one's own."""
    labels = np.arange(60) % 3
    return pool("tiny", np.random.default_rng(3).normal(labels[:, None], size=(60, 4)).astype(np.float32), labels)


SETTINGS: dict[str, Any] = {
    "algorithm": {"name": "fedper", "optimizer": {"lr": 0.05}},
    "model": {"name": "mlp", "hidden": 5},
    "data": {"name": f"{__name__}:tiny", "split": {"name": "iid", "clients": 3}},
    "rounds": 4,
    "evaluate_every": 2,
}


def experiment(**changes: Any) -> Experiment:
    return make(trusted({**SETTINGS, **changes}))


def start(folder: Path, given: list[str], *others: OnEvent, commit_every: int = 1) -> StoredRun:
    """A run with trackers, and others that are told after them."""
    with Session.start(experiment(), folder, commit_every=commit_every) as session:
        go_on(session, given, *others)
    return read_run(folder)


def resume(folder: Path, given: list[str]) -> StoredRun:
    with Session.open(folder, experiment()) as session:
        go_on(session, given)
    return read_run(folder)


def go_on(session: Session, given: list[str], *others: OnEvent) -> None:
    with tracking(given, session.experiment, session) as tracked:
        session.on_event = both(tracked, *others)
        session.run()


pytestmark = pytest.mark.usefixtures("own_folder")


@dataclass
class Told:
    """What a stand-in was told, in order."""

    about: list[About] = field(default_factory=list)
    logged: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    @property
    def steps(self) -> list[int]:
        return [step for step, _ in self.logged]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """A tracker `plain` that only remembers."""
    found = Told()
    monkeypatch.setitem(TRACKERS, "plain", lambda about: remember(found, about))
    return found


def remember(told: Told, about: About) -> Tracker:
    told.about.append(about)
    identity = about.before or f"run-{len(told.about)}"
    return Tracker(identity, lambda found, step: told.logged.append((step, dict(found))), told.closed.append)


def failing(monkeypatch: pytest.MonkeyPatch, deed: str) -> list[str]:
    """A tracker `broken` that fails when it is opened, told the second round, or closed; and what was asked of it."""
    asked: list[str] = []

    def fail(name: str, at: int = 1) -> None:
        asked.append(name)
        if deed == name and asked.count(name) == at:
            raise OSError(f"no {name}")

    def broken(about: About) -> Tracker:
        fail("open")
        return Tracker("7", lambda found, step: fail("log", 2), lambda status: fail("close"))

    monkeypatch.setitem(TRACKERS, "broken", broken)
    return asked


def test_numbers_by_hand() -> None:
    """Clients 0 and 1 have 3 of 4 and 1 of 2 right: 4 of 6 together, 0.625 in the mean, 0.125 around it."""
    records = [
        Record(6, 0, "before_local", "test", 4, 3, 1.0),
        Record(6, 1, "before_local", "test", 2, 1, 1.0),
        Record(6, 2, "before_local", "test", 5, 1, 1.0),
        Record(6, 0, "before_local", "validation", 10, 9, 1.0),
        Record(6, 0, "after_local", "test", 4, 4, 1.0),
    ]
    traffic = [Traffic(6, 0, "body", 100, 40), Traffic(6, 0, "head", 10, 4), Traffic(6, 1, "body", 1000, 400)]
    ended = RoundEnded("run", 6, 9, 1.5, 2, "accuracy", None, {}, {}, records, traffic)
    newcomers = frozenset({2})
    found = numbers(ended, newcomers)
    assert {
        name: found[f"test/before_local/accuracy_{name}"] for name in ("micro", "macro", "std", "worst_decile")
    } == {
        "micro": pytest.approx(4 / 6),
        "macro": 0.625,
        "std": 0.125,
        "worst_decile": 0.5,
    }
    assert found["validation/before_local/accuracy_macro"] == 0.9
    assert found["test/after_local/accuracy_macro"] == 1.0
    assert found["newcomers/test/before_local/accuracy_macro"] == 0.2
    assert [found[key] for key in ("seconds", "participants", "bytes/down", "bytes/up")] == [1.5, 2, 1110, 444]
    assert len(found) == 4 + 4 * 4
    assert set(numbers(replace(ended, stage="pretrain"), newcomers)) == {f"pretrain/{name}" for name in found}


def test_settings_by_dotted_key() -> None:
    assert flat(SETTINGS)["algorithm.optimizer.lr"] == 0.05
    assert flat({"a": {"b": {"c": [1]}}, "d": None}) == {"a.b.c": [1], "d": None}


def test_a_run_is_told_from_start_to_end(told: Told) -> None:
    folder = Path("runs/mine")
    run = start(folder, ["plain:there", "plain:there"])
    (about,) = told.about
    assert (about.name, about.place, about.folder, about.before) == ("runs_mine", "there", folder, None)
    assert about.settings == describe_experiment(experiment())
    assert (told.steps, told.closed) == ([1, 2, 3, 4], ["done"])
    # Scores only where they were measured.
    assert [len(found) > 4 for _, found in told.logged] == [False, True, False, True]
    assert told.logged[-1][1]["test/before_local/accuracy_macro"] == run.summaries()["before_local"].macro
    assert told.logged[0][1]["bytes/up"] == sum(each.up for each in run.traffic if each.round == 1)
    assert run.record.trackers == {"plain:there": "run-1"}


@pytest.mark.parametrize("interval", [1, 3])
def test_a_resumed_run_is_the_same_to_the_tracker(told: Told, interval: int) -> None:
    folder = Path("runs/mine")
    with pytest.raises(KeyboardInterrupt):
        start(folder, ["plain"], stop_after(2), commit_every=interval)
    resume(folder, ["plain"])
    assert (told.steps, told.closed) == ([1, 2, 3, 4], ["interrupted", "done"])
    first, second = told.about
    assert (second.before, second.first, second.settings, second.name) == ("run-1", 3, first.settings, first.name)


def both(*told: OnEvent) -> OnEvent:
    def tell(event: Event) -> None:
        for each in told:
            each(event)

    return tell


def stop_after(last: int) -> OnEvent:
    def stop(event: Event) -> None:
        if isinstance(event, RoundEnded) and event.round == last:
            raise KeyboardInterrupt

    return stop


def test_rounds_are_counted_on_from_pretraining(told: Told) -> None:
    made = experiment(pretrain={"algorithm": "fedavg", "rounds": 2})
    with tracking(["plain"], made) as tracked:
        run_stages(made, executor_of("inline"), tracked)
    assert told.steps == [1, 2, 3, 4, 5, 6]
    assert ["pretrain/seconds" in found for _, found in told.logged] == [True, True, *[False] * 4]
    assert told.about[0].name.startswith("fedper-tiny-")


def test_a_failed_run_says_so(told: Told) -> None:
    with pytest.raises(ValueError, match="lost"), tracking(["plain"], experiment()):
        raise ValueError("the data are lost")
    assert told.closed == ["failed: the data are lost"]


@pytest.mark.parametrize(
    ("deed", "asked"),
    [("open", ["open"]), ("log", ["open", "log", "log"]), ("close", ["open", *["log"] * 4, "close"])],
)
def test_a_tracker_that_fails_does_not_end_the_run(
    told: Told, monkeypatch: pytest.MonkeyPatch, deed: str, asked: list[str]
) -> None:
    right = start(Path("runs/right"), [])
    calls = failing(monkeypatch, deed)
    message = f"The tracker broken:x failed .*the run continues: no {deed}"
    with pytest.warns(UserWarning, match=message) as caught:
        run = start(Path("runs/mine"), ["broken:x", "plain"])
    assert (len(caught), calls) == (1, asked)
    assert run.records == right.records
    assert (told.steps, told.closed) == ([1, 2, 3, 4], ["done"])


def test_unknown_trackers_are_named_before_anything_is_run(told: Told) -> None:
    message = r"Unknown tracker 'tensorbord'\. Did you mean 'tensorboard'"
    with pytest.raises(PartitaError, match=message), tracking(["plain", "tensorbord"], experiment()):
        pytest.fail("it was run")
    assert told.about == []


@pytest.mark.parametrize(
    ("name", "package"), [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow"), ("wandb", "wandb")]
)
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(PartitaError, match=r"pip install 'partita\[track\]'"), tracking([name], experiment()):
        pytest.fail("it was run")


# On the command line


def ask(*arguments: str) -> str:
    small = ("-d", f"{__name__}:tiny", "data.split=iid", "data.split.clients=3", "rounds=2", "--baselines", "quick")
    given = [*arguments, *small] if arguments[0] == "run" else arguments
    answer = CliRunner().invoke(app, given, catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_trackers_are_options(told: Told) -> None:
    ask("run", "-o", "runs/a", "--track", "plain", "--track", "plain:b")
    assert told.steps == [1, 1, 2, 2]
    ask("resume", "runs/a", "--track", "plain", "--trust")
    assert [each.before for each in told.about] == [None, None, "run-1"]
    assert told.closed == ["done"] * 3
    ask("run", "--no-save", "--track", "plain")
    assert told.about[-1].folder is None
    ask("run", "--seeds", "2", "-o", "runs/s", "--track", "plain")
    assert [each.name for each in told.about[-2:]] == ["runs_s_seed-0", "runs_s_seed-1"]
    assert [each.settings["seed"] for each in told.about[-2:]] == [0, 1]


def test_seeds_that_are_done_are_continued(told: Told) -> None:
    for seeds in ("2", "3"):
        ask("run", "--seeds", seeds, "-o", "runs/s", "--track", "plain")
    assert [each.name for each in told.about] == [f"runs_s_seed-{seed}" for seed in (0, 1, 0, 1, 2)]
    assert [each.before for each in told.about] == [None, None, "run-1", "run-2", None]


def test_a_run_that_is_refused_leaves_the_other_alone(told: Told) -> None:
    ask("run", "-o", "runs/a", "--track", "plain")
    with pytest.raises(PartitaError, match="runs/a already holds a run"):
        ask("run", "-o", "runs/a", "--track", "plain")
    assert (len(told.about), told.closed) == (1, ["done"])


def test_help_has_examples() -> None:
    assert "--track" in ask("run", "--help")
    assert "partita resume runs/fedper-digits-1 --track tensorboard" in ask("resume", "--help")


# The tools themselves; stand-ins have the names of the real ones' parameters.


@dataclass
class Known:
    experiment_id: str


class Client:
    """Of MLflow."""

    calls: list[tuple[str, Any]]
    experiments: list[str]

    def __init__(self, tracking_uri: str | None = None, registry_uri: str | None = None) -> None:
        self.calls.append(("open", tracking_uri))

    def get_experiment_by_name(self, name: str) -> Known | None:
        return Known("5") if name in self.experiments else None

    def create_experiment(self, name: str) -> str:
        self.experiments.append(name)
        return "5"

    def create_run(
        self, experiment_id: str, start_time: int | None = None, tags: Any = None, run_name: str = ""
    ) -> Any:
        self.calls.append(("create_run", (experiment_id, run_name)))
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id="abc"))

    def update_run(self, run_id: str, status: str | None = None, name: str | None = None) -> None:
        self.calls.append(("update_run", (run_id, status)))

    def log_batch(self, run_id: str, metrics: Any = (), params: Any = (), tags: Any = ()) -> None:
        assert len(params) <= 100
        assert run_id == "abc"
        self.calls += [("metric", (m.key, m.value, m.step)) for m in metrics]
        self.calls += [("param", (p.key, p.value)) for p in params]

    def set_tag(self, run_id: str, key: str, value: str) -> None:
        self.calls.append(("tag", (run_id, key, value)))

    def set_terminated(self, run_id: str, status: str | None = None, end_time: int | None = None) -> None:
        self.calls.append(("set_terminated", (run_id, status)))


@dataclass
class Metric:
    key: str
    value: float
    timestamp: int
    step: int


@dataclass
class Param:
    key: str
    value: str


def module(monkeypatch: pytest.MonkeyPatch, name: str, **content: object) -> None:
    made = types.ModuleType(name)
    vars(made).update(content)
    monkeypatch.setitem(sys.modules, name, made)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """All that MLflow's stand-in was asked."""
    monkeypatch.setattr(Client, "calls", [], raising=False)
    monkeypatch.setattr(Client, "experiments", [], raising=False)
    module(monkeypatch, "mlflow", MlflowClient=Client)
    module(monkeypatch, "mlflow.entities", Metric=Metric, Param=Param)
    # Set first, so that what the tracker sets is undone.
    monkeypatch.setenv(RETRIES, "0")
    monkeypatch.delenv(RETRIES)
    return Client.calls


def test_mlflow(calls: list[tuple[str, Any]]) -> None:
    ask("run", "-o", "runs/a", "--track", "mlflow:sqlite:///m.db")
    assert calls[:2] == [("open", "sqlite:///m.db"), ("create_run", ("5", "runs_a"))]
    assert ("param", ("data.split.clients", "3")) in calls
    assert [value[2] for name, value in calls if name == "metric" and value[0] == "seconds"] == [1, 2]
    assert calls[-2:] == [("tag", ("abc", "status", "done")), ("set_terminated", ("abc", "FINISHED"))]
    assert os.environ[RETRIES] == "2", "a server that is not there holds a run up for seconds, not minutes"
    calls.clear()
    ask("resume", "runs/a", "--track", "mlflow:sqlite:///m.db", "--trust")
    assert calls == [
        ("open", "sqlite:///m.db"),
        ("update_run", ("abc", "RUNNING")),
        ("tag", ("abc", "status", "done")),
        ("set_terminated", ("abc", "FINISHED")),
    ]


@pytest.mark.parametrize(("problem", "status"), [(KeyboardInterrupt(), "KILLED"), (ValueError("x"), "FAILED")])
def test_mlflow_is_told_how_a_run_ended(calls: list[tuple[str, Any]], problem: BaseException, status: str) -> None:
    Client.experiments.append("partita")
    long = {f"group_{at}": ("x" * 9999, "*.weight") for at in range(150)}
    made = replace(experiment(), groups=long)
    with pytest.raises(type(problem)), tracking(["mlflow"], made):
        raise problem
    assert calls[0] == ("open", None)
    assert calls[-1] == ("set_terminated", ("abc", status))
    assert {len(value[1]) for name, value in calls if name == "param" and value[0].startswith("groups")} == {500}
    assert len([name for name, _ in calls if name == "param"]) == 150 + len(flat(describe_experiment(experiment())))


def test_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[dict[str, Any]] = []
    logged: list[tuple[int | None, dict[str, float]]] = []
    ended: list[tuple[str, int | None]] = []

    class Run:
        def __init__(self, identity: str) -> None:
            self.id = identity
            self.summary: dict[str, object] = {}

        def log(self, data: dict[str, float], step: int | None = None, commit: bool | None = None) -> None:
            logged.append((step, data))

        def finish(self, exit_code: int | None = None) -> None:
            ended.append((str(self.summary["status"]), exit_code))

    def init(
        *,
        project: str | None = None,
        name: str | None = None,
        config: Mapping[str, Any] | None = None,
        id: str | None = None,
        resume: str | None = None,
    ) -> Run:
        begun.append({"project": project, "name": name, "config": config, "id": id, "resume": resume})
        return Run(id or "xyz")

    module(monkeypatch, "wandb", init=init)
    with pytest.raises(KeyboardInterrupt):
        start(Path("runs/a"), ["wandb"], stop_after(1))
    resume(Path("runs/a"), ["wandb"])
    same = {"project": "partita", "name": "runs_a", "config": describe_experiment(experiment())}
    assert begun == [{**same, "id": None, "resume": None}, {**same, "id": "xyz", "resume": "allow"}]
    assert [step for step, _ in logged] == [1, 2, 3, 4]
    assert ended == [("interrupted", 1), ("done", 0)]


@pytest.fixture
def events() -> Callable[[str], Any]:
    """TensorBoard's own reader of event files."""
    library = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs the extra track", exc_type=ImportError
    )

    def read(folder: str) -> Any:
        found = library.EventAccumulator(folder, size_guidance={"scalars": 0})
        found.Reload()
        return found

    return read


def text(found: Any, tag: str) -> list[str]:
    return [each.tensor_proto.string_val[0].decode() for each in found.Tensors(f"{tag}/text_summary")]


def test_tensorboard_reads_what_was_written(events: Callable[[str], Any]) -> None:
    folder = Path("runs/a")
    with pytest.raises(KeyboardInterrupt):
        start(folder, ["tensorboard"], stop_after(3))
    run = resume(folder, ["tensorboard", "tensorboard:other"])
    found = events("runs/a/tensorboard")
    assert [each.step for each in found.Scalars("seconds")] == [1, 2, 3, 4]
    scores = [(each.step, each.value) for each in found.Scalars("test/before_local/accuracy_macro")]
    assert scores == [(at, pytest.approx(run.summaries(at)["before_local"].macro)) for at in (2, 4)]
    assert '"lr": 0.05' in text(found, "settings")[0]
    assert text(found, "status") == ["interrupted", "done"]
    assert [each.step for each in events("other/runs_a").Scalars("seconds")] == [4]


def test_tensorboard_hides_rounds_that_are_run_again(events: Callable[[str], Any]) -> None:
    """As after a crash before a commit: rounds 3 and 4 had been told, and round 3 comes first now."""
    for about in (About("a", {}, "there"), About("a", {}, "there", before="there/a", first=3)):
        tracker = tensorboard(about)
        for step in range(about.first, about.first + (4 if about.first == 1 else 1)):
            tracker.log({"seconds": 10 * about.first + step}, step)
        tracker.close("interrupted")
    assert [(each.step, each.value) for each in events("there/a").Scalars("seconds")] == [(1, 11), (2, 12), (3, 33)]
