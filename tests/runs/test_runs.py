"""Runs: everything is kept, nothing is lost, and a run that was stopped goes on to the same bits."""

import errno
import fcntl
import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings as examples, strategies as st
from partita.experiment.experiment import make
from partita.runs.run import BUDGET, find_runs, resume, start
from partita.runs.view import view
from torch import Tensor, nn

from partita import registry
from partita.algorithms.fedper import fedper
from partita.data.federation import federate
from partita.data.manifests import fingerprint
from partita.data.pool import Pool, pool
from partita.data.split import ROLES
from partita.data.splits.manifest import manifest as manifest_split
from partita.errors import DivergedError, PartitaError
from partita.evaluation.scores import Record
from partita.runs import facts, run as runs
from partita.runs.blobs import pack, unpack
from partita.runs.database import DATABASE, lock
from partita.runs.states import States
from partita.runs.store import FORMAT, Store
from partita.simulation.jobs import Job, Outcome, Workshop
from partita.simulation.result import Progress, Result
from partita.simulation.traffic import Traffic
from partita.tensors import Tensors
from toys import small_federation, small_network

FORK = multiprocessing.get_context("fork")
# Python 3.12 warns of forking while there are threads; here none computes.
forks = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")

SEED = 3


def tiny() -> Pool:
    """A source of data of one's own; its values change with `SEED`."""
    draw = np.random.default_rng(SEED)
    labels = np.arange(96) % 3
    return pool("tiny", (labels[:, None] + draw.normal(size=(96, 4))).astype(np.float32), labels)


