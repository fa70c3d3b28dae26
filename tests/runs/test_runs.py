"""Runs: everything is kept, nothing is lost, and a run that was stopped goes on to the same bits.

One file, since all interruptions are of the same runs, whose uninterrupted bits are made once.
"""

import json
import sqlite3
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from partita import registry
from partita.data.federation import federate
from partita.data.manifests import fingerprint
from partita.data.split import ROLES
from partita.data.splits.manifest import manifest as manifest_split
from partita.errors import DivergedError
from partita.evaluation.analyses import labels as labels_of_clients
from partita.experiment.events import Event, RoundEnded
from partita.experiment.jobs import ClientResult, Evaluate, Job, Train
from partita.experiment.settings.description import describe_experiment
from partita.experiment.setup import Setup
from partita.runs import session as sessions
from partita.runs.blobs import checksum, pack, unpack
from partita.runs.database import DATABASE
from partita.runs.folders import find_runs
from partita.runs.record import FORMAT
from partita.runs.session import MEMORY
from partita.runs.store import SERVER, Store
from partita.runs.stored import read_run
from runs.kept import (
    METHODS,
    SETTINGS,
    digest,
    expected,
    experiment_of,
    progress_of,
    record_of,
    resume,
    rounds_told,
    same_tensors,
    simulated,
    start,
    status,
    stop_after,
    tiny,
)
from toys import small_network

# What a run leaves.


def test_everything_can_be_read_afterwards(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    folder = start(SETTINGS, tmp_path / "a" / "b", on_event=rounds_told(told))
    plain = simulated(SETTINGS)
    assert told == [("run", number) for number in range(1, 6)]
    assert digest(folder) == digest(plain)
    with Store.open(folder) as store:
        record = store.record
        assert store.values("SELECT key, value, checksum FROM record")["format"] == FORMAT
        assert (record.status, record.experiment) == ("done", describe_experiment(experiment_of(SETTINGS)))
        assert (record.rounds, record.clients, record.data, record.newcomers) == (5, 4, "tiny", [])
        assert (record.metric, record.commit_every, record.memory) == ("accuracy", 1, MEMORY)
        assert record.label == plain.algorithm.label
        assert record.fingerprint == fingerprint(plain.data)
        assert record.ended is not None
        assert record.started <= record.ended
        assert record.environment["packages"]["torch"] == torch.__version__
        assert record.environment["python"] == ".".join(map(str, sys.version_info[:3]))
        rounds = store.rounds("run")
        assert [(number, count) for number, _, count in rounds] == [(number, 2) for number in range(1, 6)]
        assert all(seconds > 0 for _, seconds, _ in rounds)
        assert store.records("run") == plain.records
        assert store.traffic("run") == plain.traffic
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
    chosen = {**SETTINGS, **METHODS["pretrain"]}
    start(chosen, tmp_path)
    initial = simulated(chosen).task.weights
    with Store.open(tmp_path) as store:
        assert [number for number, _, _ in store.rounds("pretrain")] == [1, 2, 3]
        assert [number for number, _, _ in store.rounds("run")] == [1, 2, 3, 4, 5]
        assert {record.round for record in store.records("pretrain")} == {2, 3}
        before = store.server("pretrain")
        assert before is not None
        assert same_tensors(before[1], initial)


COLUMNS = {
    "record": ["key", "value", "checksum"],
    "rounds": ["stage", "round", "seconds", "participants"],
    "metrics": ["stage", "round", "client", "variant", "role", "count", "correct", "loss"],
    "traffic": ["stage", "round", "client", "group", "down", "up"],
    "left_out": ["stage", "round", "client", "name", "in_a_row", "problem"],
    "commits": ["stage", "round", "states", "checksum"],
    "states": ["stage", "client", "round", "parts"],
    "parts": ["stage", "client", "part", "bytes", "checksum"],
    "outcomes": ["stage", "round", "client", "variant", "form", "samples", "values"],
    "analyses": ["name", "value", "checksum"],
    "division": ["manifest", "checksum"],
}


def test_others_can_read_it_and_nothing_is_pickled(tmp_path: Path) -> None:
    start({**SETTINGS, **METHODS["norm"]}, tmp_path)
    result = simulated({**SETTINGS, **METHODS["norm"]})
    connection = sqlite3.connect(tmp_path / DATABASE)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert sorted(tables) == sorted(COLUMNS)
    for table, columns in COLUMNS.items():
        assert [row[1] for row in connection.execute(f"PRAGMA table_info({table})")] == columns
    for table, columns in COLUMNS.items():
        texts = [f'"{column}"' for column in columns if column not in ("bytes", "manifest")]
        for row in connection.execute(f"SELECT {', '.join(texts)} FROM {table}"):
            assert not any(isinstance(value, bytes) for value in row)
    [manifest] = connection.execute("SELECT manifest FROM division").fetchone()
    assert len(json.loads(zlib.decompress(manifest))["clients"]) == 4
    found = connection.execute("SELECT client, bytes, checksum FROM parts").fetchall()
    connection.close()
    assert all(checksum(blob) == held for _, blob, held in found)
    states = {client: safetensors.torch.load(blob) for client, blob, _ in found}
    assert same_tensors(states.pop(SERVER), result.state)
    assert states.keys() == result.own.keys()
    assert all(same_tensors(own, result.own[client]) for client, own in states.items())


def test_the_division_is_rebuilt_to_the_bit(tmp_path: Path) -> None:
    data = {**SETTINGS["data"], "split": {"name": "dirichlet", "clients": 4, "alpha": 0.5}, "newcomers": 1}
    start({**SETTINGS, "data": data, "rounds": 1, "seed": 5}, tmp_path)
    with Store.open(tmp_path) as store:
        record, manifest = store.record, store.manifest
    assert record.division == "whole"
    path = tmp_path / "division.json"
    path.write_text(json.dumps(manifest), encoding="utf-8")
    again = federate(tiny(), manifest_split(path=str(path)), seed=77)
    assert fingerprint(again) == record.fingerprint
    assert len(again.newcomers) == 1


def test_of_very_many_clients_the_division_is_known_by_its_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_CLIENTS", 3)
    start({**SETTINGS, "rounds": 1}, tmp_path)
    with Store.open(tmp_path) as store:
        assert store.manifest is None
        assert store.record.division.startswith("origin and fingerprint alone")
        assert store.record.origin["split"]["name"] == "iid"


def test_labels_network_and_floor_are_known_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels_of_clients, "MOST_CLIENTS", 3)
    chosen = {**SETTINGS, "data": {**SETTINGS["data"], "newcomers": 1}}
    with pytest.raises(KeyboardInterrupt):
        start(chosen, tmp_path, on_event=stop_after(1))
    found = read_run(tmp_path).analyses
    data = experiment_of(chosen).data
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


