"""Does any number contradict another? A user's own study at full size, and a walk over all places that show a number.

    python -m benchmarks.scenario runs/scenario [--data mnist_writers hapt] [--rounds 20] [--writers 100] [--output F]

Two data sets with natural clients, an own network, five methods, one of them with two rates, three seeds, and tuned
baselines. Runs are kept and used again. The walk reads every number as `show`, `compare`, the report, CSV, JSON and
Python tell it, and compares every two places. It exits with 1 if two of them differ.

One file, since it is one walk, and each of its steps is short.
"""

import argparse
import csv
import datetime
import io
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from html import unescape
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import partita
from partita import SGD, Algorithm, fedalt, fedavg, fedbabu, federate, fedper, flayer, hapt, mnist_writers, natural
from partita.core.batching import Batching
from partita.data.federation import Federation
from partita.formatting import MINUS, NONE
from partita.report.report import report
from partita.report.study import Study, study
from partita.runs.environment import environment
from partita.runs.gains import gains_of
from partita.runs.stored import read_run

SEEDS = 3
NAMES = ("fedavg", "fedper optimizer.lr=0.1", "fedper optimizer.lr=0.01", "fedbabu", "fedalt", "flayer on fedavg")
CLOSE = 0.00051
"""Scores are shown to a tenth of a per cent."""

Key = tuple[str, ...]
Numbers = dict[Key, float | str]
"""What a place shows, by method, what it is, and of what."""
Told = Callable[..., str]
"""What a command prints."""


class Net(nn.Module):
    """The user's own network."""

    def __init__(self, shape: tuple[int, ...], classes: int, hidden: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), hidden), nn.ReLU())
        self.head = nn.Linear(hidden, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.body(inputs))
        return outputs


def net(*, shape: tuple[int, ...], classes: int, hidden: int = 64) -> nn.Module:
    return Net(shape, classes, hidden)


def methods() -> dict[str, Algorithm]:
    rate = SGD(0.1)
    return {
        "fedavg": fedavg(optimizer=rate),
        "fedper": fedper(epochs=1, optimizer=rate),
        "fedper-slow": fedper(epochs=1, optimizer=SGD(0.01)),
        "fedbabu": fedbabu(epochs=1),
        "fedalt": fedalt(optimizer=rate),
        "flayer": flayer(on=fedavg(optimizer=rate)),
    }


def walk(folder: Path, told: Told) -> tuple[int, list[str]]:
    """How many pairs of shown numbers were compared, and which of them contradict each other."""
    shown = places(folder, told)
    met, wrong = 0, []
    for (one, first), (other, second) in combinations(shown.items(), 2):
        for key in sorted(first.keys() & second.keys()):
            met += 1
            if not _agree(first[key], second[key]):
                wrong.append(f"{' / '.join(key)}: {one} says {first[key]}, {other} says {second[key]}")
    return met, wrong