class Normed(nn.Module):
    """In float64 and with statistics; names are not in the order of the alphabet."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.z = nn.Linear(width, 5).double()
        self.norm = nn.BatchNorm1d(5).double()
        self.head = nn.Linear(5, classes).double()

    def forward(self, inputs: Tensor) -> Tensor:
        hidden: Tensor = self.norm(self.z(inputs.double())).relu()
        outputs: Tensor = self.head(hidden)
        return outputs


def normed(*, shape: tuple[int, ...], classes: int) -> nn.Module:
    return Normed(shape[0], classes)


SETTINGS: dict[str, Any] = {
    "algorithm": "fedper",
    "model": {"name": "mlp", "hidden": 5},
    "data": {"name": f"{__name__}:tiny", "split": {"name": "iid", "clients": 4}},
    "rounds": 5,
    "participation": 0.5,
    "evaluate_every": 2,
    "batching": {"size": 8},
}
METHODS: dict[str, dict[str, Any]] = {
    "fedper": {},
    "ditto": {"algorithm": "ditto"},
    "fedamp": {"algorithm": "fedamp"},
    "adam": {"algorithm": "fedavg", "server": {"optimizer": {"name": "adam", "lr": 0.05}}},
    "pretrain": {"algorithm": "lg_fedavg", "pretrain": {"algorithm": "fedavg", "rounds": 3}},
    "norm": {"algorithm": {"name": "fedamp", "alpha": 0.3, "sigma": 1.0}, "model": f"{__name__}:normed"},
    "babu": {"algorithm": {"name": "fedbabu", "epochs": 2}, "model": f"{__name__}:normed", "buffers": "local"},
}


def digest(result: Result) -> str:
    """Of every bit: the server's state, what clients keep, metrics and traffic."""
    found = hashlib.sha256()
    parts: list[tuple[int, Tensors]] = [
        (-1, result.state),
        *((number, result.own[number]) for number in sorted(result.own)),
    ]
    for number, tensors in parts:
        for name, tensor in sorted(tensors.items()):
            found.update(f"{number} {name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            found.update(tensor.contiguous().numpy().tobytes())
    found.update(repr([result.records, result.traffic]).encode())
    return found.hexdigest()


@cache
def expected(method: str) -> str:
    """Of a run that was not kept."""
    return digest(make({**SETTINGS, **METHODS[method]}).run())


def progress_of(folder: Path, stage: str = "run") -> int:
    with Store.open(folder) as store:
        found = store.server(stage)
        return found[0] if found else 0


def status(folder: Path) -> str:
    with Store.open(folder) as store:
        found: str = store.about["status"]
        return found


def same_tensors(one: Tensors, other: Tensors) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# What a run leaves.


def test_everything_can_be_read_afterwards(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    result = start(
        SETTINGS, tmp_path / "a" / "b", on_round=lambda stage, progress: told.append((stage, progress.round))
    )
    plain = make(SETTINGS).run()
    assert told == [("run", number) for number in range(1, 6)]
    assert digest(result) == digest(plain)
    with Store.open(tmp_path / "a" / "b") as store:
        about = store.about
        assert (about["format"], about["status"], about["settings"]) == (FORMAT, "done", SETTINGS)
        assert (about["rounds"], about["clients"], about["data"], about["newcomers"]) == (5, 4, "tiny", [])
        assert (about["metric"], about["interval"], about["budget"]) == ("accuracy", 1, BUDGET)
        assert about["label"] == plain.algorithm.label
        assert about["fingerprint"] == fingerprint(plain.data)
        assert about["started"] <= about["ended"]
        assert about["environment"]["packages"]["torch"] == torch.__version__
        assert about["environment"]["python"] == ".".join(map(str, sys.version_info[:3]))
        rounds = store.rounds("run")
        assert [(number, count) for number, _, count in rounds] == [(number, 2) for number in range(1, 6)]
        assert all(seconds > 0 for _, seconds, _ in rounds)
        assert store.records("run") == plain.records == result.records
        assert store.traffic("run") == plain.traffic == result.traffic
        found = store.server("run")
        assert found is not None
        assert found[0] == 5
        assert same_tensors(found[1], plain.state)
        assert store.clients("run") == sorted(plain.own)
        for client in plain.own:
            own = store.own("run", client)
            assert own is not None
            assert same_tensors(own, plain.own[client])
        assert (store.server("pretrain"), store.own("run", 99), store.records("pretrain")) == (None, None, [])


def test_every_stage_is_kept(tmp_path: Path) -> None:
    result = start({**SETTINGS, **METHODS["pretrain"]}, tmp_path)
    with Store.open(tmp_path) as store:
        assert [number for number, _, _ in store.rounds("pretrain")] == [1, 2, 3]
        assert [number for number, _, _ in store.rounds("run")] == [1, 2, 3, 4, 5]
        assert {record.round for record in store.records("pretrain")} == {2, 3}
        before = store.server("pretrain")
        assert before is not None
        assert same_tensors(before[1], result.task.weights)


COLUMNS = {
    "about": ["key", "value"],
    "rounds": ["stage", "round", "seconds", "participants"],
    "metrics": ["stage", "round", "client", "model", "role", "count", "correct", "loss"],
    "traffic": ["stage", "round", "client", "group", "down", "up"],
    "server": ["stage", "round", "state", "checksum"],
    "clients": ["stage", "client", "round", "own", "checksum"],
    "analyses": ["name", "value"],
    "division": ["manifest"],
}


def test_others_can_read_it_and_nothing_is_pickled(tmp_path: Path) -> None:
    result = start({**SETTINGS, **METHODS["norm"]}, tmp_path)
    connection = sqlite3.connect(tmp_path / DATABASE)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert sorted(tables) == sorted(COLUMNS)
    for table, columns in COLUMNS.items():
        assert [row[1] for row in connection.execute(f"PRAGMA table_info({table})")] == columns
    for table, columns in COLUMNS.items():
        texts = [f'"{column}"' for column in columns if column not in ("state", "own", "manifest")]
        for row in connection.execute(f"SELECT {', '.join(texts) or 1} FROM {table}"):
            assert not any(isinstance(value, bytes) for value in row)
    [manifest] = connection.execute("SELECT manifest FROM division").fetchone()
    assert len(json.loads(zlib.decompress(manifest))["clients"]) == 4
    [state, found] = connection.execute("SELECT state, checksum FROM server").fetchone()
    assert found == hashlib.blake2b(state, digest_size=16).hexdigest()
    assert same_tensors(safetensors.torch.load(state), result.state)
    owns = dict(connection.execute("SELECT client, own FROM clients").fetchall())
    connection.close()
    assert owns.keys() == result.own.keys()
    assert all(same_tensors(safetensors.torch.load(blob), result.own[client]) for client, blob in owns.items())


def test_the_division_is_rebuilt_to_the_bit(tmp_path: Path) -> None:
    data = {**SETTINGS["data"], "split": {"name": "dirichlet", "clients": 4, "alpha": 0.5}, "newcomers": 1}
    start({**SETTINGS, "data": data, "rounds": 1, "seed": 5}, tmp_path)
    with Store.open(tmp_path) as store:
        about, manifest = store.about, store.manifest
    assert about["division"] == "whole"
    path = tmp_path / "division.json"
    path.write_text(json.dumps(manifest), encoding="utf-8")
    again = federate(tiny(), manifest_split(path=str(path)), seed=77)
    assert fingerprint(again) == about["fingerprint"]
    assert len(again.newcomers) == 1


def test_of_very_many_clients_the_division_is_known_by_its_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MOST_CLIENTS", 3)
    start({**SETTINGS, "rounds": 1}, tmp_path)
    with Store.open(tmp_path) as store:
        assert store.manifest is None
        assert store.about["division"].startswith("origin and fingerprint alone")
        assert store.about["origin"]["split"]["name"] == "iid"


def test_labels_network_and_floor_are_known_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "MOST_CLIENTS", 3)
    with pytest.raises(KeyboardInterrupt):
        start({**SETTINGS, "data": {**SETTINGS["data"], "newcomers": 1}}, tmp_path, on_round=stop_after(1))
    found = view(tmp_path).analyses
    data = make({**SETTINGS, "data": {**SETTINGS["data"], "newcomers": 1}}).data
    labels = found["labels"]
    assert labels["classes"] == 3
    assert len(labels["clients"]) == 3
    for at, client in enumerate(labels["clients"]):
        for role in ROLES:
            targets = getattr(data[client], role).targets.tolist()
            assert labels[role][at] == [targets.count(label) for label in range(3)]
    [newcomer] = data.newcomers
    assert found["floor"]["clients"] == [client for client in range(4) if client != newcomer]
    for client, reached in zip(found["floor"]["clients"], found["floor"]["score"], strict=True):
        trained, tested = data[client].train.targets.tolist(), data[client].test.targets.tolist()
        commonest = max(range(3), key=lambda label: (trained.count(label), -label))
        assert reached == tested.count(commonest) / len(tested)
    assert found["floor"]["macro"] == pytest.approx(sum(found["floor"]["score"]) / 3)
    # 4 x 5 + 5 shared by all, 5 x 3 + 3 each client's own.
    assert (found["network"]["shared"], found["network"]["personal"]) == (25, 18)


def test_named_tensors_come_back() -> None:
    line = torch.arange(6.0)
    tensors = {
        "z": line.reshape(2, 3).T,
        "alias": line,
        "view": line[1:4],
        "expanded": torch.ones(1).expand(3),
        "number": torch.tensor(3),
        "empty": torch.zeros(0, 2),
        "half": torch.tensor([1.5], dtype=torch.bfloat16),
        "mask": torch.tensor([True, False]),
        "odd": torch.tensor([float("nan"), float("inf"), -0.0], dtype=torch.float64),
        "server/client/1/é": torch.ones(1, requires_grad=True),
    }
    found = unpack(pack(tensors))
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        assert not found[name].requires_grad
        assert torch.equal(found[name].nan_to_num(), tensor.nan_to_num())
    assert torch.signbit(found["odd"])[2]
    assert unpack(pack({})) == {}


def test_named_tensors_keep_their_order() -> None:
    """Sums over names would have other bits."""
    tensors = small_network().state_dict()
    assert list(unpack(pack(tensors))) == list(tensors)


def test_runs_are_found(tmp_path: Path) -> None:
    for name in ("b", "a/c"):
        start({**SETTINGS, "rounds": 1}, tmp_path / name)
    (tmp_path / "empty").mkdir()
    assert find_runs(tmp_path) == [tmp_path / "a" / "c", tmp_path / "b"]
    assert find_runs(tmp_path / "b") == [tmp_path / "b"]
    assert find_runs(tmp_path / "empty") == find_runs(tmp_path / "missing") == []


# The same bits.


@pytest.mark.parametrize("budget", [0, 200, BUDGET])
@pytest.mark.parametrize("interval", [1, 2, 3, 50])
@pytest.mark.parametrize("method", ["fedper", "pretrain"])
def test_neither_the_interval_nor_the_budget_matters(tmp_path: Path, method: str, interval: int, budget: int) -> None:
    result = start({**SETTINGS, **METHODS[method]}, tmp_path, interval=interval, budget=budget)
    assert digest(result) == expected(method)
    assert digest(resume(tmp_path)) == expected(method)


@pytest.mark.parametrize(("interval", "budget"), [(1, 0), (3, 500), (2, 0), (50, BUDGET)])
@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("fedper", "pretrain")])
def test_they_matter_for_no_method(tmp_path: Path, method: str, interval: int, budget: int) -> None:
    result = start({**SETTINGS, **METHODS[method]}, tmp_path, interval=interval, budget=budget)
    assert digest(result) == expected(method)
    assert digest(resume(tmp_path)) == expected(method)


