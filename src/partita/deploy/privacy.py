"""How is what leaves a site made private? The site bounds each update, adds noise to it, and counts releases.

An update is the change of the shared tensors. Scaled to a norm of at most `clip`, it differs by at most twice that norm
from the update on any other data, so Gaussian noise of the standard deviation `noise * clip` in every entry makes one
release rho-zCDP with rho = 2 / noise^2 (Bun and Steinke, 2016). Releases add up, and

    epsilon = rho + 2 sqrt(rho ln(1 / delta))

The protected unit is all data of the site, and so each sample of it. The server is not trusted.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch

from ..core.server import Update
from ..core.signatures import above, check_fields
from ..errors import PartitaError
from ..tensors import Tensors
from .replies import distance


@dataclass(frozen=True)
class Privacy:
    """Differential privacy of all that a site releases about its data, over all plans together."""

    clip: Annotated[float, above(0)]
    """The norm to which a change is scaled down."""
    noise: Annotated[float, above(0)]
    """The standard deviation of the noise, in units of `clip`."""
    epsilon: Annotated[float, above(0)]
    """The budget. When it is spent, nothing leaves any more."""
    delta: Annotated[float, above(0)] = 1e-6

    def __post_init__(self) -> None:
        check_fields(self)
        if self.delta >= 1:
            raise PartitaError(f"delta is {self.delta:g}, but must be below 1.")

    def spent(self, releases: int) -> float:
        """The epsilon of a number of releases."""
        rho = 2 * releases / self.noise**2
        return rho + 2 * math.sqrt(rho * math.log(1 / self.delta))

    def need_budget(self, releases: int) -> None:
        """Refuse a release that would exceed the budget, after a number of others."""
        if (after := self.spent(releases + 1)) > self.epsilon:
            raise PartitaError(
                f"The privacy budget of this site is spent: after {releases} releases one more would make epsilon "
                f"{after:.4g}, and it allows {self.epsilon:g}."
            )

    def released(self, update: Update, before: Tensors, statistics: Collection[str]) -> Update:
        """The update as it may leave; one that discloses data in another way is refused.

        `statistics` are names of running statistics, which noise would make useless.
        """
        if update.mask or update.weight is not None:
            what = "a mask" if update.mask else "a weight"
            raise PartitaError(
                f"This site releases updates with noise, and {what} made from its data cannot have any. Choose a "
                "method that uploads weights alone."
            )
        if held := update.values.keys() & set(statistics):
            raise PartitaError(
                f"This site releases updates with noise, and running statistics ({min(held)}) cannot have any. "
                "Make the plan with buffers = 'local'."
            )
        found = distance(update.values, None, before)
        scale = 1.0 if found <= self.clip else self.clip / found
        # Seeded by the operating system: the noise cannot be drawn again.
        draw = np.random.default_rng()
        values = {}
        for name, tensor in update.values.items():
            change = (tensor.double() - before[name].double()) * scale
            noise = torch.from_numpy(draw.normal(0.0, self.noise * self.clip, tuple(tensor.shape)))
            values[name] = (before[name].double() + change + noise).to(tensor.dtype)
        return replace(update, values=values)
