"""Numbers and stored bytes do not depend on the order in which Python iterates over sets."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from laws.methods import ALGORITHMS, clients_after
from partita.algorithms.apple import apple
from partita.core.algorithm import Algorithm, client_round, personalize
from partita.core.batching import Batching
from partita.core.optimizers import SGD
from partita.core.samples import Samples
from partita.engine.reference import run_phase
from partita.experiment.simulate import simulate
from partita.randomness import Moment
from toys import small_federation, small_network

DOUBLE = small_federation((6, 5, 7))
# In single precision another order of a sum is another number.
DATA = replace(DOUBLE, samples=Samples(DOUBLE.samples.inputs.float(), DOUBLE.samples.targets))
METHODS = {
    **ALGORITHMS,
    # So fast that the last bit of a relation's gradient is seen in what it learns.
    "apple fast": apple(relation_rate=1.0, optimizer=SGD(0.1, momentum=0.9)),
}
NAMES = sorted(METHODS)


def digest(parts: Iterator[bytes]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()


def values_of(tensors: Mapping[str, Tensor]) -> Iterator[bytes]:
    for name in sorted(tensors):
        yield from (name.encode(), tensors[name].contiguous().numpy().tobytes())


def stored(tensors: Mapping[str, Tensor]) -> Iterator[bytes]:
    """In the order in which they would be written."""
    for name, tensor in tensors.items():
        yield from (name.encode(), str(tensor.dtype).encode(), tensor.contiguous().numpy().tobytes())


def left_by(algorithm: Algorithm) -> Iterator[tuple[str, Mapping[str, Tensor]]]:
    """The server's state, numbers, what clients keep, updates and models in use: of two rounds, and of one by hand."""
    result = simulate(algorithm, small_network().float(), DATA, rounds=2, participation=0.67, batching=Batching(3))
    yield "state", result.state
    yield (
        "numbers",
        {
            f"{each.round} {each.client} {each.variant} {each.role}": torch.tensor(
                [each.loss, each.correct or 0, each.count]
            )
            for each in result.records
        },
    )
    yield (
        "traffic",
        {f"{each.round} {each.client} {each.group}": torch.tensor([each.down, each.up]) for each in result.traffic},
    )
    yield from ((f"own {client}", own) for client, own in result.own.items())
    moment = Moment(2, 3)
    clients = clients_after(result, algorithm, DATA, moment, Batching(3))
    for client, trained in zip(clients, client_round(algorithm, clients, run_phase), strict=True):
        yield f"received {client.id}", client.received
        yield f"kept {client.id}", trained.own
        yield f"sent {client.id}", trained.update.values
        yield f"mask {client.id}", trained.update.mask or {}
    yield from ((f"used {at}", tensors) for at, tensors in enumerate(personalize(algorithm, clients, run_phase)))


def fingerprints(name: str) -> dict[str, list[str]]:
    return {what: [digest(values_of(t)), digest(stored(t))] for what, t in left_by(METHODS[name])}


def test_the_hash_seed_changes_neither_values_nor_stored_bytes() -> None:
    """Of all methods, in two processes."""
    root = Path(__file__).resolve().parents[2]
    program = (
        "import json, warnings; warnings.simplefilter('ignore'); from laws.test_hash_seed import NAMES, fingerprints\n"
        "print(json.dumps({name: fingerprints(name) for name in NAMES}))"
    )
    path = os.pathsep.join([str(root / "src"), str(root / "tests")])
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    one, other = (json.loads(process.communicate(timeout=300)[0]) for process in started)
    assert sorted(one) == sorted(other) == NAMES
    assert [name for name in NAMES if list(one[name]) != list(other[name])] == []
    assert [f"{name}: {what}" for name in NAMES for what in one[name] if one[name][what] != other[name][what]] == []
