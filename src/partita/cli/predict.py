"""The command that asks a client's model."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import PartitaError
from ..evaluation.metric import Metric
from . import terminal
from .options import AsJson, Network, Trust, use_one_thread


def predict(
    models: Annotated[Path, typer.Argument(metavar="RUN|FOLDER", help="A run, or a folder of exported models.")],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="An .npz, .npy, .csv, .jsonl or .txt file, a picture, or a folder of pictures."
        ),
    ],
    client: Annotated[str | None, typer.Option(metavar="NAME", help="The client whose model answers.")] = None,
    global_model: Annotated[bool, typer.Option("--global", help="Use the global model instead.")] = False,
    unguarded: Annotated[
        bool, typer.Option("--unguarded", help="Use the personal model, whatever the guard chose.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the CSV to this file.")
    ] = None,
    label_column: Annotated[
        str, typer.Option(metavar="NAME", help="The column of a table that has the right answers.")
    ] = "label",
    network: Network = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Ask a client's model: labels and probabilities as CSV, and the score where the data have labels.

    Examples:

    partita predict runs/fedper-digits-1 --client 3 new.npz

    partita predict models --client anna picture.png

    partita predict models --client anna rows.csv --output answers.csv

    partita predict models --global rows.csv --json

    partita predict models --client anna rows.csv --network mynet:Net
    """
    from ..runs.export import write_csv
    from ..serving.answers import answer
    from ..serving.card_files import CARD
    from ..serving.loaded import load
    from ..serving.questions import read_questions

    if (client is None) != global_model:
        raise PartitaError("Give --client NAME, or --global.")
    use_one_thread()
    if (models / CARD).is_file():
        from ..serving.artefact import load_exported

        found = load_exported(models, network=network, trust=trust)
        model = found.global_model() if client is None else found.model(client, guarded=not unguarded)
        classes = found.class_names
    elif network is not None:
        raise PartitaError(f"--network goes with exported models, and {models} holds none. Export its models first.")
    else:
        run = load(models, trust=trust)
        model = run.global_model() if client is None else run.model(client, guarded=not unguarded)
        classes = run.class_names
    made = answer(model, read_questions(data, model.inputs, label_column), classes)
    if as_json:
        print(json.dumps(made.as_dict()))
        return
    if output is None:
        write_csv(sys.stdout, made.columns, made.rows)
    else:
        try:
            with output.open("w", newline="", encoding="utf-8") as file:
                write_csv(file, made.columns, made.rows)
        except OSError as problem:
            raise PartitaError(f"Cannot write {output}: {problem.strerror}.") from problem
        terminal.tell(str(output))
    terminal.tell(f"Asked: {model.about}.")
    if made.score is not None:
        terminal.tell(f"{made.metric} {Metric(made.metric).text(made.score)} of {len(made.questions)} rows")
