"""What does a site do for a secure sum? It gives keys, envelopes for others, a masked update, and shares in the end."""

from ..core.server import Update
from ..errors import PartitaError
from ..experiment.setup import Setup
from ..tensors import Tensors, prefixed
from .masks import PUBLIC, Keys, Member
from .messages import MASKED, SECURE, Order, Reply, packed_bytes, unpacked_bytes
from .summable import weights_of_sum, whole_numbers

KEYS, ENVELOPE, SHARE, THERE, LOST = "keys/", "envelope/", "share/", "there", "lost"


class SecureRounds:
    """The secrets of a site for the round in progress of each plan; they are in memory alone."""

    def __init__(self) -> None:
        self._members: dict[str, tuple[int, Member]] = {}

    def answer(self, order: Order, number: int, least: int) -> Reply:
        """The steps before and after the training; `least` sites must be in a sum."""
        if order.kind == "keys":
            self._members[order.plan] = order.round, Member(number)
        member = self._member(order)
        if order.kind == "keys":
            sent = packed_bytes(KEYS, {number: b"".join(member.keys)})
        elif order.kind == "shares":
            if order.threshold < least:
                raise PartitaError(
                    f"This site takes part in sums that at least {least} sites open, and {order.threshold} could open "
                    "this one."
                )
            sent = packed_bytes(ENVELOPE, member.shares(keys_in(order.received), order.threshold))
        else:
            there, lost = (order.received[name].tolist() for name in (THERE, LOST))
            sent = packed_bytes(SHARE, member.revealed(there, lost))
            del self._members[order.plan]
        return Reply(order.kind, order.plan, order.round, sent=prefixed(SECURE, sent))

    def masked(self, order: Order, update: Update, before: Tensors, setup: Setup) -> Tensors:
        """The weighted change of an update with masks, as it leaves."""
        envelopes = unpacked_bytes(SECURE + ENVELOPE, order.received)
        vector = whole_numbers(update, before, weights_of_sum(setup.algorithm), len(envelopes) + 1)
        return prefixed(MASKED, self._member(order).masked(envelopes, vector))

    def need_keys(self, order: Order) -> None:
        """Refuse an order for a round in which the site does not take part in the sum, before any work is done."""
        self._member(order)

    def _member(self, order: Order) -> Member:
        round, member = self._members.get(order.plan, (None, None))
        if member is None or round != order.round:
            raise PartitaError(f"This site gave no keys for round {order.round + 1}, or has lost them since.")
        return member


def without_secure(received: Tensors) -> Tensors:
    """What the server sends for the training itself."""
    return {name: tensor for name, tensor in received.items() if not name.startswith(SECURE)}


def keys_in(tensors: Tensors) -> dict[int, Keys]:
    """Public keys by the number of a site."""
    found = unpacked_bytes(SECURE + KEYS, tensors)
    if not all(len(each) == 2 * PUBLIC for each in found.values()):
        raise PartitaError("A key for the sum has another length.")
    return {at: (each[:PUBLIC], each[PUBLIC:]) for at, each in found.items()}
