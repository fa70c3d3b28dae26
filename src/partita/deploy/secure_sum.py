"""How does the server learn a sum and nothing else? In four steps with the sites of a round: keys, envelopes, updates
with masks, and shares that open the sum.

What is given to the method's server are updates that all hold the mean: the mean of them is that mean.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch

from ..core.algorithm import shared_names
from ..core.client import Client
from ..core.server import Update, weight_of
from ..errors import PartitaError
from ..experiment.executor import CarryOut, Executor
from ..experiment.jobs import ClientResult, Job, Train
from ..experiment.setup import Setup
from ..experiment.traffic import traffic
from ..tensors import Tensors, prefixed, under
from .masks import Keys, unmasked
from .messages import MASKED, SECURE, Kind, Order, Reply, packed_bytes, unpacked_bytes
from .replies import HEADER, checked_records
from .secure_site import ENVELOPE, KEYS, LOST, SHARE, THERE, keys_in
from .server import RECEIPT, SingleOrder, Sites, single_orders
from .summable import mean_of, weights_of_sum

LEAST = 3
"""Sites in a sum: of two, each could take its own update away and see the other's."""


def executor_of_sites(sites: Sites) -> Executor:
    """The sites of a plan, with secure sums where it asks for them."""
    return SecureSites(sites) if sites.plan.secure else sites


@dataclass(frozen=True, eq=False)
class SecureSites:
    """Sites that train by secure sums, and do everything else as they are asked."""

    sites: Sites

    @contextmanager
    def open(self, setup: Setup) -> Iterator[CarryOut]:
        weights_of_sum(setup.algorithm)
        with self.sites.open(setup) as plain:

            def carry_out(jobs: Iterable[Job], state: Tensors) -> Generator[ClientResult, None, None]:
                given = list(jobs)
                orders = [each for job in given if isinstance(job, Train) for each in single_orders(job)]
                if orders:
                    yield from _Sum(self.sites, setup, {each.number: each for each in orders}).results()
                yield from plain((job for job in given if not isinstance(job, Train)), state)

            yield carry_out


