"""The command that gives a new client a model."""

import json
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from . import terminal
from .options import AsJson, OneFolder, Trust, use_one_thread

MODELS = {"personal": "the personal model", "guarded": "what the guard chose", "global": "the global model"}


class Start(str, Enum):
    """What the personal part of a new client starts from."""

    initial = "initial"
    mean = "mean"
    nearest = "nearest"


def onboard(
    run: OneFolder,
    data: Annotated[
        Path,
        typer.Option(
            metavar="DATA",
            help="The new client's samples with labels: a file or a folder of pictures, as for partita predict.",
        ),
    ],
    models: Annotated[Path, typer.Option(metavar="FOLDER", help="Write its model into this new folder.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="The name of the new client.")] = "new",
    test: Annotated[
        Path | None, typer.Option(metavar="DATA", help="More samples with labels, to score the model on.")
    ] = None,
    start: Annotated[
        Start,
        typer.Option(
            help="What the personal part starts from: the initial one, the mean of other clients', or the best of "
            "theirs."
        ),
    ] = Start.mean,
    epochs: Annotated[int, typer.Option(help="The number of epochs of training.", min=0)] = 20,
    lr: Annotated[float, typer.Option(help="The learning rate.", min=0)] = 0.05,
    label_column: Annotated[
        str, typer.Option(metavar="NAME", help="The column of a table that has the labels.")
    ] = "label",
    force: Annotated[bool, typer.Option("--force", help="Replace a folder of models that exists.")] = False,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Give a new client a model: train its personal part on its samples, with all else frozen.

    The guard chooses between it and the global model. The folder is what `partita export --models` writes.

    Examples:

    partita onboard runs/fedper-digits-1 --data dora.npz --name dora --models models/dora

    partita onboard runs/fedper-digits-1 --data dora.csv --test later.csv --start nearest --models models/dora
    """
    from ..core.optimizers import SGD
    from ..evaluation.onboarding import Onboarding
    from ..serving.loaded import load
    from ..serving.onboard import onboard as join, write_newcomer
    from ..serving.questions import read_questions

    use_one_thread()
    loaded = load(run, trust=trust)
    settings = Onboarding(start=start.value, epochs=epochs, optimizer=SGD(lr))
    samples = read_questions(data, loaded.inputs, label_column)
    later = None if test is None else read_questions(test, loaded.inputs, label_column)
    made = join(loaded, name, samples, test=later, settings=settings)
    folder = write_newcomer(loaded, made, models, force=force)
    if as_json:
        about = made.model.about
        print(
            json.dumps(
                {
                    "client": name,
                    "folder": str(folder),
                    "samples": made.samples,
                    "weight": about.weight,
                    "score": made.scores.get("guarded", made.scores.get("personal")),
                    "scores": made.scores,
                }
            )
        )
        return
    terminal.say(f"Made {made.model.about}.")
    if made.scores:
        metric = loaded.stored.record.score
        told = ", ".join(f"{MODELS[name]} {metric.text(score)}" for name, score in made.scores.items())
        terminal.say(f"test {metric.name}: {told}")
    terminal.tell(str(folder))
