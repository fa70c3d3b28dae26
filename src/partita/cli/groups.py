"""Commands on a folder that holds several runs: means over seeds, with intervals, and what was left out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..formatting import MINUS
from . import terminal

if TYPE_CHECKING:
    from ..report.study import Study
    from ..runs.gathering import PassedOver
    from ..runs.stored import StoredRun


def holds_several(folder: Path) -> bool:
    """Whether a folder is not a run itself, but holds some."""
    from ..runs.folders import find_runs

    found = find_runs(folder)
    return bool(found) and folder not in found


def show_several(folder: Path, as_json: bool) -> None:
    """What the report of the folder says in its result, on the terminal."""
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
    name_passed_over(found.passed_over)


def name_passed_over(passed_over: "tuple[PassedOver, ...]") -> None:
    for each in passed_over:
        terminal.tell(str(each), "yellow", "Note")


def for_each_run(folder: Path, do: "Callable[[StoredRun], dict[str, Any]]", as_json: bool) -> list[dict[str, Any]]:
    """Do something with every run of a folder that is done; those that are not are named and passed over."""
    from ..runs.gathering import gather

    gathered = gather([folder], finished=True)
    made: dict[str, dict[str, Any]] = {}
    for run in gathered.runs:
        if not as_json:
            terminal.say((f"\n{run.folder}", "bold"))
        made[str(run.folder)] = do(run)
    if as_json:
        left = {str(each.folder): each.reason for each in gathered.passed_over}
        print(json.dumps({"runs": made, "passed_over": left}))
    else:
        name_passed_over(gathered.passed_over)
    return list(made.values())


def _as_dict(found: "Study") -> dict[str, Any]:
    from ..report.conclusion import conclusions
    from ..report.results import method_as_dict

    return {
        "conclusions": conclusions(found),
        "methods": [method_as_dict(found, method) for method in found.methods],
        "baselines": [method_as_dict(found, method) for method in found.baselines],
        "notes": [*found.notes, *found.remarks],
        "passed_over": {str(each.folder): each.reason for each in found.passed_over},
    }
