"""What stands in docs/security.md? The counts of the last attacks, from the files that they wrote."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
LONG = "long"
MEANINGS = {
    "crashes": "`kill -9` at a random moment of a run of every method in turn, for 7 of 8 after its database exists; "
    "resumed, and compared with a whole run",
    "interrupts": "Ctrl-C at random moments of a run with workers, for 7 of 8 after its database exists, and of "
    "`resume` when it is done; compared",
    "damage": "sectors, pages, bits and ends of a half-done run's database are damaged; verified, shown and resumed",
    "room": "no file can be larger than a limit, from nothing to more than a run needs",
    "files": "pickles that call something, forge arrays or are damaged; gzip and zip bombs",
    "settings": "odd values among the settings of every method, the network and the experiment",
    "selectors": "random and endless selectors; what is accepted prints as itself",
    "manifests": "odd values in manifests whose hash fits",
    "recipes": "odd values in recipe files, and damaged ones",
    "grids": "odd keys and values of sweeps",
    "plans": "odd values in plans of federations, and damaged ones",
    "messages": "orders to a site, and replies and introductions to the server, that are odd or damaged",
    "nodes": "odd values in the files of sites and in their approvals",
    "logs": "audit logs with entries changed, removed, repeated or damaged",
    "exported": "folders of exported models, damaged, or forged with hashes that fit",
    "requests": "raw bytes sent to the HTTP server: lengths, encodings, hosts, paths and bodies",
}
"""What each attack tries."""


def found() -> dict[str, Mapping[str, Any]]:
    """The stored counts by attack."""
    return {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name in MEANINGS
        if (path := RESULTS / f"{name}.json").is_file()
    }


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Trials of every attack by what became of them, as Markdown."""
    rows = [
        f"| `{name}` | {MEANINGS[name]} | {each['trials']:,} | {_outcomes(each['held'])} | {len(each['broken'])} |"
        for name, each in results.items()
    ]
    return "\n".join(["| attack | what is tried | trials | held | broken |", "|---|---|---:|---|---:|", *rows]) + "\n"


def long_table(measured: Mapping[str, Any]) -> str:
    """Seconds and memory of commands on a long run, as Markdown."""
    rows = [
        f"| `partita {name}` | {each['seconds']:.1f} s | {each['wanted_seconds']:g} s | {each['megabytes']:.0f} MB | "
        f"{each['wanted_megabytes']:g} MB |"
        for name, each in measured["commands"].items()
    ]
    head = ["| command | processor time | wanted | memory | wanted |", "|---|---:|---:|---:|---:|"]
    return "\n".join([*head, *rows]) + "\n"


def _outcomes(held: Mapping[str, int]) -> str:
    """Outcomes in the order of their counts; kinds of damage that ended alike are added up."""
    totals: dict[str, int] = {}
    for outcome, count in held.items():
        totals[outcome.rpartition(": ")[2]] = totals.get(outcome.rpartition(": ")[2], 0) + count
    words: Sequence[tuple[str, int]] = sorted(totals.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{count:,} {outcome}" for outcome, count in words)
