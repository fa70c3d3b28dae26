"""Where is what an analysis has found so far? In a table of the run, until the analysis is complete."""

import json
from collections.abc import Mapping
from typing import Any

from ..parsing import parse_json
from .blobs import checked, checksum
from .database import explained
from .store import Store

TABLE = (
    "CREATE TABLE IF NOT EXISTS unfinished (name TEXT, client INTEGER, value TEXT NOT NULL, checksum TEXT NOT NULL, "
    "PRIMARY KEY (name, client)) WITHOUT ROWID"
)
"""The table, which is created when it is needed."""
THERE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'unfinished'"


def unfinished(store: Store, name: str) -> dict[int, Any]:
    """The results of clients from before an interruption."""
    if not store.select(THERE):
        return {}
    rows = store.select("SELECT client, value, checksum FROM unfinished WHERE name = ?", name)
    with explained(store.folder):
        return {client: parse_json(checked(value.encode(), expected, name)) for client, value, expected in rows}


def add_unfinished(store: Store, name: str, found: Mapping[int, Any]) -> None:
    """Keep what was found of some clients."""
    if not found:
        return
    texts = {client: json.dumps(each) for client, each in found.items()}
    rows = [(name, client, text, checksum(text.encode())) for client, text in texts.items()]
    with store.writing() as connection:
        connection.execute(TABLE)
        connection.executemany("INSERT OR REPLACE INTO unfinished VALUES (?, ?, ?, ?)", rows)


def forget_unfinished(store: Store, analysis: str) -> None:
    """Remove what an analysis left that is complete now."""
    if store.select(THERE):
        with store.writing() as connection:
            connection.execute("DELETE FROM unfinished WHERE substr(name, 1, ?) = ?", (len(analysis), analysis))
