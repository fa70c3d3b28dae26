"""Workers: the same bits whoever does the work, whoever dies over it, and nothing left behind."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from partita.experiment.experiment import make
from partita.runs.run import resume, start
from partita.simulation.executors.transport import memory_folder
from torch import Tensor, nn

from laws.methods import ALGORITHMS, brief
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedper import fedper
from partita.algorithms.flayer import flayer
from partita.core.algorithm import Algorithm
from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.optimizers import SGD
from partita.core.phases import Phase
from partita.data.federation import federate
from partita.data.pool import pool
from partita.data.splits.dirichlet import dirichlet
from partita.engine import fast
from partita.errors import DivergedError, PartitaError
from partita.models.mlp import mlp
from partita.randomness import Moment
from partita.runs.database import DATABASE
from partita.simulation import simulate as simulation
from partita.simulation.executors import processes
from partita.simulation.executors.processes import crew, workers_of_machine
from partita.simulation.jobs import Job
from partita.simulation.result import Progress, Result
from partita.simulation.simulate import jobs, simulate
from partita.tensors import Tensors
from runs.test_runs import DIGITS, METHODS, SETTINGS, begin_or_go_on, child, digest, forks, status
from toys import small_federation, small_network

FORK = multiprocessing.get_context("fork")
DATA = replace(small_federation((8, 7, 6, 11, 9)), newcomers=frozenset({3}))
MARK = "PARTITA_TEST_MARK"
pytestmark = forks


@pytest.fixture(autouse=True)
def a_job_for_each_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small clients would all be one job, and so one worker's."""
    monkeypatch.setattr(simulation, "TOGETHER", 1)


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Where parcels were; in the end all are gone, and all workers too."""
    found: list[Path] = []
    real = memory_folder

    def noted() -> Path:
        found.append(real())
        return found[-1]

    monkeypatch.setattr(processes, "memory_folder", noted)
    before = set(children())
    yield found
    assert found
    assert not [folder for folder in found if folder.exists()]
    assert set(children()) <= before


def children(pid: int | None = None) -> list[int]:
    """Processes that a process has, by their ids."""
    try:
        text = "".join(path.read_text() for path in Path(f"/proc/{pid or os.getpid()}/task").glob("*/children"))
    except OSError:
        return []
    # Python's own helper stays, once anything was spawned.
    return [int(number) for number in text.split() if "resource_tracker" not in command(int(number))]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def run(algorithm: Algorithm, workers: int, **options: Any) -> Result:
    given: dict[str, Any] = {
        "rounds": 2,
        "seed": 1,
        "participation": 0.67,
        "batching": Batching(3),
        "evaluate_every": 1,
        **options,
    }
    model, data = given.pop("model", None) or small_network(), given.pop("data", DATA)
    return simulate(algorithm, model, data, workers=workers, **given)


# Who does what.


class Somebody:
    """A worker, as far as it matters whose clients were whose."""


@given(
    st.lists(st.lists(st.integers(0, 40), unique=True), max_size=4),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
def test_every_job_is_given_once_and_clients_stay_with_their_workers(
    rounds: list[list[int]], count: int, chance: random.Random
) -> None:
    workers: list[Any] = [Somebody() for _ in range(count)]
    before: dict[int, Any] = {}
    for clients in rounds:
        waiting = processes._Waiting((Job("train", [client], [{}], Moment()) for client in clients), before)
        left = list(clients)
        while left:
            worker = chance.choice(workers)
            job = waiting.next_for(worker)
            assert job
            [client] = job.clients
            near = left[: processes.AHEAD]
            own = [each for each in near if before.get(each) is worker]
            assert client == (own or near)[0], "the first that it had before, else the first"
            left.remove(client)
        assert all(waiting.next_for(worker) is None for worker in workers)
        before = waiting.given


def test_jobs_that_are_far_off_are_not_made_yet() -> None:
    made: list[int] = []

    def coming() -> Iterator[Job]:
        for client in range(100):
            made.append(client)
            yield Job("train", [client], [{}], Moment())

    worker: Any = Somebody()
    waiting = processes._Waiting(coming(), {99: worker})
    first = waiting.next_for(worker)
    assert first
    assert list(first.clients) == [0]
    assert len(made) == processes.AHEAD


def test_workers_go_on_with_their_clients(tmp_path: Path) -> None:
    """Two workers, four clients, two of them slow: whoever had a client gets it again if nobody must wait for it."""
    run(ALGORITHMS["fedrep"], 2, rounds=4, participation=1.0, run_phase=partial(signing, place=tmp_path))
    signed = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    by = Counter((client, pid) for client, pid in signed)
    assert len({pid for _, pid in by}) == 2
    for client in {client for client, _ in by}:
        most = max(times for (each, _), times in by.items() if each == client)
        assert most >= 0.7 * sum(times for (each, _), times in by.items() if each == client)


def signing(phase: Phase, clients: Sequence[Client], tensors: Sequence[Tensors], *, place: Path) -> list[Tensors]:
    """A runner for which every client takes a while, and which notes whose it was."""
    for client in clients:
        time.sleep(0.05)
        with (place / "log").open("a") as log:
            log.write(f"{client.id} {os.getpid()}\n")
    return fast.run_phase(phase, clients, tensors)


# The same bits.


@cache
def alone(name: str) -> str:
    return digest(run(ALGORITHMS[name], 1))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_any_number_of_workers_gives_the_same_bits(
    name: str, monkeypatch: pytest.MonkeyPatch, folders: list[Path]
) -> None:
    """Three of four clients in each round, a newcomer who never trains, and small clients by themselves or together."""
    whole = alone(name)
    assert digest(run(ALGORITHMS[name], 2)) == whole
    assert digest(run(ALGORITHMS[name], 3)) == whole
    monkeypatch.setattr(simulation, "TOGETHER", 12)
    assert digest(run(ALGORITHMS[name], 2)) == whole
    assert digest(run(ALGORITHMS[name], 1)) == whole


@pytest.mark.parametrize("name", ["fedrep", "scaffold", "flayer official"])
def test_workers_that_are_spawned_give_the_same_bits(
    name: str, monkeypatch: pytest.MonkeyPatch, folders: list[Path]
) -> None:
    """They have another seed of hashes, so that nothing may depend on the order of a set."""
    monkeypatch.setattr(simulation, "crew", partial(crew, method="spawn"))
    assert digest(run(ALGORITHMS[name], 2)) == alone(name)


def test_more_workers_than_clients(folders: list[Path]) -> None:
    assert digest(run(ALGORITHMS["fedper"], 7)) == alone("fedper")


def test_networks_of_different_sizes(folders: list[Path]) -> None:
    draw = np.random.default_rng(3)
    labels = draw.integers(0, 6, 300)
    rows = (labels[:, None] + draw.normal(size=(300, 4))).astype(np.float32)
    data = federate(pool("tiny", rows, labels), dirichlet(clients=5, alpha=0.3, smallest=12), own_labels=True)
    assert len({data.classes_of(client) for client in range(5)}) > 1
    results = [run(fedper(), workers, model=mlp, data=data) for workers in (1, 2, 3)]
    assert len({digest(result) for result in results}) == 1
    assert len({tuple(own["head.weight"].shape) for own in results[0].own.values()}) > 1


def test_clients_that_are_absent_work_too(folders: list[Path]) -> None:
    algorithm = brief(flayer(variant="official", on=fedper(), everyone=True))
    assert algorithm.absent
    results = [run(algorithm, workers, participation=0.3) for workers in (1, 2, 3)]
    assert len({digest(result) for result in results}) == 1
    assert results[0].own.keys() == {0, 1, 2, 4}, "all but the newcomer keep something"


@pytest.mark.parametrize("method", ["pretrain", "norm", "babu", "adam"])
def test_experiments_with_their_stages(method: str, monkeypatch: pytest.MonkeyPatch, folders: list[Path]) -> None:
    found = []
    for workers in ("1", "2", "3"):
        monkeypatch.setenv("PARTITA_WORKERS", workers)
        found.append(digest(make({**SETTINGS, **METHODS[method]}).run()))
    assert len(set(found)) == 1


class Wide(nn.Module):
    """Large enough that what travels takes files."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 9000).double()
        self.norm = nn.BatchNorm1d(9000).double()
        self.head = nn.Linear(9000, 3).double()

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.norm(self.body(inputs)).relu())
        return outputs


