"""How far off are estimates? Of the experiments in `examples`: what is foretold, and what a round then takes.

    python benchmarks/estimates.py [NAME ...] [--most 60] [--output benchmarks/results/estimates.json]

Rounds without evaluation and with it; those that are foretold to take longer than `--most` seconds are left out.
"""

import argparse
import datetime
import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.workload import timed
from partita.experiment.experiment import Experiment
from partita.experiment.settings.estimate import estimate
from partita.experiment.settings.files import make, read
from partita.experiment.setup import Setup
from partita.runs.environment import environment

EXAMPLES = Path(__file__).parent.parent / "examples" / "experiments"
TIMED = 3
"""Rounds, after one that is not timed."""


def round_seconds(experiment: Experiment) -> float:
    setup = Setup.of(experiment, experiment.stages[-1], experiment.weights)
    return statistics.median(each.seconds for each in timed(setup, TIMED + 1)[1:])


def compared(name: str, most: float) -> list[dict[str, Any]]:
    given = make(read(EXAMPLES / f"{name}.toml", []))
    rows = []
    for evaluated in (False, True):
        # Many rounds, so that the evaluation after the last does not count.
        experiment = replace(given, rounds=10**6, evaluate_every=int(evaluated), pretrain=None)
        foretold = estimate(experiment).round_seconds
        row: dict[str, Any] = {"experiment": name, "evaluated": evaluated, "foretold": foretold}
        if foretold <= most:
            measured = round_seconds(experiment)
            row |= {"measured": measured, "ratio": foretold / measured}
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="experiments, all unless given")
    parser.add_argument("--most", type=float, default=60.0, help="seconds of a round that is still tried out")
    parser.add_argument("--output", type=Path, help="a JSON file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = options.names or sorted(path.stem for path in EXAMPLES.glob("*.toml"))
    rows = [row for name in names for row in compared(name, options.most)]
    if options.output:
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        command = " ".join(["python benchmarks/estimates.py", *options.names, f"--most {options.most:g}"])
        found = {"command": command, "date": now, "environment": environment(), "estimates": rows}
        options.output.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
