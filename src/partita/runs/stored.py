"""What does a stored run contain? It is read from its database alone, without data or network."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ..evaluation.metric import Metric
from ..evaluation.outcomes import Outcomes
from ..evaluation.scores import HeldOut, Record, Summary, summarize
from ..evaluation.variants import Variant
from ..simulation.left_out import LeftOut
from ..simulation.traffic import Traffic
from .database import is_locked
from .record import RunRecord
from .store import Store


@dataclass(frozen=True)
class StoredRun:
    """A run as of its last commit."""

    folder: Path
    record: RunRecord
    rounds: list[tuple[int, float, int]]
    records: list[Record]
    traffic: list[Traffic]
    analyses: dict[str, Any]
    """The results of analyses by name: labels, network, baselines, guard and others."""
    left_out: list[LeftOut] = field(default_factory=list)
    """Of pretraining too."""
    outcomes: list[Outcomes] = field(default_factory=list)
    """What became of each test sample after the last round, where that is stored."""

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
    def evaluated(self) -> list[int]:
        return sorted({at for at, _ in self._grouped})

    @property
    def last(self) -> int:
        """The last evaluated round; 0 if there is none."""
        return max(self.evaluated, default=0)

    @cached_property
    def _grouped(self) -> Mapping[tuple[int, bool], Mapping[Variant, Sequence[Record]]]:
        """The records of each variant, by round and by whether the clients are new."""
        newcomers = set(self.record.newcomers)
        found: dict[tuple[int, bool], dict[Variant, list[Record]]] = {}
        for record in self.records:
            models = found.setdefault((record.round, record.client in newcomers), {})
            models.setdefault(record.variant, []).append(record)
        return found

    def summaries(
        self, round: int | None = None, *, role: HeldOut = "test", newcomers: bool = False
    ) -> dict[Variant, Summary]:
        """Scores by variant after a round, by default the last that was evaluated."""
        at = self.last if round is None else round
        return {
            variant: summarize(chosen, (record.client for record in records))
            for variant, records in self._grouped.get((at, newcomers), {}).items()
            if (chosen := [record for record in records if record.role == role and record.count])
        }

    def tested(self, variant: Variant | None = None) -> dict[int, Record]:
        """The records on test data after the last evaluated round, by client; without new clients.

        They are of the variant that the method is meant to be used with, unless another is named.
        """
        records = self._grouped.get((self.last, False), {}).get(variant or self.record.variant, ())
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
        """The mean score over clients after each evaluated round."""
        found = {at: self.summaries(at, role=role).get(variant or self.record.variant) for at in self.evaluated}
        return {at: summary.macro for at, summary in found.items() if summary}

    @cached_property
    def sample_counts(self) -> tuple[Literal["training", "held out"], Mapping[int, int]]:
        """The number of training samples of each evaluated client, if the run's labels give it for all of them.

        Otherwise, for instance in a regression, the number of samples held out for validation and test, which grows
        with the number of training samples.
        """
        held: dict[int, dict[str, int]] = {}
        for record in self.records:
            if record.round == self.last:
                held.setdefault(record.client, {})[record.role] = record.count
        labels = self.analyses.get("labels")
        if labels and held.keys() <= set(labels["clients"]):
            return "training", dict(zip(labels["clients"], map(sum, labels["train"]), strict=True))
        return "held out", {client: sum(roles.values()) for client, roles in held.items()}

    @property
    def chosen_round(self) -> int | None:
        """The evaluated round that is best on validation data; of equal ones the first. Test data are not used."""
        return self._best_round("validation")

    @property
    def oracle_round(self) -> int | None:
        """The evaluated round that is best on test data. In practice nobody could choose it."""
        return self._best_round("test")

    def _best_round(self, role: HeldOut) -> int | None:
        known = self.course(role=role)
        return max(known, key=lambda at: (self.metric.gain(known[at], 0.0), -at)) if known else None

    def as_dict(self, *, oracle: bool = False) -> dict[str, Any]:
        """The run as JSON values; `oracle` adds the round that is best on test data."""
        return {
            **({"oracle": self._as_oracle()} if oracle else {}),
            **self.record.as_dict(),
            "folder": str(self.folder),
            "done": self.done,
            "bytes_per_round": self.bytes_per_round,
            "seconds_per_round": self.seconds_per_round,
            "chosen_round": self.chosen_round,
            "scores": {str(at): {m: asdict(s) for m, s in self.summaries(at).items()} for at in self.evaluated},
            "newcomer_scores": {m: asdict(s) for m, s in self.summaries(newcomers=True).items()},
            "records": [{**asdict(each), "name": self.record.name_of(each.client)} for each in self.records],
            "left_out": [asdict(each) for each in self.left_out],
            "analyses": self.analyses,
        }

    def _as_oracle(self) -> dict[str, Any]:
        best = self.oracle_round
        return {"round": best, "scores": {m: asdict(s) for m, s in self.summaries(best).items()}}

    @property
    def bytes_per_round(self) -> float:
        return sum(each.down + each.up for each in self.traffic) / max(self.done, 1)

    @property
    def seconds_per_round(self) -> float:
        return sum(seconds for _, seconds, _ in self.rounds) / max(len(self.rounds), 1)


def read_run(folder: Path) -> StoredRun:
    """Read everything except tensors, in one consistent snapshot."""
    with Store.open(folder) as store:
        return stored_run(store)


def stored_run(store: Store) -> StoredRun:
    with store.snapshot():
        rounds, records, traffic = store.rounds("run"), store.records("run"), store.traffic("run")
        left_out = [*store.left_out("pretrain"), *store.left_out("run")]
        outcomes = store.outcomes("run")
        return StoredRun(store.folder, store.record, rounds, records, traffic, store.analyses, left_out, outcomes)
