"""What is a score? Accuracy, of which more is better, or the root of the mean squared error, of which less is."""

import math
from dataclasses import dataclass

from ..formatting import plain, signed

DECIMALS = 12
"""The decimals to which gains are rounded, so that scores which differ in their last bits alone count as equal."""


@dataclass(frozen=True)
class Metric:
    """Accuracy, or an error such as the RMSE; and how its values are written."""

    name: str

    @property
    def lower_is_better(self) -> bool:
        return self.name != "accuracy"

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest score that is possible."""
        return (0.0, math.inf) if self.lower_is_better else (0.0, 1.0)

    @property
    def axis(self) -> str:
        return f"test {self.name}" if self.lower_is_better else "test accuracy, %"

    @property
    def gain_axis(self) -> str:
        return f"lower {self.name}" if self.lower_is_better else "gain, points"

    def gain(self, score: float, reference: float) -> float:
        """How much better a score is than a reference: positive is better for every metric."""
        return round(reference - score if self.lower_is_better else score - reference, DECIMALS)

    def text(self, score: float) -> str:
        return f"{score:.3f}" if self.lower_is_better else f"{100 * score:.1f} %"

    def number(self, score: float) -> str:
        """A score as text, without its unit."""
        return self.text(score).removesuffix(" %")

    def tick(self, score: float) -> str:
        return plain(score) if self.lower_is_better else plain(100 * score)

    def spread(self, mean: float, std: float) -> str:
        return f"{mean:.3f} ± {std:.3f}" if self.lower_is_better else f"{100 * mean:.1f} ± {100 * std:.1f} %"

    def change(self, gain: float) -> str:
        return signed(gain, 3) if self.lower_is_better else signed(100 * gain, 1)

    def change_within(self, gain: float, interval: tuple[float, float] | None) -> str:
        """A gain and its interval."""
        if interval is None:
            return self.change(gain)
        low, high = map(self.change, interval)
        return f"{self.change(gain)} ({low} to {high})"