@dataclass
class _Sum:
    """One round."""

    sites: Sites
    setup: Setup
    asked: Mapping[int, SingleOrder]
    problems: dict[int, str] = field(default_factory=dict)

    @property
    def round(self) -> int:
        return next(iter(self.asked.values())).job.moment.round

    def results(self) -> Generator[ClientResult, None, None]:
        given = {at: keys_in(reply.sent) for at, reply in self._step("keys", self._orders(self.asked)).items()}
        keys = {at: each[at] for at, each in given.items() if at in each}
        threshold = max(LEAST, 2 * len(keys) // 3 + 1)
        self._need(keys, threshold, "gave keys")
        offered = prefixed(SECURE, packed_bytes(KEYS, {at: b"".join(each) for at, each in keys.items()}))
        envelopes = self._envelopes(
            self._step("shares", self._orders(keys, received=offered, threshold=threshold)), keys
        )
        self._need(envelopes, threshold, "gave envelopes")
        trained = self._step("train", {at: self._training(at, envelopes, threshold) for at in envelopes})
        vectors = self._vectors(trained)
        self._need(vectors, max(threshold, self.sites.limits.replies), "sent an update that could be used")
        total = self._opened(vectors, keys, [at for at in envelopes if at not in vectors], threshold)
        yield from self._updates(total, {at: trained[at] for at in vectors})
        for number, reason in sorted(self.problems.items()):
            if number not in vectors:
                yield self.sites.rejected(self.setup, number, self.asked[number], reason)

    def _orders(self, numbers: Iterable[int], received: Tensors | None = None, threshold: int = 0) -> dict[int, Order]:
        order = Order(
            "keys",
            self.sites.plan.hash,
            self.round,
            taking_part=len(self.asked),
            threshold=threshold,
            received=received or {},
        )
        return dict.fromkeys(numbers, order)

    def _envelopes(self, replies: Mapping[int, Reply], keys: Mapping[int, Keys]) -> dict[int, dict[int, bytes]]:
        """Envelopes by sender and receiver. A sender that omits a receiver would break the sum, and is left out."""
        found = {at: unpacked_bytes(SECURE + ENVELOPE, reply.sent) for at, reply in replies.items()}
        whole = {at: sent for at, sent in found.items() if sent.keys() == keys.keys() - {at}}
        self.problems |= dict.fromkeys(found.keys() - whole.keys(), "its envelopes are not for all others")
        return whole

    def _training(self, number: int, envelopes: Mapping[int, Mapping[int, bytes]], threshold: int) -> Order:
        mine = {other: sent[number] for other, sent in envelopes.items() if other != number}
        order = self.asked[number].message(self.sites.plan.hash, len(self.asked))
        extra = prefixed(SECURE, packed_bytes(ENVELOPE, mine))
        return replace(order, received=order.received | extra, threshold=threshold)

    def _step(self, kind: Kind, orders: Mapping[int, Order]) -> dict[int, Reply]:
        """The replies of sites that did as they were asked; why others did not is noted."""
        limits, found = self.sites.limits, dict[int, Reply]()
        left = set(orders)
        messages = {at: replace(order, kind=kind).write() for at, order in orders.items()}
        names, note = self.sites.plan.sites, self.sites.note
        sizes = {names[at]: len(message) for at, message in messages.items()}
        note("asked", kind=kind, round=self.round + 1, sites=sizes, seconds=limits.seconds)
        for number, message in self.sites.exchange(messages, limits.seconds):
            if number not in left:
                continue
            left.discard(number)
            if isinstance(message, bytes):
                note("answered", site=names[number], bytes=len(message))
            try:
                found[number] = self._checked(kind, number, message)
            except (PartitaError, KeyError) as problem:
                self.problems[number] = str(problem)
        self.problems |= dict.fromkeys(left, f"no reply within {limits.seconds:g} s")
        return found

    def _checked(self, kind: Kind, number: int, message: bytes | PartitaError) -> Reply:
        if isinstance(message, PartitaError):
            raise message
        # Whole numbers of 64 bits in the place of tensors, beside the header.
        if len(message) > (most := 2 * HEADER + 8 * sum(each.numel() for each in self._before(number).values())):
            raise PartitaError(f"it has {len(message)} bytes, and at most {most} are accepted")
        reply = Reply.read(message)
        if reply.refused:
            raise PartitaError(f"the site refused: {reply.refused}")
        if (reply.kind, reply.plan, reply.round) != (kind, self.sites.plan.hash, self.round):
            raise PartitaError(f"it answers an order that was not sent: {reply.kind} in round {reply.round + 1}")
        return reply

    def _vectors(self, trained: Mapping[int, Reply]) -> dict[int, Tensors]:
        """Masked updates with the names and shapes of the shared tensors; their values cannot be checked."""
        found = {}
        for number, reply in trained.items():
            vector, before = under(MASKED, reply.sent), self._before(number)
            shapes = {name: tensor.shape for name, tensor in vector.items()}
            samples = self.setup.data.size(number)
            if shapes != {name: tensor.shape for name, tensor in before.items()} or len(vector) != len(reply.sent):
                self.problems[number] = "its masked update has other tensors than what is shared"
            elif any(tensor.dtype != torch.int64 for tensor in vector.values()):
                self.problems[number] = "its masked update is not of whole numbers"
            elif (reply.samples, reply.batches) != (samples, self._client(number).batches_per_epoch(samples)):
                self.problems[number] = f"it says {reply.samples} samples, and introduced itself with {samples}"
            else:
                found[number] = vector
        return found

    def _opened(
        self, vectors: Mapping[int, Tensors], keys: Mapping[int, Keys], lost: list[int], threshold: int
    ) -> Tensors:
        lists = {THERE: torch.tensor(sorted(vectors)), LOST: torch.tensor(sorted(lost), dtype=torch.int64)}
        replies = self._step("unmask", self._orders(vectors, received=lists))
        shares = {at: unpacked_bytes(SECURE + SHARE, reply.sent) for at, reply in replies.items()}
        wanted = {*vectors, *lost}
        complete = {at: each for at, each in shares.items() if each.keys() == wanted}
        self._need(complete, threshold, "opened the sum")
        return unmasked(vectors, keys, dict(sorted(complete.items())[:threshold]), lost)

    def _updates(self, total: Tensors, replies: Mapping[int, Reply]) -> Generator[ClientResult, None, None]:
        kind = weights_of_sum(self.setup.algorithm)
        plain = {at: Update(at, {}, reply.samples, reply.batches) for at, reply in sorted(replies.items())}
        weight = sum(weight_of(update, kind) for update in plain.values())
        for number, update in plain.items():
            mean = mean_of(total, self._before(number), weight)
            made, client = replace(update, values=mean), self._client(number)
            records = checked_records(replies[number], number, self.round + 1)
            receipt = {RECEIPT: torch.tensor(self.round + 1)}
            yield ClientResult(number, receipt, made, traffic(client, made), records)

    def _client(self, number: int) -> Client:
        order = self.asked[number]
        return replace(self.setup.without_data(number, order.job.moment), received=order.received)

    def _before(self, number: int) -> Tensors:
        """The shared tensors as the site received them."""
        client, algorithm = self._client(number), self.setup.algorithm
        tensors = algorithm.expand(client) | client.received
        return {name: tensors[name] for name in shared_names(algorithm, client.task, tensors)}

    def _need(self, found: Mapping[int, object], least: int, what: str) -> None:
        if len(found) < least:
            why = "; ".join(f"{self.sites.plan.sites[at]}: {each}" for at, each in sorted(self.problems.items()))
            raise PartitaError(
                f"Round {self.round + 1}: {len(found)} of {len(self.asked)} sites {what}, and a secure sum needs "
                f"{least}{f' ({why})' if why else ''}. Nothing is lost: resume the run when they are back."
            )
