"""Which runs are read? Those in the folders; damaged, unfinished and repeated runs are skipped, with the reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import PartitaError
from .folders import runs_in
from .grouping import group_key
from .stored import StoredRun, read_run


@dataclass(frozen=True)
class Skipped:
    folder: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.folder} is skipped: {self.reason}"


@dataclass(frozen=True)
class Gathered:
    runs: tuple[StoredRun, ...]
    skipped: tuple[Skipped, ...]


def gather(folders: Sequence[Path], *, finished: bool = False) -> Gathered:
    """Read the runs that folders are or hold. Every one of them is returned or named as skipped.

    Runs that are not done are skipped if `finished` asks for it, or if another seed of the same settings is done.
    If nothing is left, the first reason is an error.
    """
    paths = runs_in(folders)
    read: list[StoredRun] = []
    skipped: list[Skipped] = []
    problem: PartitaError | None = None
    for path in paths:
        try:
            read.append(read_run(path))
        except PartitaError as found:
            problem = problem or found
            skipped.append(Skipped(path, str(found)))
    done = {group_key(run) for run in read if run.finished}
    kept: dict[tuple[str, int], StoredRun] = {}
    runs: list[StoredRun] = []
    for run in read:
        key = group_key(run), run.seed
        if not run.finished and (finished or key[0] in done):
            skipped.append(Skipped(run.folder, f"it is not done ({run.record.status}). {_resume(run)}"))
        elif run.finished and key in kept and _is_copy(run, kept[key]):
            skipped.append(Skipped(run.folder, f"it has the settings, seed and scores of {kept[key].folder}."))
        else:
            kept.setdefault(key, run)
            runs.append(run)
    if not runs:
        raise problem or PartitaError(
            f"{skipped[0].folder} is not done. Continue it with: partita resume {skipped[0].folder}"
        )
    return Gathered(tuple(runs), tuple(skipped))


def _is_copy(run: StoredRun, other: StoredRun) -> bool:
    same = all(getattr(run.record, key) == getattr(other.record, key) for key in ("metric", "variant", "fingerprint"))
    return other.finished and same and run.scores() == other.scores()


def _resume(run: StoredRun) -> str:
    return f"Continue it with: partita resume {run.folder}"