def stop_after(number: int, stage: str = "run") -> Callable[[str, Progress], None]:
    def stop(name: str, progress: Progress) -> None:
        if (name, progress.round) == (stage, number):
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("name", registry.names("algorithms"))
def test_every_algorithm_resumes_to_the_same_bits(tmp_path: Path, name: str) -> None:
    """From the store alone: with a budget of nothing, and twice."""
    chosen = {**SETTINGS, "algorithm": name, "model": f"{__name__}:normed", "rounds": 3, "buffers": "local"}
    with pytest.raises(KeyboardInterrupt):
        start(chosen, tmp_path, budget=0, on_round=stop_after(1))
    with pytest.raises(KeyboardInterrupt):
        resume(tmp_path, on_round=stop_after(2))
    assert digest(resume(tmp_path)) == digest(make(chosen).run())


def test_a_state_is_read_in_its_order(tmp_path: Path) -> None:
    """FedAMP sums over names; in another order, and each reading may have its own, the bits would differ."""
    chosen = {**SETTINGS, **METHODS["norm"]}
    for attempt in range(8):
        with pytest.raises(KeyboardInterrupt):
            start(chosen, tmp_path / str(attempt), budget=0, on_round=stop_after(2))
        assert digest(resume(tmp_path / str(attempt))) == expected("norm")


def test_a_run_that_is_done_is_only_read(tmp_path: Path) -> None:
    start(SETTINGS, tmp_path)
    with Store.open(tmp_path) as store:
        store.note("ended", "long ago")
        before = store.about
    told: list[str] = []
    assert digest(resume(tmp_path, on_round=lambda stage, progress: told.append(stage))) == expected("fedper")
    with Store.open(tmp_path) as store:
        assert store.about == before
    assert not told


# Interruptions.


