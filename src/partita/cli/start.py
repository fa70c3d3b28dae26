"""Commands for the first minutes: what to do first, a new experiment file, its schema, and a check of the machine."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..errors import PartitaError
from . import terminal
from .options import AsJson, naming

FIRST = """\
Partita {version}: personalized federated learning on PyTorch.

  partita demo                      compare seven methods in about a minute; ends with a report and a page to try models
  partita new mine.toml             write an experiment file in which every setting is explained
  partita run mine.toml             run it; `partita resume`, `show`, `compare` and `report` come next
  partita list algorithms           what there is: also models, data, splits, servers, analyses
  partita doctor                    check this installation and say what to do

All commands: partita --help          One command: partita run --help"""


def first_steps(version: str) -> None:
    """Print the first steps, for a user who typed `partita` alone."""
    terminal.say(FIRST.format(version=version))


def new(
    file: Annotated[Path, typer.Argument(metavar="[FILE.toml]", help="The file to write.")] = Path("experiment.toml"),
    algorithm: Annotated[str, naming("algorithms", "--algorithm", "-a", what="The method.")] = "fedper",
    model: Annotated[str, naming("models", "--model", "-m", what="The network.")] = "mlp",
    data: Annotated[str, naming("data", "--data", "-d", what="The data.")] = "digits",
    split: Annotated[
        str | None, naming("splits", what="The division among clients; by default that of the data.")
    ] = None,
    server: Annotated[str | None, naming("servers", what="The aggregation; by default that of the method.")] = None,
) -> None:
    """Write an experiment file for a method, a network and data, in which every setting is explained.

    Settings that have a default are written as comments. An existing file is never overwritten.

    Examples:

    partita new

    partita new mine.toml --algorithm fedalt --data digits --split dirichlet

    partita new ratings.toml -a fedalt -m recommender -d movielens
    """
    from ..experiment.settings.template import template

    text = template(algorithm, model, data, split=split, server=server, file=str(file))
    _write_new(file, text)
    terminal.tell(f"Written: {file}. Edit it, then run it with: partita run {file}")


def schema(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it to this file, and print nothing.")
    ] = None,
) -> None:
    """Print a JSON schema of experiment files, with which an editor completes and checks them.

    With the extension Even Better TOML of VS Code, or any editor that uses Taplo, make this the first line of an
    experiment file: #:schema partita.schema.json

    Example: partita schema --output partita.schema.json
    """
    from ..experiment.settings.schema import schema as made

    text = json.dumps(made(), indent=1)
    if output is None:
        print(text)
    else:
        try:
            output.write_text(text + "\n", encoding="utf-8")
        except OSError as problem:
            raise PartitaError(f"Cannot write {output}: {problem.strerror}.") from problem


def doctor(
    run: Annotated[bool, typer.Option("--run/--no-run", help="Also try a run of a few seconds.")] = True,
    as_json: AsJson = False,
) -> None:
    """Check the installation, extras, data folder, cores, memory and disk, and say what to do.

    Ends with exit code 1 if something is wrong that would stop a run. Optional packages that are missing are notes.

    Example: partita doctor
    """
    from ..api.installation import findings, trial

    with terminal.busy("Looking", show=not as_json):
        found = [*findings()]
        found += [trial()] if run and not [each for each in found if each.state == "problem"] else []
    wrong = [each for each in found if each.state == "problem"]
    if as_json:
        print(json.dumps([asdict(each) for each in found]))
    else:
        terminal.print_findings(found)
    if wrong:
        raise typer.Exit(1)


def _write_new(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(text)
    except FileExistsError:
        raise PartitaError(f"{file} exists and is not overwritten. Give another name.") from None
    except OSError as problem:
        raise PartitaError(f"Cannot write {file}: {problem.strerror}.") from problem
