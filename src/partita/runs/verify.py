"""Is a stored run undamaged? This checks its structure, its checksums and the rows of every commit."""

from .blobs import checked, checksum_of_rows
from .database import explained
from .record import WHOLE
from .schema import NUMBERS
from .store import ANALYSED, ANALYSES, RECORD, SERVER, Store


def check(store: Store) -> None:
    """Check everything but the tensors, which are checked when they are read; done before a run is written to."""
    with explained(store.folder), store.snapshot():
        _check_structure(store)
        _check_values(store)
        _check_rows(store)


def verify(store: Store) -> None:
    """Check everything: also the checksum of every value and tensor."""
    with explained(store.folder), store.snapshot():
        _check_structure(store)
        _check_values(store)
        _check_rows(store)
        _check_states(store)


def _check_structure(store: Store) -> None:
    """An index that lacks a row would hide a client's state."""
    found = [str(problem) for (problem,) in store.select("PRAGMA integrity_check")]
    if found != ["ok"]:
        raise ValueError(found[0].replace("\n", " "))


def _check_values(store: Store) -> None:
    """The record, the results of analyses and the division of the data are as they were written."""
    if sorted(store.values(ANALYSES)) != store.values(RECORD).get(ANALYSED):
        raise ValueError("analyses are missing, or there are more than were made")
    manifests = store.select("SELECT manifest, checksum FROM division")
    if len(manifests) != (store.record.division == WHOLE):
        raise ValueError("the division of the data is missing, or there are several")
    for blob, expected in manifests:
        checked(blob, expected, "the division")


def _check_rows(store: Store) -> None:
    """No number was changed, added or lost since it was committed."""
    stages = [
        stage
        for table in (*NUMBERS, "commits", "states")
        for (stage,) in store.select(f"SELECT DISTINCT stage FROM {table}")
    ]
    for stage in dict.fromkeys(stages):
        last, seen = 0, dict.fromkeys(NUMBERS, 0)
        for round, expected in store.select(
            "SELECT round, checksum FROM commits WHERE stage = ? ORDER BY round", stage
        ):
            tables = {table: store.numbers(table, stage, (last + 1, round)) for table in NUMBERS}
            if checksum_of_rows(tables.values()) != expected:
                raise ValueError(f"the numbers of rounds {last + 1} to {round} ({stage}) do not match their checksum")
            seen = {table: seen[table] + len(rows) for table, rows in tables.items()}
            last = round
        for table, count in seen.items():
            if store.select(f"SELECT count(*) FROM {table} WHERE stage = ?", stage) != [(count,)]:
                raise ValueError(f"there are {table} that no commit made ({stage})")
        states = store.select("SELECT states FROM commits WHERE stage = ? AND round = ?", stage, last)
        if store.select("SELECT count(*) FROM states WHERE stage = ? AND round <= ?", stage, last) != states:
            raise ValueError(f"the stored states are not those of the last commit ({stage}, round {last})")
        if store.select("SELECT round FROM states WHERE stage = ? AND client = ?", stage, SERVER) != [(last,)]:
            raise ValueError(f"the server's state is not that of the last commit ({stage}, round {last})")
    orphans = "SELECT 1 FROM parts LEFT JOIN states USING (stage, client) WHERE states.client IS NULL LIMIT 1"
    if store.select(orphans):
        raise ValueError("there are stored tensors without a state that they belong to")


def _check_states(store: Store) -> None:
    """Every part of every state exists and matches its checksum; one state is in memory at a time."""
    for stage, client in store.select("SELECT stage, client FROM states"):
        store.packed(stage, client)