@pytest.mark.parametrize("interval", [1, 2, 50])
@pytest.mark.parametrize("number", [1, 2, 4, 5])
def test_an_interruption_after_a_round(tmp_path: Path, number: int, interval: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        start(SETTINGS, tmp_path, interval=interval, on_round=stop_after(number))
    assert (status(tmp_path), progress_of(tmp_path)) == ("interrupted", number)
    told: list[int] = []
    result = resume(tmp_path, on_round=lambda stage, progress: told.append(progress.round))
    assert told == list(range(number + 1, 6))
    assert digest(result) == expected("fedper")
    assert status(tmp_path) == "done"


@pytest.mark.parametrize(("stage", "number"), [("pretrain", 1), ("pretrain", 3), ("run", 1), ("run", 4)])
def test_an_interruption_in_any_stage(tmp_path: Path, stage: str, number: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        start({**SETTINGS, **METHODS["pretrain"]}, tmp_path, interval=2, on_round=stop_after(number, stage))
    assert (status(tmp_path), progress_of(tmp_path, stage)) == ("interrupted", number)
    assert digest(resume(tmp_path)) == expected("pretrain")


@pytest.mark.parametrize("deed", ["train", "measure"])
def test_an_interruption_within_a_round_loses_that_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deed: str
) -> None:
    real = Workshop.do

    def interrupted(self: Workshop, job: Job, state: Tensors) -> list[Outcome]:
        if job.deed == deed and job.moment.round == 3 + (deed == "measure"):
            raise KeyboardInterrupt
        return real(self, job, state)

    monkeypatch.setattr(Workshop, "do", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start(SETTINGS, tmp_path, interval=50)
    assert (status(tmp_path), progress_of(tmp_path)) == ("interrupted", 3)
    monkeypatch.undo()
    assert digest(resume(tmp_path)) == expected("fedper")


class Watched(sqlite3.Connection):
    """A connection that tells before and after each of its statements."""

    tell: Callable[[], None] = staticmethod(lambda: None)

    def execute(self, *given: Any) -> sqlite3.Cursor:
        return self._told(super().execute, *given)

    def executemany(self, *given: Any) -> sqlite3.Cursor:
        return self._told(super().executemany, *given)

    def _told(self, call: Callable[..., sqlite3.Cursor], *given: Any) -> sqlite3.Cursor:
        type(self).tell()
        found = call(*given)
        type(self).tell()
        return found


def watch(monkeypatch: pytest.MonkeyPatch, tell: Callable[[], None]) -> None:
    monkeypatch.setattr(Watched, "tell", staticmethod(tell))
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Watched))


@pytest.mark.parametrize("interval", [1, 50])
def test_an_interruption_during_the_commit_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval: int
) -> None:
    """At each of its moments; what was committed is there, and the rest is made again."""
    for moment in range(1, 16):
        folder = tmp_path / str(moment)
        left = [0]

        def count_down(left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt

        def stop(stage: str, progress: Progress, left: list[int] = left, moment: int = moment) -> None:
            if progress.round == 2:
                left[0] = moment
            if progress.round == 3:
                raise KeyboardInterrupt

        watch(monkeypatch, count_down)
        with pytest.raises(KeyboardInterrupt):
            start(SETTINGS, folder, interval=interval, on_round=stop)
        monkeypatch.undo()
        assert progress_of(folder) in ((2, 3) if interval == 1 else (0, 3))
        assert status(folder) in ("running", "interrupted")
        assert digest(resume(folder)) == expected("fedper")


@pytest.mark.parametrize("kind", ["regular", "on_round"])
def test_a_failure_is_noted_and_what_was_before_is_kept(tmp_path: Path, kind: str) -> None:
    """A server that leaps: the second round or a later one cannot be computed."""
    leaping = {**SETTINGS, "algorithm": "fedavg", "server": {"optimizer": {"name": "sgd", "lr": 1e12}}}
    told: list[int] = []

    def note(stage: str, progress: Progress) -> None:
        told.append(progress.round)
        if kind == "on_round" and progress.round == 3:
            raise ValueError("no more")

    with pytest.raises(DivergedError if kind == "regular" else ValueError) as caught:
        start(leaping if kind == "regular" else SETTINGS, tmp_path, interval=50, on_round=note)
    assert told
    assert (status(tmp_path), progress_of(tmp_path)) == (f"failed: {caught.value}", told[-1])
    with Store.open(tmp_path) as store:
        assert [number for number, _, _ in store.rounds("run")] == told
    if kind == "regular":
        with pytest.raises(DivergedError) as again:
            resume(tmp_path)
        assert str(again.value) == str(caught.value)
    else:
        assert digest(resume(tmp_path)) == expected("fedper")


# Kills.

DIGITS: dict[str, Any] = {
    "algorithm": "fedper",
    "model": {"name": "mlp", "hidden": 16},
    "data": {"name": "digits", "split": {"name": "iid", "clients": 4}},
    "rounds": 12,
    "evaluate_every": 3,
    "batching": {"size": 100},
}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, float]:
    """A run of digits that nothing disturbs, and how long it takes."""
    start(DIGITS, tmp_path_factory.mktemp("warm"), interval=2)
    began = time.perf_counter()
    result = start(DIGITS, tmp_path_factory.mktemp("digits"), interval=2)
    return digest(result), time.perf_counter() - began


def child(work: Callable[..., object], *given: object) -> BaseProcess:
    """Work in a process of its own."""

    def quietly() -> None:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        try:
            work(*given)
        except KeyboardInterrupt:
            os._exit(130)

    process = FORK.Process(target=quietly)
    process.start()
    return process


def begin_or_go_on(folder: Path, made: Any) -> None:
    real = runs._carry_on

    def carry_on(*given: Any) -> Result:
        made.set()
        return real(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "_carry_on", carry_on)
        if (folder / DATABASE).exists():
            resume(folder)
        else:
            start(DIGITS, folder, interval=2)


