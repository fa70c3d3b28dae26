"""The command that attacks: python -m attacks, from the folder of the repository."""

import datetime
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from attacks.crashes import crashes
from attacks.damage import damage
from attacks.federation import approvals, clocks, lies, node_kills, node_room, node_truncation, server_kills
from attacks.files import files
from attacks.fuzz import divisions, selectors, settings
from attacks.room import room
from attacks.superlink import superlink
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


def attack(
    names: Annotated[list[str] | None, typer.Argument(metavar="[ATTACK]...", help="By default all.")] = None,
    share: Annotated[float, typer.Option(help="The part of the trials that is made.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Other trials.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the counts to this file.")] = None,
) -> None:
    """Attack runs and readers, print what became of each trial, and end with 1 if something broke."""
    use_one_thread()
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
        facts = {"command": " ".join(["python -m attacks", *sys.argv[1:]]), "commit": _commit(), "date": _today()}
        output.write_text(json.dumps({**facts, "attacks": found}, indent=1) + "\n", encoding="utf-8")
    if any(each["broken"] for each in found.values()):
        raise SystemExit(1)


def _commit() -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _today() -> str:
    return datetime.datetime.now(datetime.timezone.utc).date().isoformat()


if __name__ == "__main__":
    typer.run(attack)
