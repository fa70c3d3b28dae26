"""Ctrl-C and kill -9, of processes of their own: no worker outlives its parent, and nothing is left or lost."""

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

import partita
from bits import digest
from partita.algorithms.fedper import fedper
from partita.core.batching import Batching
from partita.data.federation import federate
from partita.data.sources.digits import digits
from partita.data.splits.iid import iid
from partita.experiment.executors.inline import inline
from partita.experiment.executors.processes import Processes
from partita.experiment.experiment import Experiment
from partita.experiment.simulate import run_stages
from partita.models.mlp import mlp
from partita.runs.database import DATABASE
from partita.runs.reuse import session_for
from partita.runs.stored import read_run
from partita.tensors import Tensors
from repetition import repeated
from watching import alive, children, marked, named_memory, output, script, wait_for

FORK = multiprocessing.get_context("fork")


def in_order(tensors: Tensors) -> Tensors:
    return dict(sorted(tensors.items()))


def kept_bits(folder: Path) -> str:
    """Of all that a run left in its folder."""
    run = partita.open(folder)
    own = [in_order(run.client_state(client)) for client in range(run.stored.record.clients)]
    return digest(in_order(run.server_state()), own, list(run.stored.records), list(run.stored.traffic))


def bits_of(experiment: Experiment) -> str:
    """Of the same experiment without an interruption, and not kept."""
    result = run_stages(experiment, inline())
    own = [in_order(result.own[client]) for client in range(len(result.data))]
    return digest(in_order(result.state), own, list(result.records), list(result.traffic))


def experiment(rounds: int, evaluate_every: int, batch: int) -> Experiment:
    return Experiment(
        fedper(),
        partial(mlp, hidden=16),
        federate(digits(), iid(clients=4)),
        rounds=rounds,
        evaluate_every=evaluate_every,
        batching=Batching(batch),
    )


# Ctrl-C.

COMMAND = """
import sys, time
from partita.cli.main import main
from partita.engine.fast import FastEngine
from partita.experiment import jobs
from partita.experiment.experiment import ENGINES

jobs.SAMPLES_PER_JOB = 1
engine = FastEngine()

def slowly(phase, clients, tensors):
    time.sleep(0.05)
    return engine(phase, clients, tensors)

ENGINES["fast"] = lambda: slowly
sys.argv = ["partita", "run", "--output", "kept", "--json", "--no-baselines", *{settings!r}]
main()
"""
SETTINGS = [
    "algorithm=fedper",
    "model=mlp",
    "model.hidden=16",
    "data=digits",
    "data.split.name=iid",
    "data.split.clients=4",
    "rounds=40",
    "evaluate_every=10",
    "batching.size=10",
]


@cache
def forty_rounds() -> str:
    return bits_of(experiment(40, 10, 10))


def is_at_work(folder: Path) -> bool:
    return (folder / "kept" / DATABASE).exists() and len(marked(folder)) == 3


@pytest.mark.parametrize(
    ("kind", "moment"),
    repeated(
        [
            (signal.SIGINT, 0.5),
            (signal.SIGTERM, 0.1),
            (signal.SIGINT, 0.1),
            (signal.SIGINT, 1.0),
            (signal.SIGTERM, 0.5),
            (signal.SIGTERM, 1.0),
        ],
        always=1,
    ),
)
def test_control_c_ends_all_and_loses_nothing(tmp_path: Path, moment: float, kind: signal.Signals) -> None:
    """At some moment of a run that takes two seconds at least."""
    with script(tmp_path, COMMAND.format(settings=SETTINGS)) as process:
        assert wait_for(partial(is_at_work, tmp_path))
        time.sleep(moment)
        os.killpg(process.pid, kind)
        said, _ = process.communicate(timeout=300)
        assert wait_for(lambda: not marked(tmp_path))
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "partita resume" in said
    assert read_run(tmp_path / "kept").record.status == "interrupted"
    partita.open(tmp_path / "kept").resume(on="inline")
    assert kept_bits(tmp_path / "kept") == forty_rounds()


@pytest.mark.parametrize("moment", repeated([0.1, 0.5]))
def test_an_impatient_control_c_leaves_nothing_either(tmp_path: Path, moment: float) -> None:
    """Again and again, while it is being obeyed; what Python says on its way out is its own."""
    with script(tmp_path, COMMAND.format(settings=SETTINGS)) as process:
        assert wait_for(partial(is_at_work, tmp_path))
        time.sleep(moment)
        for _ in range(5):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.005)
        process.communicate(timeout=300)
        assert wait_for(lambda: not marked(tmp_path))
    partita.open(tmp_path / "kept").resume(on="inline")
    assert kept_bits(tmp_path / "kept") == forty_rounds()


