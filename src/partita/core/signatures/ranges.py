"""Which numbers are allowed? Those of a range."""

import math
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`. An open end is excluded; nan and infinity always are."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return above and below and abs(value) <= sys.float_info.max

    def __str__(self) -> str:
        """
        >>> [str(each) for each in (Range(0), Range(0, low_open=True), Range(0, 1), FINITE)]
        ['at least 0', 'above 0', 'from 0 to 1', 'finite']
        """
        low = "" if self.low == -math.inf else f"{'above' if self.low_open else 'at least'} {self.low:,}"
        high = "" if self.high == math.inf else f"{'below' if self.high_open else 'at most'} {self.high:,}"
        if low and high and not self.low_open and not self.high_open:
            return f"from {self.low:,} to {self.high:,}"
        return " and ".join(part for part in (low, high) if part) or "finite"


FINITE = Range()
