"""Do long runs stay quick? Seconds and memory of commands on a run of many rounds: python -m attacks.long."""

import json
import subprocess
import sys
import time
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from attacks.provenance import provenance
from partita.data.federation import federate
from partita.data.pool import pool
from partita.data.splits.iid import iid
from partita.evaluation.analyses.guard import guard
from partita.evaluation.scores import Record
from partita.experiment.settings.files import make
from partita.experiment.traffic import Traffic
from partita.runs.baselines import add_baselines
from partita.runs.commit import Commit
from partita.runs.evaluate import analyse
from partita.runs.session import Session
from partita.runs.store import Store

LIMITS: dict[str, tuple[float, float]] = {
    "show": (2, 300),
    "runs": (2, 300),
    "report": (15, 2000),
    "resume": (2, 300),
    "show --json": (120, 300),
    "export --csv": (120, 300),
    "verify": (120, 300),
}
"""Seconds and megabytes that are wanted of each command."""
BETWEEN = 100
"""Rounds of one transaction while the run is made."""
GUARDED = 20_000
"""Clients of the run that is guarded."""
TELLING = """
import atexit, re, sys, time
from pathlib import Path

def tell():
    peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
    print(time.process_time(), int(peak[1]) / 1000, file=sys.stderr)

atexit.register(tell)
from partita.cli.main import main
main()
"""
"""A command that tells its processor seconds and its most megabytes at its end, without those of who started it."""


@dataclass(frozen=True)
class Measured:
    """What one command took."""

    seconds: float
    """Of the processor: other work on the machine takes no part in it."""
    elapsed: float
    megabytes: float
    wanted_seconds: float
    wanted_megabytes: float

    @property
    def held(self) -> bool:
        return self.seconds <= self.wanted_seconds and self.megabytes <= self.wanted_megabytes


def long(
    rounds: Annotated[int, typer.Option(help="Rounds of the run, each of them evaluated.")] = 10_000,
    clients: Annotated[int, typer.Option(help="Clients, all of which take part in every round.")] = 100,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the figures to this file.")] = None,
) -> None:
    """Make a run of many rounds, measure what reads it, and end with 1 if something takes longer than wanted."""
    with TemporaryDirectory() as place:
        folder = Path(place) / "runs" / "long"
        made(folder, rounds, clients)
        size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
        print(f"{rounds} rounds of {clients} clients: {size:.0f} MB", flush=True)
        found = {name: measured(name, folder) for name in LIMITS}
    memory, guarded = memory_of_a_run(), seconds_of_the_guard()
    for name, each in found.items():
        print(f"  {'held  ' if each.held else 'BROKEN'} {name}: {each.seconds:.2f} s, {each.megabytes:.0f} MB")
    print(f"  memory of a run, by rounds: {memory}")
    print(f"  the guard of {GUARDED} clients: {guarded:.0f} s")
    if output:
        facts = {"rounds": rounds, "clients": clients, "megabytes_on_disk": size}
        commands = {name: asdict(each) for name, each in found.items()}
        written = {
            **provenance(f"python -m attacks.long --rounds {rounds} --clients {clients}"),
            **facts,
            "commands": commands,
            "megabytes_of_a_run": memory,
            "guard": {"clients": GUARDED, "seconds": guarded},
        }
        output.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    if not all(each.held for each in found.values()):
        raise SystemExit(1)