def test_states_have_the_bytes_that_safetensors_writes_for_torch() -> None:
    shared = torch.arange(6.0)
    tensors = {
        "z": shared.reshape(2, 3).T,
        "alias": shared,
        "count": torch.tensor(3),
        "double": torch.tensor([0.1], dtype=torch.float64),
        "mask": torch.tensor([True]),
        "empty": torch.empty(0, 4),
    }
    alone = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
    assert pack(tensors) == safetensors.torch.save(alone, {"order": json.dumps(list(tensors))})


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


@pytest.mark.parametrize("memory", [0, 200, MEMORY])
@pytest.mark.parametrize("commit_every", [1, 2, 3, 50])
@pytest.mark.parametrize("method", ["fedper", "pretrain"])
def test_neither_commits_nor_memory_matter(tmp_path: Path, method: str, commit_every: int, memory: int) -> None:
    start({**SETTINGS, **METHODS[method]}, tmp_path, commit_every=commit_every, memory=memory)
    assert digest(tmp_path) == expected(method)
    assert digest(resume(tmp_path)) == expected(method)


@pytest.mark.parametrize(("commit_every", "memory"), [(1, 0), (3, 500), (2, 0), (50, MEMORY)])
@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("fedper", "pretrain")])
def test_they_matter_for_no_method(tmp_path: Path, method: str, commit_every: int, memory: int) -> None:
    start({**SETTINGS, **METHODS[method]}, tmp_path, commit_every=commit_every, memory=memory)
    assert digest(tmp_path) == expected(method)
    assert digest(resume(tmp_path)) == expected(method)


@pytest.mark.parametrize("name", registry.names("algorithms"))
def test_every_algorithm_resumes_to_the_same_bits(tmp_path: Path, name: str) -> None:
    """From the store alone: with no memory for states, and twice."""
    chosen = {**SETTINGS, "algorithm": name, "model": METHODS["norm"]["model"], "rounds": 3, "buffers": "local"}
    with pytest.raises(KeyboardInterrupt):
        start(chosen, tmp_path, memory=0, on_event=stop_after(1))
    with pytest.raises(KeyboardInterrupt):
        resume(tmp_path, on_event=stop_after(2))
    assert digest(resume(tmp_path)) == digest(simulated(chosen))


