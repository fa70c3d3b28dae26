"""What does the server of a federation do? It is an executor of rounds: jobs become orders to sites, replies results.

So the rounds, the store and all that reads it are those of a simulation. In place of what a client keeps, the server
has a receipt: the round after which the client's state was accepted, committed together with the server's own.
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from ..data.federation import Federation
from ..errors import PartitaError
from ..experiment.executor import CarryOut
from ..experiment.jobs import ClientResult, Evaluate, Job, StayAway, Train
from ..experiment.setup import Setup
from ..experiment.traffic import traffic
from ..tensors import Tensors
from .journal import Note, no_note
from .messages import Kind, Order, Reply
from .plan import Plan
from .remote import remote_federation
from .replies import checked_records, checked_update, need_size

RECEIPT = "receipt/round"
KINDS: dict[type[Job], Kind] = {Train: "train", StayAway: "stay_away", Evaluate: "evaluate"}
Exchange = Callable[[Mapping[int, bytes], float], Iterable[tuple[int, bytes | PartitaError]]]
"""Brings orders to sites and their replies back, or why there is none, in any order, within a number of seconds."""


@dataclass(frozen=True)
class Rejection:
    """A site that is left out of a round, and the reason."""

    site: str
    round: int
    reason: str


@dataclass(frozen=True)
class Limits:
    """The limits that the server sets for replies and rounds."""

    seconds: float = 600.0
    """The seconds in which a site must answer."""
    replies: int = 1
    """The least number of updates that a round needs."""
    norm: float | None = None
    """The largest Euclidean norm of the change that a site sends."""
    absent: float = 60.0
    """Seconds after which a round continues without a site that is not connected."""

    def __post_init__(self) -> None:
        if self.replies < 1:
            raise PartitaError(f"replies is {self.replies}, but must be at least 1.")
        for name in ("seconds", "absent", "norm"):
            if (limit := getattr(self, name)) is not None and not limit > 0:
                raise PartitaError(f"{name} is {limit:g}, but must be above 0.")


def introduced(
    plan: Plan,
    exchange: Exchange,
    limits: Limits,
    note: Note = no_note,
    known: Mapping[str, Mapping[str, int]] | None = None,
) -> Federation:
    """The sites of a plan, as they introduce themselves; one that refuses is an error with its reason.

    Where a run is continued, what sites said then is `known`, and it goes on without those that are not there now.
    """
    order = Order("introduce", plan.text).write()
    said = {number: known[name] for number, name in enumerate(plan.sites) if known and name in known}
    note("asked", kind="introduce", sites=dict.fromkeys(plan.sites, len(order)), seconds=limits.seconds)
    for number, message in exchange(dict.fromkeys(range(len(plan.sites)), order), limits.seconds):
        if isinstance(message, bytes):
            note("answered", site=plan.sites[number], bytes=len(message))
        try:
            said[number] = _introduction(plan, message)
        except PartitaError as problem:
            note("left out", site=plan.sites[number], round=0, reason=str(problem))
            if number not in said:
                raise PartitaError(f"Site {plan.sites[number]} cannot take part: {problem}") from None
    return remote_federation(plan, said)


def _introduction(plan: Plan, message: bytes | PartitaError) -> Mapping[str, int]:
    if isinstance(message, PartitaError):
        raise message
    reply = Reply.read(message)
    if reply.refused:
        raise PartitaError(f"it refuses the plan: {reply.refused}")
    if reply.kind != "introduce" or reply.plan != plan.hash:
        raise PartitaError("it answers for another plan.")
    return reply.facts


@dataclass(frozen=True, eq=False)
class Sites:
    """The sites of a federation, in the place of workers."""

    plan: Plan
    exchange: Exchange
    limits: Limits = Limits()
    on_rejection: Callable[[Rejection], None] = lambda rejection: None
    note: Note = no_note

    @contextmanager
    def open(self, setup: Setup) -> Iterator[CarryOut]:
        told: dict[int, str] = {}

        def carry_out(jobs: Iterable[Job], state: Tensors) -> Generator[ClientResult, None, None]:
            yield from self._carry_out(setup, jobs, told)

        yield carry_out

    def _carry_out(
        self, setup: Setup, jobs: Iterable[Job], told: dict[int, str]
    ) -> Generator[ClientResult, None, None]:
        """Orders for all sites at once; each site that answers as it must gives a result."""
        asked = {order.number: order for job in jobs for order in single_orders(job)}
        training = sum(isinstance(order.job, Train) for order in asked.values())
        messages = {
            number: replace(order.message(self.plan.hash, training), rejected=told.pop(number, "")).write()
            for number, order in asked.items()
        }
        self._note_asked(asked, messages)
        accepted, left, end = 0, set(asked), time.monotonic() + self.limits.seconds
        for number, message in self.exchange(messages, self.limits.seconds) if messages else ():
            if number not in left or time.monotonic() > end:
                # Late, or answered before: the site learns it from the round that it is asked to continue from.
                self.note("ignored", site=self.plan.sites[number], reason="late, or answered before")
                continue
            left.discard(number)
            if isinstance(message, bytes):
                self.note("answered", site=self.plan.sites[number], bytes=len(message))
            if isinstance(message, PartitaError):
                yield self.rejected(setup, number, asked[number], str(message))
                continue
            try:
                result = asked[number].result(setup, message, self.plan.hash, self.limits.norm)
            except PartitaError as problem:
                told[number] = str(problem)
                yield self.rejected(setup, number, asked[number], str(problem))
                continue
            accepted += result.update is not None
            yield result
        for number in sorted(left):
            yield self.rejected(setup, number, asked[number], f"no reply within {self.limits.seconds:g} s")
        if training and accepted < self.limits.replies:
            [round] = {order.round for order in asked.values()}
            raise PartitaError(
                f"Round {round}: {accepted} of {training} sites sent an update that could be used, and at least "
                f"{self.limits.replies} must. Nothing is lost: resume the run when they are back."
            )

    def _note_asked(self, asked: Mapping[int, "SingleOrder"], messages: Mapping[int, bytes]) -> None:
        for kind in KINDS:
            sites = {self.plan.sites[at]: len(messages[at]) for at, each in asked.items() if type(each.job) is kind}
            if sites:
                [round] = {order.round for order in asked.values()}
                self.note("asked", kind=KINDS[kind], round=round, sites=sites, seconds=self.limits.seconds)

    def rejected(self, setup: Setup, number: int, order: "SingleOrder", reason: str) -> ClientResult:
        """A result with the reason why the site is left out, if the plan allows that; else the run stops."""
        site, round = self.plan.sites[number], order.round
        self.on_rejection(Rejection(site, round, reason))
        self.note("left out", site=site, round=round, reason=reason)
        if setup.experiment.on_sick_client == "stop":
            raise PartitaError(
                f"Round {round}: the reply of site {site} cannot be used: {reason}. To continue without it, make the "
                "plan with on_sick_client=leave_out."
            )
        return ClientResult(number, problem=reason)


@dataclass(frozen=True, eq=False)
class SingleOrder:
    """The part of a job that is for one site."""

    number: int
    job: Job
    received: Tensors
    kept: int

    @property
    def round(self) -> int:
        """Counted from 1; models are evaluated as they are before the next."""
        return self.job.moment.round + (not isinstance(self.job, Evaluate))

    def message(self, plan: str, taking_part: int) -> Order:
        return Order(
            KINDS[type(self.job)],
            plan,
            self.job.moment.round,
            kept=self.kept,
            evaluated=isinstance(self.job, Train) and self.job.evaluated,
            taking_part=taking_part,
            received=self.received,
        )

    def result(self, setup: Setup, message: bytes, plan: str, norm: float | None) -> ClientResult:
        """What a reply says, after everything about it was checked."""
        job = self.job
        client = replace(setup.without_data(self.number, job.moment), received=self.received)
        need_size(message, setup, client)
        reply = Reply.read(message)
        if reply.refused:
            raise PartitaError(f"the site refused: {reply.refused}")
        if (reply.kind, reply.plan, reply.round) != (KINDS[type(job)], plan, job.moment.round):
            raise PartitaError(f"it answers an order that was not sent: {reply.kind} in round {reply.round + 1}")
        if isinstance(job, Evaluate):
            return ClientResult(self.number, records=checked_records(reply, self.number, job.moment.round))
        receipt = {RECEIPT: torch.tensor(job.moment.round + 1)}
        if isinstance(job, StayAway):
            return ClientResult(self.number, receipt)
        update = checked_update(reply, setup, client, norm)
        records = checked_records(reply, self.number, job.moment.round + 1)
        return ClientResult(self.number, receipt, update, traffic(client, update), records)


def single_orders(job: Job) -> Iterator[SingleOrder]:
    for number, own, received in zip(job.clients, job.own, job.received, strict=True):
        yield SingleOrder(number, job, received, int(own[RECEIPT]) if RECEIPT in own else 0)
