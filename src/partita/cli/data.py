"""Commands for data and their division among clients."""

import json
from pathlib import Path
from typing import Annotated

import typer

from . import terminal
from .inform import Kind, list_
from .options import AsJson, DataSettings, completing

DataName = Annotated[
    str, typer.Argument(metavar="NAME", help="A data source; see: partita data list", autocompletion=completing("data"))
]


def data_list(as_json: AsJson = False) -> None:
    """List the data sources.

    Example: partita data list
    """
    list_(Kind.data, as_json)


def data_show(name: DataName, overrides: DataSettings = None, as_json: AsJson = False) -> None:
    """Show the samples and classes of a data source before it is divided.

    Examples:

    partita data show digits

    partita data show npz path=mine.npz
    """
    from ..data.distribution import facts_of
    from ..experiment.settings.settings import undivided

    pool, _ = undivided(_data_settings(name, overrides), "data")
    facts = facts_of(pool)
    if as_json:
        print(json.dumps(facts))
    else:
        terminal.print_facts(facts)


def data_split(
    name: DataName,
    overrides: DataSettings = None,
    manifest: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the division to this file, as JSON.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the labels of each client into this SVG file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Divide data among clients. Show each client's samples and labels, and the accuracy of its most common label.

    Examples:

    partita data split digits split=dirichlet split.alpha=0.5 split.clients=10

    partita data split digits --manifest digits.json --picture digits.svg
    """
    from ..data import distribution, manifests
    from ..data.federation import federate
    from ..experiment.settings.settings import undivided

    pool, division = undivided(_data_settings(name, overrides), "data")
    federation = federate(pool, **division)
    summary = distribution.summary_of(federation)
    if manifest:
        summary["hash"] = manifests.write(federation, manifest)
    if picture:
        picture.write_text(distribution.picture(federation), encoding="utf-8")
    if as_json:
        print(json.dumps(summary, default=str))
    else:
        terminal.print_division(federation, summary)


def _data_settings(name: str, overrides: list[str] | None) -> object:
    """Settings of data, whose keys need no `data.` prefix."""
    from ..experiment.settings.files import read

    return read(None, [f"data={name}", *(f"data.{override}" for override in overrides or [])])["data"]
