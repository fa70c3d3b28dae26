"""How is a report made? Runs are read, sections written, and the file put in place as a whole."""

import importlib
import os
import pkgutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import PartitaError
from ..formatting import amount, listed
from . import sections
from .figure import Section
from .markup import Html, tag
from .page import page
from .study import Study, study


def write_report(folders: Sequence[Path], path: Path) -> Path:
    """One HTML file about one run or several, which needs nothing else to be read."""
    return write_study(study(folders), path)


def write_study(found: Study, path: Path) -> Path:
    """The same of runs that were read before."""
    text = report(replace(found, place=path.parent))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as problem:
        raise PartitaError(f"Cannot write the report to {path}: {problem.strerror}.") from problem
    made = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        made.chmod(0o644)
        # A reader never sees half a report.
        os.replace(made, path)
    except OSError as problem:
        raise PartitaError(f"Cannot write the report to {path}: {problem.strerror}.") from problem
    finally:
        made.unlink(missing_ok=True)
    return path


def found_sections() -> list[Callable[[Study], Section | None]]:
    """The function of each file in the folder `sections`, named after its file, in the order of their `PLACE`."""
    names = [each.name for each in pkgutil.iter_modules(sections.__path__)]
    modules = [(name, importlib.import_module(f"{sections.__name__}.{name}")) for name in names]
    return [getattr(module, name) for name, module in sorted(modules, key=lambda each: each[1].PLACE)]


def report(found: Study) -> str:
    written = [made for section in found_sections() if (made := section(found))]
    return page(_title(found), _subtitle(found), _banners(found), written, _footer(found))


def _title(found: Study) -> str:
    data = listed(list(dict.fromkeys(run.record.data for run in found.runs)))
    several = len(found.methods) > 1
    return f"{amount(len(found.methods), 'method') if several else found.methods[0].name} on {data}"


def _subtitle(found: Study) -> str:
    last = max(run.record.ended or run.record.started for run in found.runs)
    happened = "started" if _unfinished(found) else "ended"
    return f"Partita report of {amount(len(found.runs), 'run')}, {happened} {last[:10]}"


def _unfinished(found: Study) -> list[str]:
    return [
        f"{method.name}, seed {each.run.seed}: {each.run.done:,} of {each.run.record.rounds:,} rounds "
        f"({each.run.record.status}). Continue with: partita resume {each.run.folder}"
        for method in found.methods
        for each in method.replicas
        if not each.run.finished
    ]


def _banners(found: Study) -> list[Html]:
    banners = []
    if unfinished := _unfinished(found):
        items = tag("ul", *(tag("li", line) for line in unfinished))
        words = "What follows is what was committed so far, and may change."
        banners.append(
            tag(
                "div",
                tag("strong", "Partial report: not all runs are finished. "),
                words,
                items,
                class_="banner",
                role="note",
            )
        )
    oracles = list(dict.fromkeys(run.record.label for run in found.runs if run.record.oracle_validation))
    if oracles:
        words = f"{listed(oracles)}: test data were used as validation data. Do not compare this with other results."
        banners.append(tag("div", tag("strong", "Oracle. "), words, class_="banner", role="note"))
    return banners


def _footer(found: Study) -> str:
    versions = dict.fromkeys(str(run.record.environment["packages"].get("partita")) for run in found.runs)
    made = f"Made by Partita from {amount(len(found.runs), 'run')} of version {listed(list(versions))}."
    return f"{made} Nothing in this file is loaded from elsewhere."
