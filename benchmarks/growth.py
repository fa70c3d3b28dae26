"""How do time and memory grow? With clients, classes, samples and rounds, each from few to many.

`python -m benchmarks.growth --output benchmarks/results/growth.json --picture docs/assets/growth.svg`; with `--draw`
the picture is drawn from a file. Times are processor seconds, so that other work beside counts little; every point has
a process of its own, in which clients are trained too. It takes some minutes.
"""

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime, timezone
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import torch

import partita
from benchmarks.history import processor_name
from benchmarks.made_up import images
from benchmarks.workloads.million_clients import population
from partita.algorithms.fedper import fedper
from partita.core.batching import Batching
from partita.core.optimizers import SGD
from partita.data.federation import Federation
from partita.experiment.events import RoundEnded
from partita.experiment.executor import executor_of
from partita.experiment.experiment import Experiment
from partita.experiment.rounds import rounds
from partita.experiment.setup import Setup
from partita.experiment.tasks import Factory
from partita.models.mlp import mlp
from partita.runs.environment import environment

SIZES = {
    "clients": (100, 1_000, 10_000, 100_000, 1_000_000),
    "classes": (10, 100, 1_000, 10_000),
    "samples": (1_000, 10_000, 100_000),
    "rounds": (100, 1_000, 10_000),
}
ABOUT = {
    "clients": "clients, 100 take part",
    "classes": "classes, 100 clients",
    "samples": "samples of 20 clients",
    "rounds": "rounds done",
}
TIMED, WINDOW = 3, 50
Point = dict[str, float]


def a_round(data: Federation, model: Factory, per_round: int) -> Point:
    """Processor milliseconds of a round, after one that is not timed, and of all that comes before."""
    began = time.process_time()
    experiment = Experiment(
        fedper(epochs=1, optimizer=SGD(0.05)),
        model,
        data,
        rounds=TIMED + 2,
        evaluate_every=0,
        batching=Batching(10),
        participation=min(1.0, per_round / len(data)),
    )
    setup = Setup.of(experiment, experiment.stages[-1], experiment.weights)
    times = [time.process_time()]
    with closing(rounds(setup, executor_of("inline"), {})) as ended:
        for _ in islice(ended, TIMED + 1):
            times.append(time.process_time())
    each = [after - before for before, after in pairwise(times)]
    return {"milliseconds": 1000 * statistics.median(each[1:]), "before": times[0] - began + each[0], **_memory()}


def _memory() -> Point:
    return {"megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def clients(count: int) -> Point:
    return a_round(population(count, (64,)), mlp, 100)


def classes(count: int) -> Point:
    return a_round(images(clients=100, train=16, test=4, shape=(64,), classes=count), mlp, 100)


def samples(count: int) -> Point:
    return a_round(images(clients=20, train=count // 20, test=5, shape=(64,), classes=10), mlp, 20)


def committed(count: int) -> Point:
    """Of the last rounds of so many: processor milliseconds of each, committed, and the size of the run's folder."""
    times: list[float] = []

    def note(event: object) -> None:
        if isinstance(event, RoundEnded):
            times.append(time.process_time())

    with tempfile.TemporaryDirectory() as place:
        partita.run(
            fedper(epochs=1, optimizer=SGD(0.01)),
            mlp,
            images(clients=10, train=16, test=4, shape=(16,), classes=4),
            folder=Path(place) / "run",
            baselines=False,
            on="inline",
            on_event=note,
            rounds=count,
            evaluate_every=0,
            participation=0.2,
        )
        size = sum(file.stat().st_size for file in (Path(place) / "run").rglob("*") if file.suffix == ".sqlite")
    # The last is evaluated too.
    last = [after - before for before, after in pairwise(times)][-WINDOW - 1 : -1]
    return {"milliseconds": 1000 * statistics.median(last), "kilobytes_per_round": size / 1024 / count, **_memory()}


POINTS = {"clients": clients, "classes": classes, "samples": samples, "rounds": committed}


def measured() -> dict[str, Any]:
    found: dict[str, dict[str, Point]] = {}
    for name, sizes in SIZES.items():
        for size in sizes:
            command = [sys.executable, "-m", "benchmarks.growth", "--point", name, str(size)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found.setdefault(name, {})[str(size)] = json.loads(done.stdout.splitlines()[-1])
            print(name, size, done.stdout.splitlines()[-1], flush=True)
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    made = {"command": "python -m benchmarks.growth", "date": now, "processor": processor_name()}
    return {**made, "environment": environment(), "growth": found}


# The picture: for each size a panel, both axes logarithmic.

WIDTH, HEIGHT, MARGIN, TOP = 230, 170, 46, 30


def picture(growth: Mapping[str, Mapping[str, Point]]) -> str:
    panels = [_panel(at, name, growth[name]) for at, name in enumerate(growth)]
    width, height = 2 * (WIDTH + MARGIN) + 20, 2 * (HEIGHT + TOP + 44)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="11" role="img" aria-label="Processor milliseconds of a round against sizes">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n' + "\n".join(panels) + "\n</svg>\n"
    )


def _panel(at: int, name: str, points: Mapping[str, Point]) -> str:
    left, top = MARGIN + (at % 2) * (WIDTH + MARGIN), TOP + (at // 2) * (HEIGHT + TOP + 40)
    sizes = [float(size) for size in points]
    values = [point["milliseconds"] for point in points.values()]
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values) * 1.01))

    def x(size: float) -> float:
        return left + 12 + (WIDTH - 24) * math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])

    def y(value: float) -> float:
        return top + HEIGHT - HEIGHT * math.log(value / low) / math.log(high / low)

    lines = [f'<text x="{left}" y="{top - 10}" fill="#222">ms of a round: {ABOUT[name]}</text>']
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        here = y(10.0**power)
        lines.append(f'<path d="M{left} {here:.1f}h{WIDTH}" stroke="#ddd"/>')
        lines.append(f'<text x="{left - 5}" y="{here + 4:.1f}" text-anchor="end" fill="#555">{10.0**power:g}</text>')
    for size in sizes:
        written = f"10<tspan dy='-4' font-size='8'>{round(math.log10(size))}</tspan>"
        lines.append(
            f'<text x="{x(size):.1f}" y="{top + HEIGHT + 16}" text-anchor="middle" fill="#555">{written}</text>'
        )
    places = [(x(size), y(value)) for size, value in zip(sizes, values, strict=True)]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    lines.append(f'<polyline points="{path}" fill="none" stroke="#1f5fa8" stroke-width="2"/>')
    lines += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="#1f5fa8"/>' for a, b in places]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="a JSON file")
    parser.add_argument("--picture", type=Path, help="an SVG file")
    parser.add_argument("--draw", type=Path, help="draw what this file has, without measuring")
    parser.add_argument("--point", nargs=2, metavar=("NAME", "SIZE"), help="measure one point here")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.point:
        name, size = options.point
        print(json.dumps(POINTS[name](int(size))))
        return
    found = json.loads(options.draw.read_text(encoding="utf-8")) if options.draw else measured()
    if options.output:
        options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.picture:
        options.picture.write_text(picture(found["growth"]), encoding="utf-8")


if __name__ == "__main__":
    main()
