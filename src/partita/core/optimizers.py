"""How do tensors follow a gradient? On the client the gradient of the loss, on the server the pseudo-gradient.

An optimizer is a value with two functions: `init` makes its state, `update` returns new tensors and new state.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, ClassVar, Literal, Protocol, TypeVar

import torch
from torch import Tensor

from ..errors import PartitaError
from ..randomness import Moment
from ..tensors import Tensors, prefixed
from .network import Network
from .schedules import CONSTANT, Schedule
from .selectors import EVERYTHING, Selector
from .signatures import Momentum, Rate, Strength, above, check_fields, checked, named_fields

Key = TypeVar("Key")
Epsilon = Annotated[float, above(0)]
"""Keeps a divisor above 0."""


class Optimizer(Protocol):
    @property
    def lr(self) -> float: ...

    def init(self, params: Tensors) -> Tensors: ...

    def update(
        self, params: Tensors, gradients: Tensors, state: Tensors, moment: Moment, network: Network
    ) -> tuple[Tensors, Tensors]:
        """New tensors and new state; tensors without a gradient stay."""


def zeros(prefix: str, params: Mapping[str, Tensor]) -> Tensors:
    return prefixed(prefix, {name: torch.zeros_like(tensor) for name, tensor in params.items()})


@dataclass(frozen=True)
class Descent:
    """A step of SGD on one tensor: it moves by `rate` times (the gradient plus `decay` times the tensor)."""

    rate: float
    decay: float

    @property
    def shrinkage(self) -> float:
        """The part of the tensor that decay takes away in a step without momentum."""
        return self.rate * self.decay


@named_fields
@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent, as torch's: decay enters the gradient, the gradient enters the momentum."""

    lr: Rate
    _: KW_ONLY
    momentum: Momentum = 0.0
    nesterov: bool = False
    weight_decay: Strength = 0.0
    decayed: Selector = EVERYTHING
    schedule: Schedule = CONSTANT
    clip: Annotated[float, above(0)] | None = None
    """Largest norm of the gradient, over the tensors that are trained and no others."""
    rates: tuple[tuple[Selector, Rate], ...] = ()
    """Factors on the learning rate of selected tensors."""
    example: ClassVar[str] = "SGD(0.1)"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.nesterov and not self.momentum:
            raise PartitaError("Nesterov's step needs momentum. Set momentum above 0.")

    def init(self, params: Tensors) -> Tensors:
        return zeros("momentum/", params) if self.momentum else {}

    def update(
        self, params: Tensors, gradients: Tensors, state: Tensors, moment: Moment, network: Network
    ) -> tuple[Tensors, Tensors]:
        return self.step(params, gradients, state, moment, network)

    def _factors(self, names: Iterable[str], network: Network) -> dict[str, float]:
        """What the learning rate of each tensor is multiplied with."""
        factors = dict.fromkeys(names, 1.0)
        for selector, factor in self.rates:
            factors |= {name: factors[name] * factor for name in selector(network, frozenset(factors))}
        return factors

    def descents(
        self, names: Iterable[str], moment: Moment, network: Network, factors: Mapping[str, float] | None = None
    ) -> dict[str, Descent]:
        """The step of each tensor at a moment. `factors` scale the learning rates, by default those of `rates`."""
        universe = list(names)
        rate = self.lr * self.schedule(moment)
        decayed = self.decayed(network, frozenset(universe)) if self.weight_decay else frozenset()
        return {
            name: Descent(rate * factor, self.weight_decay if name in decayed else 0.0)
            for name, factor in (self._factors(universe, network) if factors is None else factors).items()
        }

    def step(
        self,
        params: Tensors,
        gradients: Tensors,
        state: Tensors,
        moment: Moment,
        network: Network,
        factors: Mapping[str, float] | None = None,
    ) -> tuple[Tensors, Tensors]:
        """A step, with other factors on the learning rates than those of `rates` where they are given."""
        descents = self.descents(params, moment, network, factors)
        new, new_state = dict(params), dict(state)
        for name, gradient in (gradients if self.clip is None else clipped(gradients, self.clip)).items():
            descent = descents[name]
            if descent.decay:
                gradient = gradient.add(params[name], alpha=descent.decay)
            if self.momentum:
                velocity = state["momentum/" + name].mul(self.momentum).add_(gradient)
                new_state["momentum/" + name] = velocity
                gradient = gradient.add(velocity, alpha=self.momentum) if self.nesterov else velocity
            new[name] = params[name].sub(gradient, alpha=descent.rate)
        return new, new_state