@forks
@pytest.mark.parametrize("part", range(4))
def test_a_kill_at_any_moment(tmp_path: Path, uninterrupted: tuple[str, float], part: int) -> None:
    """Twenty first kills spread over the run, and more while it is resumed; below, those while a run is made."""
    whole, seconds = uninterrupted
    draw = random.Random(part)
    for fifth in range(5):
        folder = tmp_path / str(fifth)
        for delay in (seconds * (fifth + draw.random()) / 6, seconds * draw.random(), 60):
            made = FORK.Event()
            process = child(begin_or_go_on, folder, made)
            assert made.wait(60)
            process.join(delay)
            process.kill()
            process.join()
        assert process.exitcode == 0
        assert status(folder) == "done"
        assert digest(resume(folder)) == whole


class Traced(sqlite3.Connection):
    """A connection that dies at one of its statements, counted from the first."""

    left = -1
    seen = 0

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.set_trace_callback(self._count)

    @staticmethod
    def _count(statement: str) -> None:
        Traced.seen += 1
        if Traced.seen == Traced.left:
            os.kill(os.getpid(), signal.SIGKILL)


def traced_start(folder: Path, left: int) -> None:
    Traced.left, Traced.seen = left, 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Traced))
        start(SETTINGS, folder, interval=2)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, int]:
    """Statements, and bytes of the log, until a run is made."""
    folder = tmp_path_factory.mktemp("made")
    found: list[tuple[int, int]] = []

    def note(*given: object) -> None:
        log = folder / f"{DATABASE}-wal"
        found.append((Traced.seen, log.stat().st_size if log.exists() else 0))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "_carry_on", note)
        traced_start(folder, -1)
    return found[0]


