"""What goes wrong in a worker is told as if it had gone wrong here, and nothing is left behind."""

import os
import signal
import sys
import threading
import types
from multiprocessing import resource_tracker, spawn
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn

from experiment.small import DATA, OPTIONS, Wide, run
from partita.algorithms.fedavg import fedavg
from partita.errors import DivergedError, PartitaError
from partita.experiment.executors import _transport
from partita.experiment.executors._pool import Pool, Start
from partita.experiment.executors.processes import Processes
from partita.experiment.experiment import Experiment
from partita.experiment.rounds import Checkpoint, rounds
from partita.experiment.setup import Setup
from repetition import repeated
from toys import exploding, small_network
from watching import nothing_left, output, script


class Stubborn(Exception):
    """It cannot be made again from its pickle."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_loss_that_diverges(workers: int) -> None:
    with pytest.raises(DivergedError, match=r"of client \d became .* in round 1"):
        run(fedavg(optimizer=exploding(1e200), epochs=3), f"processes:{workers}")


def test_an_error_of_our_own_is_one_line_without_a_cause() -> None:
    with nothing_left(), pytest.raises(DivergedError) as caught:
        run(fedavg(optimizer=exploding(1e200), epochs=3), "processes:2")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "\n" not in str(caught.value)
    assert "Lower the learning rate, clip the gradient, or look for" in str(caught.value)


class Raising:
    """A loss that raises an exception in other processes than this one, where a network is tried first."""

    def __init__(self, problem: BaseException) -> None:
        self.problem, self.here = problem, os.getpid()

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if os.getpid() == self.here:
            return nn.functional.cross_entropy(outputs, targets)
        raise self.problem


def of_nowhere() -> Exception:
    class Nowhere(Exception):
        def __reduce__(self) -> Any:
            raise TypeError("not this one")

    return Nowhere("left and right")


PROBLEMS: dict[str, tuple[BaseException, type[BaseException], str]] = {
    "known": (ZeroDivisionError("by hand"), ZeroDivisionError, "^by hand$"),
    "ours": (PartitaError("In words."), PartitaError, "^In words.$"),
    "of the system": (OSError("no connection"), OSError, "^no connection$"),
    "of a file": (EOFError("no end"), EOFError, "^no end$"),
    "exit": (SystemExit("enough"), SystemExit, "^enough$"),
    "stubborn": (Stubborn("left", "right"), RuntimeError, "Stubborn: left and right"),
    "of nowhere": (of_nowhere(), RuntimeError, "Nowhere: left and right"),
}


@pytest.mark.filterwarnings("ignore:The fast engine cannot be checked")
@pytest.mark.parametrize(
    ("name", "start"),
    [*((name, "fork") for name in PROBLEMS), *repeated([("known", "spawn"), ("of the system", "spawn")])],
)
def test_exceptions_reach_the_caller(name: str, start: Start) -> None:
    problem, kind, text = PROBLEMS[name]
    with nothing_left(), pytest.raises(kind, match=text) as caught:
        run(fedavg(), Processes(2, start), loss=Raising(problem))
    if isinstance(problem, PartitaError):
        assert caught.value.__cause__ is None
    else:
        assert "__call__" in str(caught.value.__cause__)


@pytest.mark.parametrize("which", [1, 2])
def test_no_worker_is_left_when_another_cannot_be_started(monkeypatch: pytest.MonkeyPatch, which: int) -> None:
    """As where the system allows no more processes."""
    real, calls = Pool._start, iter(range(9))

    def start(self: Any) -> Any:
        if next(calls) == which:
            raise BlockingIOError("Resource temporarily unavailable")
        return real(self)

    monkeypatch.setattr(Pool, "_start", start)
    with nothing_left(), pytest.raises(BlockingIOError):
        run(fedavg(), "processes:3")


def test_an_experiment_that_cannot_be_packed_is_refused_at_once() -> None:
    lock = threading.Lock()

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        with lock:
            return outputs.sum()

    words = r"cannot be sent to worker processes \(TypeError: .*lock.*\).*--on inline"
    with nothing_left(), pytest.raises(PartitaError, match=words):
        run(fedavg(), Processes(2, "spawn"), loss=loss)


def test_what_a_worker_cannot_import_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that exists in this process alone."""
    module = types.ModuleType("only_here")
    exec("from torch.nn.functional import cross_entropy\ndef loss(o, t): return cross_entropy(o, t)", vars(module))
    monkeypatch.setitem(sys.modules, "only_here", module)
    words = r"A worker process cannot load the experiment \(ModuleNotFoundError: No module named 'only_here'\)"
    with nothing_left(), pytest.raises(PartitaError, match=words):
        run(fedavg(), Processes(2, "spawn"), loss=module.loss)


def test_a_worker_that_does_not_start_is_not_started_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A Python that ends at once, as where its installation is broken; its own words are on the terminal."""
    broken = tmp_path / "python"
    broken.write_text(f"#!/bin/sh\necho started >> '{tmp_path}/log'\necho broken installation >&2\nexit 3\n")
    broken.chmod(0o755)
    # It is a process of this Python too, and warns where it cannot start.
    resource_tracker.ensure_running()
    monkeypatch.setattr(spawn, "_python_exe", str(broken).encode())
    words = r"A worker process could not start: it ended with exit code 3, and its own message is above"
    with nothing_left(), pytest.raises(PartitaError, match=words):
        run(fedavg(), Processes(2, "spawn"))
    assert "broken installation" in capfd.readouterr().err
    assert (tmp_path / "log").read_text().count("started") <= 2, "each once"


def test_nothing_is_left_where_memory_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_transport, "_bytes", full)
    with nothing_left(), pytest.raises(PartitaError, match=r"no room for \d+ MB"):
        run(fedavg(), "processes:2", model=Wide())


def test_a_stage_that_is_done_starts_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Experiment(fedavg(), small_network(), DATA, **OPTIONS)
    setup = Setup.of(experiment, experiment.stages[-1], {})
    *_, last = rounds(setup, Processes(1), {})
    monkeypatch.setattr(Pool, "__init__", lambda *_: pytest.fail("workers were started"))
    assert list(rounds(setup, Processes(2), {}, Checkpoint(2, last.state))) == []
    with pytest.raises(BaseException, match="workers were started"):
        list(rounds(setup, Processes(2), {}, Checkpoint(1, last.state)))


def test_workers_end_with_rounds_that_are_not_asked_for() -> None:
    experiment = Experiment(fedavg(), small_network(), DATA, **OPTIONS)
    with nothing_left():
        some = rounds(Setup.of(experiment, experiment.stages[-1], {}), Processes(2), {})
        next(some)
        some.close()


GIVEN_BACK = """
import os, torch
from partita.algorithms.fedavg import fedavg
from experiment.small import run

def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20

for on in ("inline", "processes:2"):
    run(fedavg(), on)
    before = held()
    large = torch.ones(100 << 18)
    assert held() > before + 90, "100 MB"
    del large
    assert held() < before + 10, on
"""


def test_this_process_gives_memory_back_as_before(tmp_path: Path) -> None:
    """Its allocator is the user's; workers are processes of their own."""
    with script(tmp_path, GIVEN_BACK) as process:
        output(process)


def test_workers_are_ended_although_control_c_is_pressed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """While they are being ended, it has no effect."""
    real = BaseProcess.join

    def join(self: BaseProcess, timeout: float | None = None) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        real(self, timeout)

    def pressed(event: object) -> None:
        monkeypatch.setattr(BaseProcess, "join", join)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with nothing_left(), pytest.raises(KeyboardInterrupt):
            run(fedavg(), "processes:2", on_event=pressed)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
