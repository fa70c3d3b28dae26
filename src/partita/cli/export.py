"""The command that writes a run's numbers, division and models for other tools."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ..errors import PartitaError
from . import terminal
from .groups import holds_several, name_skipped
from .options import Folder, Trust, use_one_thread


class Format(str, Enum):
    """How models are written."""

    safetensors = "safetensors"
    onnx = "onnx"
    torch_export = "torch-export"
    peft = "peft"


class Which(str, Enum):
    """Which of a client's models."""

    initial = "initial"
    before_local = "before_local"
    after_finetune = "after_finetune"


def export(
    run: Folder,
    folder: Annotated[
        Path | None, typer.Option("--csv", metavar="FOLDER", help="Write the CSV files into this folder.")
    ] = None,
    manifest: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write to this file which rows each client has, as JSON.")
    ] = None,
    models: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the models into this new folder.")
    ] = None,
    client: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Write only the model of this client. May be given several times."),
    ] = None,
    form: Annotated[
        list[Format] | None,
        typer.Option("--format", help="Also write graphs for other tools. May be given several times."),
    ] = None,
    which: Annotated[
        Which | None,
        typer.Option(help="The models to write; by default those that the method is meant to be used with."),
    ] = None,
    merged: Annotated[
        bool, typer.Option("--merged", help="Also write each client's whole network into one file.")
    ] = False,
    licence: Annotated[str | None, typer.Option(metavar="NAME", help="The licence that the model card states.")] = None,
    label_counts: Annotated[
        bool,
        typer.Option("--label-counts", help="State in the card how many training samples of each label clients have."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a folder of models that exists.")] = False,
    trust: Trust = False,
) -> None:
    """Write a run's numbers as CSV files, the division of its data as a manifest, or its models.

    For a folder that holds several runs, each CSV file has the rows of all of them, with their folder, method and seed.
    Models are written as safetensors: what clients share once, each client's own part in a small file, with a card.

    Examples:

    partita export runs/fedper-digits-1 --csv tables

    partita export runs/fedper-digits-1 --manifest division.json

    partita export runs/fedper-digits-1 --models models --licence Apache-2.0

    partita export runs/fedper-digits-1 --models models --client 3 --client 7 --format onnx
    """
    if folder is None and manifest is None and models is None:
        raise PartitaError("Nothing to write: give --csv FOLDER, --manifest FILE or --models FOLDER.")
    if models is None and (client or form or which or merged or licence or label_counts or force):
        raise PartitaError(
            "--client, --format, --which, --merged, --licence, --label-counts and --force go with --models FOLDER."
        )
    several = holds_several(run)
    if several and (manifest or models):
        raise PartitaError(f"{run} holds several runs: --manifest and --models are of one. Name its folder.")
    written: list[Path] = []
    if folder is not None:
        from ..runs.export import export_csv
        from ..runs.gathering import gather

        gathered = gather([run])
        written += export_csv(gathered.runs, folder, several=several)
        name_skipped(gathered.skipped)
    if manifest is not None:
        from ..runs.export import export_manifest

        written.append(export_manifest(run, manifest))
    if models is not None:
        from ..serving.export import export_models
        from ..serving.loaded import load

        use_one_thread()
        written.append(
            export_models(
                load(run, trust=trust),
                models,
                clients=client or None,
                which=which.value if which else None,
                formats=[each.value for each in form or ()],
                merged=merged,
                licence=licence,
                label_counts=label_counts,
                force=force,
            )
        )
    for path in written:
        terminal.tell(str(path))
