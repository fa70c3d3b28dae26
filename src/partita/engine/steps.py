"""How does a step change parameters in place? By in-place optimizers and proximal terms."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ..core.client import Client
from ..core.optimizers import SGD, Descent, Optimizer, clipped
from ..core.penalties import Proximal
from ..core.phases import Phase
from ..randomness import Moment
from ..tensors import Tensors
from .eligibility import ANY_SGD, STATELESS_SGD, UNDECAYED_SGD, handles, handles_sgd

Step = Callable[[list[Tensor | None], Moment], None]
"""Changes the trained parameters, given their gradients."""
Pull = Callable[[list[Tensor | None]], None]
"""Adds the gradient of a proximal term."""


@dataclass(frozen=True)
class Descending:
    """Applies SGD to each gradient as it is computed, so that gradients need not be stored."""

    descents: Mapping[nn.Parameter, Descent]

    def __call__(self, parameter: nn.Parameter, gradient: Tensor) -> None:
        parameter.add_(gradient, alpha=-self._decayed(parameter))

    def outer(self, parameter: nn.Parameter, left: Tensor, right: Tensor) -> None:
        descent = self.descents[parameter]
        parameter.addmm_(left.t(), right, beta=1 - descent.shrinkage, alpha=-descent.rate)

    def rows(self, parameter: nn.Parameter, rows: Tensor, gradient: Tensor) -> None:
        parameter.index_add_(0, rows, gradient, alpha=-self._decayed(parameter))

    def _decayed(self, parameter: nn.Parameter) -> float:
        descent = self.descents[parameter]
        if descent.decay:
            parameter.mul_(1 - descent.shrinkage)
        return descent.rate


@dataclass
class Gathering:
    """Keeps the gradients of a step, for whatever an optimizer does with them."""

    gradients: dict[nn.Parameter, Tensor] = field(default_factory=dict)

    def __call__(self, parameter: nn.Parameter, gradient: Tensor) -> None:
        self.gradients[parameter] = gradient

    def outer(self, parameter: nn.Parameter, left: Tensor, right: Tensor) -> None:
        self.gradients[parameter] = left.t() @ right

    def rows(self, parameter: nn.Parameter, rows: Tensor, gradient: Tensor) -> None:
        self.gradients[parameter] = torch.zeros_like(parameter).index_add_(0, rows, gradient)


def descends_at_once(phase: Phase) -> bool:
    """Whether a step needs nothing but each gradient by itself: SGD without momentum, clipping or penalty."""
    return handles_sgd(phase.optimizer, *STATELESS_SGD) and phase.penalty is None


def descends_by_rows(phase: Phase) -> bool:
    """Whether a step leaves rows without a gradient alone, so that gradients of embeddings may be sparse."""
    return handles_sgd(phase.optimizer, *UNDECAYED_SGD) and phase.penalty is None


def descends_fused(phase: Phase) -> bool:
    """Whether a step is all that torch's fused SGD does."""
    return handles_sgd(phase.optimizer, *ANY_SGD)


def descending(phase: Phase, trained: Mapping[str, nn.Parameter], client: Client) -> Descending:
    """SGD on each gradient by itself, with the rates of the round."""
    assert isinstance(phase.optimizer, SGD)
    descents = phase.optimizer.descents(trained, client.moment, client.task.network)
    return Descending({parameter: descents[name] for name, parameter in trained.items()})


def in_place(optimizer: Optimizer, trained: Tensors, state: Tensors, client: Client) -> Step:
    """The optimizer's own step, on parameters themselves; its state is changed too."""

    def step(gradients: list[Tensor | None], moment: Moment) -> None:
        known = {name: gradient for name, gradient in zip(trained, gradients, strict=True) if gradient is not None}
        values = {name: parameter.detach() for name, parameter in trained.items()}
        new, changed = optimizer.update(values, known, state, moment, client.task.network)
        for name, parameter in trained.items():
            if new[name] is not values[name]:
                parameter.copy_(new[name])
        kept = dict(changed)
        state.clear()
        state.update(kept)

    return step


def fused(optimizer: SGD, trained: Tensors, state: Tensors, client: Client) -> Step:
    """SGD in one pass over all parameters with the same rate and decay, with the rates of the round."""
    descents = optimizer.descents(trained, client.moment, client.task.network)
    if optimizer.momentum:
        # The fused step ignores strides and reads memory in order.
        state |= {(own := "momentum/" + name): _beside(each, state[own]) for name, each in trained.items()}
    velocities = [state["momentum/" + name] for name in trained] if optimizer.momentum else list(trained.values())
    groups: dict[Descent, list[tuple[int, Tensor, Tensor]]] = {}
    for at, (name, velocity) in enumerate(zip(trained, velocities, strict=True)):
        parameter = trained[name].detach()
        groups.setdefault(descents[name], []).append((at, parameter, velocity.detach()))

    def step(gradients: list[Tensor | None], moment: Moment) -> None:
        if optimizer.clip is not None:
            _clip(gradients, optimizer.clip)
        for descent, places in groups.items():
            parameters: list[Tensor] = []
            slopes: list[Tensor] = []
            moving: list[Tensor] = []
            for at, parameter, velocity in places:
                gradient = gradients[at]
                if gradient is not None and gradient.is_sparse:
                    parameter.add_(gradient, alpha=-descent.rate)
                elif gradient is not None:
                    row = _in_a_row(parameter, _beside(parameter, gradient), velocity)
                    for each, values in zip((parameters, slopes, moving), row, strict=True):
                        each.append(values)
            if parameters:
                torch._fused_sgd_(
                    parameters,
                    slopes,
                    moving if optimizer.momentum else [],
                    weight_decay=descent.decay,
                    momentum=optimizer.momentum,
                    lr=descent.rate,
                    dampening=0.0,
                    nesterov=optimizer.nesterov,
                    maximize=False,
                    is_first_step=False,
                )

    return step


def _in_a_row(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors of one layout, each as a vector of the same memory.

    Torch's fused step treats numbers one by one, and takes ten times as long for kernels with their channels last.
    """
    first, *others = tensors
    last = first.dim() == 4 and first.is_contiguous(memory_format=torch.channels_last)
    if not last or any(each.stride() != first.stride() for each in others):
        return tensors
    return tuple(each.as_strided((each.numel(),), (1,)) for each in tensors)


def _beside(parameter: Tensor, gradient: Tensor) -> Tensor:
    """A gradient with the strides of its parameter; that of a sum, for instance, is one number seen many times."""
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def _clip(gradients: list[Tensor | None], largest: float) -> None:
    """Replaces the gradients in the list, not their values: two parameters may have one and the same gradient."""
    known = {at: gradient for at, gradient in enumerate(gradients) if gradient is not None}
    for at, gradient in clipped(known, largest).items():
        gradients[at] = gradient


def pull_of(phase: Phase, trained: Tensors, client: Client) -> Pull | None:
    """The gradient of a proximal term without a graph; other penalties are differentiated with the loss."""
    penalty = phase.penalty
    if not handles(penalty, Proximal, "strength", "to", "on"):
        return None
    assert isinstance(penalty, Proximal)
    strength, centers = penalty.strength, penalty.centers(trained, client)
    places = [(at, trained[name], centers[name]) for at, name in enumerate(trained) if name in centers]

    def pull(gradients: list[Tensor | None]) -> None:
        for at, parameter, center in places:
            distance = parameter - center
            known = gradients[at]
            gradients[at] = distance.mul_(strength) if known is None else known.add(distance, alpha=strength)

    return pull
