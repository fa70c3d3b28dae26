"""How does a step change parameters themselves? The optimizers and the proximal term, in place."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ..core.client import Client
from ..core.network import Network
from ..core.optimizers import SGD, Optimizer
from ..core.penalties import Proximal
from ..core.phases import Phase
from ..randomness import Moment
from ..tensors import Tensors

Step = Callable[[list[Tensor | None], Moment], None]
"""Changes the trained parameters, given their gradients."""
Pull = Callable[[list[Tensor | None]], None]
"""Adds the gradient of a proximal term."""


@dataclass(frozen=True)
class Descent:
    """Plain SGD on each gradient as it comes, which is then never kept; rate and decay of each parameter."""

    rates: Mapping[nn.Parameter, tuple[float, float]]

    def __call__(self, parameter: nn.Parameter, gradient: Tensor) -> None:
        parameter.add_(gradient, alpha=-self._shrunk(parameter))

    def outer(self, parameter: nn.Parameter, left: Tensor, right: Tensor) -> None:
        rate, decay = self.rates[parameter]
        parameter.addmm_(left.t(), right, beta=1 - rate * decay, alpha=-rate)

    def rows(self, parameter: nn.Parameter, rows: Tensor, gradient: Tensor) -> None:
        parameter.index_add_(0, rows, gradient, alpha=-self._shrunk(parameter))

    def _shrunk(self, parameter: nn.Parameter) -> float:
        rate, decay = self.rates[parameter]
        if decay:
            parameter.mul_(1 - rate * decay)
        return rate


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


def plain_descent(phase: Phase, trained: Mapping[str, nn.Parameter], client: Client) -> Descent | None:
    """Where a step needs nothing but each gradient by itself. Rates are those of the round."""
    optimizer, network = phase.optimizer, client.task.network
    if type(optimizer) is not SGD or optimizer.momentum or optimizer.clip is not None or phase.penalty:
        return None
    rate = optimizer.lr * optimizer.schedule(client.moment)
    factors = optimizer.factors(dict(trained), network)
    decayed = optimizer.decayed(network, frozenset(trained)) if optimizer.weight_decay else frozenset()
    decays = {name: optimizer.weight_decay if name in decayed else 0.0 for name in trained}
    return Descent({parameter: (rate * factors[name], decays[name]) for name, parameter in trained.items()})


def in_place(optimizer: Optimizer, trained: Tensors, state: Tensors, network: Network) -> Step:
    """The optimizer's step on parameters themselves; its state is changed too."""
    if type(optimizer) is SGD:
        return _descent(optimizer, trained, state, network)

    def step(gradients: list[Tensor | None], moment: Moment) -> None:
        known = {name: gradient for name, gradient in zip(trained, gradients, strict=True) if gradient is not None}
        values = {name: parameter.detach() for name, parameter in trained.items()}
        new, changed = optimizer.update(values, known, state, moment, network)
        state.update(changed)
        for name in known:
            trained[name].copy_(new[name])

    return step


def _descent(optimizer: SGD, trained: Tensors, state: Tensors, network: Network) -> Step:
    """SGD in one pass over the parameters of each kind: those with the same rate and decay."""
    factors = optimizer.factors(trained, network)
    decayed = optimizer.decayed(network, frozenset(trained)) if optimizer.weight_decay else frozenset()
    velocities = [state["momentum/" + name] for name in trained] if optimizer.momentum else list(trained.values())
    kinds: dict[tuple[float, float], list[tuple[int, Tensor, Tensor]]] = {}
    for at, (name, velocity) in enumerate(zip(trained, velocities, strict=True)):
        kind = factors[name], optimizer.weight_decay if name in decayed else 0.0
        kinds.setdefault(kind, []).append((at, trained[name], velocity))

    def step(gradients: list[Tensor | None], moment: Moment) -> None:
        rate = optimizer.lr * optimizer.schedule(moment)
        if optimizer.clip is not None:
            _clip_(gradients, optimizer.clip)
        for (factor, decay), places in kinds.items():
            parameters, slopes, moving = [], [], []
            for at, parameter, velocity in places:
                gradient = gradients[at]
                if gradient is not None and gradient.is_sparse:
                    parameter.add_(gradient, alpha=-rate * factor)
                elif gradient is not None:
                    parameters.append(parameter)
                    # The fused step goes through memory as it lies.
                    slopes.append(_beside(parameter, gradient))
                    moving.append(velocity)
            if parameters:
                torch._fused_sgd_(
                    parameters,
                    slopes,
                    moving if optimizer.momentum else [],
                    weight_decay=decay,
                    momentum=optimizer.momentum,
                    lr=rate * factor,
                    dampening=0.0,
                    nesterov=optimizer.nesterov,
                    maximize=False,
                    is_first_step=False,
                )

    return step


def _beside(parameter: Tensor, gradient: Tensor) -> Tensor:
    """A gradient in memory as its parameter lies: a sum's is one number seen many times."""
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def _clip_(gradients: list[Tensor | None], largest: float) -> None:
    known = [gradient for gradient in gradients if gradient is not None]
    if known:
        norm = torch.stack([gradient.square().sum() for gradient in known]).sum().sqrt()
        scale = torch.clamp(largest / (norm + 1e-6), max=1.0).item()
        # Not in place: two parameters may have one and the same gradient.
        gradients[:] = [None if gradient is None else gradient * scale for gradient in gradients]


def pull_of(phase: Phase, trained: Tensors, client: Client) -> Pull | None:
    """The gradient of a proximal term without a graph; other penalties are differentiated with the loss."""
    if type(phase.penalty) is not Proximal:
        return None
    penalty = phase.penalty
    centers = penalty.centers(trained, client)
    places = [(at, trained[name], centers[name]) for at, name in enumerate(trained) if name in centers]

    def pull(gradients: list[Tensor | None]) -> None:
        for at, parameter, center in places:
            distance = parameter - center
            known = gradients[at]
            gradients[at] = (
                distance.mul_(penalty.strength) if known is None else known.add(distance, alpha=penalty.strength)
            )

    return pull
