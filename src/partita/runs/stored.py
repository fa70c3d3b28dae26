"""What does a stored run contain? It is read from its database alone, without data or network."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import accumulate, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from ..evaluation.metric import Metric
from ..evaluation.outcomes import Outcomes
from ..evaluation.scores import HeldOut, Record, Summary, summarize
from ..evaluation.variants import Variant
from ..experiment.left_out import LeftOut
from ..experiment.traffic import Traffic
from .database import is_locked
from .numbers import Numbers
from .record import RunRecord
from .store import Store


@dataclass(frozen=True)
class StoredRun:
    """A run as of its last commit."""

    folder: Path
    record: RunRecord
    rounds: list[tuple[int, float, int]]
    numbers: Numbers
    """Metrics and traffic; those before the last evaluated round are read when they are asked for."""
    analyses: dict[str, Any]
    """The results of analyses by name: labels, network, baselines, guard and others."""
    left_out: list[LeftOut] = field(default_factory=list)
    """In all stages, including pretraining."""
    outcomes: list[Outcomes] = field(default_factory=list)
    """The outcome of each test sample after the last round, where it is stored."""

    @cached_property
    def worked_on(self) -> bool:
        """Whether another process works on the run now."""
        return is_locked(self.folder)

    @property
    def metric(self) -> Metric:
        return self.record.score

    @property
    def seed(self) -> int:
        return self.record.seed

    @property
    def finished(self) -> bool:
        return self.record.done and self.done >= self.record.rounds

    @property
    def done(self) -> int:
        """Rounds that are committed."""
        return self.rounds[-1][0] if self.rounds else 0

    @property
    def records(self) -> list[Record]:
        """All metrics of all rounds."""
        return list(self.numbers.records())

    @property
    def traffic(self) -> list[Traffic]:
        """All traffic of all rounds."""
        return list(self.numbers.traffic())

    @property
    def evaluated(self) -> list[int]:
        return self.numbers.evaluated

    @property
    def last(self) -> int:
        """The last evaluated round; 0 if there is none."""
        return self.evaluated[-1] if self.evaluated else 0

    def summaries(
        self, round: int | None = None, *, role: HeldOut = "test", newcomers: bool = False
    ) -> dict[Variant, Summary]:
        """Scores by variant after a round, by default the last that was evaluated."""
        if round is not None and round != self.last:
            return _summarized(self._by_variant(self.numbers.at(round), newcomers), role)
        return _summarized(self._new_at_last if newcomers else self._trained_at_last, role)

    def _by_variant(self, records: Iterable[Record], newcomers: bool) -> dict[Variant, list[Record]]:
        """The records of clients that train, or of new ones."""
        found: dict[Variant, list[Record]] = {}
        for record in records:
            if (record.client in self._newcomers) == newcomers:
                found.setdefault(record.variant, []).append(record)
        return found

    @cached_property
    def _trained_at_last(self) -> dict[Variant, list[Record]]:
        return self._by_variant(self.numbers.at_last, newcomers=False)

    @cached_property
    def _new_at_last(self) -> dict[Variant, list[Record]]:
        return self._by_variant(self.numbers.at_last, newcomers=True)

    @cached_property
    def _newcomers(self) -> frozenset[int]:
        return frozenset(self.record.newcomers)

    def tested(self, variant: Variant | None = None) -> dict[int, Record]:
        """The records on test data after the last evaluated round, by client; without new clients.

        They are of the variant that the method is meant to be used with, unless another is named.
        """
        records = self._trained_at_last.get(variant or self.record.variant, ())
        return {record.client: record for record in records if record.role == "test" and record.count}

    def scores(self, variant: Variant | None = None) -> dict[int, float]:
        """The scores of `tested`, by client."""
        return {client: record.score for client, record in self.tested(variant).items()}

    def outcomes_by_client(self, variant: Variant | None = None) -> dict[int, Outcomes]:
        """The outcomes that the scores of `tested` are made of, as far as they are stored."""
        wanted = (self.last, variant or self.record.variant)
        return {each.client: each for each in self.outcomes if (each.round, each.variant) == wanted}

    @property
    def test_counts(self) -> dict[int, int]:
        """How many test samples each client of `tested` has."""
        return {client: record.count for client, record in self.tested().items()}

    def course(self, variant: Variant | None = None, role: HeldOut = "test") -> dict[int, float]:
        """The mean score over clients after each evaluated round, up to rounding."""
        wanted = (variant or self.record.variant, role)
        if wanted not in self._courses:
            self._courses[wanted] = self.numbers.means(*wanted, self._newcomers)
        return self._courses[wanted]

    @cached_property
    def _courses(self) -> dict[tuple[Variant, HeldOut], dict[int, float]]:
        """Curves that were computed already."""
        return {}

    @cached_property
    def sample_counts(self) -> tuple[Literal["training", "held out"], Mapping[int, int]]:
        """The number of training samples of each evaluated client, if the run's labels give it for all of them.

        Otherwise, for instance in a regression, the number of samples held out for validation and test, which grows
        with the number of training samples.
        """
        held: dict[int, dict[str, int]] = {}
        for record in self.numbers.at_last:
            held.setdefault(record.client, {})[record.role] = record.count
        labels = self.analyses.get("labels")
        if labels and held.keys() <= set(labels["clients"]):
            return "training", dict(zip(labels["clients"], map(sum, labels["train"]), strict=True))
        return "held out", {client: sum(roles.values()) for client, roles in held.items()}

    def label_of(self, label: int) -> str:
        """The name of a class, where the data name them."""
        names = (self.analyses.get("labels") or {}).get("names")
        return names[label] if names else str(label)

    @property
    def chosen_round(self) -> int | None:
        """The evaluated round that is best on validation data; of equal ones the first. Test data are not used."""
        return self._best_round("validation")

    @property
    def oracle_round(self) -> int | None:
        """The evaluated round that is best on test data. In practice it cannot be known."""
        return self._best_round("test")

    def _best_round(self, role: HeldOut) -> int | None:
        known = self.course(role=role)
        return max(known, key=lambda at: (self.metric.gain(known[at], 0.0), -at)) if known else None

    def as_dict(self, *, oracle: bool = False) -> dict[str, Any]:
        """The run as JSON values; `oracle` adds the round that is best on test data."""
        found = self.facts(oracle=oracle)
        return {**found, "scores": dict(self.scores_by_round()), "records": list(self.named_records())}

    def facts(self, *, oracle: bool = False) -> dict[str, Any]:
        """The run as JSON values, without what grows with its rounds."""
        return {
            **({"oracle": self._as_oracle()} if oracle else {}),
            **self.record.as_dict(),
            "folder": str(self.folder),
            "done": self.done,
            "bytes_per_round": self.bytes_per_round,
            "seconds_per_round": self.seconds_per_round,
            "chosen_round": self.chosen_round,
            "newcomer_scores": {m: asdict(s) for m, s in self.summaries(newcomers=True).items()},
            "left_out": [asdict(each) for each in self.left_out],
            "analyses": self.analyses,
        }

    def scores_by_round(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each evaluated round with its summaries, one at a time."""
        for at, records in groupby(self.numbers.records(), key=attrgetter("round")):
            found = _summarized(self._by_variant(records, newcomers=False), "test")
            yield str(at), {variant: asdict(summary) for variant, summary in found.items()}

    def named_records(self) -> Iterator[dict[str, Any]]:
        """All records with the names of their clients, one at a time."""
        return ({**asdict(each), "name": self.record.name_of(each.client)} for each in self.numbers.records())

    def _as_oracle(self) -> dict[str, Any]:
        best = self.oracle_round
        return {"round": best, "scores": {m: asdict(s) for m, s in self.summaries(best).items()}}

    @cached_property
    def _bytes_until(self) -> dict[int, int]:
        """Sent down and up by the end of each round that sent anything."""
        sent = self.numbers.bytes_by_round()
        return dict(zip(sent, accumulate(sent.values()), strict=True))

    def bytes_until(self, round: int) -> int:
        """Sent down and up by the end of a round, by all clients together."""
        before = bisect_right(rounds := list(self._bytes_until), round)
        return self._bytes_until[rounds[before - 1]] if before else 0

    @property
    def bytes_per_round(self) -> float:
        return self.bytes_until(self.done) / max(self.done, 1)

    @property
    def seconds_per_round(self) -> float:
        return sum(seconds for _, seconds, _ in self.rounds) / max(len(self.rounds), 1)


def read_run(folder: Path) -> StoredRun:
    """Read a run as of one moment: everything except tensors, and except traffic and earlier metrics until used."""
    with Store.connected(folder) as store:
        return stored_run(store)


def _summarized(records: Mapping[Variant, list[Record]], role: HeldOut) -> dict[Variant, Summary]:
    """The scores of one round, by variant as its records."""
    return {
        variant: summarize(chosen, (record.client for record in several))
        for variant, several in records.items()
        if (chosen := [record for record in several if record.role == role and record.count])
    }


def stored_run(store: Store) -> StoredRun:
    with store.snapshot():
        # First, since it tells the format: a run in another one may lack the tables.
        record = store.record
        rounds, outcomes = store.rounds("run"), store.outcomes("run")
        left_out = [*store.left_out("pretrain"), *store.left_out("run")]
        numbers = Numbers.of(store, rounds[-1][0] if rounds else 0)
        return StoredRun(store.folder, record, rounds, numbers, store.analyses, left_out, outcomes)
