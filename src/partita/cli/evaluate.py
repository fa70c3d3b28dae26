"""The command that analyses a finished run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import registry
from . import terminal
from .events import show_events
from .groups import Made, for_each_run, holds_several, name_skipped
from .options import AsJson, Folder, Trust, use_one_thread

if TYPE_CHECKING:
    from ..evaluation.analysis import Analysis


def evaluate(
    run: Folder,
    what: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help=f"Analyses, separated by commas; by default all that apply. Known: "
            f"{', '.join(registry.built_in('analyses'))}.",
        ),
    ] = None,
    clients: Annotated[
        int | None,
        typer.Option(
            help="The largest number of clients to analyse; of more, a fixed sample. By default 50 or 100, as the "
            "analysis says.",
            min=1,
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="The number of epochs of fine-tuning; by default the method's, or 5.", min=1)
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="The learning rate of fine-tuning; by default the method's, or 0.001.")
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            help="The number of test samples on which all clients are compared; by default 200 to 2000, as the "
            "analysis says.",
            min=1,
        ),
    ] = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Analyse the models of a finished run. The results are kept in the run and shown in its report.

    `partita list analyses` says what each analysis computes. For a folder that holds several runs, the command shows
    each method's means over its seeds with intervals, and names the runs that it skips.

    Examples:

    partita evaluate runs/fedper-digits-1

    partita evaluate runs/five-seeds

    partita evaluate runs/fedper-digits-1 --what finetuning,without_head --clients 20 --epochs 10 --lr 0.01
    """
    from ..evaluation.analysis import choose_analyses
    from ..runs.evaluate import evaluate as look
    from ..runs.session import Session

    use_one_thread()
    # A name on the command line is trusted: the user typed it.
    names = [registry.Trusted(name.strip()) for name in what.split(",")] if what else None
    given = {"clients": clients, "epochs": epochs, "lr": lr, "samples": samples}
    chosen = choose_analyses(names, {key: value for key, value in given.items() if value is not None})

    def evaluated(folder: Path) -> dict[str, Any]:
        with (
            show_events(not as_json) as on_event,
            Session.open(folder, trust=trust, on_event=on_event) as session,
        ):
            found = look(session, chosen, lenient=names is None)
            names_of_clients = session.record.names
        return {"run": str(folder), "names": names_of_clients, "analyses": found.found, "left_out": found.left_out}

    if holds_several(run):
        made = for_each_run(run, evaluated)
        if as_json:
            print(json.dumps(made.as_dict(lambda several: _means(chosen, several))))
        else:
            _print_groups(chosen, made)
        return
    shown = evaluated(run)
    if as_json:
        print(json.dumps(shown))
    else:
        _print_one(chosen, shown, run)


def _print_one(analyses: "Sequence[Analysis]", shown: dict[str, Any], folder: Path) -> None:
    from ..runs.stored import read_run

    metric = read_run(folder).metric
    for analysis in analyses:
        if analysis.name in shown["analyses"]:
            for table in analysis.tables(shown["analyses"][analysis.name], metric):
                terminal.print_table(table)
    _name_left_out(shown["left_out"])


def _print_groups(analyses: "Sequence[Analysis]", made: Made) -> None:
    """Means over the seeds of each method."""
    from ..evaluation.analysis import numbers_of
    from ..evaluation.seeds import seeds_table

    for name, runs in made.groups.items():
        several = made.of(name)
        terminal.say((f"\n{name}", "bold"))
        for analysis in analyses:
            if numbers := numbers_of(analysis, [each["analyses"] for each in several]):
                terminal.print_table(seeds_table(analysis.title, numbers, runs[0].metric))
            elif any(analysis.name in each["analyses"] for each in several):
                terminal.say(f"{analysis.title}: has no mean over seeds. The report shows it.")
        _name_left_out({key: reason for each in several for key, reason in each["left_out"].items()})
    name_skipped(made.skipped)


def _name_left_out(left_out: Mapping[str, str]) -> None:
    for name, reason in left_out.items():
        terminal.tell(f"{name} does not apply: {reason}")


def _means(analyses: "Sequence[Analysis]", several: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds as JSON values, by analysis, row and column."""
    from ..evaluation.analysis import means_over_seeds

    found = means_over_seeds(analyses, [each["analyses"] for each in several])
    return {
        "means": {
            name: {row: {column: asdict(mean) for column, mean in cells.items()} for row, cells in rows.items()}
            for name, rows in found.items()
        }
    }
