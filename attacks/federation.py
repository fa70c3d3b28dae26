"""What if parts of a federation crash, lie or lose their disk? Nothing is lost but the round that was not accepted.

After each trial the states of the server and of all sites are compared, bit by bit, with a simulation in which those
who were left out did not take part.

One file, since all trials compare states in the same way.
"""

import datetime
import os
import random
import resource
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args
from unittest.mock import patch

import torch

from partita.api.run import keep
from partita.deploy.gate import Gate
from partita.deploy.messages import Kind, Order, Reply
from partita.deploy.personal import DATABASE, PersonalStore
from partita.deploy.server import Limits, Sites, introduced
from partita.deploy.wire import ask
from partita.errors import PartitaError
from partita.experiment.executors.inline import Inline
from partita.experiment.simulate import run_stages
from partita.runs.store import Store

from .houses import METHOD, House, federate, houses, need_equal, need_same, plan_of
from .tally import Tally
from .victim import CLIENTS, ROUNDS, code_of, experiment, forked


def _tallied(trials: int, trial: Callable[[int], str]) -> Tally:
    """Trials by what each says of its outcome; one that fails is broken."""
    tally = Tally()
    for at in range(trials):
        try:
            tally.held[trial(at)] += 1
        except Exception as problem:
            tally.broken.append(f"trial {at}: {problem!r}")
    return tally


def node_kills(place: Path, trials: int, seed: int) -> Tally:
    """`kill -9` of a site at a random moment of a round: before, while or after it answers. It is started again."""
    draw, plan = random.Random(seed), plan_of()

    def trial(at: int) -> str:
        round, number, moment = (
            draw.randrange(ROUNDS),
            draw.randrange(CLIENTS),
            draw.choice(["before", "during", "after"]),
        )
        seconds = draw.random() * 0.03

        def change(house: House, order: Order, answer: Callable[[], bytes]) -> bytes:
            if not house.process:
                house.start()
            if (house.number, order.kind, order.round) != (number, "train", round):
                return answer()
            if moment == "before":
                house.kill()
                raise PartitaError("killed")
            killer = house.kill_after(seconds) if moment == "during" else 0
            try:
                return answer()
            finally:
                if killer:
                    code_of(killer)
                house.kill()

        with houses(place / str(at), CLIENTS) as made:
            found = federate(plan, made, change)
            need_same(found, made, plan)
        shutil.rmtree(place / str(at))
        return (
            f"killed {moment} its answer: {'left out of the round' if found.gone else 'its answer was used'}, same bits"
        )

    return _tallied(trials, trial)


def server_kills(place: Path, trials: int, seed: int) -> Tally:
    """`kill -9` of the server's process at a random moment; it is started again, and sites go back where needed."""
    draw, plan = random.Random(seed), plan_of()
    whole = run_stages(experiment(METHOD, participation="all"), Inline())

    def serve_run(folder: Path, made: Sequence[House]) -> None:
        def exchange(orders: Mapping[int, bytes], seconds: float) -> Iterator[tuple[int, bytes]]:
            for number, order in orders.items():
                yield number, ask(made[number].socket, order)

        remote = plan.experiment_on(introduced(plan, exchange, Limits()))
        keep(remote, folder, baselines=None, on=Sites(plan, exchange))

    began = time.perf_counter()
    with houses(place / "first", CLIENTS) as made:
        code_of(forked(partial(serve_run, place / "first" / "run", made)))
    length = time.perf_counter() - began

    def trial(at: int) -> str:
        folder = place / str(at)
        with houses(folder, CLIENTS) as made:
            child = forked(partial(serve_run, folder / "run", made))
            time.sleep(length * draw.random())
            os.kill(child, signal.SIGKILL)
            killed = code_of(child) == -signal.SIGKILL
            if code_of(forked(partial(serve_run, folder / "run", made))):
                raise AssertionError("the run could not go on")
        with closing(Store.open(folder / "run", write=False)) as store:
            found = store.server("run")
            if not store.record.done or found is None:
                raise AssertionError("the run is not done")
            need_equal(found[1], whole.state, "the server's state")
        for house in made:
            with PersonalStore(house.folder, write=False) as own:
                need_equal(own.own(plan.hash, ROUNDS), whole.own[house.number], f"the state of {house.number}")
        shutil.rmtree(folder)
        return f"{'killed' if killed else 'over before the kill'}, went on to the same bits"

    return _tallied(trials, trial)


WEIGHT = "values/layer1.weight"


def _with(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Reply], Reply]:
    return lambda reply: replace(reply, sent={**reply.sent, name: change(reply.sent.get(name, torch.ones(3)))})


LIES: dict[str, Callable[[Reply], Reply]] = {
    "sends not a number": _with(WEIGHT, lambda weight: weight * torch.nan),
    "sends another shape": _with(WEIGHT, lambda weight: weight[:2]),
    "sends 10 times the norm that is accepted": _with(WEIGHT, lambda weight: weight + 500.0),
    "sends a personal tensor": _with("values/head.bias", lambda bias: bias),
    "sends another type": _with(WEIGHT, lambda weight: weight.double()),
    "sends an old round": lambda reply: replace(reply, round=reply.round - 1),
}


