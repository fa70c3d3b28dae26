"""Is what a client made of its round sound? Finite, and no larger than a model can take."""

import math

import torch
from torch import Tensor

from ..errors import DivergedError
from ..tensors import Tensors
from .algorithm import Trained
from .client import Client
from .server import Update


def check_sound(trained: Trained, client: Client, max_norm: float | None = None) -> None:
    """Refuses an update or a state that is not finite or too large, before it touches anything.

    An update is measured by the norm of what changed since the download. Without `max_norm`, its square must be
    finite in the precision of the network: beyond that, the next pass through the network overflows.
    """
    limit = _largest(trained.update.values) if max_norm is None else max_norm
    received = client.received
    norm = 0.0 if _far_below(limit, trained.update, received) else update_norm(trained.update, received)
    if not norm <= limit:
        raise DivergedError(
            f"The update of client {client.id} in round {client.moment.round + 1} has a norm of {norm:.3g}; "
            + ("it must be finite" if max_norm is None else f"at most {max_norm:g} is allowed (max_update_norm)")
            + ". Lower the learning rate, clip the gradient, or look for samples that are far too large."
        )
    for name, tensor in trained.own.items():
        if tensor.is_floating_point() and not finite(tensor):
            raise DivergedError(
                f"The tensor {name} that client {client.id} keeps is not finite after round {client.moment.round + 1}. "
                "Lower the learning rate, clip the gradient, or look for samples that are far too large."
            )


def finite(tensor: Tensor) -> bool:
    """Whether all entries are finite. Their sum shows it in one pass, unless it overflows."""
    return math.isfinite(tensor.detach().sum()) or bool(torch.isfinite(tensor).all())


def update_norm(update: Update, received: Tensors) -> float:
    """The norm of all that an update changes; what was not received counts with its values."""
    squares = 0.0
    for name, value in update.values.items():
        if not value.is_floating_point():
            continue
        old, mask = received.get(name), (update.mask or {}).get(name)
        change = value - old.to(value.device) if old is not None and old.shape == value.shape else value
        if mask is not None:
            # The value of an entry that was not sent has no meaning.
            change = change.masked_fill(~mask, 0.0)
        squares += float(torch.linalg.vector_norm(change, dtype=torch.float64)) ** 2
    return math.sqrt(squares)


def _far_below(limit: float, update: Update, received: Tensors) -> bool:
    """Whether the norm is certainly below the limit: a quick bound in single precision, for all tensors at once."""
    values = [value for value in update.values.values() if value.is_floating_point()]
    old = [received.get(name) for name, value in update.values.items() if value.is_floating_point()]
    known = [each for each, value in zip(old, values, strict=True) if each is not None and _alike(each, value)]
    if update.mask or not values or len(known) < len(values):
        return False
    norms = torch._foreach_norm(torch._foreach_sub(values, known))
    return float(torch.linalg.vector_norm(torch.stack(norms))) <= limit / 2


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and one.device == other.device


def _largest(values: Tensors) -> float:
    """Half precision is aggregated in single precision at least."""
    kinds = [_precision(value) for value in values.values() if value.is_floating_point()]
    return math.sqrt(min(torch.finfo(kind).max for kind in kinds)) if kinds else math.inf


def _precision(value: Tensor) -> torch.dtype:
    return torch.float64 if value.dtype == torch.float64 else torch.float32
