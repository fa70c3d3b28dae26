"""Commands on a folder that holds several runs: means over seeds, with intervals, and which runs were skipped."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import PartitaError
from ..formatting import MINUS
from . import terminal

if TYPE_CHECKING:
    from ..report.study import Study
    from ..runs.gathering import Skipped
    from ..runs.stored import StoredRun


def holds_several(folder: Path) -> bool:
    """Whether a folder is not a run itself, but holds some."""
    from ..runs.folders import find_runs

    found = find_runs(folder)
    return bool(found) and folder not in found


def show_several(folder: Path, as_json: bool) -> None:
    """Print the result of the folder's report."""
    from ..report.conclusion import conclusions
    from ..report.results import results
    from ..report.study import study

    found = study([folder])
    if as_json:
        print(json.dumps(_as_dict(found)))
        return
    for text in conclusions(found):
        terminal.say(text.replace(MINUS, "-"))
    for table in results(found):
        terminal.print_table(table)
    for note in (*found.notes, *found.remarks):
        terminal.say(f"Note: {note}")
    name_skipped(found.skipped)


def name_skipped(skipped: "tuple[Skipped, ...]") -> None:
    for each in skipped:
        terminal.tell(str(each), "yellow", "Note")


@dataclass(frozen=True)
class Made:
    """The results of a command on the runs of a folder, by method, and the runs that it skipped."""

    groups: "dict[str, list[StoredRun]]"
    results: dict[Path, dict[str, Any]]
    skipped: "tuple[Skipped, ...]"

    def of(self, name: str) -> list[dict[str, Any]]:
        """The results of a group, one for each seed."""
        return [self.results[run.folder] for run in self.groups[name]]

    def as_dict(self, over_seeds: "Callable[[list[dict[str, Any]]], dict[str, Any]]") -> dict[str, Any]:
        """The results as JSON values; `over_seeds` summarizes those of a group."""
        groups = {
            name: {
                "runs": [str(run.folder) for run in runs],
                "seeds": [run.seed for run in runs],
                **over_seeds(self.of(name)),
            }
            for name, runs in self.groups.items()
        }
        runs = {str(folder): found for folder, found in self.results.items()}
        return {"groups": groups, "runs": runs, "skipped": _reasons(self.skipped)}


def for_each_run(folder: Path, do: Callable[[Path], dict[str, Any]]) -> Made:
    """Do something with every run of a folder that is done; runs for which it fails are skipped, with the reason.

    If nothing can be done, the first reason is an error.
    """
    from ..runs.gathering import Skipped, gather
    from ..runs.grouping import grouped

    gathered = gather([folder], finished=True)
    found: dict[Path, dict[str, Any]] = {}
    problems: dict[Path, PartitaError] = {}
    for run in gathered.runs:
        try:
            found[run.folder] = do(run.folder)
        except PartitaError as problem:
            problems[run.folder] = problem
    if not found:
        raise next(iter(problems.values()))
    failed = (Skipped(place, str(problem)) for place, problem in problems.items())
    groups = grouped([run for run in gathered.runs if run.folder in found])
    return Made(groups, found, (*gathered.skipped, *failed))


def _reasons(skipped: "tuple[Skipped, ...]") -> dict[str, str]:
    return {str(each.folder): each.reason for each in skipped}


def _as_dict(found: "Study") -> dict[str, Any]:
    from ..report.conclusion import conclusions
    from ..report.results import method_as_dict

    return {
        "conclusions": conclusions(found),
        "methods": [method_as_dict(found, method) for method in found.methods],
        "baselines": [method_as_dict(found, method) for method in found.baselines],
        "notes": [*found.notes, *found.remarks],
        "skipped": _reasons(found.skipped),
    }
