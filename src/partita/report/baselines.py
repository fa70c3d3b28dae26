"""Which baselines does a report show? Each once, and those of another kind apart."""

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ..evaluation.variants import Variant
from ..formatting import amount
from ..runs.gains import Beside
from ..runs.likeness import in_words
from ..runs.stored import StoredRun
from .method import Method, Replica

BASELINES = ("local", "global", "global + fine-tune")
"""In the order in which they are shown."""
CHOICE = 6
"""The place, among what a set has in common, of how its settings were chosen."""


class Baselines:
    """The baselines as methods; baselines of other data, budgets or choices stay separate, and each run counts once."""

    def __init__(self, reported: Mapping[str, str], methods: Collection[str]) -> None:
        """`reported` are the names of the methods of the report, by `content_of`; `methods` are all of them."""
        self._reported, self._methods = reported, methods
        self._found: dict[tuple[str, str], dict[Path, Beside]] = {}

    def key_of(self, reference: str, beside: Beside) -> str:
        """A key of `names`, which are known once all baselines are."""
        key = (reference, _set_of(beside))
        self._found.setdefault(key, {})[beside.run.folder] = beside
        return json.dumps(key)

    def label_of(self, reference: str, beside: Beside) -> str:
        """Its name, whether or not a method of the report serves as it."""
        return self._name((reference, _set_of(beside)))

    @property
    def names(self) -> dict[str, str]:
        """The names, by the keys of `key_of`, of methods of the report that are this baseline under every seed."""
        return {json.dumps(key): self._served_by(key) or self._name(key) for key in self._found}

    @property
    def methods(self) -> tuple[Method, ...]:
        made = []
        order = sorted(self._found, key=lambda key: BASELINES.index(key[0]) if key[0] in BASELINES else len(BASELINES))
        shown = (each for each in order if not self._served_by(each))
        for number, key in enumerate(shown, start=len(self._methods)):
            several = list(self._found[key].values())
            replicas = tuple(Replica(each.run, each.variant or each.run.record.variant) for each in several)
            choice = "; ".join(dict.fromkeys(each.choice for each in several))
            made.append(
                Method(
                    self._name(key), len(self._methods) + number, replicas, tuple({} for _ in replicas), choice=choice
                )
            )
        return tuple(made)

    def _served_by(self, key: tuple[str, str]) -> str | None:
        """The method of the report that has the settings and scores of this baseline, under every seed."""
        several = self._found[key].values()
        contents = (content_of(each.run, each.variant or each.run.record.variant) for each in several)
        names = {self._reported.get(content) for content in contents}
        return names.pop() if len(names) == 1 else None

    def _name(self, key: tuple[str, str]) -> str:
        """The name, with what distinguishes it from others of the same name."""
        rivals = [json.loads(other) for name, other in self._found if name == key[0]]
        own = json.loads(key[1])
        differing = [said for place, said in enumerate(own) if len({rival[place] for rival in rivals}) > 1]
        name = ", ".join([key[0], *differing])
        # A method may have the name of a baseline with other settings.
        return f"{name}, {own[CHOICE] or 'of its own'}" if name in self._methods else name


def content_of(run: StoredRun, variant: Variant) -> str:
    """The same for runs of one experiment with the same scores; how often they were evaluated does not matter."""
    described = {key: value for key, value in run.record.experiment.items() if key != "evaluate_every"}
    return json.dumps([described, run.seed, run.record.fingerprint, variant, run.scores(variant)], sort_keys=True)


def _unseeded_data(experiment: Mapping[str, Any]) -> str:
    data = experiment.get("data") or {}
    return json.dumps({key: value for key, value in data.items() if key != "seed"}, sort_keys=True)


def _set_of(beside: Beside) -> str:
    """What the baselines of one set have in common, in words; their rates are chosen for each seed."""
    record, entry = beside.run.record, beside.entry
    epochs = (entry.get("budget") or {}).get("epochs")
    said = [
        record.data,
        f"network {in_words(record.experiment.get('model'))}",
        amount(record.rounds, "round"),
        "unknown local epochs" if epochs is None else amount(epochs, "local epoch"),
        f"participation {in_words(record.experiment.get('participation'))}",
        f"tested on {record.evaluated:,}",
        {None: "", True: "tuned", False: "not tuned"}[beside.tuned],
        # Data of one's own may have the same name and be others.
        f"data {hashlib.sha256(_unseeded_data(record.experiment).encode()).hexdigest()[:6]}",
    ]
    return json.dumps(said)
