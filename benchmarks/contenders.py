"""How are other projects measured? By drivers that are no part of the package, on the same rows of the same data."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.workload import Contender, Measured
from partita.data.federation import Federation
from partita.errors import PartitaError

DRIVERS = Path("benchmarks") / "peers"


def parse(given: list[str]) -> dict[str, Path]:
    """Where peers are, from NAME=PATH."""
    places = {}
    for each in given:
        name, equals, path = each.partition("=")
        if not equals or not (DRIVERS / f"{name}.py").exists():
            known = (
                ", ".join(sorted(file.stem for file in DRIVERS.glob("*.py"))) or "none here: run it in the repository"
            )
            raise PartitaError(f"--peer {each}: give NAME=PATH; drivers in {DRIVERS}: {known}.")
        places[name] = Path(path).resolve()
    return places


def contender(name: str, place: Path, workload: str, division: Path) -> Contender:
    """Runs a driver: `python DRIVER PLACE WORKLOAD DIVISION`, which prints {"seconds": ...} last.

    It may tell its "processor" seconds too. They compare with ours only if it used one thread.
    """

    def measure() -> Measured:
        own = place / "bin" / "python"
        python = str(own) if own.exists() else sys.executable
        # As the peer comes: with as many threads as it takes by itself.
        environment = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
        command = [python, str((DRIVERS / f"{name}.py").resolve()), str(place), workload, str(division)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise PartitaError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
        told = json.loads(done.stdout.splitlines()[-1])
        return Measured(float(told["seconds"]), processor=told.get("processor"))

    return measure


@contextmanager
def exported(data: Federation | None) -> Iterator[Path]:
    """A file with the same rows for every peer: what is held out for validation counts as test data there."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "division.npz"
        if data is not None:
            np.savez(path, allow_pickle=False, **arrays(data))
        yield path


def arrays(data: Federation) -> Mapping[str, np.ndarray]:
    """Inputs as they are prepared, targets, and for each client where its rows begin."""
    train = [data[client].train for client in range(len(data))]
    held = [(data[client].validation, data[client].test) for client in range(len(data))]
    return {
        "train_inputs": np.concatenate([samples.inputs.numpy() for samples in train]),
        "train_targets": np.concatenate([samples.targets.numpy() for samples in train]),
        "train_sizes": np.array([len(samples) for samples in train]),
        "test_inputs": np.concatenate([samples.inputs.numpy() for pair in held for samples in pair]),
        "test_targets": np.concatenate([samples.targets.numpy() for pair in held for samples in pair]),
        "test_sizes": np.array([sum(map(len, pair)) for pair in held]),
    }