def test_large_tensors_travel_in_files(folders: list[Path]) -> None:
    torch.manual_seed(0)
    module = Wide()
    results = [run(ALGORITHMS["ditto"], workers, model=module) for workers in (1, 2, 3)]
    assert len({digest(result) for result in results}) == 1
    for own in results[1].own.values():
        for tensor in own.values():
            tensor.add_(1)  # One's own memory, that outlives the workers.
            assert tensor.untyped_storage().nbytes() == tensor.nbytes


def test_what_was_done_before_does_not_matter(folders: list[Path]) -> None:
    """Several threads, a gradient and random numbers of one's own before workers are forked; all stays as it was."""
    torch.manual_seed(1)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        large = torch.randn(300, 300, requires_grad=True)
        torch.autograd.grad((large @ large).sum(), large)
        state = torch.get_rng_state()
        assert digest(run(ALGORITHMS["fedrep"], 2)) == alone("fedrep")
        assert torch.get_num_threads() == 2
        assert torch.equal(state, torch.get_rng_state())
    finally:
        torch.set_num_threads(threads)


def test_a_process_that_may_have_no_children_does_the_work_itself() -> None:
    queue = FORK.SimpleQueue()
    process = FORK.Process(target=lambda: queue.put(digest(run(ALGORITHMS["fedper"], 2))), daemon=True)
    process.start()
    assert queue.get() == alone("fedper")
    process.join()


