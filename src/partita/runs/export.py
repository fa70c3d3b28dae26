"""How is a run exported? Its numbers as CSV files, its division of the data as a manifest."""

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import IO

from ..errors import PartitaError
from ..evaluation.scores import Record
from ..simulation.left_out import LeftOut
from ..simulation.traffic import Traffic
from .store import Store
from .stored import StoredRun

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A cell of text that begins so is a formula to a spreadsheet, which would run it."""


def export_csv(run: StoredRun, folder: Path) -> list[Path]:
    """metrics.csv, traffic.csv, left_out.csv and rounds.csv; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    tables: dict[str, tuple[Sequence[str], Iterable[Sequence[object]]]] = {
        "metrics": _by_client(run, Record, run.records),
        "traffic": _by_client(run, Traffic, run.traffic),
        "left_out": ([each.name for each in fields(LeftOut)], map(astuple, run.left_out)),
        "rounds": (["round", "seconds", "participants"], run.rounds),
    }
    written = []
    for name, (columns, rows) in tables.items():
        path = folder / f"{name}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            write_csv(file, columns, rows)
        written.append(path)
    return written


def export_manifest(run: Path, path: Path) -> Path:
    """Who has which rows, for `data.split=manifest data.split.path=...`."""
    with Store.open(run) as store:
        manifest = store.manifest
        if manifest is None:
            raise PartitaError(f"{run} does not store its division of the data: {store.record.division}.")
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return path


def write_csv(file: IO[str], columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A cell. Text that a spreadsheet would run as a formula gets an apostrophe in front."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell for cell in row])


def _by_client(
    run: StoredRun, kind: type[Record] | type[Traffic], found: Iterable[Record | Traffic]
) -> tuple[list[str], list[tuple[object, ...]]]:
    """Columns and rows, with each client's name beside its number."""
    rows = [(*astuple(each), run.record.name_of(each.client)) for each in found]
    return [*(each.name for each in fields(kind)), "name"], rows