AT_BIRTH = """
import os, signal
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGINT))
from partita.algorithms.fedavg import fedavg
from experiment.small import run
run(fedavg(), "processes:3")
print("done")
"""


def test_control_c_at_the_birth_of_a_worker(tmp_path: Path) -> None:
    """Before it can say that it does not listen."""
    with script(tmp_path, AT_BIRTH) as process:
        assert output(process) == "done\n"


# Kill -9.

LONG = """
import os, time
from partita.algorithms.fedavg import fedavg
from partita.engine.fast import FastEngine
from partita.experiment import jobs
from partita.experiment.executors.processes import Processes
from experiment.small import Wide, run
jobs.SAMPLES_PER_JOB = 1
{before}
engine = FastEngine()
def forever(phase, clients, tensors):
    open("begun", "a").write("x")
    {what}
    return engine(phase, clients, tensors)
run(fedavg(), Processes(3, {start!r}), rounds=1, participation=1.0, model=Wide(), run_phase=forever)
print("done")
"""
NO_FILES_IN_MEMORY = "del os.memfd_create"


def begun(folder: Path) -> bool:
    return (folder / "begun").exists() and len((folder / "begun").read_text()) == 3


@pytest.mark.parametrize(
    ("start", "what"), [("fork", "time.sleep(1000)"), ("fork", "while True: pass"), ("spawn", "time.sleep(1000)")]
)
def test_no_worker_outlives_its_parent(tmp_path: Path, start: str, what: str) -> None:
    with script(tmp_path, LONG.format(start=start, what=what, before="")) as process:
        assert wait_for(partial(begun, tmp_path))
        assert len(marked(tmp_path)) >= 4
        process.kill()
        assert wait_for(lambda: not marked(tmp_path))


@pytest.mark.parametrize(
    ("everyone", "before"),
    repeated([(False, ""), (True, NO_FILES_IN_MEMORY), (False, NO_FILES_IN_MEMORY), (True, "")], always=2),
)
def test_nothing_is_left_after_a_kill(tmp_path: Path, before: str, everyone: bool) -> None:
    """Of the parent alone, or of all processes at once, while large messages are on their way."""
    place = tmp_path / "temporary"
    place.mkdir()
    text = LONG.format(start="fork", what="time.sleep(1000)", before=before)
    with script(tmp_path, text, environment={"TMPDIR": str(place)}) as process:
        assert wait_for(partial(begun, tmp_path))
        assert not [name for pid in marked(tmp_path) for name in named_memory(pid)]
        if everyone:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        assert wait_for(lambda: not marked(tmp_path))
    assert not [path for path in place.rglob("*") if path.is_file()]


def test_a_script_without_a_guard(tmp_path: Path) -> None:
    with script(tmp_path, LONG.format(start="fork", what="pass", before="")) as process:
        assert output(process) == "done\n"
        assert not marked(tmp_path)


@cache
def twelve_rounds() -> str:
    return bits_of(experiment(12, 3, 100))


def begin_or_go_on(folder: Path, made: Any) -> None:
    with session_for(experiment(12, 3, 100), folder, commit_every=2, on=Processes(2)) as session:
        made.set()
        session.run()


def quietly(work: Callable[[], object]) -> None:
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    work()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("part", repeated(range(4)))
def test_a_kill_of_the_parent_at_any_moment(tmp_path: Path, part: int) -> None:
    """Twenty first kills in all with two workers, as tests of runs have them with one; no worker is left by any."""
    draw = random.Random(part)
    whole, seconds = twelve_rounds(), 0.3
    for fifth in range(5):
        folder = tmp_path / str(fifth)
        for delay in (seconds * (fifth + draw.random()) / 5, seconds * draw.random(), 120):
            made = FORK.Event()
            process = FORK.Process(target=quietly, args=(partial(begin_or_go_on, folder, made),))
            process.start()
            assert made.wait(300)
            process.join(delay)
            workers = children(process.pid)
            process.kill()
            process.join()
            assert wait_for(lambda gone=workers: not any(map(alive, gone)))  # type: ignore[misc]
        assert process.exitcode == 0
        assert read_run(folder).record.done
        assert kept_bits(folder) == whole
