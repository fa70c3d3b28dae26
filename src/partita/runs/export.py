"""How is a run exported? Its numbers as CSV files, its division of the data as a manifest."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import IO

from ..errors import PartitaError
from ..evaluation.scores import Record
from ..experiment.left_out import LeftOut
from ..experiment.traffic import Traffic
from .gains import gains_of
from .grouping import grouped
from .store import Store
from .stored import StoredRun

RUN = ("run", "method", "seed")
GAINS = ("over", "client", "name", "score", "reference", "gain", "low", "high", "hurt")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A cell of text that begins so is a formula to a spreadsheet, which would run it."""


def export_csv(runs: Sequence[StoredRun], folder: Path, *, several: bool = False) -> list[Path]:
    """metrics.csv, traffic.csv, left_out.csv, rounds.csv, gains.csv and settings.csv; returns their paths.

    With `several`, each row begins with the folder, method and seed of its run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = {id(run): name for name, group in grouped(runs).items() for run in group}
    written = []
    for table, (columns, rows_of) in TABLES.items():
        path = folder / f"{table}.csv"
        rows = (
            (*((str(run.folder), names[id(run)], run.seed) if several else ()), *row)
            for run in runs
            for row in rows_of(run)
        )
        with path.open("w", newline="", encoding="utf-8") as file:
            write_csv(file, [*(RUN if several else ()), *columns], rows)
        written.append(path)
    return written


def _gains(run: StoredRun) -> Iterator[Sequence[object]]:
    for each in gains_of(run):
        for client, own, other, gained, interval in zip(
            each.clients, each.scores, each.others, each.gains, each.intervals, strict=True
        ):
            name, verdict = run.record.name_of(client), each.verdict(client)
            yield (each.over, client, name, own, other, gained, *(interval or (None, None)), verdict)


def export_manifest(run: Path, path: Path) -> Path:
    """Write who has which rows, for `data.split=manifest data.split.path=...`."""
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


def _named(run: StoredRun, found: Iterable[Record | Traffic]) -> Iterator[Sequence[object]]:
    """Rows with each client's name beside its number."""
    return ((*astuple(each), run.record.name_of(each.client)) for each in found)


def _fields(kind: type) -> list[str]:
    return [each.name for each in fields(kind)]


TABLES: dict[str, tuple[Sequence[str], Callable[[StoredRun], Iterable[Sequence[object]]]]] = {
    "metrics": ([*_fields(Record), "name"], lambda run: _named(run, run.numbers.records())),
    "traffic": ([*_fields(Traffic), "name"], lambda run: _named(run, run.numbers.traffic())),
    "left_out": (_fields(LeftOut), lambda run: map(astuple, run.left_out)),
    "rounds": (["round", "seconds", "participants"], lambda run: run.rounds),
    "gains": (GAINS, _gains),
    "settings": (["setting", "value"], lambda run: run.record.settings.items()),
}
"""The columns of each file, and its rows of a run, one at a time."""
