"""The command that analyses a finished run."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import registry
from . import terminal
from .groups import for_each_run, holds_several
from .options import AsJson, Folder, Trust, use_one_thread


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
        int | None, typer.Option(help="Clients to analyse at most; of more, a fixed sample.", min=1)
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs of fine-tuning; by default the method's, or 5.", min=1)
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate of fine-tuning; by default the method's, or 0.001.")
    ] = None,
    samples: Annotated[int | None, typer.Option(help="Test samples on which all clients are compared.", min=1)] = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Analyse the models of a finished run. The results are kept in the run and shown in its report.

    `partita list analyses` says what each analysis computes.

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
    known = {analysis.name: analysis for analysis in chosen}

    def evaluated(folder: Path) -> dict[str, Any]:
        with (
            terminal.show_events(not as_json) as on_event,
            Session.open(folder, trust=trust, on_event=on_event) as session,
        ):
            found = look(session, chosen, lenient=names is None)
            record = session.record
        if not as_json:
            for name, result in found.found.items():
                for table in known[name].tables(result, record.score):
                    terminal.print_table(table)
            for name, reason in found.left_out.items():
                terminal.tell(f"{name} does not apply: {reason}")
        return {"run": str(folder), "names": record.names, "analyses": found.found, "left_out": found.left_out}

    if holds_several(run):
        for_each_run(run, lambda each: evaluated(each.folder), as_json)
        return
    shown = evaluated(run)
    if as_json:
        print(json.dumps(shown))
