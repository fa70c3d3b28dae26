"""What is written to a run at once? Complete rounds: the states after them, and all their numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..evaluation.outcomes import Outcomes
from ..evaluation.scores import Record
from ..experiment.left_out import LeftOut
from ..experiment.traffic import Traffic

if TYPE_CHECKING:
    from ..tensors import Tensors


@dataclass(frozen=True)
class Commit:
    """Complete rounds of a stage up to `round`: the states of server and clients after it, and all numbers."""

    stage: str
    round: int = 0
    state: "Tensors" = field(default_factory=dict)
    own: "Mapping[int, Tensors]" = field(default_factory=dict)
    rounds: tuple[tuple[int, float, int], ...] = ()
    """Number, seconds and participants of each."""
    records: tuple[Record, ...] = ()
    traffic: tuple[Traffic, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    outcomes: tuple[Outcomes, ...] = ()
