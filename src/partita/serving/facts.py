"""Which facts of a client are shown? Those stored with its run; none is computed from data."""

from collections.abc import Callable, Mapping
from typing import Any

from ..evaluation.variants import Variant
from ..runs.gains import named_baselines
from ..runs.stored import StoredRun

SCORED = ("personal", "guarded", "global", "local", "floor")
"""The models whose test scores are shown for a client."""


class ClientFacts:
    """The label counts of each client, and its score beside the floor, local training and the global model."""

    def __init__(self, run: StoredRun) -> None:
        self._run = run
        labels, floor, guard = (run.analyses.get(name) for name in ("labels", "floor", "guard"))
        self._labels: Mapping[int, list[int]] = (
            dict(zip(labels["clients"], labels["train"], strict=True)) if labels else {}
        )
        self._names: list[str] = labels.get("names", []) if labels else []
        named = named_baselines(run, {}).found
        self._scores: dict[str, Mapping[int, float]] = {"personal": run.scores()}
        if guard:
            self._scores["guarded"] = dict(zip(guard["clients"], guard["guarded"], strict=True))
        for name in ("global", "local"):
            if name in named:
                self._scores[name] = named[name].run.scores(named[name].variant)
        if floor:
            self._scores["floor"] = dict(zip(floor["clients"], floor["score"], strict=True))

    def score(self, client: int) -> float | None:
        """The score of the personal model."""
        return self._scores["personal"].get(client)

    def samples(self, client: int) -> int | None:
        """The number of training samples, where it was counted."""
        counts = self._labels.get(client)
        return sum(counts) if counts is not None else None

    def counts(self, client: int) -> list[int] | None:
        """Training samples by label."""
        return self._labels.get(client)

    def labels(self, client: int) -> list[str] | None:
        """The names of the labels that are counted, or their numbers."""
        counts = self._labels.get(client)
        return None if counts is None else self._names or [str(label) for label in range(len(counts))]

    def scores(self, client: int) -> dict[str, float]:
        """Scores by name: personal, guarded, global, local and floor, as far as they were measured."""
        return {name: known[client] for name, known in self._scores.items() if client in known}


def client_scores(run: StoredRun, which: Variant | None) -> Callable[[int], dict[str, Any]]:
    """What a card states of a client's test scores, by its number, also of clients that never trained."""
    variant, facts = which or run.record.variant, ClientFacts(run)
    tested = {
        each.client: each
        for each in run.numbers.at_last
        if (each.variant, each.role) == (variant, "test") and each.count
    }

    def told(client: int) -> dict[str, Any]:
        record = tested.get(client)
        if record is None:
            return {"score": None}
        own = {"test": record.score, "count": record.count, "correct": record.correct, "loss": record.loss}
        if which is not None:
            return {"score": own}
        known = facts.scores(client)
        guarded = {"guarded": known["guarded"]} if "guarded" in known else {}
        others = {name: known[name] for name in ("global", "local", "floor") if name in known}
        return {"score": own | guarded, "compared": others}

    return told


def scores_told(entry: Mapping[str, Any]) -> dict[str, float]:
    """The test scores of a client in a card, by model."""
    score = entry["score"] or {}
    found = {"personal": score.get("test"), "guarded": score.get("guarded"), **entry.get("compared", {})}
    return {name: found[name] for name in SCORED if found.get(name) is not None}
