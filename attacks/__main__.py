"""The command that attacks: python -m attacks, from the folder of the repository."""

import json
import resource
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from attacks.crashes import crashes
from attacks.damage import damage
from attacks.deployment import logs, messages, nodes, plans
from attacks.exported import exported
from attacks.federation import approvals, clocks, lies, node_kills, node_room, node_truncation, server_kills
from attacks.files import files
from attacks.fuzz import divisions, grids, recipes, selectors, settings
from attacks.interrupts import interrupts
from attacks.provenance import provenance
from attacks.requests import requests
from attacks.room import room
from attacks.superlink import superlink
from attacks.tally import Attack
from partita.cli.options import use_one_thread

ATTACKS: dict[str, tuple[Attack, int]] = {
    "crashes": (crashes, 220),
    "interrupts": (interrupts, 60),
    "damage": (damage, 1200),
    "room": (room, 150),
    "files": (files, 1000),
    "settings": (settings, 3000),
    "selectors": (selectors, 20_000),
    "manifests": (divisions, 2000),
    "recipes": (recipes, 2000),
    "grids": (grids, 500),
    "plans": (plans, 2000),
    "messages": (messages, 1000),
    "nodes": (nodes, 2000),
    "logs": (logs, 2000),
    "exported": (exported, 600),
    "requests": (requests, 600),
    "node_kills": (node_kills, 60),
    "server_kills": (server_kills, 40),
    "lies": (lies, 42),
    "node_room": (node_room, 40),
    "node_truncation": (node_truncation, 40),
    "approvals": (approvals, 60),
    "clocks": (clocks, 5),
    "superlink": (superlink, 3),
}
"""Each attack, and how often it is tried."""
FEDERATION = (
    *("node_kills", "server_kills", "lies", "node_room", "node_truncation", "approvals", "clocks", "superlink"),
)
"""Attacks that start whole federations; `docs/sites.md` has their outcomes."""
MEMORY = 8 << 30
"""Bytes that an attack may take, so that one that succeeds fills no machine."""


def attack(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[ATTACK]...", help="By default all but those of federations.")
    ] = None,
    share: Annotated[float, typer.Option(help="The part of the trials that is made.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Other trials.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="A folder for the counts of each attack, or one .json file.",
        ),
    ] = None,
) -> None:
    """Attack runs and readers, print what became of each trial, and end with 1 if something broke."""
    use_one_thread()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # Of the tree as it is now, whatever becomes of it meanwhile.
    made_by, broken, found = provenance("python -m attacks"), False, dict[str, Any]()
    for name in names or [each for each in ATTACKS if each not in FEDERATION]:
        with TemporaryDirectory() as place:
            attacked, trials = ATTACKS[name]
            tally = attacked(Path(place), max(1, int(share * trials)), seed)
        broken = broken or bool(tally.broken)
        print(f"{name}: {tally.trials} trials, {len(tally.broken)} broken", flush=True)
        for outcome, count in sorted(tally.held.items()):
            print(f"  {count:6} {outcome}")
        for each in tally.broken[:20]:
            print(f"  BROKEN {each[:300]}")
        found[name] = tally.as_dict()
        if output and output.suffix != ".json":
            output.mkdir(parents=True, exist_ok=True)
            command = f"python -m attacks {name} --share {share:g} --seed {seed}"
            text = json.dumps({**made_by, "command": command, **tally.as_dict()}, indent=1)
            (output / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    if output and output.suffix == ".json":
        command = f"python -m attacks {' '.join(found)} --share {share:g} --seed {seed}"
        text = json.dumps({**made_by, "command": command, "attacks": found}, indent=1)
        output.write_text(text + "\n", encoding="utf-8")
    if broken:
        raise SystemExit(1)


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(attack)
    app()
