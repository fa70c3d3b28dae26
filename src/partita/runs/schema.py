"""Which tables has a run's database?"""

from collections.abc import Sequence
from dataclasses import fields

from ..evaluation.outcomes import Outcomes
from ..evaluation.scores import Record
from ..experiment.left_out import LeftOut
from ..experiment.traffic import Traffic

SCHEMA = """
CREATE TABLE record (key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE analyses (name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE division (manifest BLOB NOT NULL, checksum TEXT NOT NULL);
CREATE TABLE rounds (stage TEXT, round INTEGER, seconds REAL, participants INTEGER, PRIMARY KEY (stage, round));
CREATE TABLE metrics (
    stage TEXT, round INTEGER, client INTEGER, variant TEXT, role TEXT, count INTEGER, correct INTEGER, loss REAL
);
CREATE TABLE traffic (stage TEXT, round INTEGER, client INTEGER, "group" TEXT, down INTEGER, up INTEGER);
CREATE TABLE left_out (stage TEXT, round INTEGER, client INTEGER, name TEXT, in_a_row INTEGER, problem TEXT);
CREATE TABLE outcomes (
    stage TEXT, round INTEGER, client INTEGER, variant TEXT, form TEXT, samples INTEGER, "values" TEXT
);
CREATE TABLE commits (stage TEXT, round INTEGER, states INTEGER NOT NULL, checksum TEXT NOT NULL,
    PRIMARY KEY (stage, round));
CREATE TABLE states (stage TEXT, client INTEGER, round INTEGER NOT NULL, parts INTEGER NOT NULL,
    PRIMARY KEY (stage, client));
CREATE TABLE parts (stage TEXT, client INTEGER, part INTEGER, bytes BLOB NOT NULL, checksum TEXT NOT NULL,
    PRIMARY KEY (stage, client, part));
CREATE INDEX metrics_by_round ON metrics (stage, round);
CREATE INDEX traffic_by_round ON traffic (stage, round);
"""
NUMBERS = {
    "rounds": ("round", "seconds", "participants"),
    "metrics": tuple(each.name for each in fields(Record)),
    "traffic": tuple(each.name for each in fields(Traffic)),
    "left_out": tuple(each.name for each in fields(LeftOut)),
    "outcomes": tuple(each.name for each in fields(Outcomes)),
}
"""Tables of numbers, and their columns beside the stage."""
PROGRAMS = """
SELECT name FROM sqlite_master WHERE type IN ('view', 'trigger') OR sql LIKE 'CREATE VIRTUAL%' ORDER BY name LIMIT 1
"""
"""What computes inside a database. A run has none; in another person's database it could change rows, or never end."""


def need_plain_tables(programs: Sequence[tuple[str]]) -> None:
    for (name,) in programs:
        raise ValueError(f"{name} is a view, a trigger or a virtual table, and a run has none")


def columns_of(table: str) -> str:
    """The columns of a table of numbers, for a query."""
    return ", ".join(f'"{column}"' for column in NUMBERS[table])
