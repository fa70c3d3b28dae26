"""What is a method of a report? Its settings, under one seed or several, and its gains."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

from ..evaluation.comparison import Scores
from ..evaluation.gains import Gain, SeedsGain, by_client, hurt_text
from ..evaluation.scores import Record, Summary
from ..evaluation.variants import Variant
from ..runs.stored import StoredRun


@dataclass(frozen=True, eq=False)
class Replica:
    """One run and one of its variants, on clients that train."""

    run: StoredRun
    variant: Variant

    @cached_property
    def last(self) -> dict[int, Record]:
        """Scores by client, on test data, after the last round that was evaluated."""
        return self.run.tested(self.variant)

    @cached_property
    def summary(self) -> Summary | None:
        return self.run.summaries().get(self.variant)


@dataclass(frozen=True, eq=False)
class Method:
    """A method with its settings, under one seed or several."""

    name: str
    number: int
    """Decides its colour."""
    replicas: tuple[Replica, ...]
    gains: tuple[Mapping[str, Gain], ...]
    """The gains of each replica, by the name of the reference: runs on the same clients and seed."""
    marks: tuple[str, ...] = ()
    """The terms in which it differs from the others."""
    against: Mapping[str, str] = field(default_factory=dict)
    """The baseline of the report that each reference of this method is."""
    choice: str = ""
    """How the settings of a baseline were chosen."""

    @property
    def tested(self) -> list[Replica]:
        return [each for each in self.replicas if each.last]

    @property
    def summaries(self) -> list[Summary]:
        return [summary for each in self.replicas if (summary := each.summary)]

    @property
    def mean(self) -> float:
        """The mean over clients and seeds."""
        return fmean(each.macro for each in self.summaries)

    @cached_property
    def scores(self) -> Scores:
        """Scores by (seed, client)."""
        return {(each.run.seed, client): record.score for each in self.replicas for client, record in each.last.items()}

    @property
    def run(self) -> StoredRun:
        """The first run, for what is the same in all of them."""
        return self.replicas[0].run

    @property
    def finished(self) -> bool:
        return all(each.run.finished for each in self.replicas)

    def over(self, reference: str) -> list[tuple[StoredRun, Gain]]:
        """Each run that is measured against the reference, and its gain."""
        return [
            (each.run, known[reference])
            for each, known in zip(self.replicas, self.gains, strict=True)
            if reference in known
        ]

    def gains_over(self, reference: str) -> list[float]:
        """The gain of every (seed, client)."""
        return [value for _, each in self.over(reference) for value in each.gains]

    def by_client(self, reference: str) -> dict[int, SeedsGain]:
        """Each client's gain over all seeds, its interval, and whether the client is hurt."""
        return by_client([each for _, each in self.over(reference)])

    def mean_gain(self, reference: str) -> float | None:
        gains = self.gains_over(reference)
        return fmean(gains) if gains else None

    def hurt_count(self, reference: str) -> tuple[int, int]:
        """How many (seed, client) pairs are worse off than with the reference, and of how many."""
        several = [each for _, each in self.over(reference)]
        return sum(len(each.hurt) for each in several), sum(len(each.clients) for each in several)

    def surely_count(self, reference: str) -> int | None:
        """How many of them surely; None where there are no intervals."""
        several = [each for _, each in self.over(reference)]
        return sum(len(each.surely) for each in several) if any(each.has_intervals for each in several) else None

    def hurt_text(self, reference: str) -> str:
        """The same words as of a single run."""
        count, total = self.hurt_count(reference)
        surely = self.surely_count(reference)
        return hurt_text(count, surely or 0, total, known=surely is not None)

    def analyses(self, name: str) -> list[Any]:
        """The results of an analysis, one for each run that has it."""
        return [each.run.analyses[name] for each in self.replicas if each.run.analyses.get(name)]
