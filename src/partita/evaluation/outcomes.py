"""What is the outcome of each test sample? It is stored for the model in use, so methods can be compared in pairs."""

import base64
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .intervals import Interval, paired_errors, paired_ratios, paired_shares
from .variants import Variant

if TYPE_CHECKING:
    from torch import Tensor

    from ..core.objectives import Outcome

Form = Literal["answers", "counted", "errors"]


@dataclass(frozen=True)
class Outcomes:
    """The test samples of one client in their order, as one of its models answered them after a round."""

    round: int
    client: int
    variant: Variant
    form: Form
    """`answers`: a bit for each sample, 1 if it is right. `counted`: how much each sample counts, then how much of each
    is right (words of a sentence). `errors`: the squared error of each sample."""
    samples: int
    values: str
    """The bits, or float32 in little endian, in base64."""

    @property
    def numbers(self) -> tuple[Sequence[float], Sequence[float]]:
        """How much each sample counts, and its right answers or its squared error."""
        packed = base64.b64decode(self.values)
        if self.form == "answers":
            bits = f"{int.from_bytes(packed, 'big'):0{8 * len(packed)}b}"[: self.samples]
            return [1.0] * self.samples, [float(bit) for bit in bits]
        found = _floats(packed)
        if self.form == "errors":
            return [1.0] * self.samples, found
        return found[: self.samples], found[self.samples :]


def outcomes_of(
    batches: "Sequence[Outcome]", round: int, client: int, variant: Variant, metric: str
) -> Outcomes | None:
    """The outcomes of all batches together; None for sums that are neither right answers nor squared errors."""
    counts, values = (_listed([each[part] for each in batches]) for part in (0, 1))
    single = all(count == 1 for count in counts)
    plain = single and all(value in (0, 1) for value in values)
    form: Form
    if metric != "accuracy":
        if not single:
            return None
        form, packed = "errors", _bytes(values)
    elif plain:
        form, packed = "answers", _bits(values)
    else:
        form, packed = "counted", _bytes([*counts, *values])
    return Outcomes(round, client, variant, form, len(values), base64.b64encode(packed).decode())


def paired_interval(own: Outcomes, other: Outcomes) -> Interval | None:
    """The 95 % interval of the gain of one model over another on the same samples; None if it cannot be computed."""
    if (own.form, own.samples) != (other.form, other.samples) or not own.samples:
        return None
    if own.form == "answers":
        mine, others = (int.from_bytes(base64.b64decode(each.values), "big") for each in (own, other))
        return paired_shares((mine & ~others).bit_count(), (others & ~mine).bit_count(), own.samples)
    (counts, right), (others_counts, others_right) = own.numbers, other.numbers
    if own.form == "errors":
        return paired_errors(right, others_right)
    if counts != others_counts:
        return None
    return paired_ratios(counts, [one - other for one, other in zip(right, others_right, strict=True)])


def _listed(batches: "Sequence[Tensor]") -> list[float]:
    return [value for batch in batches for value in batch.tolist()]


def _bits(values: Sequence[float]) -> bytes:
    """The first value is the highest bit of the first byte; the last byte is filled up with zeros."""
    length = (len(values) + 7) // 8
    return int("".join("1" if value else "0" for value in values).ljust(8 * length, "0"), 2).to_bytes(length, "big")


def _bytes(values: Sequence[float]) -> bytes:
    return _little(array("f", values)).tobytes()


def _floats(packed: bytes) -> list[float]:
    return _little(array("f", packed)).tolist()


def _little(numbers: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
