"""What does a stored run say? Read from its database alone, without data or network."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ..evaluation import Model, Record, Summary, summarize
from ..traffic import Traffic
from .store import Store


@dataclass(frozen=True)
class View:
    """A run as it was committed last."""

    folder: Path
    about: dict[str, Any]
    rounds: list[tuple[int, float, int]]
    records: list[Record]
    traffic: list[Traffic]
    analyses: dict[str, Any]
    """What was found out about the run beside its metrics: labels, network, baselines, guard and others."""

    @property
    def done(self) -> int:
        """Rounds that are committed."""
        return self.rounds[-1][0] if self.rounds else 0

    @property
    def evaluated(self) -> list[int]:
        return sorted({record.round for record in self.records})

    def summaries(
        self, round: int | None = None, *, role: Literal["validation", "test"] = "test", newcomers: bool = False
    ) -> dict[Model, Summary]:
        """Scores by model after a round, by default the last that was evaluated."""
        at = round if round is not None else max(self.evaluated, default=0)
        chosen: dict[Model, list[Record]] = {}
        known: dict[Model, set[int]] = {}
        for record in self.records:
            new = record.client in self.about["newcomers"]
            if record.round == at and new == newcomers:
                known.setdefault(record.model, set()).add(record.client)
                if record.role == role:
                    chosen.setdefault(record.model, []).append(record)
        return {model: summarize(records, len(known[model]) - len(records)) for model, records in chosen.items()}

    @property
    def chosen_round(self) -> int | None:
        """The evaluated round that is best on validation data, the first of equals; test data have no say."""
        return self._best_round("validation")

    @property
    def oracle_round(self) -> int | None:
        """The evaluated round that is best on test data: what nobody can know in use, and what some publish."""
        return self._best_round("test")

    def _best_round(self, role: Literal["validation", "test"]) -> int | None:
        scores = {at: self.summaries(at, role=role).get(self.about["model"]) for at in self.evaluated}
        known = {at: summary.macro for at, summary in scores.items() if summary}
        sign = 1 if self.about["metric"] == "accuracy" else -1
        return max(known, key=lambda at: (sign * known[at], -at)) if known else None

    def as_dict(self, *, oracle: bool = False) -> dict[str, Any]:
        """For machines; what is best on test data only if asked for."""
        return {
            **({"oracle": self._as_oracle()} if oracle else {}),
            **self.about,
            "folder": str(self.folder),
            "done": self.done,
            "bytes_per_round": self.bytes_per_round,
            "seconds_per_round": self.seconds_per_round,
            "chosen_round": self.chosen_round,
            "scores": {str(at): {m: asdict(s) for m, s in self.summaries(at).items()} for at in self.evaluated},
            "newcomer_scores": {m: asdict(s) for m, s in self.summaries(newcomers=True).items()},
            "records": [asdict(record) for record in self.records],
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


def view(folder: Path) -> View:
    with Store.open(folder) as store:
        rounds, records, traffic = store.rounds("run"), store.records("run"), store.traffic("run")
        return View(folder, store.about, rounds, records, traffic, store.analyses)
