"""The guard of many clients works in all workers, keeps what it found, and goes on after an interruption."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from partita.evaluation.analyses.guard import guard
from partita.experiment.events import Analysed, Event
from partita.experiment.settings.files import make
from partita.runs.baselines import add_baselines
from partita.runs.evaluate import analyse
from partita.runs.session import Session
from partita.runs.unfinished import unfinished
from partita.runs.verify import verify
from runs.kept import forks

SETTINGS: dict[str, Any] = {
    "algorithm": "fedper",
    "model": {"name": "mlp", "hidden": 4},
    "data": {"name": "digits", "split": {"name": "iid", "clients": 12}},
    "rounds": 1,
    "evaluate_every": 0,
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many") / "run"
    made = make(SETTINGS)
    with Session.start(made, folder, baselines="../baselines", baseline_tuning=False, on="inline") as session:
        session.run()
        add_baselines(session)
    return folder


def guarded(folder: Path, on: str, on_event: Any = lambda event: None) -> Any:
    with Session.open(folder, on=on, on_event=on_event) as session:
        return analyse(session, guard())


@forks
def test_any_number_of_workers_finds_the_same(finished: Path) -> None:
    assert guarded(finished, "processes:2") == guarded(finished, "inline")


def test_it_goes_on_after_an_interruption(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partita.runs.measuring.TOGETHER", 2)
    whole, seen = guarded(finished, "inline"), list[Event]()

    def stop(event: Event) -> None:
        seen.append(event)
        if isinstance(event, Analysed) and event.done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guarded(finished, "inline", stop)
    assert [event.total for event in seen if isinstance(event, Analysed)] == [12] * 7
    with Session.open(finished, on="inline") as session:
        [name] = {row[0] for row in session.store.select("SELECT name FROM unfinished")}
        kept = unfinished(session.store, name)
        verify(session.store)
    assert 6 <= len(kept) <= 7
    measured = list[int]()

    def one_by_one(clients: Sequence[int], setup: object) -> list[list[int]]:
        measured.extend(clients)
        return [[number] for number in clients]

    monkeypatch.setattr("partita.runs.measuring.batches_of", one_by_one)
    assert guarded(finished, "inline") == whole
    assert sorted(measured) == sorted(set(range(12)) - set(kept))
    with Session.open(finished, on="inline") as session:
        assert session.store.select("SELECT * FROM unfinished") == []


def test_only_the_clients_that_are_evaluated_are_guarded(tmp_path: Path) -> None:
    made = replace(make(SETTINGS), evaluation_clients=5)
    with Session.start(made, tmp_path / "run", baselines="../baselines", baseline_tuning=False, on="inline") as session:
        session.run()
        add_baselines(session)
        assert len(analyse(session, guard())["clients"]) == 5
