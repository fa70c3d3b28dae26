"""How do newcomers outlast a server? Each is a folder of exported models, below one folder for a run."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import PartitaError
from ..evaluation.prediction.model import ClientModel
from ..runs.stored import StoredRun
from .artefact import Artefact
from .card_files import read_card
from .files import file_names
from .loaded import LoadedRun
from .onboard import Newcomer, write_newcomer


@dataclass(frozen=True)
class Kept:
    """A client that joined a run later."""

    told: Mapping[str, Any]
    """What its card says of it."""
    folder: Path | None
    """The folder that it is written to; None if it is only in memory."""


def kept_newcomers(folder: Path, run: StoredRun) -> dict[str, Kept]:
    """The clients that were kept, by their names. One of another run is an error."""
    record = run.record
    wanted = (record.started, record.seed, record.fingerprint)
    found: dict[str, Kept] = {}
    # What is being written has a name that begins with a dot.
    for place in sorted(each for each in folder.glob("*") if each.is_dir() and not each.name.startswith(".")):
        card = read_card(place)
        if (card["run"]["started"], card["run"]["seed"], card["data"]["fingerprint"]) != wanted:
            raise PartitaError(f"{place} holds a client of another run. Give --keep another folder.")
        found |= {client: Kept(told, place) for client, told in card["clients"].items()}
    return found


def keep_newcomer(run: LoadedRun, newcomer: Newcomer, folder: Path, others: Collection[str]) -> Path:
    """Write a client beside `others`; its folder appears when all is written."""
    name = newcomer.exported.name
    return write_newcomer(run, newcomer, folder / file_names([*others, name])[name])


def load_newcomer(run: LoadedRun, folder: Path, client: str) -> ClientModel:
    """The model of a client that was kept."""
    algorithm = run.population.algorithm
    kept = Artefact(folder, read_card(folder), run.experiment.model, algorithm if algorithm.predict else None)
    return kept.model(client)