def made(folder: Path, rounds: int, clients: int) -> None:
    """A real run of one round, and many more in the same form."""
    settings: dict[str, Any] = {
        "algorithm": "fedper",
        "model": {"name": "mlp", "hidden": 4},
        "data": {"name": "digits", "split": {"name": "iid", "clients": clients}},
        "rounds": 1,
        "participation": "all",
        "evaluate_every": 1,
    }
    with Session.start(make(settings), folder, on="inline") as session:
        session.run()
    with Store.open(folder, write=True) as store:
        records, traffic, outcomes = store.records("run"), store.traffic("run"), store.outcomes("run")
        sent = [astuple(each)[1:] for each in traffic]
        found = store.server("run")
        assert found
        for first in range(2, rounds + 1, BETWEEN):
            numbers = range(first, min(first + BETWEEN, rounds + 1))
            last = numbers[-1] == rounds
            store.commit(
                Commit(
                    "run",
                    numbers[-1],
                    found[1],
                    rounds=tuple((at, 0.1, clients) for at in numbers),
                    records=tuple(_record(each, at) for at in numbers for each in records),
                    traffic=tuple(Traffic(at, *each) for at in numbers for each in sent),
                    outcomes=tuple(type(each)(**{**vars(each), "round": rounds}) for each in outcomes if last),
                )
            )
        store.note(rounds=rounds)


def _record(like: Record, round: int) -> Record:
    """Another score in every round."""
    correct = like.correct
    if correct is not None and correct < like.count:
        correct += round % 2
    return Record(round, like.client, like.variant, like.role, like.count, correct, like.loss)


def measured(name: str, folder: Path) -> Measured:
    """One command as a process of its own."""
    place = folder.parent if name == "runs" else folder
    command, *options = name.split()
    written = [str(folder.parent.parent / "csv")] if command == "export" else []
    arguments = [command, str(place), *options, *written]
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", TELLING, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    _, said = process.communicate()
    elapsed = time.perf_counter() - began
    if process.returncode:
        raise RuntimeError(f"partita {' '.join(arguments)} ended with {process.returncode}: {said}")
    seconds, megabytes = map(float, said.splitlines()[-1].split())
    return Measured(round(seconds, 2), round(elapsed, 2), round(megabytes, 1), *LIMITS[name])


def memory_of_a_run() -> dict[str, float]:
    """Megabytes of a process after so many rounds of a real run, each of them evaluated and committed."""
    program = """
import json, resource, sys
from pathlib import Path
from partita.cli.options import use_one_thread
from partita.experiment.settings.files import make
from partita.runs.session import Session

use_one_thread()
settings = {"algorithm": "fedper", "model": {"name": "mlp", "hidden": 4}, "rounds": 601, "participation": "number:5",
            "data": {"name": "digits", "split": {"name": "iid", "clients": 100}}, "evaluate_every": 1}
found = {}

def note(event):
    if getattr(event, "round", 0) in (1, 100, 200, 400, 600):
        with open("/proc/self/statm") as file:
            found[event.round] = int(file.read().split()[1]) * resource.getpagesize() / 1e6
    if len(found) == 5:
        raise KeyboardInterrupt

with Session.start(make(settings), Path(sys.argv[1]), on="inline") as session:
    try:
        session.run(note)
    except KeyboardInterrupt:
        print(json.dumps(found))
"""
    with TemporaryDirectory() as place:
        done = subprocess.run(
            [sys.executable, "-c", program, str(Path(place) / "run")], capture_output=True, text=True, check=True
        )
    found: dict[str, float] = json.loads(done.stdout)
    return {rounds: round(each, 1) for rounds, each in found.items()}


def seconds_of_the_guard() -> float:
    """The guard of many small clients, in one process for each core; by the clock."""
    import torch

    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(10 * GUARDED) % 3
    inputs = labels[:, None] + torch.randn(len(labels), 4, generator=draw)
    data = federate(pool("made up", inputs.numpy(), labels.numpy()), iid(clients=GUARDED))
    settings: dict[str, Any] = {
        "algorithm": "fedper",
        "model": {"name": "mlp", "hidden": 4},
        "rounds": 1,
        "participation": "number:5",
        "evaluate_every": 0,
        "evaluation_clients": GUARDED,
    }
    with TemporaryDirectory() as place:
        experiment = make(settings, data)
        with Session.start(experiment, Path(place) / "run", baseline_tuning=False, on="processes") as session:
            session.run()
            add_baselines(session)
            began = time.perf_counter()
            found = analyse(session, guard())
            seconds = time.perf_counter() - began
    assert len(found["clients"]) == GUARDED
    return round(seconds, 1)


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(long)
    app()