def clipped(gradients: Mapping[Key, Tensor], largest: float) -> dict[Key, Tensor]:
    """The gradient, scaled down to a norm of at most `largest`."""
    if not gradients:
        return {}
    norm = torch.stack([gradient.square().sum() for gradient in gradients.values()]).sum().sqrt()
    scale = torch.clamp(largest / (norm + 1e-6), max=1.0)
    return {name: gradient * scale for name, gradient in gradients.items()}


@dataclass(frozen=True)
class Adaptive:
    """Steps divided by the root of a second moment, updated by the rule `second`: Adam, Yogi or Adagrad."""

    lr: Rate
    _: KW_ONLY
    second: Literal["adam", "yogi", "adagrad"] = "adam"
    beta1: Momentum = 0.9
    beta2: Momentum = 0.999
    epsilon: Epsilon = 1e-8
    bias_correction: bool = True
    schedule: Schedule = CONSTANT
    second_moment: Strength = 0.0
    """Where the second moment begins: v before the first round, in Reddi's algorithm epsilon squared or more."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.second_moment and self.bias_correction:
            raise PartitaError(
                f"The correction of the bias is for moments that begin at 0, not at {self.second_moment:g}. "
                "Set bias_correction to false, or leave second_moment at 0."
            )

    def init(self, params: Tensors) -> Tensors:
        second = {name: torch.full_like(tensor, self.second_moment) for name, tensor in params.items()}
        count = torch.zeros((), dtype=torch.float64)
        return zeros("first/", params) | prefixed("second/", second) | {"count": count}

    def update(
        self, params: Tensors, gradients: Tensors, state: Tensors, moment: Moment, network: Network
    ) -> tuple[Tensors, Tensors]:
        count = state["count"] + 1
        new, new_state = dict(params), {**state, "count": count}
        rate = self.lr * self.schedule(moment)
        correct1 = 1 - self.beta1 ** count.item() if self.bias_correction else 1.0
        correct2 = 1 - self.beta2 ** count.item() if self.bias_correction else 1.0
        for name, gradient in gradients.items():
            first = state["first/" + name].mul(self.beta1).add_(gradient, alpha=1 - self.beta1)
            second = self._second(state["second/" + name], gradient * gradient)
            new_state |= {"first/" + name: first, "second/" + name: second}
            new[name] = params[name] - rate * (first / correct1) / ((second / correct2).sqrt() + self.epsilon)
        return new, new_state

    def _second(self, old: Tensor, square: Tensor) -> Tensor:
        if self.second == "adam":
            return old * self.beta2 + square * (1 - self.beta2)
        if self.second == "yogi":
            return old - (1 - self.beta2) * square * torch.sign(old - square)
        return old + square


@checked
def adam(
    lr: Rate,
    *,
    beta1: Momentum = 0.9,
    beta2: Momentum = 0.999,
    epsilon: Epsilon = 1e-8,
    bias_correction: bool = True,
    schedule: Schedule = CONSTANT,
    second_moment: Strength = 0.0,
) -> Adaptive:
    """Adam as torch's.

    Reddi's FedAdam is without bias correction, with beta2 0.99, epsilon (tau) 1e-3, and a second moment that begins at
    tau squared: `second_moment=1e-6`.
    """
    return Adaptive(
        lr,
        beta1=beta1,
        beta2=beta2,
        epsilon=epsilon,
        bias_correction=bias_correction,
        schedule=schedule,
        second_moment=second_moment,
    )


@checked
def yogi(
    lr: Rate,
    *,
    beta1: Momentum = 0.9,
    beta2: Momentum = 0.99,
    epsilon: Epsilon = 1e-3,
    schedule: Schedule = CONSTANT,
    second_moment: Strength = 0.0,
) -> Adaptive:
    """FedYogi's: the second moment moves by at most the squared gradient."""
    return Adaptive(
        lr,
        second="yogi",
        beta1=beta1,
        beta2=beta2,
        epsilon=epsilon,
        bias_correction=False,
        schedule=schedule,
        second_moment=second_moment,
    )


@checked
def adagrad(
    lr: Rate,
    *,
    beta1: Momentum = 0.0,
    epsilon: Epsilon = 1e-3,
    schedule: Schedule = CONSTANT,
    second_moment: Strength = 0.0,
) -> Adaptive:
    """FedAdagrad's: the second moment is the sum of squared gradients."""
    return Adaptive(
        lr,
        second="adagrad",
        beta1=beta1,
        epsilon=epsilon,
        bias_correction=False,
        schedule=schedule,
        second_moment=second_moment,
    )


OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {"sgd": SGD, "adam": adam, "yogi": yogi, "adagrad": adagrad}
