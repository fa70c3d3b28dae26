"""How a federation is doing, from its run and its journal."""

import datetime
import json
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.watched import NAMES, go_on, made_run
from partita.cli.main import app
from partita.deploy.journal import JOURNAL, Journal
from partita.deploy.status import status_of
from partita.errors import PartitaError
from partita.runs.stored import read_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_run(tmp_path_factory.mktemp("federation"))


def test_a_federation_that_is_done(run: Path) -> None:
    found = status_of(run)
    assert (found.state, found.round, found.rounds, found.now) == ("done", 4, 4, None)
    assert [site.name for site in found.sites] == list(NAMES)
    # An introduction, and in each of four rounds training and evaluation.
    assert [site.answers for site in found.sites] == [9, 9, 9, 8]
    assert [site.left_out for site in found.sites] == [0, 0, 0, 1]
    assert [(each.round, each.site, each.reason) for each in found.refusals] == [
        (2, NAMES[3], "the site is not connected")
    ]
    assert found.refused == 1
    assert found.course == read_run(run).course()
    assert found.courses.keys() == set(NAMES)
    assert [site.score for site in found.sites] == [found.courses[name][4] for name in NAMES]
    assert [updates for _, _, updates in found.seconds] == [4, 3, 4, 4]
    traffic = read_run(run).traffic
    shared = sum(row.up for row in traffic)
    assert sum(site.sent for site in found.sites) > shared


def test_who_is_asked_and_who_is_late(run: Path) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    before = (run / JOURNAL).read_bytes()
    try:
        go_on(run, anna=10, ben=20)
        journal = Journal(run)
        journal.note("answered", site="ben", bytes=7)
        journal.close()
        soon, late = status_of(run, now), status_of(run, now + datetime.timedelta(seconds=700))
        assert soon.now is not None
        assert (soon.now.kind, soon.now.round) == ("train", 5)
        assert [site.connected for site in soon.sites] == [True, True, False, False]
        assert [site.asked_since is not None for site in soon.sites] == [True, False, False, False]
        assert [site.late for site in late.sites] == [True, False, False, False], "the deadline has passed"
    finally:
        (run / JOURNAL).write_bytes(before)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("introduce", "; introductions since 20"),
        ("train", "; training of round 5 since 20"),
        ("stay_away", "; training of round 5 since 20"),
        ("evaluate", "; evaluation of round 5 since 20"),
    ],
)
def test_what_is_done_now_is_told_in_words(kind: str, words: str, run: Path) -> None:
    before = (run / JOURNAL).read_bytes()
    try:
        go_on(run, anna=10)
        with closing(Journal(run)) as journal:
            at = {} if kind == "introduce" else {"round": 5}
            journal.note("asked", kind=kind, **at, sites={"anna": 10}, seconds=600.0)
        assert words in CliRunner().invoke(app, ["federate", "status", str(run)]).output
    finally:
        (run / JOURNAL).write_bytes(before)


def test_what_a_killed_process_waited_for_is_forgotten(run: Path) -> None:
    before = (run / JOURNAL).read_text(encoding="utf-8")
    try:
        go_on(run, anna=10)
        dead = (run / JOURNAL).read_text(encoding="utf-8").splitlines()
        dead = [json.dumps({**json.loads(line), "process": 2**22 + 1}) for line in dead]
        # The last line was being written.
        (run / JOURNAL).write_text("\n".join([*dead, '{"time": "20']), encoding="utf-8")
        found = status_of(run)
        assert (found.now, found.sites[0].asked_since, found.sites[0].connected) == (None, None, None)
    finally:
        (run / JOURNAL).write_text(before, encoding="utf-8")


def test_a_run_of_no_federation(tmp_path: Path) -> None:
    with pytest.raises(PartitaError, match="is not the run of a federation"):
        status_of(tmp_path)


def test_the_command(run: Path) -> None:
    shown = CliRunner().invoke(app, ["federate", "status", str(run)]).output
    assert "fedper: done, round 4 of 4" in shown
    assert "round 2, <b>dora</b>: the site is not connected" in shown
    assert json.loads(CliRunner().invoke(app, ["federate", "status", str(run), "--json"]).output)["refused"] == 1
