"""The command that looks ahead."""

import json
from pathlib import Path
from typing import Annotated

import typer

from .. import terminal
from .options import AsJson, Overrides, use_one_thread


def estimate(
    experiment: Annotated[
        str | None, typer.Argument(metavar="[FILE.toml]", help="An experiment file; settings after it change it.")
    ] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the time, the bytes and the memory of an experiment, from a few steps of a typical client.

    Examples:

    partita estimate experiment.toml

    partita estimate algorithm=fedrep model=mlp data=digits rounds=50
    """
    from ..estimation import estimate as look_ahead
    from ..experiment import make, read

    changes = list(overrides or [])
    file = None if experiment is None or "=" in experiment else Path(experiment)
    if experiment is not None and file is None:
        changes.insert(0, experiment)
    use_one_thread()
    found = look_ahead(make(read(file, changes)))
    if as_json:
        print(json.dumps(found.as_dict()))
    else:
        terminal.print_estimate(found)
