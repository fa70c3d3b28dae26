"""Workers that die: their work is done by others, to the same bits, and what kills everyone is given up."""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from bits import bits
from experiment.small import Wide, run
from laws.methods import ALGORITHMS
from partita.core.client import Client
from partita.core.phases import Phase
from partita.engine.fast import FastEngine
from partita.errors import PartitaError
from partita.experiment.events import Event
from partita.experiment.executors._pool import ATTEMPTS, Start
from partita.experiment.executors.processes import Processes
from partita.tensors import Tensors
from repetition import repeated
from watching import children, named_memory, nothing_left


@cache
def alone(name: str) -> str:
    return bits(run(ALGORITHMS[name], "inline"))


def dying(
    phase: Phase, clients: Sequence[Client], tensors: Sequence[Tensors], *, place: Path, times: int, who: int
) -> Any:
    """Training that kills its process so many times, before or after its work."""
    with (place / "deaths").open("a+") as file:
        file.seek(0)
        deaths = len(file.read())
        if clients[0].id == who and deaths < times:
            if deaths % 2:
                FastEngine()(phase, clients, tensors)
            file.write("x")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    return FastEngine()(phase, clients, tensors)


@pytest.mark.parametrize(("start", "times"), [("fork", 1), ("fork", 2), ("spawn", 1)])
def test_the_work_of_one_who_dies_is_done_by_another(tmp_path: Path, start: Start, times: int) -> None:
    with nothing_left():
        dies = partial(dying, place=tmp_path, times=times, who=2)
        result = run(ALGORITHMS["fedrep"], Processes(2, start), run_phase=dies)
    assert len((tmp_path / "deaths").read_text()) == times
    assert bits(result) == alone("fedrep")


def test_work_that_kills_everyone_is_given_up(tmp_path: Path) -> None:
    words = r"died 3 times while it worked on the same clients \(exit code -9\).*fewer workers"
    with nothing_left(), pytest.raises(PartitaError, match=words):
        run(ALGORITHMS["fedrep"], "processes:2", run_phase=partial(dying, place=tmp_path, times=99, who=2))
    assert len((tmp_path / "deaths").read_text()) == ATTEMPTS == 3


def slowly(phase: Phase, clients: Sequence[Client], tensors: Sequence[Tensors]) -> list[Tensors]:
    time.sleep(0.01)
    return FastEngine()(phase, clients, tensors)


@pytest.mark.parametrize("part", repeated(range(4)))
def test_workers_are_killed_at_any_moment(part: int) -> None:
    """By whoever, idle or at work; the run goes on. One dies in a round: three over the same clients would end it."""
    module, draw, over = Wide(), random.Random(part), threading.Event()
    whole = bits(run(ALGORITHMS["ditto"], "inline", rounds=8, model=module))
    before, done, killed = set(children()), list[Event](), Counter[int]()
    mapped, named = set(named_memory(os.getpid())), set[str]()

    def kill() -> None:
        while not over.wait(0.02 + 0.1 * draw.random()):
            named.update(named_memory(os.getpid()))
            if not killed[len(done)] and (found := [pid for pid in children() if pid not in before]):
                named.update(named_memory(found[0]))
                with suppress(ProcessLookupError):
                    os.kill(draw.choice(found), signal.SIGKILL)
                    killed[len(done)] += 1

    killer = threading.Thread(target=kill)
    with nothing_left():
        killer.start()
        try:
            options: dict[str, Any] = {"rounds": 8, "model": module, "run_phase": slowly, "on_event": done.append}
            found = bits(run(ALGORITHMS["ditto"], "processes:2", **options))
        finally:
            over.set()
            killer.join()
    assert killed.total()
    assert found == whole
    assert not named - mapped, "what travels has no name"


def test_workers_that_die_between_rounds_are_replaced() -> None:
    before = set(children())

    def kill(event: Event) -> None:
        for pid in set(children()) - before:
            os.kill(pid, signal.SIGKILL)

    with nothing_left():
        assert bits(run(ALGORITHMS["fedper"], "processes:2", on_event=kill)) == alone("fedper")
