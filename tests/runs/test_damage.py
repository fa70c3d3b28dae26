"""What goes wrong with a stored run is said in words: damage, other formats, other data, no room and no permission."""

import errno
import json
import os
import random
import resource
import shutil
import sqlite3
import tempfile
import threading
import zlib
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from partita.cli.main import app
from partita.data.manifests import fingerprint
from partita.errors import PartitaError
from partita.evaluation.scores import Record
from partita.experiment.events import Event, RoundEnded
from partita.runs import database
from partita.runs.blobs import checksum
from partita.runs.commit import Commit
from partita.runs.database import DATABASE, lock
from partita.runs.record import FORMAT
from partita.runs.session import Session
from partita.runs.store import Store
from partita.runs.stored import read_run
from partita.runs.verify import verify
from runs import kept
from runs.kept import (
    SETTINGS,
    child,
    digest,
    expected,
    experiment_of,
    forks,
    progress_of,
    record_of,
    resume,
    simulated,
    start,
    status,
    stop_after,
)
from runs.test_runs import watch
from toys import small_federation


def test_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.05)
    said: list[str] = []

    def try_too(event: Event) -> None:
        with pytest.raises(PartitaError, match=r"Another process is using .*Wait until it ends, or stop it") as caught:
            resume(tmp_path)
        said.append(str(caught.value))
        with pytest.raises(PartitaError, match=r"already holds a run|Another process is using"):
            start(SETTINGS, tmp_path)
        assert status(tmp_path) == "running", "reading is always possible"

    assert digest(start(SETTINGS, tmp_path, on_event=try_too)) == expected("fedper")
    assert len(said) == 5
    assert digest(resume(tmp_path)) == expected("fedper")


def test_a_lock_that_is_held_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """As by the workers of a process that was killed, until they notice."""
    held, order = lock(tmp_path), list[str]()

    def release() -> None:
        order.append("released")
        held.close()

    timer = threading.Timer(0.2, release)
    timer.start()
    other = lock(tmp_path)
    order.append("taken")
    other.close()
    timer.join()
    assert order == ["released", "taken"]


def test_folders_that_do_not_fit(tmp_path: Path) -> None:
    start({**SETTINGS, "rounds": 1}, tmp_path / "taken")
    with pytest.raises(PartitaError, match=r"taken already holds a run\. Continue it with: partita resume .*taken"):
        start(SETTINGS, tmp_path / "taken")
    assert status(tmp_path / "taken") == "done"
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(PartitaError, match=r"holds no run \(run\.sqlite is missing\)"):
            resume(folder)
    assert not (tmp_path / "missing").exists()
    (tmp_path / "file").touch()
    with pytest.raises(PartitaError, match=r"Cannot make the run's folder .*: Not a directory"):
        start(SETTINGS, tmp_path / "file" / "folder")
    with pytest.raises(PartitaError, match="commit_every is 0, but must be at least 1"):
        start(SETTINGS, tmp_path / "new", commit_every=0)
    with pytest.raises(PartitaError, match="Did you mean 'rounds'"):
        start({**SETTINGS, "round": 1}, tmp_path / "new")
    assert not (tmp_path / "new").exists()


# Damage.


def damage(folder: Path, content: Callable[[bytes], bytes]) -> None:
    path = folder / DATABASE
    path.write_bytes(content(path.read_bytes()))


def change(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / DATABASE)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


@pytest.fixture(scope="module")
def half_done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("half")
    with pytest.raises(KeyboardInterrupt):
        start(SETTINGS, folder, on_event=stop_after(3))
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


def verified(folder: Path) -> None:
    with Store.open(folder) as store:
        verify(store)


def problem_of(use: Callable[[Path], object], folder: Path) -> str | None:
    try:
        use(folder)
    except PartitaError as problem:
        return str(problem)
    return None


