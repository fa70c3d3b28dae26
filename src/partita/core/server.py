"""What does the server do? It decides what a client downloads, and aggregates the updates of a round.

The state is named tensors too: the shared ones, and under `server/` what never leaves it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Literal, Protocol

import torch
from torch import Tensor

from ..errors import DivergedError, PartitaError
from ..randomness import Moment
from ..tensors import Tensors, network_name, prefixed, under
from .network import Network
from .optimizers import SGD, Optimizer
from .signatures import Range, check_fields

PRIVATE = "server/"
PART = 1 << 15


@dataclass(frozen=True, eq=False)
class Update:
    """A client's upload: values, optional masks of the entries sent, and the client's size.

    Masks are boolean, or 0 and 1. The value of an entry that was not sent is ignored; it may be nan.
    """

    client: int
    values: Tensors
    samples: int
    batches: int
    mask: Tensors | None = None
    weight: Annotated[float, Range(0)] | None = None
    """The client's weight in a mean, if the algorithm computes it on the client."""
    name: str = ""
    """The client's name in the data, for messages; by default its number."""

    def __str__(self) -> str:
        return f"The update of client {self.name or self.client}"

    def __post_init__(self) -> None:
        if self.weight is not None:
            self._check_weight(self.weight)
        if self.mask is not None:
            object.__setattr__(self, "mask", {name: self._checked(name, mask) for name, mask in self.mask.items()})

    def _check_weight(self, weight: float) -> None:
        try:
            check_fields(self)
        except PartitaError as problem:
            kind = PartitaError if math.isfinite(weight) else DivergedError
            raise kind(f"{self}: {problem}") from problem

    def _checked(self, name: str, mask: Tensor) -> Tensor:
        place = f"{self}: the mask of {name!r}"
        if name not in self.values:
            raise PartitaError(f"{place} has no tensor. Mask only tensors that are sent.")
        if mask.shape != self.values[name].shape:
            shapes = f"has the shape {list(mask.shape)}, the tensor {list(self.values[name].shape)}"
            raise PartitaError(f"{place} {shapes}. They must be the same.")
        if mask.dtype == torch.bool:
            return mask
        found = mask.bool()
        if not torch.equal(found.to(mask.dtype), mask):
            raise PartitaError(f"{place} has values that are neither 0 nor 1. Each must be 0 or 1.")
        return found


def in_order(updates: Sequence[Update]) -> list[Update]:
    """Updates in the order of client ids, so that results do not depend on the order of arrival."""
    return sorted(updates, key=lambda update: update.client)


class Server(Protocol):
    @property
    def sees_single_models(self) -> bool:
        """Whether it uses single clients' updates, so that secure aggregation does not apply."""

    def init(self, shared: Tensors, sizes: Sequence[int]) -> Tensors:
        """The first state, from the initial shared tensors and the clients' numbers of samples."""

    def download(self, state: Tensors, client: int, moment: Moment) -> Tensors: ...

    def aggregate(self, state: Tensors, updates: Sequence[Update], moment: Moment, network: Network) -> Tensors: ...


Rule = Callable[[Tensors, Sequence[Update], Network], Tensors]
"""Combines the clients' changes: for each tensor that any client sent, old - new in float64.

Updates come in the order of client ids. An entry that no client sent has a change of 0.
"""
Weights = Literal["samples", "uniform", "batches", "uploaded"]


@dataclass(frozen=True)
class Mean:
    """The mean change of each entry over its senders, weighted by samples, batches, uploaded weights, or not at all."""

    weights: Weights = "samples"

    def __call__(self, shared: Tensors, updates: Sequence[Update], network: Network) -> Tensors:
        return pseudo_gradient(shared, updates, self.weights)


