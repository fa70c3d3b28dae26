"""What does a site do? It trains on its own data, keeps its personal part, and sends what is shared."""

import hashlib
import traceback
from dataclasses import asdict, replace

import torch

from ..core.algorithm import shared_names
from ..core.soundness import finite
from ..data.federation import Federation
from ..data.split import ROLES
from ..errors import DivergedError, PartitaError
from ..evaluation.scores import Record
from ..experiment.checks import check_clients, check_data, check_evaluation
from ..experiment.jobs import ClientResult, Evaluate, Job, StayAway, Train
from ..experiment.setup import Setup
from ..threads import one_thread
from .audit import AuditLog, LogError
from .gate import Gate
from .messages import Kind, Order, Reply, packed_update
from .personal import PersonalStateError, PersonalStore
from .plan import Plan
from .secure_site import SecureRounds, without_secure

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
        class_names=data.class_names,
    )


class Site:
    """One client of a real federation: it holds its data, the network and its personal store."""

    def __init__(self, name: str, data: Federation, store: PersonalStore, gate: Gate, log: AuditLog) -> None:
        """`data` are of one client; all that arrives and leaves passes the gate and is in the log."""
        if len(data) != 1:
            raise PartitaError(f"The data of a site are of one client, and {data.name} has {len(data)}. Choose one.")
        gate.contract.need(data)
        self.name, self._data, self._store, self._gate, self._log = name, data, store, gate, log
        self._setups: dict[str, tuple[int, Setup]] = {}
        self._secure = SecureRounds()

    def answer(self, message: bytes) -> bytes:
        """The reply to an order. What cannot be done is answered with the reason, without a word on data."""
        try:
            return self._answer(message)
        except LogError:
            # What cannot be logged is not done, and does not leave.
            return Reply("introduce", "", refused="the site cannot write its audit log, so nothing leaves it").write()

    def _answer(self, message: bytes) -> bytes:
        kind: Kind = "introduce"
        plan, round = "", 0
        self._log.add("arrived", bytes=len(message), sha256=hashlib.sha256(message).hexdigest())
        try:
            order = Order.read(message)
            kind, plan, round = order.kind, "" if order.kind == "introduce" else order.plan, order.round
            with one_thread():
                reply = self._introduce(order) if kind == "introduce" else self._work(order)
        except LogError:
            raise
        except PersonalStateError as problem:
            self._log.add("failed", reason=str(problem))
            reply = Reply(kind, plan, round, refused="the site cannot read or write its personal state")
        except PartitaError as problem:
            reply = Reply(kind, plan, round, refused=str(problem))
        except Exception as problem:
            self._log.add("failed", traceback=traceback.format_exc())
            reply = Reply(kind, plan, round, refused=f"an error of the site ({type(problem).__name__})")
        leaving = reply.write()
        self._log.add(
            "refused" if reply.refused else "left",
            kind=kind,
            plan=reply.plan,
            round=round + 1,
            **({"reason": reply.refused} if reply.refused else _said(reply)),
            bytes=len(leaving),
            sha256=hashlib.sha256(leaving).hexdigest(),
        )
        return leaving

    def _introduce(self, order: Order) -> Reply:
        plan = Plan.read(order.plan)
        self._gate.need_plan(plan)
        self._prepared(plan)
        self._store.add_plan(plan.hash, order.plan)
        rows = self._data.roles[0]
        facts = {role: len(rows[role]) for role in ROLES} | {"classes": self._data.classes_of(0)}
        return Reply("introduce", plan.hash, facts=facts)

    def _work(self, order: Order) -> Reply:
        plan, number, setup = self._setup(order.plan)
        if order.rejected:
            self._log.add("rejected", round=order.round + 1, reason=order.rejected)
        if order.kind in ("keys", "shares", "unmask"):
            self._need_secure(plan, order)
            return self._secure.answer(order, number, self._gate.policy.least_sites)
        bare = without_secure(order.received)
        if order.kind == "train" and plan.secure:
            self._need_secure(plan, order)
            self._secure.need_keys(order)
        elif len(bare) < len(order.received):
            raise PartitaError("The order has parts of a secure sum, and the plan or the kind of order has none.")
        secured, order = order, replace(order, received=bare)
        if order.kind != "evaluate":
            self._gate.need_round(order.taking_part)
            if not order.kept <= order.round < setup.stage.rounds:
                raise PartitaError(
                    f"The order is for round {order.round + 1}, and round {order.kept} was accepted last."
                )
            self._store.settle(order.plan, order.kept)
        self._need_received(order, setup, number)
        leaving = self._gate.leaving
        own = self._store.own(order.plan, order.kept)
        if order.kind == "evaluate":
            self._store.keep_received(order.plan, order.round, order.kept, order.received)
            if not leaving.with_metrics:
                return Reply(order.kind, order.plan, order.round)
        if order.kind == "train" and leaving.privacy:
            leaving.privacy.need_budget(self._store.releases)
        options = {"evaluated": order.evaluated and leaving.with_metrics} if order.kind == "train" else {}
        job = JOBS[order.kind]([number], [own], [order.received], setup.moment(order.round), **options)
        [result] = job.run(setup)
        if result.problem:
            raise DivergedError(result.problem)
        update = result.update
        if update:
            before = setup.algorithm.expand(setup.without_data(number, job.moment)) | order.received
            if leaving.privacy:
                update = leaving.privacy.released(update, before, setup.tasks[number].network.buffers)
            leaving.need(update, before)
        if result.own is not None:
            # Written before the reply leaves: what the server accepts, the site has.
            self._store.keep(order.plan, order.round + 1, result.own)
        if update and leaving.privacy:
            self._store.add_release(order.plan)
        reply = _reply(order, replace(result, update=update))
        if update and plan.secure:
            return replace(reply, sent=self._secure.masked(secured, update, before, setup))
        return reply

    def _need_secure(self, plan: Plan, order: Order) -> None:
        """What a site requires before it takes part in a secure sum."""
        if not plan.secure:
            raise PartitaError("The order is for a secure sum, and the plan is not secure.")
        self._gate.need_round(order.taking_part)

    def _need_received(self, order: Order, setup: Setup, number: int) -> None:
        """What the server sends can be trained on, and replaces nothing of the personal part."""
        client = setup.without_data(number, setup.moment(order.round))
        known = setup.algorithm.expand(client)
        shared = shared_names(setup.algorithm, client.task, known | order.received)
        for name, tensor in order.received.items():
            if name in known and name not in shared:
                raise PartitaError(f"The server sends {name}, which is personal at this site.")
            if name in known and (tensor.shape, tensor.dtype) != (known[name].shape, known[name].dtype):
                raise PartitaError(
                    f"The server sends {name} as {tensor.dtype} of the shape {list(tensor.shape)}, and it is "
                    f"{known[name].dtype} of {list(known[name].shape)} here."
                )
            if tensor.is_floating_point() and not finite(tensor):
                raise PartitaError(f"The server sends {name} with values that are not finite.")

    def _setup(self, hash: str) -> tuple[Plan, int, Setup]:
        """The setup of a plan that was introduced, perhaps to an earlier process, and is still approved."""
        text = self._store.plan(hash)
        if text is None:
            raise PartitaError(f"The plan {hash[:12]} was not introduced to this site.")
        plan = Plan.read(text)
        self._gate.need_plan(plan)
        self._prepared(plan)
        return plan, *self._setups[plan.hash]

    def _prepared(self, plan: Plan) -> None:
        """The network and the data of this site, ready for a plan."""
        if plan.hash in self._setups:
            return
        self._setups[plan.hash] = setup_at(plan, self.name, self._data)


def setup_at(plan: Plan, site: str, data: Federation) -> tuple[int, Setup]:
    """The number of a site in a plan, and all that it needs to work on its data."""
    number = plan.number_of(site)
    experiment = plan.experiment_on(_placed(data, plan, number))
    setup = Setup.of(experiment, experiment.stages[-1], {})
    check_clients(data)
    check_data(setup.algorithm, setup.tasks[number], data, experiment.batching)
    check_evaluation(data, setup.tasks[number], experiment.evaluation_batch)
    return number, setup


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
        class_names=data.class_names,
    )


def _reply(order: Order, result: ClientResult) -> Reply:
    records = tuple(_numbers(record) for record in result.records)
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


def _said(reply: Reply) -> dict[str, object]:
    """What a reply discloses: names of tensors, metrics, and numbers of samples."""
    metrics = [list(each) for each in reply.records]
    told = {"tensors": sorted(reply.sent), "metrics": metrics, "facts": dict(reply.facts)}
    return {key: value for key, value in told.items() if value or key == "tensors"}


def _numbers(record: Record) -> tuple[object, ...]:
    found = asdict(record)
    return tuple(found[name] for name in ("variant", "role", "count", "correct", "loss"))
