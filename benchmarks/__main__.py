"""The command that measures: python -m benchmarks, from the folder of the repository."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from benchmarks.contenders import parse
from benchmarks.history import TOLERATED, last_like, worsened
from benchmarks.measuring import bench as measure
from benchmarks.workload import Measured
from partita.cli.options import AsJson, use_one_thread
from partita.cli.terminal import output as console, tell
from partita.errors import PartitaError


def bench(
    workloads: Annotated[
        list[str] | None, typer.Argument(metavar="[WORKLOAD]...", help="Names of workloads; by default all.")
    ] = None,
    repeat: Annotated[int, typer.Option(help="How often each contender is measured.")] = 5,
    peer: Annotated[
        list[str] | None, typer.Option(metavar="NAME=PATH", help="Another project to measure, and where it is.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small forms of the workloads; tells what is worse than it was.")
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the JSON to this file too.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure seconds per round: of each workload, a floor written by hand, and other projects, in turn.

    Drivers of other projects are in the repository, in benchmarks/peers.

    Examples:

    python -m benchmarks small_mlp overhead --repeat 3

    python -m benchmarks --quick --repeat 2

    python -m benchmarks cnn4_cifar10 --peer pfllib=../PFLlib --output benchmarks/history/today.json
    """
    use_one_thread()
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)

    def measured(workload: str, contender: str, found: Measured) -> None:
        tell(f"{workload}: {contender} {found.seconds:.3f} s")

    found = measure(workloads or [], repeat=repeat, peers=parse(peer or []), quick=quick, on_measured=measured)
    text = json.dumps(found, indent=1)
    if output:
        output.write_text(text + "\n", encoding="utf-8")
    if as_json:
        print(text)
    else:
        print_bench(found)
    if quick:
        compare(found)


def compare(found: Mapping[str, Any]) -> None:
    """Tell which ratios are worse than those that were last kept."""
    before = last_like(found)
    if before is None:
        tell("Nothing was kept of such a processor: there is nothing to compare with.")
        return
    worse = worsened(found, before)
    for line in worse:
        tell(line, "bold red", "Worse")
    if not worse:
        tell(f"No ratio is worse than on {before['date'][:10]} by more than {TOLERATED - 1:.0%}.")


def print_bench(found: Mapping[str, Any]) -> None:
    """Medians of all contenders, then what was wanted and what was reached."""
    table = Table(title=f"Medians of {found['repeat']}")
    for heading in ("workload", "contender", "seconds", "memory"):
        table.add_column(heading, justify="right" if heading in ("seconds", "memory") else "left")
    for name, result in found["workloads"].items():
        for contender, median in result["contenders"].items():
            memory = median["megabytes"]
            table.add_row(name, contender, f"{median['seconds']:.3f}", f"{memory:.0f} MB" if memory else "")
    console.print(table)
    for name, result in found["workloads"].items():
        for goal in result["goals"]:
            wanted = f"at least {goal['at_least']:g}" if goal["at_least"] else f"at most {goal['at_most']:g}"
            reached = Text("reached") if goal["met"] else Text("missed", "bold")
            worked = goal["processor_ratio"]
            beside = f" ({worked:.2f} by processor seconds)" if worked else ""
            pair = f"{goal['slow']} / {goal['fast']}"
            console.print(f"{name}: {pair} = {goal['ratio']:.2f}{beside}, wanted {wanted}:", reached)
        for limit in result["limits"]:
            reached = Text("kept") if limit["met"] else Text("exceeded", "bold")
            console.print(f"{name}: {limit['contender']} at most {limit['at_most']:g} {limit['unit']}:", reached)


if __name__ == "__main__":
    try:
        typer.run(bench)
    except PartitaError as problem:
        tell(str(problem), "bold red", "Error")
        raise SystemExit(2) from None
