"""What became of each test sample? It is kept for the model in use, so that two methods can be compared in pairs."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from .intervals import Interval, paired_errors, paired_ratios, paired_shares
from .variants import Variant

if TYPE_CHECKING:
    from ..core.objectives import Outcome

Form = Literal["answers", "counted", "errors"]
Numbers = npt.NDArray[np.float64]


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
    def numbers(self) -> tuple[Numbers, Numbers]:
        """How much each sample counts, and its right answers or its squared error."""
        packed = base64.b64decode(self.values)
        if self.form == "answers":
            bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=self.samples)
            return np.ones(self.samples), bits.astype(np.float64)
        found = np.frombuffer(packed, "<f4").astype(np.float64)
        if self.form == "errors":
            return np.ones(self.samples), found
        return found[: self.samples], found[self.samples :]


def outcomes_of(
    batches: "Sequence[Outcome]", round: int, client: int, variant: Variant, metric: str
) -> Outcomes | None:
    """The outcomes of all batches together; None for sums that are neither right answers nor squared errors."""
    counts, values = (np.concatenate([each[part].cpu().numpy() for each in batches]) for part in (0, 1))
    single = bool((counts == 1).all())
    plain = single and bool(((values == 0) | (values == 1)).all())
    form: Form
    if metric != "accuracy":
        if not single:
            return None
        form, packed = "errors", values.astype("<f4").tobytes()
    elif plain:
        form, packed = "answers", np.packbits(values > 0).tobytes()
    else:
        form, packed = "counted", np.concatenate([counts, values]).astype("<f4").tobytes()
    return Outcomes(round, client, variant, form, len(values), base64.b64encode(packed).decode())


def paired_interval(own: Outcomes, other: Outcomes) -> Interval | None:
    """The 95 % interval of the gain of one model over another on the same samples; None if that cannot be told."""
    if (own.form, own.samples) != (other.form, other.samples) or not own.samples:
        return None
    (counts, mine), (others_counts, others) = own.numbers, other.numbers
    if own.form == "answers":
        return paired_shares(int((mine > others).sum()), int((mine < others).sum()), own.samples)
    if own.form == "errors":
        return paired_errors(mine, others)
    return paired_ratios(counts, mine - others) if (counts == others_counts).all() else None
