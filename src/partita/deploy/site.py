"""What does a site do? It trains on its own data, keeps its personal part, and sends what is shared."""

import traceback
from collections.abc import Callable
from dataclasses import asdict

import torch

from ..data.federation import Federation
from ..data.split import ROLES
from ..errors import PartitaError
from ..evaluation.scores import Record
from ..simulation.checks import check_clients, check_data, check_evaluation
from ..simulation.executors.inline import one_thread
from ..simulation.jobs import ClientResult, Evaluate, Job, StayAway, Train
from ..simulation.setup import Setup
from .messages import Kind, Order, Reply, packed_update
from .personal import PersonalStore
from .plan import Plan

JOBS: dict[Kind, type[Job]] = {"train": Train, "stay_away": StayAway, "evaluate": Evaluate}


def one_client(data: Federation, client: int) -> Federation:
    """One client of a federation alone, with its own samples and no other."""
    rows = data.roles[client]
    ends = torch.tensor([0, *(len(rows[role]) for role in ROLES)]).cumsum(0).tolist()
    return Federation(
        samples=data.samples.take(torch.cat([rows[role] for role in ROLES])).in_own_storage(),
        roles=[{role: torch.arange(ends[at], ends[at + 1]) for at, role in enumerate(ROLES)}],
        classes=data.classes,
        name=data.name,
        kind=data.kind,
        facts=data.facts,
        label_sets=[data.label_sets[client]] if data.label_sets else (),
        names=[data.name_of(client)],
    )


class Site:
    """One client of a real federation: it holds its data, the network and its personal store."""

    def __init__(
        self, name: str, data: Federation, store: PersonalStore, tell: Callable[[str], None] = lambda text: None
    ) -> None:
        """`data` are of one client; `tell` is told what goes wrong, in words that stay at the site."""
        if len(data) != 1:
            raise PartitaError(f"The data of a site are of one client, and {data.name} has {len(data)}. Choose one.")
        self.name, self._data, self._store, self._tell = name, data, store, tell
        self._setups: dict[str, tuple[int, Setup]] = {}

    def answer(self, message: bytes) -> bytes:
        """The reply to an order. What cannot be done is answered with the reason, without a word on data."""
        kind: Kind = "introduce"
        plan, round = "", 0
        try:
            order = Order.read(message)
            kind, plan, round = order.kind, order.plan, order.round
            with one_thread():
                return self._introduce(order).write() if kind == "introduce" else self._work(order).write()
        except PartitaError as problem:
            reason = str(problem)
            self._tell(f"Refused: {reason}")
        except Exception as problem:
            reason = f"an error of the site ({type(problem).__name__})"
            self._tell(traceback.format_exc())
        return Reply(kind, "" if kind == "introduce" else plan, round, refused=reason).write()

    def _introduce(self, order: Order) -> Reply:
        plan = Plan.read(order.plan)
        self._prepared(plan)
        self._store.add_plan(plan.hash, order.plan)
        rows = self._data.roles[0]
        facts = {role: len(rows[role]) for role in ROLES} | {"classes": self._data.classes_of(0)}
        return Reply("introduce", plan.hash, facts=facts)

    def _work(self, order: Order) -> Reply:
        number, setup = self._setup(order.plan)
        if order.rejected:
            self._tell(f"The server left the last reply of this site out: {order.rejected}")
        if order.kind != "evaluate":
            if not order.kept <= order.round < setup.stage.rounds:
                raise PartitaError(f"An order for round {order.round + 1} after round {order.kept} was accepted.")
            self._store.settle(order.plan, order.kept)
        own = self._store.own(order.plan, order.kept)
        options = {"evaluated": order.evaluated} if order.kind == "train" else {}
        job = JOBS[order.kind]([number], [own], [order.received], setup.moment(order.round), **options)
        [result] = job.run(setup)
        if result.own is not None:
            # Written before the reply leaves: what the server accepts, the site has.
            self._store.keep(order.plan, order.round + 1, result.own)
        return _reply(order, result)

    def _setup(self, plan: str) -> tuple[int, Setup]:
        if plan not in self._setups:
            text = self._store.plan(plan)
            if text is None:
                raise PartitaError(f"The plan {plan[:12]} was not introduced to this site.")
            self._prepared(Plan.read(text))
        return self._setups[plan]

    def _prepared(self, plan: Plan) -> None:
        """The network and the data of this site, ready for a plan."""
        if plan.hash in self._setups:
            return
        number = plan.number_of(self.name)
        experiment = plan.experiment_on(_placed(self._data, plan, number))
        setup = Setup.of(experiment, experiment.stages[-1], {})
        sizes = self._data.sizes
        check_clients(sizes)
        check_data(setup.algorithm, setup.tasks[number], sizes, experiment.batching)
        check_evaluation(self._data, setup.tasks[number], experiment.evaluation_batch)
        self._setups[plan.hash] = number, setup


def _placed(data: Federation, plan: Plan, number: int) -> Federation:
    """The data of a site at its place among all clients, of whom it has nothing."""
    nothing = torch.arange(0)
    places = range(len(plan.sites))
    return Federation(
        samples=data.samples,
        roles=[data.roles[0] if at == number else dict.fromkeys(ROLES, nothing) for at in places],
        classes=data.classes,
        name=data.name,
        kind=data.kind,
        facts=data.facts,
        label_sets=[data.label_sets[0] if at == number else nothing for at in places] if data.label_sets else (),
        names=plan.sites,
    )


def _reply(order: Order, result: ClientResult) -> Reply:
    records = [_numbers(record) for record in result.records]
    update = result.update
    if update is None:
        return Reply(order.kind, order.plan, order.round, records=records)
    return Reply(
        order.kind,
        order.plan,
        order.round,
        records=records,
        samples=update.samples,
        batches=update.batches,
        weight=update.weight,
        sent=packed_update(update),
    )


def _numbers(record: Record) -> list[object]:
    found = asdict(record)
    return [found[name] for name in ("variant", "role", "count", "correct", "loss")]