def test_outcomes_may_come_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    real = crew

    def shuffled(*given: Any) -> Any:
        inner = real(*given)
        work = inner.__enter__()

        class Crew:
            def __enter__(self) -> Callable[..., Any]:
                return lambda *given: reversed(list(work(*given)))

            def __exit__(self, *given: Any) -> None:
                inner.__exit__(*given)

        return Crew()

    expected = {name: alone(name) for name in ("fedper", "scaffold", "flayer", "fedamp")}
    monkeypatch.setattr(simulation, "crew", shuffled)
    assert {name: digest(run(ALGORITHMS[name], 1)) for name in expected} == expected


@given(st.lists(st.integers(3, 60), min_size=1, max_size=12), st.integers(1, 100))
def test_every_client_is_in_one_job_and_large_ones_come_first(sizes: list[int], together: int) -> None:
    data = small_federation(sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "TOGETHER", together)
        states = {0: {"a": torch.ones(1)}}
        found = list(jobs("train", range(len(sizes)), Moment(), data=data, states=states, measured=True))
    order = [client for job in found for client in job.clients]
    assert sorted(order) == list(range(len(sizes)))
    assert [sizes[client] for client in order] == sorted(sizes, reverse=True)
    for job, after in pairwise([*found, None]):
        assert job
        held = sum(sizes[client] for client in job.clients)
        assert held <= together or len(job.clients) == 1
        assert after is None or held + sizes[after.clients[0]] > together
    assert all((job.own[job.clients.index(0)] is states[0]) for job in found if 0 in job.clients)
    assert all(job.measured for job in found)


