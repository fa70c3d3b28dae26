"""The command that measures."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import terminal
from .options import AsJson, use_one_thread

if TYPE_CHECKING:
    from ..benchmarks.workload import Measured


def bench(
    workloads: Annotated[
        list[str] | None, typer.Argument(metavar="[WORKLOAD]...", help="Names of workloads; by default all.")
    ] = None,
    repeat: Annotated[int, typer.Option(help="How often each contender is measured.")] = 5,
    peer: Annotated[
        list[str] | None, typer.Option(metavar="NAME=PATH", help="Another project to measure, and where it is.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the JSON to this file too.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure seconds per round: of each workload, a floor written by hand, and other projects, in turn.

    Drivers of other projects are in the repository, in benchmarks/peers.

    Examples:

    partita bench small_mlp overhead --repeat 3

    partita bench cnn4_cifar10 --peer pfllib=../PFLlib --output benchmarks/history/today.json
    """
    from ..benchmarks.measuring import bench as measure
    from ..benchmarks.peers import parse

    use_one_thread()

    def tell(workload: str, contender: str, measured: "Measured") -> None:
        terminal.tell(f"{workload}: {contender} {measured.seconds:.3f} s")

    found = measure(workloads or [], repeat=repeat, peers=parse(peer or []), on_measured=tell)
    text = json.dumps(found, indent=1)
    if output:
        output.write_text(text + "\n", encoding="utf-8")
    if as_json:
        print(text)
    else:
        terminal.print_bench(found)
