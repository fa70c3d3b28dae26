"""What is served? Runs and exported folders by name. Their models are loaded when they are first asked for."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ..errors import PartitaError, unknown
from ..runs.database import DATABASE
from ..runs.folders import find_runs
from ..serving.card_files import CARD
from ..serving.files import file_names
from ..serving.onboard import Newcomer
from ..serving.questions import Questions
from .batches import Inquiry, answers
from .cache import Cache
from .entries import Entry, ExportedEntry, RunEntry
from .held import Held
from .served import Served


@dataclass(frozen=True, eq=False)
class Question:
    """Prepared inputs for the model of a client, or for the global one."""

    run: str
    client: str | None
    inputs: Tensor


@dataclass(frozen=True, eq=False)
class Answered:
    """Logits, and the model that gave them."""

    held: Held
    outputs: Tensor


class Catalogue:
    """All that is served. What loads or asks models must be called from one thread."""

    def __init__(self, entries: Sequence[Entry], budget: int) -> None:
        self.entries = {entry.name: entry for entry in entries}
        self._served: dict[str, Served] = {}
        self.parts: Cache[tuple[str, str | None], Held] = Cache(
            lambda key: self.served(key[0]).load(key[1]), lambda held: held.bytes, budget
        )

    def need_usable(self) -> None:
        """At least one of them must be readable; the list shows what is wrong with the others."""
        problems = []
        for entry in self.entries.values():
            try:
                entry.facts()
                return
            except PartitaError as problem:
                problems.append(str(problem))
        raise PartitaError(problems[0])

    def entry(self, name: str | None) -> Entry:
        """The entry of this name; without a name, the only one."""
        if name is None and len(self.entries) == 1:
            return next(iter(self.entries.values()))
        if name is None:
            raise PartitaError(
                f"There are {len(self.entries)} runs: name one of them as run. Known: "
                f"{', '.join(sorted(self.entries))}."
            )
        if name not in self.entries:
            raise PartitaError(unknown("run", name, self.entries))
        return self.entries[name]

    def served(self, name: str) -> Served:
        """The entry of this name, with its models loaded."""
        if name not in self._served:
            entry = self.entries[name]
            models = entry.models()
            self._served[name] = Served(models, entry.newcomers(models))
        return self._served[name]

    def ready(self, name: str) -> Served | None:
        """What is served under a name if it is loaded already; safe to call from any thread."""
        return self._served.get(name)

    def onboard(self, run: str, client: str, samples: Questions) -> Newcomer:
        """The model of a client that was not there."""
        return self.entries[run].onboard(self.served(run).models, client, samples)

    def add(self, run: str, newcomer: Newcomer) -> Held:
        """Serve a client that was onboarded from now on."""
        served, client = self.served(run), newcomer.exported.name
        served.add(client, self.entries[run].add(served.models, newcomer))
        return self.parts[run, client]

    def answer(self, questions: Sequence[Question]) -> list[Answered | Exception]:
        """All questions, those of one run together."""
        found: dict[int, Answered | Exception] = {}
        by_run: dict[str, dict[int, Inquiry]] = {}
        for at, question in enumerate(questions):
            try:
                held = self.parts[question.run, question.client]
            except PartitaError as problem:
                # The part of this client cannot be read; others can.
                found[at] = problem
            else:
                by_run.setdefault(question.run, {})[at] = Inquiry(held, question.inputs)
        for run, asked in by_run.items():
            served = self.served(run)
            outputs = answers(list(asked.values()), served.shared, served.common, served.inputs.kind)
            for (at, inquiry), given in zip(asked.items(), outputs, strict=True):
                found[at] = Answered(inquiry.held, given)
        return [found[at] for at in range(len(questions))]


def find_entries(
    paths: Sequence[Path], *, trust: bool = False, keep: Path | None = None, network: str | None = None
) -> list[Entry]:
    """The runs and exported folders that paths are or hold, each by a short name; `keep` is for clients to come."""
    found: dict[Path, str] = {}
    for path in paths:
        if not path.is_dir():
            raise PartitaError(f"{path} is not a folder. Give a run, exported models, or a folder that holds them.")
        if (path / DATABASE).exists() or (path / CARD).exists():
            found[path] = Path(os.path.abspath(path)).name
            continue
        inside = [*find_runs(path), *(card.parent for card in sorted(path.rglob(CARD)))]
        found |= {each: each.relative_to(path).as_posix() for each in inside}
    if not found:
        raise PartitaError(
            f"No runs and no exported models in {', '.join(map(str, paths))}. Make a run with: partita run"
        )
    short = list(found.values())
    names = {path: name if short.count(name) == 1 else str(path) for path, name in found.items()}
    places = file_names(names.values())
    return [
        RunEntry(name, path, trust, None if keep is None else keep / places[name])
        if (path / DATABASE).exists()
        else ExportedEntry(name, path, trust, network)
        for path, name in names.items()
    ]
