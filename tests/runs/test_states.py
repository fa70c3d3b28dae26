"""What clients keep: a dictionary whose values may be in the store, and stored states of any size."""

import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings as examples, strategies as st

from partita.errors import PartitaError
from partita.evaluation.scores import Record
from partita.experiment.traffic import Traffic
from partita.runs import blobs
from partita.runs.commit import Commit
from partita.runs.database import DATABASE
from partita.runs.record import RunRecord
from partita.runs.states import States
from partita.runs.store import Store
from partita.runs.verify import verify
from partita.tensors import Tensors
from runs.kept import same_tensors

RECORD = RunRecord(
    experiment={},
    settings={},
    label="fedper",
    variant="before_local",
    metric="accuracy",
    data="tiny",
    origin={},
    fingerprint="",
    division="too many clients",
    clients=4,
    names=[],
    newcomers=[],
    evaluated=4,
    rounds=5,
    seed=0,
    oracle_validation=False,
    environment={},
    started="",
    commit_every=1,
    memory=0,
    baselines=None,
    baseline_tuning=True,
)


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
    store = Store.create(folder, RECORD)
    states, model, kept = States(store, "run", budget), dict[int, Tensors](), dict[int, Tensors]()
    for number, (step, client, count) in enumerate(steps, 1):
        if step == "set":
            states[client] = model[client] = of_size(count, number)
        elif step == "commit":
            fresh = {each: tensors for each, tensors in model.items() if kept.get(each) is not tensors}
            store.commit(Commit("run", number, own=fresh))
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
    verify(store)
    store.close()
    for client, tensors in kept.items():
        if model[client] is tensors:
            assert same_tensors(states[client], tensors), "also after the run has ended"
    shutil.rmtree(folder)


def test_states_are_never_deleted(tmp_path: Path) -> None:
    with Store.create(tmp_path, RECORD) as store:
        states = States(store, "run", 0)
        states[1] = of_size(1, 1)
        with pytest.raises(TypeError, match="replaced, never deleted"):
            del states[1]
        assert list(states) == [1]


def kept_states(folder: Path, budget: int) -> tuple[Loads, States]:
    """Three clients of ten bytes, all committed."""
    store = Loads.create(folder, RECORD)
    assert isinstance(store, Loads)
    states = States(store, "run", budget)
    own: Mapping[int, Tensors] = {client: of_size(10, client) for client in range(3)}
    states.update(own)
    store.commit(Commit("run", 1, own=own))
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
    commit = Commit("run", 1, of_size(2, 7), {0: {}}, ((1, 0.5, 1),), tuple(records), tuple(traffic))
    with Store.create(tmp_path, RECORD) as store:
        for _ in range(2):
            store.commit(commit)
        assert (store.records("run"), store.traffic("run"), store.rounds("run")) == (records, traffic, [(1, 0.5, 1)])
        assert (store.clients("run"), store.own("run", 0)) == ([0], {})
        verify(store)


# States that are larger than what SQLite holds in one value.


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "PART", 100)


def parts(folder: Path, client: int) -> list[tuple[Any, ...]]:
    with sqlite3.connect(folder / DATABASE) as connection:
        found = connection.execute("SELECT part, length(bytes) FROM parts WHERE client = ? ORDER BY part", (client,))
        rows = found.fetchall()
    connection.close()
    return rows


@pytest.mark.usefixtures("small_parts")
def test_large_states_are_stored_in_parts(tmp_path: Path) -> None:
    large, small = {"w": torch.arange(250.0)}, {"w": torch.arange(3.0)}
    with Store.create(tmp_path, RECORD) as store:
        store.commit(Commit("run", 1, large, {0: large, 1: small}))
        assert len(parts(tmp_path, 0)) == -(-len(blobs.pack(large)) // 100) > 10
        assert [number for number, _ in parts(tmp_path, 0)] == list(range(len(parts(tmp_path, 0))))
        assert all(size <= 100 for _, size in parts(tmp_path, 0))
        # A state that has become smaller leaves no part of the larger one.
        store.commit(Commit("run", 2, large, {0: small}))
        assert parts(tmp_path, 0) == parts(tmp_path, 1)
        verify(store)
    with Store.open(tmp_path) as store:
        found = store.server("run")
        assert found is not None
        assert same_tensors(found[1], large)
        assert same_tensors(store.own("run", 0) or {}, small)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DELETE FROM parts WHERE client = 1 AND part = 3", r"the state of client 1 \(run\) has \d+ of \d+ parts"),
        ("DELETE FROM parts WHERE client = 1", r"client 1 \(run\) has 0 of \d+ parts"),
        (
            "UPDATE parts SET bytes = zeroblob(100) WHERE client = 1 AND part = 3",
            "client 1 .*does not match its checksum",
        ),
        ("UPDATE parts SET checksum = '' WHERE client = 1 AND part = 0", "client 1 .*does not match its checksum"),
        ("UPDATE parts SET part = part + 1 WHERE client = 1 AND part = (SELECT max(part) FROM parts)", "of \\d+ parts"),
    ],
)
def test_damage_of_one_part_is_noticed(tmp_path: Path, change: str, said: str) -> None:
    with Store.create(tmp_path, RECORD) as store:
        store.commit(Commit("run", 1, {}, {0: {"w": torch.arange(250.0)}, 1: {"w": torch.arange(250.0)}}))
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.execute(change)
    connection.close()
    with Store.open(tmp_path) as store:
        assert store.own("run", 0) is not None
        with pytest.raises(PartitaError, match=rf"is damaged: .*{said}"):
            store.own("run", 1)
        with pytest.raises(PartitaError, match=rf"is damaged: .*{said}"):
            verify(store)