@pytest.mark.parametrize("told", ["0", "-1", "two", "1.5"])
def test_a_number_of_workers_that_is_none(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTITA_WORKERS", told)
    with pytest.raises(PartitaError, match=r"PARTITA_WORKERS is .*at least 1"):
        workers_of_machine()
    with pytest.raises(PartitaError, match="at least 1"):
        run(fedavg(), 0)


def test_by_default_there_is_one_for_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARTITA_WORKERS")
    assert workers_of_machine() == len(os.sched_getaffinity(0))


# Death.


def dying(
    phase: Phase, clients: Sequence[Client], tensors: Sequence[Tensors], *, place: Path, times: int, who: int
) -> Any:
    """Training that kills its process so many times, before or after its work."""
    with (place / "deaths").open("a+") as file:
        file.seek(0)
        deaths = len(file.read())
        if clients[0].id == who and deaths < times:
            if deaths % 2:
                fast.run_phase(phase, clients, tensors)
            file.write("x")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    return fast.run_phase(phase, clients, tensors)


@pytest.mark.parametrize(("method", "times"), [("fork", 1), ("fork", 2), ("spawn", 1)])
def test_the_work_of_one_who_dies_is_done_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: list[Path], method: str, times: int
) -> None:
    monkeypatch.setattr(simulation, "crew", partial(crew, method=method))
    result = run(ALGORITHMS["fedrep"], 2, run_phase=partial(dying, place=tmp_path, times=times, who=2))
    assert len((tmp_path / "deaths").read_text()) == times
    assert digest(result) == alone("fedrep")


def test_work_that_kills_everyone_is_given_up(tmp_path: Path, folders: list[Path]) -> None:
    began = time.monotonic()
    with pytest.raises(PartitaError, match=r"died 3 times over the same clients \(exit code -9\).*fewer workers"):
        run(ALGORITHMS["fedrep"], 2, run_phase=partial(dying, place=tmp_path, times=99, who=2))
    assert len((tmp_path / "deaths").read_text()) == processes.ATTEMPTS == 3
    assert time.monotonic() - began < 20


def slowly(phase: Phase, clients: Sequence[Client], tensors: Sequence[Tensors]) -> list[Tensors]:
    time.sleep(0.01)
    return fast.run_phase(phase, clients, tensors)


@pytest.mark.parametrize("part", range(4))
def test_workers_are_killed_at_any_moment(folders: list[Path], part: int) -> None:
    """By whoever, idle or at work; the run goes on. One dies in a round: three over the same clients would end it."""
    module, draw, over = Wide(), random.Random(part), threading.Event()
    whole = digest(run(ALGORITHMS["ditto"], 1, rounds=8, model=module))
    before, done, killed = set(children()), list[Progress](), Counter[int]()

    def kill() -> None:
        while not over.wait(0.02 + 0.1 * draw.random()):
            if not killed[len(done)] and (found := [pid for pid in children() if pid not in before]):
                os.kill(draw.choice(found), signal.SIGKILL)
                killed[len(done)] += 1

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        found = digest(run(ALGORITHMS["ditto"], 2, rounds=8, model=module, run_phase=slowly, on_round=done.append))
    finally:
        over.set()
        killer.join()
    assert killed.total()
    assert found == whole


def test_workers_that_die_between_rounds_are_replaced(folders: list[Path]) -> None:
    before = set(children())

    def kill(progress: Progress) -> None:
        for pid in set(children()) - before:
            os.kill(pid, signal.SIGKILL)

    assert digest(run(ALGORITHMS["fedper"], 2, on_round=kill)) == alone("fedper")


# What goes wrong in a worker is told as if it had gone wrong here.