def test_damage_is_said_in_words_wherever_it_is(stopped: Path, tmp_path: Path) -> None:
    """Of every page that holds anything; a run that is resumed all the same has not used that page."""
    pages = (stopped / DATABASE).stat().st_size // 4096
    free = {number for (number,) in free_pages(stopped)}
    for page in range(pages):
        folder = Path(shutil.copytree(stopped, tmp_path / str(page)))
        noise = random.Random(page).randbytes(4096)

        def spoiled(found: bytes, page: int = page, noise: bytes = noise) -> bytes:
            return found[: page * 4096] + noise + found[(page + 1) * 4096 :]

        damage(folder, spoiled)
        said = problem_of(verified, folder)
        assert page + 1 in free or (said is not None and "is damaged:" in said and "\n" not in said), page
        said = problem_of(resume, folder)
        assert said is None or "is damaged:" in said, page


def free_pages(folder: Path) -> list[tuple[int]]:
    """Pages that hold nothing."""
    connection = sqlite3.connect(folder / DATABASE)
    [(count,)] = connection.execute("PRAGMA freelist_count").fetchall()
    connection.close()
    assert count == 0, "rounds only add, and states replace others of the same size"
    return []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE parts SET bytes = x'00' WHERE client = -1",
        "UPDATE parts SET bytes = zeroblob(1000) WHERE client = -1",
        "UPDATE parts SET bytes = x'80049502' WHERE client >= 0",
        "UPDATE parts SET bytes = 'text' WHERE client >= 0",
        "UPDATE parts SET bytes = CAST(substr(bytes, 1, length(bytes) - 1) || x'7f' AS BLOB) WHERE client = -1",
        "UPDATE parts SET bytes = CAST(substr(bytes, 1, length(bytes) - 1) || x'7f' AS BLOB) WHERE client >= 0",
        "UPDATE parts SET checksum = '' WHERE client = -1",
        "UPDATE record SET value = '{' WHERE key = 'experiment'",
    ],
)
def test_damaged_content(stopped: Path, statement: str) -> None:
    change(stopped, statement)
    for use in (resume, verified):
        with pytest.raises(PartitaError, match="is damaged:"):
            use(stopped)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE metrics SET loss = loss + 1e-9 WHERE rowid = 3", r"rounds 2 to 2 \(run\) do not match their checksum"),
        ("UPDATE metrics SET correct = correct + 1 WHERE rowid = 1", "do not match their checksum"),
        ("DELETE FROM metrics WHERE rowid = 3", "do not match their checksum"),
        ("DELETE FROM traffic WHERE round = 3", r"rounds 3 to 3 \(run\) do not match their checksum"),
        ("UPDATE rounds SET seconds = 1 WHERE round = 2", r"rounds 2 to 2 \(run\) do not match their checksum"),
        ("INSERT INTO metrics SELECT * FROM metrics WHERE rowid = 1", "do not match their checksum"),
        ("INSERT INTO rounds VALUES ('run', 4, 1.0, 2)", "there are rounds that no commit made"),
        ("INSERT INTO traffic VALUES ('pretrain', 1, 0, 'head', 1, 1)", r"no commit made \(pretrain\)"),
        ("INSERT INTO metrics SELECT stage, 0, client, variant, role, 1, 1, 1 FROM metrics LIMIT 1", "no commit made"),
        ("DELETE FROM commits WHERE round = 3", "that no commit made"),
        ("DELETE FROM commits WHERE round = 2", "rounds 2 to 3"),
        ("UPDATE states SET round = 2 WHERE client = -1", "server's state is not that of the last commit"),
        ("DELETE FROM states WHERE client = 0", "stored states are not those of the last commit"),
        ("DELETE FROM states", "stored states are not those of the last commit"),
        ("UPDATE states SET client = 99 WHERE client = 0", "stored tensors without a state that they belong to"),
    ],
)
def test_numbers_that_were_changed_are_noticed_before_a_run_goes_on(stopped: Path, statement: str, said: str) -> None:
    change(stopped, statement)
    for use in (verified, resume):
        with pytest.raises(PartitaError, match=rf"is damaged: .*{said}") as caught:
            use(stopped)
        assert "\n" not in str(caught.value)
    assert progress_of(stopped) == 3 or "states" in statement, "nothing was written"


