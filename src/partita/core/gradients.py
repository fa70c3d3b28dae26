"""Which gradient does a step follow? The gradient of the loss, or an estimate from several gradients."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from ..tensors import Tensors, only, prefixed
from .samples import Samples
from .signatures import Positive, Rate, Strength, above, check_fields

Difference = Annotated[float, above(0)]
"""How far from a point gradients are taken, to estimate how they change there."""
GradientAt = Callable[[Tensors, Samples], Tensors]
"""The gradient of the loss at some values of the trained tensors, on a batch."""


class Estimator(Protocol):
    @property
    def batches(self) -> int:
        """How many batches a step takes."""

    def __call__(
        self, gradient_at: GradientAt, trained: Tensors, batches: Sequence[Samples], tensors: Tensors
    ) -> tuple[Tensors, Tensors]:
        """The estimate, and other tensors of the client that it changes."""


@dataclass(frozen=True)
class Plain:
    """The gradient of the loss."""

    batches: int = 1

    def __call__(
        self, gradient_at: GradientAt, trained: Tensors, batches: Sequence[Samples], tensors: Tensors
    ) -> tuple[Tensors, Tensors]:
        return gradient_at(trained, batches[0]), {}


PLAIN_GRADIENT = Plain()


@dataclass(frozen=True)
class Meta:
    """First-order meta-gradient: adapt on one batch by a step of `alpha`, take the gradient there on the next."""

    alpha: Rate
    batches: int = 2

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(
        self, gradient_at: GradientAt, trained: Tensors, batches: Sequence[Samples], tensors: Tensors
    ) -> tuple[Tensors, Tensors]:
        return gradient_at(descend(trained, gradient_at(trained, batches[0]), self.alpha), batches[1]), {}


@dataclass(frozen=True)
class HessianFree:
    """Meta-gradient (I - alpha H) v: v as in `Meta`, H v by a central difference of gradients on a third batch."""

    alpha: Rate
    delta: Difference
    batches: int = 3

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(
        self, gradient_at: GradientAt, trained: Tensors, batches: Sequence[Samples], tensors: Tensors
    ) -> tuple[Tensors, Tensors]:
        outer, _ = Meta(self.alpha)(gradient_at, trained, batches, tensors)
        ahead, behind = (gradient_at(descend(trained, outer, step), batches[2]) for step in (-self.delta, self.delta))
        curvature = {name: (ahead[name] - behind[name]) / (2 * self.delta) for name in outer}
        return descend(outer, curvature, self.alpha), {}


@dataclass(frozen=True)
class Moreau:
    """Gradient of the Moreau envelope: strength * (w - theta), theta by `steps` proximal steps of size `lr`.

    With `carry`, theta starts where the last batch left it (kept as `theta/...`), else at w.
    """

    strength: Strength
    steps: Positive
    lr: Rate
    weight_decay: Strength = 0.0
    carry: bool = False
    batches: int = 1

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(
        self, gradient_at: GradientAt, trained: Tensors, batches: Sequence[Samples], tensors: Tensors
    ) -> tuple[Tensors, Tensors]:
        theta = {name: tensors["theta/" + name] for name in trained} if self.carry else dict(trained)
        for _ in range(self.steps):
            gradient = {
                name: g + self.strength * (theta[name] - trained[name]) + self.weight_decay * theta[name]
                for name, g in gradient_at(theta, batches[0]).items()
            }
            theta = descend(theta, gradient, self.lr)
        envelope = {name: self.strength * (trained[name] - theta[name]) for name in trained}
        return envelope, only(prefixed("theta/", theta), tensors)


def descend(tensors: Tensors, gradient: Tensors, lr: float) -> Tensors:
    return {name: tensor - lr * gradient[name] if name in gradient else tensor for name, tensor in tensors.items()}