class Stubborn(Exception):
    """It cannot be made again from its pickle."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_loss_that_diverges(workers: int) -> None:
    with pytest.raises(DivergedError, match=r"of client \d became .* in round 1"):
        run(fedavg(optimizer=SGD(1e200), epochs=3), workers)


def test_where_it_went_wrong_is_told(folders: list[Path]) -> None:
    with pytest.raises(DivergedError) as caught:
        run(fedavg(optimizer=SGD(1e200), epochs=3), 2)
    assert "in a worker" in str(caught.value.__cause__)
    assert "runners/fast.py" in str(caught.value.__cause__)


class Local:
    """Exceptions that a worker may raise, by what is to be seen of them."""

    def __init__(self, problem: BaseException) -> None:
        self.problem = problem

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        raise self.problem


def of_nowhere() -> Exception:
    class Nowhere(Exception):
        pass

    return Nowhere("left and right")


@pytest.mark.parametrize(
    ("problem", "kind", "text"),
    [
        (ZeroDivisionError("by hand"), ZeroDivisionError, "^by hand$"),
        (PartitaError("In words."), PartitaError, "^In words.$"),
        (Stubborn("left", "right"), RuntimeError, "Stubborn: left and right"),
        (of_nowhere(), RuntimeError, "Nowhere: left and right"),
    ],
    ids=["known", "ours", "stubborn", "of nowhere"],
)
def test_exceptions_reach_the_caller(problem: Exception, kind: type[Exception], text: str, folders: list[Path]) -> None:
    with pytest.raises(kind, match=text) as caught:
        run(fedavg(), 2, loss=Local(problem))
    assert "Local" in str(caught.value.__cause__) or "__call__" in str(caught.value.__cause__)


@pytest.mark.parametrize("which", [1, 2])
def test_no_worker_is_left_when_another_cannot_be_hired(
    monkeypatch: pytest.MonkeyPatch, folders: list[Path], which: int
) -> None:
    """As where the system allows no more processes."""
    real, calls = processes._Pool._hire, iter(range(9))

    def hire(self: Any) -> Any:
        if next(calls) == which:
            raise BlockingIOError("Resource temporarily unavailable")
        return real(self)

    monkeypatch.setattr(processes._Pool, "_hire", hire)
    with pytest.raises(BlockingIOError):
        run(fedavg(), 3)


def test_nothing_is_left_where_an_outfit_cannot_be_packed(monkeypatch: pytest.MonkeyPatch, folders: list[Path]) -> None:
    monkeypatch.setattr(simulation, "crew", partial(crew, method="spawn"))
    lock = threading.Lock()

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        with lock:
            return outputs.sum()

    with pytest.raises(TypeError, match="lock"):
        run(fedavg(), 2, loss=loss)


def test_nothing_is_left_where_memory_is_full(monkeypatch: pytest.MonkeyPatch, folders: list[Path]) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("partita.simulation.executors.transport._bytes", full)
    with pytest.raises(PartitaError, match=r"no room for \d+ MB"):
        run(fedavg(), 2, model=Wide())


# Processes of their own.


def marked(mark: str) -> list[int]:
    """Processes that have the mark in their environment, and are no more than asleep."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            zombie = path.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "Z"
            if f"{MARK}={mark}".encode() in path.joinpath("environ").read_bytes().split(b"\0") and not zombie:
                found.append(int(path.name))
        except OSError:
            continue
    return found


