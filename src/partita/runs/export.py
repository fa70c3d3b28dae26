"""How do a run's numbers get into other tools? As CSV files; and its division of data as a manifest."""

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields
from pathlib import Path

from ..errors import PartitaError
from ..evaluation.scores import Record
from ..simulation.traffic import Traffic
from .store import Store
from .stored import StoredRun


def export_csv(run: StoredRun, folder: Path) -> list[Path]:
    """metrics.csv, traffic.csv and rounds.csv; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _write(folder / "metrics.csv", [field.name for field in fields(Record)], map(astuple, run.records)),
        _write(folder / "traffic.csv", [field.name for field in fields(Traffic)], map(astuple, run.traffic)),
        _write(folder / "rounds.csv", ["round", "seconds", "participants"], run.rounds),
    ]


def export_manifest(run: Path, path: Path) -> Path:
    """Who has which rows, for `data.split=manifest data.split.path=...`."""
    with Store.open(run) as store:
        manifest = store.manifest
        if manifest is None:
            raise PartitaError(f"{run} does not keep its division: {store.record.division}.")
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return path


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)
    return path
