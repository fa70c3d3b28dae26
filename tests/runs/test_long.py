"""Runs of many rounds: what is read of them is the same as before, and does not grow in memory with their rounds."""

import io
import json
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from partita.cli.main import app
from partita.evaluation.analysis import declared
from partita.evaluation.scores import Record, summarize
from partita.experiment.traffic import Traffic
from partita.runs.as_json import write_json
from partita.runs.commit import Commit
from partita.runs.completeness import AT_THE_END
from partita.runs.database import DATABASE
from partita.runs.record import RunRecord
from partita.runs.session import Session
from partita.runs.store import Store
from partita.runs.stored import read_run
from runs.kept import SETTINGS, start

CLIENTS = 4


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start(SETTINGS, tmp_path_factory.mktemp("long") / "run")


def grown(folder: Path, rounds: int) -> Path:
    """The run that is made of the small one by many rounds more, as they are committed."""
    start({**SETTINGS, "rounds": 1}, folder)
    with Store.open(folder, write=True) as store:
        numbers = range(2, rounds + 2)
        records = [
            Record(at, client, "before_local", role, 10, (at * 7 + client) % 11, 1.0)
            for at in numbers
            for client in range(CLIENTS)
            for role in ("validation", "test")
        ]
        traffic = [Traffic(at, client, "body", 3, 4) for at in numbers for client in range(CLIENTS)]
        took = tuple((at, 1.0, CLIENTS) for at in numbers)
        store.commit(Commit("run", rounds + 1, {}, {}, took, tuple(records), tuple(traffic)))
        store.note(rounds=rounds + 1)
    return folder


def test_sums_of_the_database_are_those_of_the_rows(tmp_path: Path) -> None:
    run = read_run(grown(tmp_path / "run", 30))
    rows = [each for each in run.records if each.round > 1]
    for role in ("validation", "test"):
        means = {
            at: summarize(each for each in rows if (each.round, each.role) == (at, role)).macro
            for at in range(2, run.done + 1)
        }
        found = run.course(role=role)
        assert {at: found[at] for at in means} == pytest.approx(means)
    assert run.evaluated == sorted({each.round for each in run.records})
    assert run.bytes_until(10) == sum(each.down + each.up for each in run.traffic if each.round <= 10)
    assert run.bytes_per_round * run.done == pytest.approx(sum(each.down + each.up for each in run.traffic))


def test_a_record_is_read_once_whatever_is_read_after_it(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, reads = RunRecord.read, []

    def counted(values: Mapping[str, Any], where: str) -> RunRecord:
        reads.append(where)
        return read(values, where)

    monkeypatch.setattr(RunRecord, "read", counted)
    run = read_run(finished)
    assert run.summaries()
    assert run.course()
    assert run.bytes_per_round
    assert reads == [str(finished)]


def test_what_is_written_piece_by_piece_is_the_whole(finished: Path) -> None:
    run, written = read_run(finished), io.StringIO()
    write_json(run, written, {"more": 1})
    assert json.loads(written.getvalue()) == json.loads(json.dumps({**run.as_dict(), "more": 1}))


def peak_of_showing(folder: Path) -> int:
    tracemalloc.start()
    try:
        run = read_run(folder)
        run.summaries()
        _ = run.chosen_round, run.bytes_per_round, run.seconds_per_round
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_hold_the_rows_of_all_rounds(tmp_path: Path) -> None:
    """Two numbers of a round may be held, and not the twelve rows that it has here: some 4 kB."""
    rounds = 1000
    more = peak_of_showing(grown(tmp_path / "long", rounds)) - peak_of_showing(grown(tmp_path / "short", 1))
    assert more < rounds * 1000


def test_analyses_of_the_end_are_known() -> None:
    assert set(declared("end")) == set(AT_THE_END)


def test_a_run_that_is_done_is_resumed_without_its_data(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it was opened to be written to")

    CliRunner().invoke(app, ["report", str(finished)])
    monkeypatch.setattr(Session, "open", refuse)
    done = CliRunner().invoke(app, ["resume", str(finished)])
    assert (done.exit_code, "5 of 5 rounds" in done.output) == (0, True), done.output


def test_one_damaged_run_hides_no_other(tmp_path: Path) -> None:
    start(SETTINGS, tmp_path / "whole")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / DATABASE).write_bytes(b"garbage" * 1000)
    done = CliRunner().invoke(app, ["runs", str(tmp_path)])
    assert done.exit_code == 1
    assert "whole" in done.output
    assert "broken is damaged" in done.output.replace("\n", " ")