def test_an_index_that_lacks_a_row_is_noticed_by_looking_at_everything(stopped: Path) -> None:
    """What a query by round would pass over in silence."""
    connection = sqlite3.connect(stopped / DATABASE)
    with connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = sql || ' WHERE client > 0' WHERE name = 'traffic_by_round'")
    connection.close()
    for use in (verified, resume):
        with pytest.raises(PartitaError, match=r"is damaged: .*index traffic_by_round"):
            use(stopped)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE division SET manifest = x'00'",
        "UPDATE division SET checksum = 'other'",
        "UPDATE analyses SET value = '{}' WHERE name = 'floor'",
        "UPDATE record SET value = '6' WHERE key = 'rounds'",
        "INSERT INTO parts VALUES ('run', 99, 0, x'00', '')",
    ],
)
def test_looking_at_everything_finds_it(stopped: Path, statement: str) -> None:
    verified(stopped)
    change(stopped, statement)
    with pytest.raises(PartitaError, match="is damaged:"):
        verified(stopped)


ENDLESS = "WITH RECURSIVE more(n) AS (SELECT 1 UNION ALL SELECT n FROM more)"


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TRIGGER t AFTER INSERT ON metrics BEGIN DELETE FROM metrics; END"],
        [f"CREATE VIEW t AS {ENDLESS} SELECT n FROM more"],
        [
            "DROP TABLE analyses",
            f"CREATE VIEW analyses AS {ENDLESS} SELECT n AS name, n AS value, n AS checksum FROM more",
        ],
        ["CREATE VIRTUAL TABLE t USING fts4(text)"],
    ],
)
def test_a_database_that_computes_is_refused(stopped: Path, statements: list[str]) -> None:
    """It could change what is written, or never end."""
    change(stopped, *statements)
    for use in (verified, resume, read_run):
        with pytest.raises(PartitaError, match="a view, a trigger or a virtual table, and a run has none"):
            use(stopped)


def test_a_damaged_division(stopped: Path) -> None:
    change(stopped, "UPDATE division SET manifest = x'00'")
    with Store.open(stopped) as store, pytest.raises(PartitaError, match="is damaged: the division does not match"):
        _ = store.manifest


def test_a_table_that_lost_its_rows_is_noticed_before_a_run_goes_on(stopped: Path) -> None:
    """As where a page of the file was replaced by an empty one: SQLite sees a sound database."""
    with closing(sqlite3.connect(stopped / DATABASE)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        filled = [name for name in tables if connection.execute(f"SELECT count(*) FROM {name}").fetchone() != (0,)]
    assert {"record", "analyses", "division", "metrics", "commits", "states", "parts"} <= set(filled)
    whole = (stopped / DATABASE).read_bytes()
    for table in filled:
        (stopped / DATABASE).write_bytes(whole)
        change(stopped, f"DELETE FROM {table}")
        with pytest.raises(PartitaError, match="is damaged"):
            resume(stopped)


def test_numbers_that_became_bytes_are_noticed(stopped: Path) -> None:
    change(stopped, "UPDATE rounds SET participants = x'00ff'")
    with pytest.raises(PartitaError, match="do not match their checksum"):
        resume(stopped)


def test_a_whole_run_has_no_damage(tmp_path: Path) -> None:
    for commit_every in (1, 3):
        verified(
            start({**SETTINGS, **kept.METHODS["pretrain"]}, tmp_path / str(commit_every), commit_every=commit_every)
        )


# The record.


def test_a_run_of_another_format(stopped: Path) -> None:
    with Store.open(stopped, write=True) as store:
        store.note(format=FORMAT + 1)
    for use in (resume, Store.open, read_run):
        with pytest.raises(PartitaError, match=rf"in format {FORMAT + 1}; .*reads format {FORMAT}\. Update partita\.$"):
            use(stopped)
    text = json.dumps(FORMAT)
    held = checksum(text.encode())
    change(stopped, f"UPDATE record SET value = '{text}', checksum = '{held}' WHERE key = 'format'")
    assert digest(resume(stopped)) == expected("fedper"), "a run that was refused is not locked"


OLDER = (
    "CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "INSERT INTO about VALUES ('format', '3'), ('status', '\"done\"'), ('label', '\"fedper\"')",
    "CREATE TABLE rounds (stage TEXT, round INTEGER, seconds REAL, participants INTEGER)",
    "CREATE TABLE server (stage TEXT PRIMARY KEY, round INTEGER, state BLOB, checksum TEXT)",
)


def older_run(folder: Path) -> Path:
    """What versions before this format left."""
    folder.mkdir(parents=True)
    change(folder, *OLDER)
    return folder


@pytest.mark.parametrize("command", ["show", "resume", "runs", "compare", "verify", "evaluate", "guard", "report"])
def test_a_run_of_an_older_format_is_refused_with_the_way_out(own_folder: Path, command: str) -> None:
    older_run(own_folder / "old")
    done = CliRunner().invoke(app, [command, "old"])
    assert done.exit_code == 1
    assert isinstance(done.exception, PartitaError | SystemExit)
    said = f"{done.output}{done.exception}"
    assert "in format 3; this version of partita" in said
    assert "Read it with the version that wrote it, or run the experiment again." in said


@pytest.mark.parametrize("key", ["label", "experiment", "baselines", "status", "format", "names"])
def test_a_record_that_lacks_something_is_damaged(stopped: Path, key: str) -> None:
    change(stopped, f"DELETE FROM record WHERE key = '{key}'")
    for use in (resume, read_run, verified):
        with pytest.raises(PartitaError, match=f"is damaged: its record lacks .*{key}"):
            use(stopped)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rounds", "five"),
        ("rounds", True),
        ("clients", 3.5),
        ("names", [1, 2]),
        ("newcomers", ["a"]),
        ("variant", "other"),
        ("experiment", []),
        ("trackers", {"tensorboard": 3}),
        ("ended", 3),
        ("baselines", "../../.."),
        ("baselines", "/elsewhere"),
        ("baselines", "../baselines/../../x"),
    ],
)
def test_a_record_with_a_value_of_another_type_is_damaged(stopped: Path, key: str, value: object) -> None:
    """Also a place for baselines that would have `resume` write elsewhere."""
    with Store.open(stopped, write=True) as store:
        store.note(**{key: value})
    for use in (resume, read_run):
        with pytest.raises(PartitaError, match=f"is damaged: its record has .* as {key}"):
            use(stopped)
    assert sorted(path.name for path in stopped.parent.iterdir()) == ["stopped"]