def test_a_state_is_read_in_its_order(tmp_path: Path) -> None:
    """FedAMP sums over names; in another order, and each reading may have its own, the bits would differ."""
    chosen = {**SETTINGS, **METHODS["norm"]}
    for attempt in range(8):
        folder = tmp_path / str(attempt)
        with pytest.raises(KeyboardInterrupt):
            start(chosen, folder, memory=0, on_event=stop_after(2))
        assert digest(resume(folder)) == expected("norm")


def test_a_run_that_is_done_is_only_read(tmp_path: Path) -> None:
    start(SETTINGS, tmp_path)
    with Store.open(tmp_path, write=True) as store:
        store.note(ended="long ago")
        before = store.record
    told: list[tuple[str, int]] = []
    assert digest(resume(tmp_path, on_event=rounds_told(told))) == expected("fedper")
    assert record_of(tmp_path) == before
    assert not told


# Interruptions.


@pytest.mark.parametrize("commit_every", [1, 2, 50])
@pytest.mark.parametrize("number", [1, 2, 4, 5])
def test_an_interruption_after_a_round(tmp_path: Path, number: int, commit_every: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        start(SETTINGS, tmp_path, commit_every=commit_every, on_event=stop_after(number))
    assert (status(tmp_path), progress_of(tmp_path)) == ("interrupted", number)
    told: list[tuple[str, int]] = []
    resume(tmp_path, on_event=rounds_told(told))
    assert told == [("run", each) for each in range(number + 1, 6)]
    assert digest(tmp_path) == expected("fedper")
    assert status(tmp_path) == "done"


@pytest.mark.parametrize(("stage", "number"), [("pretrain", 1), ("pretrain", 3), ("run", 1), ("run", 4)])
def test_an_interruption_in_any_stage(tmp_path: Path, stage: str, number: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        start({**SETTINGS, **METHODS["pretrain"]}, tmp_path, commit_every=2, on_event=stop_after(number, stage))
    assert (status(tmp_path), progress_of(tmp_path, stage)) == ("interrupted", number)
    assert digest(resume(tmp_path)) == expected("pretrain")


@pytest.mark.parametrize("kind", [Train, Evaluate])
def test_an_interruption_within_a_round_loses_that_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Job]
) -> None:
    real = kind.run

    def interrupted(self: Job, setup: Setup) -> Iterator[ClientResult]:
        if self.moment.round == 3 + (kind is Evaluate):
            raise KeyboardInterrupt
        return real(self, setup)

    monkeypatch.setattr(kind, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start(SETTINGS, tmp_path, commit_every=50)
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


@pytest.mark.parametrize("commit_every", [1, 50])
def test_an_interruption_during_the_commit_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit_every: int
) -> None:
    """At each of its moments; what was committed is there, and the rest is made again."""
    for moment in range(1, 24):
        folder = tmp_path / str(moment)
        left = [0]

        def count_down(left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt

        def stop(event: Event, left: list[int] = left, moment: int = moment) -> None:
            assert isinstance(event, RoundEnded)
            if event.round == 2:
                left[0] = moment
            if event.round == 3:
                raise KeyboardInterrupt

        watch(monkeypatch, count_down)
        with pytest.raises(KeyboardInterrupt):
            start(SETTINGS, folder, commit_every=commit_every, on_event=stop)
        monkeypatch.undo()
        assert progress_of(folder) in ((2, 3) if commit_every == 1 else (0, 3))
        assert status(folder) in ("running", "interrupted")
        assert digest(resume(folder)) == expected("fedper")


def test_a_failure_without_words_is_noted_by_its_kind(tmp_path: Path) -> None:
    def fail(event: Event) -> None:
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        start(SETTINGS, tmp_path, on_event=fail)
    assert status(tmp_path) == "failed: ValueError"


@pytest.mark.parametrize("kind", ["regular", "on_event"])
def test_a_failure_is_noted_and_what_was_before_is_kept(tmp_path: Path, kind: str) -> None:
    """A server that leaps: the second round or a later one cannot be computed."""
    rate = {"name": "sgd", "lr": 1e3}
    leaping = {**SETTINGS, "algorithm": {"name": "fedavg", "optimizer": rate}, "server": {"optimizer": rate}}
    told: list[int] = []

    def note(event: Event) -> None:
        assert isinstance(event, RoundEnded)
        told.append(event.round)
        if kind == "on_event" and event.round == 3:
            raise ValueError("no more")

    with pytest.raises(DivergedError if kind == "regular" else ValueError) as caught:
        start(leaping if kind == "regular" else SETTINGS, tmp_path, commit_every=50, on_event=note)
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
