"""What is attacked in a federation? Sites as processes of their own, each with its folder, its socket and its log."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from partita.deploy.audit import AuditLog, verify
from partita.deploy.gate import Gate, Policy
from partita.deploy.messages import Order
from partita.deploy.personal import PersonalStore
from partita.deploy.plan import Plan
from partita.deploy.server import RECEIPT, Limits, Rejection, Sites, introduced
from partita.deploy.site import Site, one_client
from partita.deploy.wire import ask, listening, serve
from partita.errors import PartitaError
from partita.experiment.executors.inline import Inline
from partita.experiment.rounds import rounds
from partita.experiment.setup import Setup
from partita.experiment.simulate import run_stages
from partita.tensors import Tensors

from .victim import ROUNDS, code_of, data, experiment, forked

METHOD = "fedper"
OPEN = Gate(Policy(algorithms=("*",), models=("*",)))
NORM = 50.0
"""The server accepts changes up to it."""
PATIENCE = 30.0


def plan_of(**changes: object) -> Plan:
    """A small federation, in which everyone takes part in every round."""
    return Plan.of(experiment(METHOD, **{"participation": "all", **changes}))


@dataclass
class House:
    """One site: where it is, and its process while it runs."""

    number: int
    folder: Path
    gate: Gate = OPEN
    process: int = 0
    before: Callable[[], None] = field(default=lambda: None)
    """What a process does before it opens the site."""

    @property
    def socket(self) -> Path:
        return self.folder / "socket"

    @contextmanager
    def opened(self) -> Iterator[Site]:
        name = data().name_of(self.number)
        with PersonalStore(self.folder) as store, closing(AuditLog(self.folder / "audit.log")) as log:
            yield Site(name, one_client(data(), self.number), store, self.gate, log)

    def start(self) -> None:
        """Have the site answer, in a process of its own; one that cannot open its state ends again."""

        def work() -> None:
            self.before()
            with self.opened() as site, listening(self.socket) as listener:
                serve(listener, site.answer)

        self.socket.unlink(missing_ok=True)
        self.process = forked(work)
        end = time.monotonic() + PATIENCE
        while not self.socket.exists() and time.monotonic() < end:
            if os.waitpid(self.process, os.WNOHANG)[0]:
                self.process = 0
                return
            time.sleep(0.005)

    def kill(self) -> None:
        if self.process:
            with suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGKILL)
            code_of(self.process)
            self.process = 0

    def kill_after(self, seconds: float) -> int:
        """A process that kills the site in a moment; returns its id."""
        victim = self.process

        def work() -> None:
            time.sleep(seconds)
            os.kill(victim, signal.SIGKILL)

        return forked(work)


@contextmanager
def houses(place: Path, count: int) -> Iterator[list[House]]:
    """Running sites; they end with the block."""
    made = [House(number, place / str(number)) for number in range(count)]
    try:
        for house in made:
            house.start()
        yield made
    finally:
        for house in made:
            house.kill()


@dataclass
class Ended:
    """What a federation left with the server."""

    state: Tensors = field(default_factory=dict)
    receipts: dict[int, Tensors] = field(default_factory=dict)
    gone: set[tuple[int, int]] = field(default_factory=set)
    """The rounds, counted from 1, in which a site was to train and its update was not used."""
    reasons: list[str] = field(default_factory=list)
    """Why sites were left out."""


Change = Callable[[House, Order, Callable[[], bytes]], bytes]
"""What a site answers to an order, given how it would answer."""


def federate(plan: Plan, made: Sequence[House], change: Change) -> Ended:
    """Run a plan with the server in this process; sites that do not answer are left out."""
    found = Ended()
    asked: dict[int, Order] = {}

    def exchange(orders: Mapping[int, bytes], seconds: float) -> Iterator[tuple[int, bytes | PartitaError]]:
        asked.update({number: Order.read(order) for number, order in orders.items()})
        for number, order in orders.items():
            try:
                yield number, change(made[number], asked[number], partial(ask, made[number].socket, order))
            except PartitaError as problem:
                yield number, problem

    def rejected(rejection: Rejection) -> None:
        number = plan.number_of(rejection.site)
        found.reasons.append(rejection.reason)
        if asked[number].kind == "train":
            found.gone.add((asked[number].round + 1, number))

    remote = plan.experiment_on(introduced(plan, exchange, Limits()))
    setup = Setup.of(remote, remote.stages[-1], {})
    for ended in rounds(setup, Sites(plan, exchange, Limits(norm=NORM), rejected), found.receipts):
        found.state = ended.state
    return found


def need_same(found: Ended, made: Sequence[House], plan: Plan) -> None:
    """The server's and all sites' states are those of a simulation without the rounds that were left out."""
    everyone = range(len(plan.sites))
    schedule = [[at for at in everyone if (round, at) not in found.gone] for round in range(1, ROUNDS + 1)]
    expected = run_stages(experiment(METHOD, participation=schedule), Inline())
    need_equal(found.state, expected.state, "the server's state")
    for house in made:
        last = int(found.receipts[house.number][RECEIPT]) if house.number in found.receipts else 0
        with PersonalStore(house.folder, write=False) as store:
            need_equal(store.own(plan.hash, last), expected.own.get(house.number, {}), f"the state of {house.number}")
        verify(house.folder / "audit.log")


def need_equal(one: Tensors, other: Tensors, what: str) -> None:
    if one.keys() != other.keys() or not all(one[name].equal(other[name]) for name in one):
        raise AssertionError(f"{what} has other bits")