def _agree(one: float | str, other: float | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return abs(one - other) <= CLOSE


def places(folder: Path, told: Told) -> dict[str, Numbers]:
    """Every place that shows numbers of the runs in a folder, on one set of clients."""
    whole = study([folder])
    page = report(whole)
    compared = partita.compare(folder)
    table = csv.DictReader(io.StringIO(told("compare", str(folder), "--form", "csv")))
    return {
        "Python (study)": of_study(whole),
        "show": of_terminal(told("show", str(folder)), whole),
        "show --json": of_json(json.loads(told("show", str(folder), "--json"))),
        "report": {**of_report(page, whole), **of_clients(page, whole), **of_hurt(page)},
        "show --json of each run": of_run_json(whole, told),
        "Python (each run)": of_runs(whole),
        "export --csv": of_csv(folder, told, whole),
        "Python (compare)": {
            (each.method, key): value
            for each in compared.methods
            for key, value in (("mean", each.mean), ("spread", each.client_spread or 0.0))
        },
        "compare --form csv": {
            (row["method"], key): float(row[column])
            for row in table
            for key, column in (("mean", "mean"), ("spread", "client_spread"))
        },
    }


def of_study(whole: Study) -> Numbers:
    numbers: Numbers = {}
    for method in whole.methods:
        numbers[method.name, "mean"] = method.mean
        numbers[method.name, "spread"] = float(np.mean([each.std for each in method.summaries]))
        for name in whole.references:
            if (gain := method.mean_gain(name)) is not None:
                numbers[method.name, "gain", name] = gain
                numbers[method.name, "hurt", name] = method.hurt_count(name)[0]
                numbers[method.name, "surely", name] = method.surely_count(name) or 0
    return numbers


def of_runs(whole: Study) -> Numbers:
    """From each run by itself, as `partita show RUN` reads it."""
    numbers: Numbers = {}
    for method in whole.methods:
        runs = [read_run(each.run.folder) for each in method.replicas]
        numbers[method.name, "mean"] = float(np.mean([run.summaries()[run.record.variant].macro for run in runs]))
        for name in whole.references:
            several = [(run, each) for run in runs for each in gains_of(run) if each.over == name]
            if not several:
                continue
            numbers[method.name, "gain", name] = float(np.mean([value for _, each in several for value in each.gains]))
            numbers[method.name, "hurt", name] = sum(len(each.hurt) for _, each in several)
            numbers[method.name, "surely", name] = sum(len(each.surely) for _, each in several)
            for run, each in several:
                for client, interval in zip(each.clients, each.intervals, strict=True):
                    about = (method.name, name, str(run.seed), run.record.name_of(client))
                    numbers |= _client(about, interval, each.verdict(client))
    return numbers


def of_run_json(whole: Study, told: Told) -> Numbers:
    numbers: Numbers = {}
    for method in whole.methods:
        for each in method.replicas:
            said = json.loads(told("show", str(each.run.folder), "--json"))
            for gain in said["gains"]:
                for name, interval, verdict in zip(gain["names"], gain["intervals"], gain["verdicts"], strict=True):
                    about = (method.name, gain["over"], str(said["seed"]), name)
                    numbers |= _client(about, interval, verdict)
    return numbers


def _client(about: Key, interval: Any, verdict: str) -> Numbers:
    """One client under one seed: whether it is hurt, and the interval of its gain."""
    low, high = interval or (math.nan, math.nan)
    ends: Numbers = {} if interval is None else {(*about, "low"): low, (*about, "high"): high}
    return {(*about, "hurt"): verdict, **ends}


def of_json(said: Mapping[str, Any]) -> Numbers:
    numbers: Numbers = {}
    for method in said["methods"]:
        name = method["name"]
        numbers[name, "mean"] = method["mean"]
        for over, value in method["gains"].items():
            numbers[name, "gain", over] = value
            numbers[name, "hurt", over] = method["hurt"][over]["count"]
            numbers[name, "surely", over] = method["hurt"][over]["surely"] or 0
            for each in method["clients"][over]:
                numbers[name, "over seeds", over, each["name"]] = each["verdict"]
    return numbers


def _row(titles: list[str], row: list[str], method: str) -> Numbers:
    numbers: Numbers = {}
    for title, text in zip(titles, row, strict=True):
        cell = _plain(text).replace(" *", "")
        if title.startswith("mean"):
            numbers[method, "mean"], numbers[method, "spread"] = (float(cell.split()[at]) / 100 for at in (0, 2))
        elif title.startswith("gain over") and cell not in ("-", NONE):
            numbers[method, "gain", title.removeprefix("gain over ")] = float(cell) / 100
        elif title.startswith("hurt") and " of " in cell:
            name = title.removeprefix("hurt, against ")
            numbers[method, "hurt", name] = int(cell.split()[0])
            numbers[method, "surely", name] = int(cell.partition("(")[2].split()[0])
    return numbers


def _plain(text: str) -> str:
    return text.replace(MINUS, "-").replace(",", "").strip()


def of_terminal(text: str, whole: Study) -> Numbers:
    lines = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
    [titles] = [line for line in lines if line[:2] == ["method", "mean ± over clients"]]
    names = {method.name for method in whole.methods}
    rows = [line for line in lines if line[0] in names and len(line) == len(titles)]
    return {key: value for row in rows for key, value in _row(titles, row, row[0]).items()}


def tables(page: str, label: str) -> Iterator[list[list[str]]]:
    """The tables of a report whose label begins so: rows of cells, the titles first."""
    for found in re.findall(rf'aria-label="{label}[^"]*">(.*?)</table>', page):
        rows = (re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall("<tr>(.*?)</tr>", found))
        yield [[unescape(re.sub("<[^>]*>", "", cell)) for cell in row] for row in rows]


def of_report(page: str, whole: Study) -> Numbers:
    [[titles, *rows]] = tables(page, "Test accuracy of each method")
    names = {method.name for method in whole.methods}
    return {key: value for row in rows if row[0] in names for key, value in _row(titles, row, row[0]).items()}


def of_clients(page: str, whole: Study) -> Numbers:
    """The signs of the table of clients: whom a method hurts over all seeds."""
    from partita.report.sections.clients import SIGNS

    [[titles, *rows]] = tables(page, "Test accuracy by client")
    reference = titles[-1].removeprefix("hurt, against ")
    names = {method.name for method in whole.methods if method.over(reference)}
    words = {sign: word for word, sign in SIGNS.items()}
    return {
        (title, "over seeds", reference, row[0]): words[cell[-1] if cell[-1] in words else ""]
        for row in rows
        for title, cell in zip(titles, row, strict=True)
        if title in names and cell != NONE
    }


def of_hurt(page: str) -> Numbers:
    """The lists of clients that are worse off, by seed."""
    numbers: Numbers = {}
    for titles, *rows in tables(page, "Who is worse than "):
        over = titles[5]
        for client, method, seed, *_, change, verdict in rows:
            ends = re.search(r"\((.*) to (.*)\)", _plain(change))
            interval = [float(end) / 100 for end in ends.groups()] if ends else None
            numbers |= _client((method, over, seed, client), interval, verdict)
    return numbers


def of_csv(folder: Path, told: Told, whole: Study) -> Numbers:
    with tempfile.TemporaryDirectory() as out:
        told("export", str(folder), "--csv", out)
        with (Path(out) / "gains.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    numbers: Numbers = {}
    for row in rows:
        interval = [float(row["low"]), float(row["high"])] if row["low"] else None
        numbers |= _client((row["method"], row["over"], row["seed"], row["name"]), interval, row["hurt"])
    for method in whole.methods:
        for name in whole.references:
            some = [row for row in rows if (row["method"], row["over"]) == (method.name, name)]
            if some:
                numbers[method.name, "mean"] = float(np.mean([float(row["score"]) for row in some]))
                numbers[method.name, "gain", name] = float(np.mean([float(row["gain"]) for row in some]))
                numbers[method.name, "hurt", name] = sum(row["hurt"] != "not" for row in some)
                numbers[method.name, "surely", name] = sum(row["hurt"] == "surely" for row in some)
    return numbers


def data_of(name: str, writers: int) -> Federation:
    if name == "hapt":
        return federate(hapt(), natural(test=0.25))
    return federate(mnist_writers(), natural(test=0.25, clients=writers))


def _told(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "partita", *arguments], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", nargs="+", choices=("mnist_writers", "hapt"), default=["mnist_writers", "hapt"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--writers", type=int, default=100)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for name in options.data:
        data = data_of(name, options.writers)
        for label, algorithm in methods().items():
            partita.run(
                algorithm,
                net,
                data,
                folder=options.folder / name / label,
                seeds=SEEDS,
                rounds=options.rounds,
                batching=Batching(16),
                on="inline",
            )
            print(f"{name}: {label} is done", file=sys.stderr, flush=True)
        met, wrong = walk(options.folder / name, _told)
        said = json.loads(_told("show", str(options.folder / name), "--json"))
        for method in (*said["methods"], *said["baselines"]):
            # Of each client, too long to keep; and where it was run is of no interest to others.
            del method["clients"], method["runs"]
        found[name] = {"clients": len(data), "pairs_compared": met, "contradictions": wrong, **said}
    made = {
        "command": f"python -m benchmarks.scenario FOLDER --rounds {options.rounds} --writers {options.writers}",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "environment": environment(),
        "data": found,
    }
    text = json.dumps(made, indent=1)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")
    else:
        print(text)
    raise SystemExit(any(each["contradictions"] for each in found.values()))


if __name__ == "__main__":
    main()
