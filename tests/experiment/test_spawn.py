"""Workers that start anew, as on macOS and Windows: plain scripts work, with all that is defined in them."""

from pathlib import Path

import pytest

import partita
from repetition import repeated
from watching import marked, output, script, wait_for

EXAMPLE = """
import multiprocessing
multiprocessing.set_start_method("spawn")

from partita import SGD, digits, fedper, mlp, simulate

result = simulate(fedper(epochs=1, optimizer=SGD(0.1)), mlp, digits(), rounds=2, seed=0)
print(result.score().clients)
for record in result.select()[:1]:
    print(record.client)
"""


@pytest.mark.parametrize("how", repeated(["file", "stdin", "argument"]))
def test_a_plain_script(tmp_path: Path, how: str) -> None:
    """Without a guard: whoever imported it would run it again."""
    with script(tmp_path, EXAMPLE, how=how) as process:
        assert output(process) == "20\n0\n"
        assert wait_for(lambda: not marked(tmp_path))


OWN = """
import os
import multiprocessing  # before torch: it gives the main module a second name, under which pickle would find torch
from dataclasses import replace
import torch
from torch import nn
from partita import HEAD, Phase, SGD, configurable, fedavg, inline, processes, simulate
from partita.experiment import jobs
from bits import bits
from toys import small_federation

jobs.SAMPLES_PER_JOB = 1
print("begun")
FACTOR = 3.0

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, inputs):
        return self.head(squash(self.body(inputs)))

def squash(values):
    return torch.tanh(values / FACTOR)

def loss(outputs, targets):
    return FACTOR * nn.functional.cross_entropy(outputs, targets)

def measure(outputs, targets):
    right = int((outputs.argmax(1) == targets).sum())
    return {"count": len(targets), "correct": right, "loss": float(loss(outputs, targets))}

@configurable
def mine(*, rate: float = 0.1):
    def half(tensors, client):
        return {name: tensor / 2 if name.endswith("bias") else tensor for name, tensor in tensors.items()}
    return replace(fedavg(), phases=(Phase(HEAD, SGD(rate)), half, Phase(~HEAD, SGD(rate))))

class Every:
    who = "every second client"
    def __call__(self, clients, moment):
        return list(range(moment.round % 2, clients, 2))

class Refused(Exception):
    pass

HERE = os.getpid()

def refusing(outputs, targets):
    if os.getpid() == HERE:
        return loss(outputs, targets)
    raise Refused("no")

torch.manual_seed(0)
module = Own().double()
options = dict(rounds=2, measure=measure, participation=Every(), evaluate_every=1)
spawned = processes(workers=2, start="spawn")
one = simulate(mine(rate=0.2), module, small_federation(), loss=loss, on=inline(), **options)
two = simulate(mine(rate=0.2), module, small_federation(), loss=loss, on=spawned, **options)
print(bits(one) == bits(two), len(one.records) > 0)
try:
    simulate(mine(), module, small_federation(), loss=refusing, on=spawned, **options)
except Refused as problem:
    print("refused:", problem)
"""


@pytest.mark.parametrize("how", repeated(["file", "stdin"]))
def test_what_a_script_defines_reaches_workers(tmp_path: Path, how: str) -> None:
    """A network, a loss, a measure, a method, a sampler and an exception of the main module."""
    quiet = {"PYTHONWARNINGS": "ignore:The fast engine cannot be checked"}
    with script(tmp_path, OWN, how=how, environment=quiet) as process:
        assert output(process) == "begun\nTrue True\nrefused: no\n"


@pytest.mark.slow
def test_a_module_that_is_run_is_not_imported_again(tmp_path: Path) -> None:
    """As by `python -m`, whose main module has a name."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(EXAMPLE)
    with script(tmp_path, "import runpy; runpy.run_module('package', run_name='__main__', alter_sys=True)") as process:
        assert output(process) == "20\n0\n"


# A system without what only Unix has.

LACKING = """
import importlib.abc, os, sys

LACKS = {"fcntl", "resource", "pwd", "grp", "termios"}

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in LACKS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
for name in LACKS:
    sys.modules.pop(name, None)
for name in ("sched_getaffinity", "statvfs", "memfd_create"):
    if hasattr(os, name):
        delattr(os, name)
import ctypes, signal
del signal.pthread_sigmask
real = ctypes.CDLL
def named(name, *given, **options):
    if name is None:
        raise TypeError("argument of type 'NoneType' is not iterable")
    return real(name, *given, **options)
ctypes.CDLL = named
"""
IMPORTS = """
import importlib, pkgutil
import partita
for module in pkgutil.walk_packages(partita.__path__, "partita."):
    importlib.import_module(module.name)
print("imported")
"""
TRAINED = """
from partita import fedper, inline, processes, simulate
from partita.experiment.executors.processes import workers_of_machine
from bits import bits
from toys import small_federation, small_network
assert workers_of_machine() >= 1
one, two = (
    simulate(fedper(), small_network(), small_federation(), rounds=1, on=on)
    for on in (inline(), processes(workers=2, start="spawn"))
)
print(bits(one) == bits(two))
"""


def without_unix(folder: Path) -> dict[str, str]:
    """The environment of processes that find what Windows has, and no more."""
    (folder / "sitecustomize.py").write_text(LACKING)
    places = [folder, Path(partita.__file__).parents[1], Path(__file__).parents[1]]
    return {"PYTHONPATH": ":".join(map(str, places)), "PYTHONWARNINGS": "ignore:only soft file lock"}


def test_every_module_imports_where_unix_is_missing(tmp_path: Path) -> None:
    with script(tmp_path, IMPORTS, environment=without_unix(tmp_path)) as process:
        assert output(process) == "imported\n"


def test_workers_work_where_unix_is_missing(tmp_path: Path) -> None:
    with script(tmp_path, TRAINED, environment=without_unix(tmp_path)) as process:
        assert output(process) == "True\n"
