"""How fast does each layer learn in FLAYER? By a factor of its depth and of the norm of its gradient (equation 4).

rate_i = rate (1 + ln(1 + 1 / |g_i|) i / L): i from 1 at the input, L layers, g_i the gradient of all parameters of
layer i. The paper's t counts rounds, so that g_i is that of the round's first batch; `recompute` does so in every
epoch or step. 1e-8 is added to the norm, so that a gradient of zero has a rate.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Literal, TypeVar

import torch

from ..core.network import Network
from ..core.optimizers import SGD
from ..errors import PartitaError
from ..randomness import Moment
from ..tensors import Tensors, network_name

Key = TypeVar("Key", int, str)
Factors = Callable[[Tensors, Network], dict[str, float]]


@dataclass(frozen=True)
class Layerwise:
    """SGD with a factor for each tensor, computed from the gradient of the first batch of a round, epoch or step."""

    base: SGD
    factors: Factors
    _: KW_ONLY
    recompute: Literal["round", "epoch", "step"] = "round"

    @property
    def lr(self) -> float:
        return self.base.lr

    def init(self, params: Tensors) -> Tensors:
        return self.base.init(params)

    def update(
        self, params: Tensors, gradients: Tensors, state: Tensors, moment: Moment, network: Network
    ) -> tuple[Tensors, Tensors]:
        fresh = {"round": moment.epoch == moment.step == 0, "epoch": moment.step == 0, "step": True}[self.recompute]
        if fresh:
            new = self.factors(gradients, network)
            state = state | {"factor/" + n: torch.tensor(factor, dtype=torch.float64) for n, factor in new.items()}
        factors = {name: float(state["factor/" + name]) for name in gradients}
        return self.base.step(params, gradients, state, moment, network, factors)


def eq4(norm: float, position: float, epsilon: float = 1e-8) -> float:
    """Equation 4 without the base rate: 1 + ln(1 + 1 / norm) * position, position = i / L."""
    return 1 + math.log1p(1 / (norm + epsilon)) * position


def paper_factors(largest: float | None = None) -> Factors:
    """Equation 4 for every layer unit i of L: the norm is that of all its gradients together."""

    def factors(gradients: Tensors, network: Network) -> dict[str, float]:
        unit = {name: network.unit_of[network_name(name)] for name in gradients}
        norms = _norms(gradients, unit)
        by_unit = {i: eq4(norm, i / len(network.units)) for i, norm in norms.items()}
        return {name: min(by_unit[i], largest or math.inf) for name, i in unit.items()}

    return factors


def official_factors(middle: float | tuple[float, ...], head: float) -> Factors:
    """What the published code does: top-level children; the first at the base rate, the last at a fixed fraction.

    `middle` multiplies equation 4 for those between, all alike or each by its own.
    """

    def factors(gradients: Tensors, network: Network) -> dict[str, float]:
        last = len(network.children) - 1
        result: dict[str, float] = {}
        between = max(last - 1, 0)
        multipliers = (middle,) * between if isinstance(middle, float | int) else middle
        if len(multipliers) != between:
            raise PartitaError(
                f"middle_rate has {len(multipliers)} rates for {between} middle layers. Give one for each, or one for "
                "all."
            )
        for position, names in enumerate(network.children):
            members = [name for name in gradients if network_name(name) in names]
            if position == 0 or position == last:
                factor = 1.0 if position == 0 else head
            else:
                each = [eq4(norm, position / last) for norm in _norms(gradients, {n: n for n in members}).values()]
                factor = multipliers[position - 1] * sum(each) / len(each) if each else 1.0
            result |= dict.fromkeys(members, factor)
        return result

    return factors


def _norms(gradients: Tensors, keys: Mapping[str, Key]) -> dict[Key, float]:
    squares: dict[Key, float] = {}
    for name, key in keys.items():
        squares[key] = squares.get(key, 0.0) + float(gradients[name].double().square().sum())
    return {key: math.sqrt(square) for key, square in squares.items()}