def wait_for(condition: Callable[[], object], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def script(tmp_path: Path, text: str, workers: int = 2) -> subprocess.Popen[str]:
    """A script in a group of its own; it notes where its parcels are."""
    noting = f"""
import partita.processes as processes
real = processes.memory_folder
def noted():
    folder = real()
    open({str(tmp_path / "folders")!r}, "a").write(str(folder) + chr(10))
    return folder
processes.memory_folder = noted
"""
    path = tmp_path / "script.py"
    path.write_text(noting + text, encoding="utf-8")
    environment = {
        **os.environ,
        "PARTITA_WORKERS": str(workers),
        MARK: str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(Path(processes.__file__).parents[3]), str(Path(__file__).parents[1])]),
    }
    return subprocess.Popen(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def clean(tmp_path: Path) -> bool:
    return not any(Path(line).exists() for line in (tmp_path / "folders").read_text().split())


COMMAND = """
from partita import simulation
simulation.TOGETHER = 1
import sys
from partita.cli import main
sys.argv = ["partita", "run", "--output", "kept", "--json", *{settings!r}]
main()
"""
OVERRIDES = [
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


@pytest.fixture(scope="module")
def forty_rounds(tmp_path_factory: pytest.TempPathFactory) -> str:
    from partita.experiment.experiment import read

    return digest(start(read(None, OVERRIDES), tmp_path_factory.mktemp("whole"), interval=20))


@pytest.mark.parametrize("moment", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_control_c_ends_all_and_loses_nothing(
    tmp_path: Path, forty_rounds: str, moment: float, kind: signal.Signals
) -> None:
    process = script(tmp_path, COMMAND.format(settings=OVERRIDES))
    kept = tmp_path / "kept"
    assert wait_for(lambda: (kept / DATABASE).exists() and len(marked(str(tmp_path))) == 3, 60)
    time.sleep(moment)
    os.killpg(process.pid, kind)
    said, _ = process.communicate(timeout=30)
    assert wait_for(lambda: not marked(str(tmp_path)), 2)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "partita resume" in said
    assert clean(tmp_path)
    assert status(kept) == "interrupted"
    assert digest(resume(kept)) == forty_rounds


@pytest.mark.parametrize("moment", [0.1, 0.5])
def test_an_impatient_control_c_leaves_nothing_either(tmp_path: Path, forty_rounds: str, moment: float) -> None:
    """Again and again, while it is being obeyed; what Python says on its way out is its own."""
    process = script(tmp_path, COMMAND.format(settings=OVERRIDES))
    kept = tmp_path / "kept"
    assert wait_for(lambda: (kept / DATABASE).exists() and len(marked(str(tmp_path))) == 3, 60)
    time.sleep(moment)
    for _ in range(5):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.005)
    process.communicate(timeout=30)
    assert wait_for(lambda: not marked(str(tmp_path)), 2)
    assert digest(resume(kept)) == forty_rounds
    assert clean(tmp_path), "no folder in memory"


LONG = """
import os, time
from functools import partial
from partita import processes, simulation, simulate
from partita.algorithms.fedavg import fedavg
from partita.processes import crew
from partita.runners import fast
from toys import small_federation, small_network
simulation.TOGETHER = 1
simulation.crew = partial(crew, method={method!r})
def forever(phase, clients, tensors):
    open("begun", "a").write("x")
    {what}
    return fast.run_phase(phase, clients, tensors)
if __name__ == "__main__":
    simulate(fedavg(), small_network(), small_federation(), rounds=1, workers=3, run_phase=forever)
"""


@pytest.mark.parametrize(
    ("method", "what"), [("fork", "time.sleep(100)"), ("fork", "while True: pass"), ("spawn", "time.sleep(100)")]
)
def test_no_worker_outlives_its_parent(tmp_path: Path, method: str, what: str) -> None:
    process = script(tmp_path, LONG.format(method=method, what=what))
    begun = tmp_path / "begun"
    assert wait_for(lambda: begun.exists() and len(begun.read_text()) == 3, 60)
    assert len(marked(str(tmp_path))) >= 4
    process.kill()
    assert wait_for(lambda: not marked(str(tmp_path)), 2)
    process.communicate(timeout=5)
    assert clean(tmp_path)


def test_a_script_without_a_guard(tmp_path: Path) -> None:
    text = LONG.format(method="fork", what="pass").replace('if __name__ == "__main__":', "if True:")
    process = script(tmp_path, text + '    print("done")')
    said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "done\n")
    assert clean(tmp_path)
    assert not marked(str(tmp_path))


@pytest.fixture(scope="module")
def twelve_rounds(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, float]:
    start(DIGITS, tmp_path_factory.mktemp("warm"), interval=2)
    began = time.perf_counter()
    result = start(DIGITS, tmp_path_factory.mktemp("digits"), interval=2)
    return digest(result), time.perf_counter() - began


@pytest.mark.parametrize("part", range(4))
def test_a_kill_of_the_parent_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, twelve_rounds: tuple[str, float], part: int
) -> None:
    """Twenty first kills with two workers, as test_runs.py has them with one; no worker is left by any."""
    whole, seconds = twelve_rounds
    monkeypatch.setenv("PARTITA_WORKERS", "2")
    draw = random.Random(part)
    for fifth in range(5):
        folder = tmp_path / str(fifth)
        for delay in (seconds * (fifth + draw.random()) / 5, seconds * draw.random(), 60):
            made = FORK.Event()
            process = child(begin_or_go_on, folder, made)
            assert made.wait(60)
            process.join(delay)
            assert process.pid
            workers = children(process.pid)
            process.kill()
            process.join()
            assert wait_for(partial(gone, workers), 2)
        assert process.exitcode == 0
        assert status(folder) == "done"
        assert digest(resume(folder)) == whole


def gone(pids: list[int]) -> bool:
    return not any(map(alive, pids))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
