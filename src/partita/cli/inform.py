"""Commands that list, describe and demonstrate."""

import json
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ..errors import PartitaError
from ..formatting import MINUS, amount
from ..report import REPORT
from . import terminal
from .again import serve_command
from .events import show_events
from .options import AsJson, Overrides, completing, interruptible, naming, use_one_thread
from .report import try_report
from .results import print_comparison


class Kind(str, Enum):
    """What can be listed."""

    algorithms = "algorithms"
    servers = "servers"
    models = "models"
    data = "data"
    splits = "splits"
    executors = "executors"
    analyses = "analyses"


def list_(
    kind: Annotated[
        Kind, typer.Argument(metavar="KIND", help="algorithms, servers, models, data, splits, executors or analyses.")
    ],
    as_json: AsJson = False,
) -> None:
    """List what you can choose by name: algorithms, servers, models, data, splits, executors or analyses.

    Example: partita list algorithms
    """
    from .. import registry

    found = {name: registry.described(kind.value, name) for name in registry.names(kind.value)}
    if as_json:
        print(json.dumps(found))
    else:
        terminal.print_names(found, kind.value)


def describe(
    algorithm: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="An algorithm; see: partita list algorithms", autocompletion=completing("algorithms")
        ),
    ],
    overrides: Overrides = None,
    model: Annotated[str, naming("models", "--model", "-m", what="The network.")] = "cnn4",
    shape: Annotated[str, typer.Option(metavar="SIZES", help="The shape of one input, without the batch.")] = "3,32,32",
    classes: Annotated[int, typer.Option(help="The number of classes.")] = 10,
    options: Annotated[bool, typer.Option("--options", help="Show only the options, without a network.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show an algorithm: its source and options, and what it shares, keeps, trains and freezes of a network.

    Options are set as algorithm.NAME=VALUE, or as keyword arguments in Python. A selector names tensors: head, body,
    last_blocks:2, layer4.*, type:BatchNorm2d, with ~, & and |; docs/selectors.md has all of it.

    Examples:

    partita describe fedalt --options

    partita describe fedper --model cnn4

    partita describe fedbabu algorithm.blocks=1 --model mlp --shape 1,8,8
    """
    from .. import registry
    from ..core.algorithm import Algorithm
    from ..core.task import Task
    from ..experiment.settings.describe import describe as resolve
    from ..experiment.settings.files import read
    from ..experiment.settings.options import options_of, source_of
    from ..experiment.settings.settings import convert
    from ..experiment.tasks import Factory

    method = registry.get("algorithms", registry.Trusted(algorithm))
    known = options_of(method)
    if options:
        if as_json:
            print(json.dumps({"source": source_of(method), "options": [asdict(each) for each in known]}))
        else:
            terminal.print_options(algorithm, source_of(method), registry.summary(method), known)
        return
    try:
        sides = tuple(int(side) for side in shape.split(","))
    except ValueError:
        raise PartitaError(f"The shape {shape!r} is not a list of whole numbers such as 3,32,32.") from None
    settings = read(None, [f"algorithm={algorithm}", f"model={model}", *(overrides or [])])
    if strange := settings.keys() - {"algorithm", "model", "data"}:
        key = min(strange)
        raise PartitaError(
            f"Unknown setting {key!r}. Settings begin with algorithm or model, as in algorithm.{key}=..."
        )
    network = convert(Factory, settings["model"], "model")(shape=sides, classes=classes)
    description = resolve(convert(Algorithm, settings["algorithm"], "algorithm"), Task(network))
    if as_json:
        told = {"source": source_of(method), "options": [asdict(each) for each in known]}
        print(json.dumps({**description.as_dict(), **told}))
    else:
        terminal.print_options(algorithm, source_of(method), registry.summary(method), known)
        terminal.print_partition(description)


def demo(
    rounds: Annotated[int, typer.Option("--rounds", "-r", help="The number of rounds of each method.")] = 30,
    seed: Annotated[int, typer.Option("--seed", "-s", help="The seed of the split, the weights and the batches.")] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="The folder of the runs and the report.")
    ] = Path("runs/demo"),
    as_json: AsJson = False,
) -> None:
    """Compare seven methods on digits that each of 30 people labels in their own way. Takes about a minute.

    The runs are kept, and runs from an earlier demo are reused.

    Example: partita demo --rounds 10 --output runs/short
    """
    from ..report.conclusion import conclusions
    from ..report.study import study
    from ..runs.gains import gain_as_dict, gains_of
    from .demonstration import STORY, demonstrate

    use_one_thread()
    again = f"partita demo --rounds {rounds} --seed {seed} --output {output}"
    with interruptible(again), show_events(not as_json) as on_event:
        runs = demonstrate(output, rounds=rounds, seed=seed, on_event=on_event)
    gains = {name: gains_of(run) for name, run in runs.items()}
    if as_json:
        shown = {
            name: {**run.as_dict(), "gains": [gain_as_dict(gain, run.record) for gain in gains[name]]}
            for name, run in runs.items()
        }
        print(json.dumps(shown))
    else:
        terminal.say(STORY.format(rounds=amount(rounds, "round")) + "\n")
        print_comparison(runs, gains)
        found = study([run.folder for run in runs.values()])
        for text in conclusions(found):
            terminal.say(f"\n{text}".replace(MINUS, "-"))
        for remark in found.remarks:
            terminal.say(f"Note: {remark}")
    try_report([run.folder for run in runs.values()], output / REPORT, tell=not as_json)
    if not as_json:
        terminal.tell(f"Try the models: {serve_command(output)}")