# Reading while another writes.


def test_a_live_run_is_read_as_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer commits between the statements of a reader: what is read belongs together."""
    start({**SETTINGS, "rounds": 2}, tmp_path)
    writer = Store.open(tmp_path, write=True)
    writer.note(ended="2")
    round = [2]

    def commit() -> None:
        round[0] += 1
        record = Record(round[0], 0, "before_local", "test", 3, 2, 1.0)
        writer.commit(Commit("run", round[0], {}, {}, ((round[0], 1.0, 1),), (record,)))
        writer.note(ended=str(round[0]))

    watching = [True]

    def tell() -> None:
        if watching[0]:
            watching[0] = False
            commit()
            watching[0] = True

    with monkeypatch.context() as patch:
        watch(patch, tell)
        found = read_run(tmp_path)
    writer.close()
    assert round[0] > 5, "it was disturbed"
    assert found.last == found.done
    # A commit and a note are two transactions.
    assert found.record.ended in (str(found.done), str(found.done - 1))
    assert found.rounds[-1][0] == found.records[-1].round


def test_data_that_changed_since(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "SEED", kept.SEED + 1)
    with pytest.raises(PartitaError, match=r"data are not those that .*stopped was started with.*PARTITA_DATA"):
        resume(stopped)
    assert (status(stopped), progress_of(stopped)) == ("interrupted", 3)
    monkeypatch.undo()
    assert digest(resume(stopped)) == expected("fedper")


def test_a_fingerprint_is_of_values_and_division() -> None:
    data = small_federation((8, 6))
    assert fingerprint(data) == fingerprint(small_federation((8, 6)))
    assert len({fingerprint(small_federation(sizes, seed=seed)) for sizes in ((8, 6), (6, 8)) for seed in (0, 1)}) == 4


# No permission.


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
    before = read_run(folder)
    there = files_in(folder)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    watched: list[list[str]] = []
    watch(monkeypatch, lambda: watched.append(files_in(folder)))
    assert read_run(folder) == before
    verified(folder)
    assert watched
    assert all(each == there for each in watched), "no log and no shared memory beside the database"


def test_a_log_is_read_too_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in the log alone is not passed over."""

    def look(event: Event) -> None:
        assert isinstance(event, RoundEnded)
        with monkeypatch.context() as patch:
            patch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
            assert read_run(tmp_path).done == event.round

    start(SETTINGS, tmp_path, on_event=look)


