"""Which baselines does a report show? Each once, and those of another kind apart."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..evaluation.variants import Variant
from ..runs.gains import Beside
from .method import Method, Replica

BASELINES = ("local", "global", "global + fine-tune")
"""In the order in which they are shown."""


class Baselines:
    """The baselines as methods; those of other data, budgets or choices are told apart, each run counts once."""

    def __init__(self, reported: Mapping[tuple[Path, Variant | None], str], first: int) -> None:
        self._reported, self._first = reported, first
        self._found: dict[tuple[str, str], dict[Path, Beside]] = {}

    def name_of(self, reference: str, beside: Beside) -> str:
        """Of a method of the report, its name; else a key of `names`, which are known once all baselines are."""
        if shown := self._reported.get((beside.run.folder, beside.variant)):
            return shown
        key = (reference, _set_of(beside))
        self._found.setdefault(key, {})[beside.run.folder] = beside
        return json.dumps(key)

    @property
    def names(self) -> dict[str, str]:
        return {json.dumps(key): self._name(key) for key in self._found}

    @property
    def methods(self) -> tuple[Method, ...]:
        made = []
        order = sorted(self._found, key=lambda key: BASELINES.index(key[0]) if key[0] in BASELINES else len(BASELINES))
        for number, key in enumerate(order):
            several = list(self._found[key].values())
            replicas = tuple(Replica(each.run, each.variant or each.run.record.variant) for each in several)
            choice = "; ".join(dict.fromkeys(each.choice for each in several))
            made.append(
                Method(self._name(key), self._first + number, replicas, tuple({} for _ in replicas), choice=choice)
            )
        return tuple(made)

    def _name(self, key: tuple[str, str]) -> str:
        """With what sets it apart from others of the name."""
        rivals = [json.loads(other) for name, other in self._found if name == key[0]]
        own = json.loads(key[1])
        differing = [said for place, said in enumerate(own) if len({rival[place] for rival in rivals}) > 1]
        return ", ".join([key[0], *differing])


def _unseeded_data(experiment: Mapping[str, Any]) -> str:
    data = experiment.get("data") or {}
    return json.dumps({key: value for key, value in data.items() if key != "seed"}, sort_keys=True)


def _set_of(beside: Beside) -> str:
    """What the baselines of one set have in common, in words; their rates are chosen for each seed."""
    record, entry = beside.run.record, beside.entry
    epochs = (entry.get("budget") or {}).get("epochs")
    model = record.experiment.get("model") or {}
    said = [
        record.data,
        f"network {model.get('name')}" if isinstance(model, Mapping) else str(model),
        f"{record.rounds} rounds",
        f"{epochs} local epochs",
        f"participation {record.experiment.get('participation')}",
        f"tested on {record.evaluated}",
        {None: "", True: "tuned", False: "not tuned"}[beside.tuned],
        # Data of one's own may have the same name and be others.
        f"data {hashlib.sha256(_unseeded_data(record.experiment).encode()).hexdigest()[:6]}",
    ]
    return json.dumps(said)
