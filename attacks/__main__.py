"""The command that attacks: python -m attacks, from the folder of the repository."""

import json
import resource
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from attacks.crashes import crashes
from attacks.damage import damage
from attacks.exported import exported
from attacks.federations import logs, messages, nodes, plans
from attacks.files import files
from attacks.fuzz import divisions, grids, recipes, selectors, settings
from attacks.provenance import provenance
from attacks.requests import requests
from attacks.room import room
from attacks.tally import Attack
from partita.cli.options import use_one_thread

ATTACKS: dict[str, tuple[Attack, int]] = {
    "crashes": (crashes, 220),
    "damage": (damage, 1200),
    "room": (room, 150),
    "files": (files, 1000),
    "settings": (settings, 5000),
    "selectors": (selectors, 20_000),
    "manifests": (divisions, 2000),
    "recipes": (recipes, 2000),
    "grids": (grids, 500),
    "plans": (plans, 3000),
    "messages": (messages, 3000),
    "nodes": (nodes, 2000),
    "logs": (logs, 2000),
    "exported": (exported, 1500),
    "requests": (requests, 3000),
}
"""Each attack, and how often it is tried."""
MEMORY = 8 << 30
"""Bytes that an attack may take, so that one that succeeds fills no machine."""


def attack(
    names: Annotated[list[str] | None, typer.Argument(metavar="[ATTACK]...", help="By default all.")] = None,
    share: Annotated[float, typer.Option(help="The part of the trials that is made.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Other trials.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the counts to this file.")] = None,
) -> None:
    """Attack runs and readers, print what became of each trial, and end with 1 if something broke."""
    use_one_thread()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    found: dict[str, Any] = {}
    for name in names or list(ATTACKS):
        with TemporaryDirectory() as place:
            made, trials = ATTACKS[name]
            tally = made(Path(place), max(1, int(share * trials)), seed)
        found[name] = tally.as_dict()
        print(f"{name}: {tally.trials} trials, {len(tally.broken)} broken", flush=True)
        for outcome, count in sorted(tally.held.items()):
            print(f"  {count:6} {outcome}")
        for broken in tally.broken[:20]:
            print(f"  BROKEN {broken[:300]}")
    if output:
        text = json.dumps({**provenance("attacks"), "seed": seed, "attacks": found}, indent=1)
        output.write_text(text + "\n", encoding="utf-8")
    if any(each["broken"] for each in found.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(attack)
    app()