@pytest.fixture(scope="module")
def statements(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Of a whole run."""
    traced_start(tmp_path_factory.mktemp("traced"), -1)
    return Traced.seen


def killed(folder: Path, statement: int) -> None:
    process = child(traced_start, folder, statement)
    process.join()
    assert process.exitcode == -signal.SIGKILL


@forks
@pytest.mark.parametrize("at", [step / 18 for step in range(18)])
def test_a_kill_within_a_commit(tmp_path: Path, made: tuple[int, int], statements: int, at: float) -> None:
    """A process that dies at a statement; all of what it had begun is undone."""
    first = made[0] + 1
    killed(tmp_path, first + int(at * (statements - first)))
    assert status(tmp_path) in ("running", "done")
    done = progress_of(tmp_path)
    assert done in (0, 2, 4, 5)
    with Store.open(tmp_path) as store:
        assert [number for number, _, _ in store.rounds("run")] == list(range(1, done + 1))
        assert {record.round for record in store.records("run")} == {each for each in (2, 4, 5) if each <= done}
    assert digest(resume(tmp_path)) == expected("fedper")


@forks
def test_a_kill_while_a_run_is_made(tmp_path: Path, made: tuple[int, int]) -> None:
    """At each statement: it is there as a whole and can be resumed, or it can be started again."""
    for statement in {1, *range(2, made[0], 4), made[0]}:
        folder = tmp_path / str(statement)
        killed(folder, statement)
        there = (folder / DATABASE).exists()
        assert digest(resume(folder) if there else start(SETTINGS, folder)) == expected("fedper"), statement


@forks
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9, 0.999])
def test_a_log_that_was_cut_off(tmp_path: Path, made: tuple[int, int], statements: int, share: float) -> None:
    """As a loss of power may leave it: commits are lost from the last one on, and no half of one stays."""
    killed(tmp_path, statements - 3)
    log = tmp_path / f"{DATABASE}-wal"
    more = log.stat().st_size - made[1]
    assert more > 0
    os.truncate(log, made[1] + int(share * more))
    assert progress_of(tmp_path) in (0, 2, 4, 5)
    assert digest(resume(tmp_path)) == expected("fedper")


def interruptible(folder: Path, finished: Any) -> None:
    def note(stage: str, progress: Progress) -> None:
        finished.value = progress.round
        if progress.round == progress.rounds:
            time.sleep(60)  # For a signal that comes late.

    start(DIGITS, folder, interval=5, on_round=note)


@forks
@pytest.mark.parametrize("part", range(5))
def test_control_c(tmp_path: Path, uninterrupted: tuple[str, float], part: int) -> None:
    """At most the round in progress is lost."""
    whole, seconds = uninterrupted
    # Without a lock, which one that is interrupted might never give back.
    finished = FORK.RawValue("i", 0)
    process = child(interruptible, tmp_path, finished)
    while process.is_alive() and not finished.value:
        time.sleep(0.001)
    time.sleep(seconds * random.Random(part).random())
    before = finished.value
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 130
    assert status(tmp_path) == "interrupted"
    assert progress_of(tmp_path) >= max(before, finished.value)
    assert digest(resume(tmp_path)) == whole


# What goes wrong.


def test_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partita.runs.database.PATIENCE", 0.05)
    said: list[str] = []

    def try_too(stage: str, progress: Progress) -> None:
        with pytest.raises(PartitaError, match=r"Another process is working on .*Wait for it, or stop it") as caught:
            resume(tmp_path)
        said.append(str(caught.value))
        with pytest.raises(PartitaError, match=r"holds a run already|Another process is working on"):
            start(SETTINGS, tmp_path)
        assert status(tmp_path) == "running", "reading is always possible"

    assert digest(start(SETTINGS, tmp_path, on_round=try_too)) == expected("fedper")
    assert len(said) == 5
    assert digest(resume(tmp_path)) == expected("fedper")


def test_a_lock_that_is_held_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """As by the workers of a process that was killed, until they notice."""
    held = lock(tmp_path)
    timer = threading.Timer(0.2, held.close)
    timer.start()
    with lock(tmp_path):
        assert held.closed
    timer.join()


def started(folder: Path, barrier: Any, won: Any) -> None:
    barrier.wait()
    try:
        start(SETTINGS, folder)
    except PartitaError:
        return
    with won.get_lock():
        won.value += 1


@forks
def test_one_of_many_that_start_at_once(tmp_path: Path) -> None:
    for attempt in range(4):
        barrier, won = FORK.Barrier(3), FORK.Value("i", 0)
        processes = [child(started, tmp_path / str(attempt), barrier, won) for _ in range(3)]
        for process in processes:
            process.join()
        assert [process.exitcode for process in processes] == [0, 0, 0]
        assert won.value == 1
        assert digest(resume(tmp_path / str(attempt))) == expected("fedper")


@forks
def test_a_process_that_was_killed_holds_no_lock(tmp_path: Path, statements: int) -> None:
    killed(tmp_path, statements - 3)
    assert digest(resume(tmp_path)) == expected("fedper")


def test_folders_that_do_not_fit(tmp_path: Path) -> None:
    start({**SETTINGS, "rounds": 1}, tmp_path / "taken")
    with pytest.raises(PartitaError, match=r"taken holds a run already\. Continue it with: partita resume .*taken"):
        start(SETTINGS, tmp_path / "taken")
    assert status(tmp_path / "taken") == "done"
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(PartitaError, match=r"holds no run \(run\.sqlite is missing\)"):
            resume(folder)
    assert not (tmp_path / "missing").exists()
    (tmp_path / "file").touch()
    with pytest.raises(PartitaError, match=r"Cannot make the run's folder .*: Not a directory"):
        start(SETTINGS, tmp_path / "file" / "folder")
    with pytest.raises(PartitaError, match="every 0 rounds: it must be at least 1"):
        start(SETTINGS, tmp_path / "new", interval=0)
    with pytest.raises(PartitaError, match="Did you mean 'rounds'"):
        start({**SETTINGS, "round": 1}, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_settings_that_cannot_be_written_down(tmp_path: Path) -> None:
    """An object among them is refused in words, and nothing is left behind."""
    with pytest.raises(PartitaError, match=r"algorithm.*(name|text)|cannot be written"):
        start({**SETTINGS, "algorithm": fedper()}, tmp_path)
    assert digest(start(SETTINGS, tmp_path)) == expected("fedper")


def damage(folder: Path, content: Callable[[bytes], bytes]) -> None:
    path = folder / DATABASE
    path.write_bytes(content(path.read_bytes()))


@pytest.fixture(scope="module")
def half_done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("half")
    with pytest.raises(KeyboardInterrupt):
        start(SETTINGS, folder, on_round=stop_after(3))
    return folder


@pytest.fixture
def stopped(half_done: Path, tmp_path: Path) -> Path:
    """A run that was interrupted after three of five rounds."""
    return Path(shutil.copytree(half_done, tmp_path / "stopped"))


@pytest.mark.parametrize(
    "content",
    [
        lambda found: b"garbage" * 1000,
        lambda found: b"x",
        lambda found: b"\0" * len(found),
        lambda found: found[:4096],
        lambda found: found[: len(found) // 2],
        lambda found: found[:100] + b"\xff" * (len(found) - 100),
        lambda found: b"",
    ],
    ids=["garbage", "x", "zeros", "a page", "half", "header", "nothing"],
)
@pytest.mark.parametrize("use", [resume, Store.open])
def test_a_damaged_file(stopped: Path, content: Callable[[bytes], bytes], use: Callable[[Path], object]) -> None:
    damage(stopped, content)
    with pytest.raises(PartitaError, match="is damaged:"):
        use(stopped)


def problem_of(folder: Path) -> str | None:
    try:
        resume(folder)
    except PartitaError as problem:
        return str(problem)
    return None


def test_damage_is_said_in_words_wherever_it_is(stopped: Path, tmp_path: Path) -> None:
    pages = (stopped / DATABASE).stat().st_size // 4096
    for page in range(pages):
        folder = Path(shutil.copytree(stopped, tmp_path / str(page)))
        noise = random.Random(page).randbytes(4096)

        def spoiled(found: bytes, page: int = page, noise: bytes = noise) -> bytes:
            return found[: page * 4096] + noise + found[(page + 1) * 4096 :]

        damage(folder, spoiled)
        said = problem_of(folder)
        assert said is None or "is damaged:" in said, page


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE server SET state = x'00'",
        "UPDATE server SET state = zeroblob(1000)",
        "UPDATE clients SET own = x'80049502'",
        "UPDATE clients SET own = 'text'",
        "UPDATE server SET state = CAST(substr(state, 1, length(state) - 1) || x'7f' AS BLOB)",
        "UPDATE clients SET own = CAST(substr(own, 1, length(own) - 1) || x'7f' AS BLOB)",
        "UPDATE server SET checksum = ''",
        "UPDATE about SET value = '{' WHERE key = 'settings'",
    ],
)
def test_damaged_content(stopped: Path, change: str) -> None:
    connection = sqlite3.connect(stopped / DATABASE)
    with connection:
        connection.execute(change)
    connection.close()
    with pytest.raises(PartitaError, match="is damaged:"):
        resume(stopped)


def test_a_damaged_division(stopped: Path) -> None:
    connection = sqlite3.connect(stopped / DATABASE)
    with connection:
        connection.execute("UPDATE division SET manifest = x'00'")
    connection.close()
    with Store.open(stopped) as store, pytest.raises(PartitaError, match="is damaged:"):
        _ = store.manifest


def test_a_run_of_another_format(stopped: Path) -> None:
    with Store.open(stopped) as store:
        store.note("format", FORMAT + 1)
    for use in (resume, Store.open):
        with pytest.raises(PartitaError, match=f"format {FORMAT + 1}; this version reads format {FORMAT}"):
            use(stopped)
    connection = sqlite3.connect(stopped / DATABASE)
    with connection:
        connection.execute("UPDATE about SET value = ? WHERE key = 'format'", (str(FORMAT),))
    connection.close()
    assert digest(resume(stopped)) == expected("fedper"), "a run that was refused is not locked"


def test_data_that_changed_since(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SEED", SEED + 1)
    with pytest.raises(PartitaError, match=r"data are not those that .*stopped was started with.*PARTITA_DATA"):
        resume(stopped)
    assert (status(stopped), progress_of(stopped)) == ("interrupted", 3)
    monkeypatch.undo()
    assert digest(resume(stopped)) == expected("fedper")


def test_a_fingerprint_is_of_values_and_division() -> None:
    data = small_federation((8, 6))
    assert fingerprint(data) == fingerprint(small_federation((8, 6)))
    assert len({fingerprint(small_federation(sizes, seed=seed)) for sizes in ((8, 6), (6, 8)) for seed in (0, 1)}) == 4


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only(stopped: Path) -> None:
    stopped.chmod(0o555)
    try:
        with pytest.raises(PartitaError, match=r"Cannot write to|the folder read-only"):
            resume(stopped)
        with pytest.raises(PartitaError, match=r"Cannot make|Cannot write to|the folder read-only"):
            start(SETTINGS, stopped / "new")
    finally:
        stopped.chmod(0o755)
    assert digest(resume(stopped)) == expected("fedper")


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_reading_needs_no_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a name? with #signs%20"
    start(SETTINGS, folder)
    before = view(folder)
    there = files_in(folder)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    watched: list[list[str]] = []
    watch(monkeypatch, lambda: watched.append(files_in(folder)))
    assert view(folder) == before
    assert watched
    assert all(each == there for each in watched), "no log and no shared memory beside the database"


def test_a_log_is_read_too_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in the log alone is not passed over."""

    def look(stage: str, progress: Progress) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
            assert view(tmp_path).done == progress.round

    start(SETTINGS, tmp_path, on_round=look)


def read_as_nobody(folder: Path) -> None:
    if os.geteuid() == 0:
        os.setresuid(65534, 65534, 65534)
    assert not os.access(folder, os.W_OK)
    assert view(folder).done == 5
    with Store.open(folder) as store:
        assert store.own("run", 0) is not None
    with pytest.raises(PartitaError, match="Cannot write to"):
        resume(folder)


@forks
def test_a_finished_run_is_read_by_those_who_may_not_write() -> None:
    """Root may write everywhere, so that it steps down for this; its temporary folders are closed to others."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        folder = Path(made) / "run"
        start(SETTINGS, folder)
        folder.chmod(0o555)
        process = child(read_as_nobody, folder)
        process.join()
        folder.chmod(0o755)
    assert process.exitcode == 0


def test_a_folder_that_cannot_be_locked(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(PartitaError, match=r"Cannot write to .*stopped: Read-only file system"):
        resume(stopped)
    monkeypatch.undo()
    assert digest(resume(stopped)) == expected("fedper")


def test_a_database_that_is_read_only(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(real: Callable[..., sqlite3.Connection], *given: Any, **more: Any) -> sqlite3.Connection:
        connection = real(*given, **more)
        connection.execute("PRAGMA query_only = 1")
        return connection

    monkeypatch.setattr(sqlite3, "connect", partial(read_only, sqlite3.connect))
    with pytest.raises(PartitaError, match=r"cannot be read or written: .*readonly.*the folder read-only\?"):
        resume(stopped)
    monkeypatch.undo()
    assert digest(resume(stopped)) == expected("fedper")


@pytest.mark.parametrize("interval", [1, 3])
def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval: int) -> None:
    chosen = {**SETTINGS, "rounds": 12, "evaluate_every": 1}
    plain = make(chosen).run()
    opened: list[sqlite3.Connection] = []

    def noted(real: Callable[..., sqlite3.Connection], *given: Any, **more: Any) -> sqlite3.Connection:
        opened.append(real(*given, **more))
        return opened[-1]

    def fill(stage: str, progress: Progress) -> None:
        if progress.round == 3:
            opened[-1].execute("PRAGMA max_page_count = 1")  # That is: no more than there are.

    monkeypatch.setattr(sqlite3, "connect", partial(noted, sqlite3.connect))
    with pytest.raises(PartitaError, match=r"disk is full\. Is the disk full .*What was committed before is safe"):
        start(chosen, tmp_path, interval=interval, on_round=fill)
    monkeypatch.undo()
    done = progress_of(tmp_path)
    assert 3 <= done < 12
    with Store.open(tmp_path) as store:
        assert store.records("run") == [record for record in plain.records if record.round <= done]
        assert store.traffic("run") == [each for each in plain.traffic if each.round <= done]
    assert digest(resume(tmp_path)) == digest(plain)


# What clients keep.


def of_size(count: int, value: int) -> Tensors:
    return {"w": torch.full((count,), value, dtype=torch.uint8)}


class Loads(Store):
    """Counts what is read."""

    loads = 0

    def own(self, stage: str, client: int) -> Tensors | None:
        self.loads += 1
        return super().own(stage, client)


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    return iter(range(1_000_000))


@examples(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    budget=st.sampled_from([0, 1, 10, 30, 1000]),
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("set"), st.integers(0, 4), st.integers(0, 20)),
            st.tuples(st.just("get"), st.integers(0, 4), st.just(0)),
            st.tuples(st.sampled_from(["commit", "reopen"]), st.just(0), st.just(0)),
        ),
        max_size=25,
    ),
)
def test_states_are_a_dictionary(
    tmp_path: Path, numbers: Iterator[int], budget: int, steps: list[tuple[str, int, int]]
) -> None:
    folder = tmp_path / str(next(numbers))
    store = Store.create(folder, {})
    states, model, kept = States(store, "run", budget), dict[int, Tensors](), dict[int, Tensors]()
    for number, (step, client, count) in enumerate(steps, 1):
        if step == "set":
            states[client] = model[client] = of_size(count, number)
        elif step == "commit":
            fresh = {each: tensors for each, tensors in model.items() if kept.get(each) is not tensors}
            store.commit("run", number, {}, fresh, [], [], [])
            states.committed()
            kept = dict(model)
            assert not states.over_budget
        elif step == "reopen":
            store.close()
            store = Store.open(folder, write=True)
            states, model = States(store, "run", budget), dict(kept)
        elif client in model:
            assert same_tensors(states[client], model[client])
        else:
            with pytest.raises(KeyError):
                states[client]
        waiting = sum(len(tensors["w"]) for each, tensors in model.items() if kept.get(each) is not tensors)
        assert states.over_budget == (waiting > budget)
        assert (list(states), len(states)) == (sorted(model), len(model))
    for client in range(5):
        assert (client in states) == (client in model)
        assert same_tensors(states.get(client, {}), model.get(client, {}))
    store.close()
    for client, tensors in kept.items():
        if model[client] is tensors:
            assert same_tensors(states[client], tensors), "also after the run has ended"
    shutil.rmtree(folder)


def test_states_are_never_deleted(tmp_path: Path) -> None:
    with Store.create(tmp_path, {}) as store:
        states = States(store, "run", 0)
        states[1] = of_size(1, 1)
        with pytest.raises(TypeError, match="replaced, never deleted"):
            del states[1]
        assert list(states) == [1]


def kept_states(folder: Path, budget: int) -> tuple[Loads, States]:
    """Three clients of ten bytes, all committed."""
    store = Loads.create(folder, {})
    assert isinstance(store, Loads)
    states = States(store, "run", budget)
    own: Mapping[int, Tensors] = {client: of_size(10, client) for client in range(3)}
    states.update(own)
    store.commit("run", 1, {}, own, [], [], [])
    states.committed()
    return store, states


@pytest.mark.parametrize(
    ("budget", "asked", "loads"),
    [
        (1000, [0, 1, 2, 0, 1, 2], 0),
        (30, [0, 1, 2, 0, 1, 2], 0),
        (0, [0, 0, 1], 3),
        (20, [1, 2, 0, 0, 2], 1),
        (20, [1, 0, 1, 2], 2),
        (10, [2, 2, 1, 2], 2),
    ],
)
def test_what_was_used_last_stays_in_memory(tmp_path: Path, budget: int, asked: list[int], loads: int) -> None:
    store, states = kept_states(tmp_path, budget)
    with store:
        assert all(same_tensors(states[client], of_size(10, client)) for client in asked)
        assert store.loads == loads


def test_a_stage_has_its_own_states(tmp_path: Path) -> None:
    store, _ = kept_states(tmp_path, 0)
    with store:
        assert list(States(store, "pretrain", 0)) == []
        assert list(States(store, "run", 0)) == [0, 1, 2]


def test_a_commit_that_is_in_already(tmp_path: Path) -> None:
    records = [
        Record(1, 0, "before_local", "test", 3, None, 0.1 + 0.2),
        Record(1, 1, "initial", "validation", 3, 2, 1e-310),
    ]
    traffic = [Traffic(1, 0, "head", 2**40, 0)]
    with Store.create(tmp_path, {}) as store:
        for _ in range(2):
            store.commit("run", 1, of_size(2, 7), {0: {}}, [(1, 0.5, 1)], records, traffic)
        assert (store.records("run"), store.traffic("run"), store.rounds("run")) == (records, traffic, [(1, 0.5, 1)])
        assert (store.clients("run"), store.own("run", 0)) == ([0], {})