def read_as_nobody(folder: Path) -> None:
    if os.geteuid() == 0:
        os.setresuid(65534, 65534, 65534)
    assert not os.access(folder, os.W_OK)
    assert read_run(folder).done == 5
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
        # The files too: whoever is not root owns them, and could write into them.
        for file in folder.iterdir():
            file.chmod(0o444)
        folder.chmod(0o555)
        process = child(read_as_nobody, folder)
        process.join()
        folder.chmod(0o755)
    assert process.exitcode == 0


def test_a_folder_that_cannot_be_locked(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object, **more: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "open", refuse)
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


# No room.


@pytest.mark.parametrize("commit_every", [1, 3])
def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit_every: int) -> None:
    chosen = {**SETTINGS, "rounds": 12, "evaluate_every": 1}
    plain = simulated(chosen)
    opened: list[sqlite3.Connection] = []

    def noted(real: Callable[..., sqlite3.Connection], *given: Any, **more: Any) -> sqlite3.Connection:
        opened.append(real(*given, **more))
        return opened[-1]

    def fill(event: Event) -> None:
        assert isinstance(event, RoundEnded)
        if event.round == 3:
            opened[-1].execute("PRAGMA max_page_count = 1")  # That is: no more than there are.

    monkeypatch.setattr(sqlite3, "connect", partial(noted, sqlite3.connect))
    with pytest.raises(PartitaError, match=r"disk is full\. Is the disk full .*Earlier commits are safe"):
        start(chosen, tmp_path, commit_every=commit_every, on_event=fill)
    monkeypatch.undo()
    done = progress_of(tmp_path)
    assert 3 <= done < 12
    with Store.open(tmp_path) as store:
        assert store.records("run") == [record for record in plain.records if record.round <= done]
        assert store.traffic("run") == [each for each in plain.traffic if each.round <= done]
    verified(tmp_path)
    assert digest(resume(tmp_path)) == digest(plain)


def made_with_room_for(folder: Path, size: int) -> None:
    """A run is made where no file may be larger than this."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    made = experiment_of(SETTINGS)
    said = problem_of(lambda place: Session.start(made, place).close(), folder)
    if said is not None:
        os._exit(3 if "cannot be read or written" in said and "Is the disk full" in said else 1)
    os._exit(0)


@forks
def test_no_room_while_a_run_is_made(tmp_path: Path) -> None:
    """There is a run or none, and the folder can be used again."""
    start({**SETTINGS, "rounds": 1}, tmp_path / "whole")
    largest = (tmp_path / "whole" / DATABASE).stat().st_size
    codes = []
    for size in [0, 1, 512, *range(4096, 2 * largest + 8192, 12_288)]:
        folder = tmp_path / str(size)
        process = child(made_with_room_for, folder, size)
        process.join()
        codes.append(process.exitcode)
        if (folder / DATABASE).exists():
            verified(folder)
            assert digest(resume(folder)) == expected("fedper"), size
        else:
            assert process.exitcode == 3, size
            assert digest(start(SETTINGS, folder)) == expected("fedper"), size
    assert set(codes) == {0, 3}
    assert codes[-1] == 0


def test_a_record_is_read_whole(stopped: Path) -> None:
    record = record_of(stopped)
    assert (record.done, record.name_of(2), record.score.name) == (False, "2", "accuracy")


def test_a_division_that_would_fill_the_memory(stopped: Path) -> None:
    """As somebody else's run may hold, with a checksum that fits."""
    bomb = zlib.compress(bytes(200 << 20), 9)
    with Store.open(stopped, write=True) as store, store.writing() as connection:
        connection.execute("UPDATE division SET manifest = ?, checksum = ?", (bomb, checksum(bomb)))
    with Store.open(stopped) as store, pytest.raises(PartitaError, match=r"is damaged: .*unpack to more than"):
        _ = store.manifest