@dataclass(frozen=True)
class Aggregation:
    """A server with one model for all clients: a rule combines their changes, and an optimizer applies the result.

    SGD with rate 1 applies the change directly. Running statistics are not weights, so it is always applied directly.
    """

    rule: Rule = Mean()
    _: KW_ONLY
    optimizer: Optimizer = SGD(1.0)
    sees_single_models: bool = False
    name: str = "averaging"
    settings: Mapping[str, object] = field(default_factory=dict, compare=False)
    """The arguments of the function that made it, so that it can be made again elsewhere."""
    made_by: str = field(default="", compare=False)
    """The path of that function, as `module:function`."""

    def init(self, shared: Tensors, sizes: Sequence[int]) -> Tensors:
        state = {name: tensor.double() for name, tensor in shared.items()}
        return shared | prefixed(PRIVATE, self.optimizer.init(state))

    def download(self, state: Tensors, client: int, moment: Moment) -> Tensors:
        return {name: tensor for name, tensor in state.items() if not name.startswith(PRIVATE)}

    def aggregate(self, state: Tensors, updates: Sequence[Update], moment: Moment, network: Network) -> Tensors:
        shared = self.download(state, -1, moment)
        gradient = self.rule(shared, in_order(updates), network)
        wide = {name: shared[name].double() for name in gradient}
        means = {
            name: wide.pop(name) - gradient.pop(name) for name in list(wide) if network_name(name) in network.buffers
        }
        new, kept = self.optimizer.update(wide, gradient, under(PRIVATE, state), moment, network)
        changed = {name: tensor.to(shared[name].dtype) for name, tensor in {**new, **means}.items()}
        return state | changed | prefixed(PRIVATE, kept)


def pseudo_gradient(shared: Tensors, updates: Sequence[Update], weights: Weights = "samples") -> Tensors:
    """The mean of (old - new) over those who sent an entry, in float64 and in the order of client ids.

    Differences are averaged, so that a value that no client changed keeps its bits. Unsent tensors are left out.
    """
    found: Tensors = {}
    ordered = in_order(updates)
    for name in sent_names(ordered):
        sending = [update for update in ordered if name in update.values]
        values = [update.values[name].reshape(-1) for update in sending]
        masks = [None if update.mask is None else update.mask.get(name) for update in sending]
        each = [weight_of(update, weights) for update in sending]
        old = shared[name].reshape(-1)
        parts = [
            _mean_change(
                old[part], [v[part] for v in values], [m if m is None else m.reshape(-1)[part] for m in masks], each
            )
            # In parts that stay in the processor's cache, however many clients there are.
            for part in (slice(at, at + PART) for at in range(0, len(old), PART))
        ]
        found[name] = torch.cat(parts).view(shared[name].shape) if parts else shared[name].double()
    return found


def sent_names(updates: Sequence[Update]) -> list[str]:
    """The tensors that any client sent, in the order of the first sender."""
    return list(dict.fromkeys(name for update in updates for name in update.values))


def weight_of(update: Update, weights: Weights) -> float:
    """How much an update counts in a mean."""
    if weights == "uniform":
        return 1.0
    if weights != "uploaded":
        return float(getattr(update, weights))
    if update.weight is None:
        raise PartitaError(
            f"{update} has no weight, because the algorithm computes none (Algorithm.weight). "
            "Set weights to 'samples', 'batches' or 'uniform'."
        )
    return update.weight


def _mean_change(
    old: Tensor, values: Sequence[Tensor], masks: Sequence[Tensor | None], weights: Sequence[float]
) -> Tensor:
    wide = old.double()
    total, sent = torch.zeros_like(wide), 0.0 if all(mask is None for mask in masks) else torch.zeros_like(wide)
    difference = torch.empty_like(wide)
    for value, mask, weight in zip(values, masks, weights, strict=True):
        torch.sub(wide, difference.copy_(value), out=difference)
        if mask is not None:
            # Filled, not multiplied by 0: an entry that was not sent may be nan.
            difference.masked_fill_(~mask, 0.0)
        total.add_(difference, alpha=weight)
        sent = sent + (weight if mask is None else weight * mask.double())
    if isinstance(sent, float):
        return total / sent if sent > 0 else torch.zeros_like(total)
    return torch.where(sent > 0, total / sent.clamp(min=torch.finfo(torch.float64).tiny), 0.0)