def lies(place: Path, trials: int, seed: int) -> Tally:
    """A site that sends nothing or what cannot be used, in a random round: it is left out, and told."""
    draw, plan = random.Random(seed), plan_of()
    kinds = [*LIES, "sends nothing"]

    def trial(at: int) -> str:
        kind, round, number = kinds[at % len(kinds)], draw.randrange(1, ROUNDS), draw.randrange(CLIENTS)
        told: list[str] = []

        def change(house: House, order: Order, answer: Callable[[], bytes]) -> bytes:
            reply = answer()
            told.extend([order.rejected] if order.rejected else [])
            if (house.number, order.kind, order.round) != (number, "train", round):
                return reply
            if kind not in LIES:
                raise PartitaError("no reply")
            return LIES[kind](Reply.read(reply)).write()

        with houses(place / str(at), CLIENTS) as made:
            found = federate(plan, made, change)
            if found.gone != {(round + 1, number)}:
                raise AssertionError(f"left out were {found.gone}")
            if round + 1 < ROUNDS and kind in LIES and len(told) != 1:
                raise AssertionError(f"told was {told}")
            need_same(found, made, plan)
        shutil.rmtree(place / str(at))
        return f"{kind}: left out and told, same bits as without it"

    return _tallied(trials, trial)


def node_room(place: Path, trials: int, seed: int) -> Tally:
    """No file of a site can exceed a size in rounds 2 and 3: it refuses what it cannot keep, and goes on afterwards."""
    plan = plan_of()

    def limited(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    def trial(at: int) -> str:
        size = 200_000 * at // trials

        def change(house: House, order: Order, answer: Callable[[], bytes]) -> bytes:
            if house.number == 1 and order.kind == "train" and order.round in (1, 3):
                house.kill()
                house.before = partial(limited, size) if order.round == 1 else lambda: None
                house.start()
            return answer()

        with houses(place / str(at), CLIENTS) as made:
            found = federate(plan, made, change)
            need_same(found, made, plan)
            if (ROUNDS, 1) in found.gone:
                raise AssertionError("the site did not come back")
        shutil.rmtree(place / str(at))
        rounds = len(found.gone)
        return (
            f"{'refused or silent in ' + str(rounds) + ' rounds' if rounds else 'enough room'}, back with the same bits"
        )

    return _tallied(trials, trial)


def node_truncation(place: Path, trials: int, seed: int) -> Tally:
    """The personal state is cut off at a random place after round 2, and restored from a copy after round 3."""
    draw, plan = random.Random(seed), plan_of()

    def trial(at: int) -> str:
        part = draw.random()

        def change(house: House, order: Order, answer: Callable[[], bytes]) -> bytes:
            if house.number == 1 and order.kind == "train" and order.round in (2, 3):
                copy, file = house.folder / "copy", house.folder / DATABASE
                if order.round == 2:
                    with PersonalStore(house.folder, write=False) as store:
                        store.copy_to(copy)
                house.kill()
                if order.round == 2:
                    _cut(file, part)
                elif (3, 1) in gone:
                    for each in house.folder.glob(f"{DATABASE}*"):
                        each.unlink()
                    shutil.copy(copy, file)
                house.start()
            try:
                reply = answer()
            except PartitaError:
                if order.kind == "train":
                    gone.add((order.round + 1, house.number))
                raise
            if order.kind == "train" and Reply.read(reply).refused:
                gone.add((order.round + 1, house.number))
            return reply

        gone: set[tuple[int, int]] = set()
        with houses(place / str(at), CLIENTS) as made:
            found = federate(plan, made, change)
            need_same(found, made, plan)
            if (ROUNDS, 1) in found.gone:
                raise AssertionError(f"the site did not come back: {found.reasons}")
        shutil.rmtree(place / str(at))
        return f"{'noticed, restored' if found.gone else 'harmless'}, the same bits"

    return _tallied(trials, trial)


def _cut(file: Path, part: float) -> None:
    """Everything is in the file first, so that what is cut off is really gone."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
    content = file.read_bytes()
    file.write_bytes(content[: int(part * len(content))])


def approvals(place: Path, trials: int, seed: int) -> Tally:
    """A plan that a site did not approve: whatever order comes, it is refused, and nothing is trained or kept."""
    draw, plan = random.Random(seed), plan_of()

    def trial(at: int) -> str:
        folder = place / str(at)
        house = House(draw.randrange(CLIENTS), folder, Gate(approvals=folder / "approvals.json"))
        kind: Kind = draw.choice(get_args(Kind))
        order = Order(
            kind, plan.text if kind == "introduce" else plan.hash, draw.randrange(ROUNDS), taking_part=CLIENTS
        )
        with house.opened() as site:
            reply = Reply.read(site.answer(order.write()))
            if not reply.refused or reply.sent or reply.facts or site._store.plan(plan.hash):
                raise AssertionError(f"{kind} was answered with {reply}")
        return f"{kind}: refused"

    return _tallied(trials, trial)


def clocks(place: Path, trials: int, seed: int) -> Tally:
    """Clocks of the server and of sites jump by days at every look: rounds, bits and logs are as ever."""
    plan = plan_of()

    def trial(at: int) -> str:
        with _jumping(random.Random(seed + at)), houses(place / str(at), CLIENTS) as made:
            found = federate(plan, made, lambda house, order, answer: answer())
            if found.gone:
                raise AssertionError(f"left out: {found.reasons}")
            need_same(found, made, plan)
        return "jumped by days, nobody left out, same bits, logs hold"

    return _tallied(trials, trial)


@contextmanager
def _jumping(draw: random.Random) -> Iterator[None]:
    class Jumping(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
            return datetime.datetime(2026, 1, 1, tzinfo=tz) + datetime.timedelta(days=draw.uniform(-5000, 5000))

    with (
        patch("datetime.datetime", Jumping),
        patch("time.time", lambda: draw.uniform(0, 4e9)),
    ):
        yield
