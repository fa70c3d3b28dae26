"""Where are runs? In folders below a folder, named after method and data."""

import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import PartitaError
from .database import DATABASE
from .record import BaselinesPlace

if TYPE_CHECKING:
    from ..experiment.experiment import Experiment

BASELINES = "baselines"
"""The folder that holds the baselines of the runs beside it."""
BESIDE: BaselinesPlace = "../baselines"
BESIDE_SEEDS: BaselinesPlace = "../../baselines"
"""The place beside the folder that holds a run for each seed."""


def new_folder(parent: Path, experiment: "Experiment") -> Path:
    """Make a new folder in `parent`, named after method and data. Two processes never get the same one."""
    parts = (experiment.algorithm.name, experiment.data.name)
    name = "-".join(re.sub(r"[^A-Za-z0-9_.]+", "_", part) for part in parts)
    for number in count(1):
        path = parent / f"{name}-{number}"
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            continue
        except OSError as problem:
            raise PartitaError(f"Cannot make the run's folder {path}: {problem.strerror}.") from problem
    raise AssertionError("numbers do not end")


class TakenError(PartitaError):
    """The folder already holds a run."""


def need_new(folder: Path) -> None:
    """Refuse a folder that already holds a run."""
    if (folder / DATABASE).exists():
        raise TakenError(f"{folder} already holds a run. Continue it with: partita resume {folder}")


def find_runs(folder: Path) -> list[Path]:
    """The runs in a folder and below it. Baselines are found only if `folder` is the folder of baselines."""
    found = (path.parent for path in folder.rglob(DATABASE))
    return sorted(path for path in found if BASELINES not in path.relative_to(folder).parts)


def runs_in(folders: Sequence[Path]) -> list[Path]:
    """The runs in and below several folders, each once. Folders inside a run are not searched."""
    below = {folder: find_runs(folder) for folder in folders}
    found = [path for folder, paths in below.items() for path in ([folder] if folder in paths else paths)]
    if not found:
        raise PartitaError(f"No runs in {', '.join(map(str, folders))}. Make one with: partita run")
    return list(dict.fromkeys(found))
