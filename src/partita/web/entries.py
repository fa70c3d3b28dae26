"""What can be served, and what is known of it before its models are loaded? A run, or an exported folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from ..errors import PartitaError
from ..evaluation.metric import Metric
from ..prediction.model import ClientModel
from ..report.report import report
from ..report.study import study
from ..runs.stored import StoredRun, read_run
from ..serving.artefact import load_exported, read_card
from ..serving.loaded import LoadedRun, load
from ..serving.onboard import NEW, onboard
from ..serving.questions import Questions
from .facts import ClientFacts
from .served import Models


class Entry(Protocol):
    """One run or one exported folder, by its name."""

    @property
    def name(self) -> str: ...

    @property
    def clients(self) -> Mapping[str, int]:
        """The number of each client, by its name."""

    def facts(self) -> dict[str, Any]:
        """The method, the data, and how good the models are. A folder that cannot be used is an error."""

    def score(self, client: str) -> float | None:
        """On test data."""

    def samples(self, client: str) -> int | None:
        """For training, where it is known."""

    def client_facts(self, client: str) -> dict[str, Any]:
        """Label counts and scores."""

    def models(self) -> Models: ...

    def onboard(self, models: Models, client: str, samples: Questions) -> ClientModel:
        """The model of a client that was not there, of labelled samples."""

    def report(self) -> str | None:
        """An HTML page, where there is one."""


@dataclass(frozen=True)
class RunEntry:
    """A run that is kept."""

    name: str
    folder: Path
    trust: bool = False

    @cached_property
    def _run(self) -> StoredRun:
        found = read_run(self.folder)
        if not found.record.done:
            raise PartitaError(
                f"{self.folder} is not done ({found.record.status}). Continue it with: partita resume {self.folder}"
            )
        return found

    @cached_property
    def _facts(self) -> ClientFacts:
        return ClientFacts(self._run)

    @cached_property
    def clients(self) -> dict[str, int]:
        record = self._run.record
        return {record.name_of(number): number for number in range(record.clients)}

    def facts(self) -> dict[str, Any]:
        record = self._run.record
        used = self._run.summaries().get(record.variant)
        return _facts(record.label, record.data, record.clients, record.score, used.macro if used else None, True)

    def score(self, client: str) -> float | None:
        return self._facts.score(self.clients[client])

    def samples(self, client: str) -> int | None:
        return self._facts.samples(self.clients[client])

    def client_facts(self, client: str) -> dict[str, Any]:
        number = self.clients[client]
        return {
            "samples": self._facts.samples(number),
            "counts": self._facts.counts(number),
            "labels": self._facts.labels(number),
            "scores": self._facts.scores(number),
            "new": number == NEW or number in self._run.record.newcomers,
        }

    def models(self) -> LoadedRun:
        return load(self.folder, trust=self.trust)

    def onboard(self, models: Models, client: str, samples: Questions) -> ClientModel:
        if not isinstance(models, LoadedRun):
            raise PartitaError(f"{self.name} is not loaded.")
        if client in self.clients:
            raise PartitaError(f"{self.name} has a client called {client!r} already. Choose another name.")
        made = onboard(models, client, samples)
        self.clients[client] = NEW
        return made.model

    def report(self) -> str | None:
        return report(study([self.folder]))


@dataclass(frozen=True)
class ExportedEntry:
    """Models that were exported."""

    name: str
    folder: Path
    trust: bool = False

    @cached_property
    def _card(self) -> Mapping[str, Any]:
        return read_card(self.folder)

    @cached_property
    def clients(self) -> Mapping[str, int]:
        return {name: entry["number"] for name, entry in self._card["clients"].items()}

    def facts(self) -> dict[str, Any]:
        card = self._card
        test = card["scores"]["test"]
        metric = Metric(card["metric"])
        return _facts(
            card["method"]["label"], card["data"]["name"], len(card["clients"]), metric, test and test["macro"], False
        )

    def score(self, client: str) -> float | None:
        found = self._card["clients"][client]["score"]
        return found and float(found["test"])

    def samples(self, client: str) -> int | None:
        return None

    def client_facts(self, client: str) -> dict[str, Any]:
        found = self._card["clients"][client]["score"] or {}
        names = {"test": "personal", "guarded": "guarded"}
        scores = {names[key]: value for key, value in found.items() if key in names}
        return {"samples": None, "counts": None, "labels": None, "scores": scores, "new": False}

    def models(self) -> Models:
        return load_exported(self.folder, trust=self.trust)

    def onboard(self, models: Models, client: str, samples: Questions) -> ClientModel:
        raise PartitaError(f"{self.name} is an exported folder: a client is onboarded to its run.")

    def report(self) -> str | None:
        return None


def _facts(
    method: str, data: str, clients: int, metric: Metric, score: float | None, has_report: bool
) -> dict[str, Any]:
    return {
        "method": method,
        "data": data,
        "clients": clients,
        "metric": metric.name,
        "lower_is_better": metric.lower_is_better,
        "score": score,
        "report": has_report,
    }


def matching(entry: Entry, find: str) -> Sequence[str]:
    """The clients whose name has these letters; the name itself comes first."""
    wanted = find.strip().casefold()
    found = [name for name in entry.clients if wanted in name.casefold()]
    return sorted(found, key=lambda name: name.casefold() != wanted) if wanted else found
