"""What can be served, and what is known of it before its models are loaded? A run, or an exported folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import Any, NoReturn, Protocol

from ..errors import PartitaError
from ..evaluation.metric import Metric
from ..report.report import report
from ..report.study import study
from ..runs.stored import StoredRun, read_run
from ..serving.artefact import load_exported
from ..serving.card_files import read_card
from ..serving.facts import ClientFacts, scores_told
from ..serving.loaded import LoadedRun, load
from ..serving.newcomers import Kept, keep_newcomer, kept_newcomers, load_newcomer
from ..serving.onboard import NEW, Newcomer, onboard
from ..serving.questions import Questions
from .served import Load, Models

UNTOLD = (
    "The labels of a client are its own data, and are not in this folder. Its run is exported with them by "
    "partita export --label-counts."
)
UNCOUNTED = "The labels of this client were not counted."


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
        """The score of a client on test data."""

    def samples(self, client: str) -> int | None:
        """The number of training samples of a client, where it is known."""

    def client_facts(self, client: str) -> dict[str, Any]:
        """Label counts and scores."""

    def models(self) -> Models: ...

    def newcomers(self, models: Models) -> Mapping[str, Load]:
        """Clients that were onboarded before, and what loads the model of each."""

    def onboard(self, models: Models, client: str, samples: Questions) -> Newcomer:
        """The model of a client that was not there, of its samples."""

    def add(self, models: Models, newcomer: Newcomer) -> Load:
        """Make a client that was onboarded one of the run's; what loads its model."""

    def keeps(self, client: str) -> bool:
        """Whether a client is there after the next start."""

    def report(self) -> str | None:
        """An HTML page, where there is one."""


@dataclass(frozen=True)
class RunEntry:
    """A run that is kept."""

    name: str
    folder: Path
    trust: bool = False
    keep: Path | None = None
    """A folder for clients that are onboarded. Without one they last as long as the server."""

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
        own = {record.name_of(number): number for number in range(record.clients)}
        return own | dict.fromkeys(self._joined, NEW)

    @cached_property
    def _joined(self) -> dict[str, Kept]:
        """Clients that were onboarded."""
        return {} if self.keep is None else kept_newcomers(self.keep, self._run)

    def facts(self) -> dict[str, Any]:
        record = self._run.record
        used = self._run.summaries().get(record.variant)
        return _facts(record.label, record.data, len(self.clients), record.score, used.macro if used else None, True)

    def score(self, client: str) -> float | None:
        if client in self._joined:
            return scores_told(self._joined[client].told).get("personal")
        return self._facts.score(self.clients[client])

    def samples(self, client: str) -> int | None:
        if client in self._joined:
            return _samples_told(self._joined[client].told)
        return self._facts.samples(self.clients[client])

    def client_facts(self, client: str) -> dict[str, Any]:
        if client in self._joined:
            return _facts_told(self._joined[client].told, (), "")
        number = self.clients[client]
        return {
            "samples": self._facts.samples(number),
            "counts": self._facts.counts(number),
            "labels": self._facts.labels(number),
            "no_counts": "" if self._facts.counts(number) else UNCOUNTED,
            "scores": self._facts.scores(number),
            "new": number in self._run.record.newcomers,
        }

    def models(self) -> LoadedRun:
        return load(self.folder, trust=self.trust)

    def newcomers(self, models: Models) -> Mapping[str, Load]:
        run = self._loaded(models)
        return {
            client: partial(load_newcomer, run, each.folder, client)
            for client, each in self._joined.items()
            if each.folder is not None
        }

    def onboard(self, models: Models, client: str, samples: Questions) -> Newcomer:
        self._need_new(client)
        return onboard(self._loaded(models), client, samples)

    def add(self, models: Models, newcomer: Newcomer) -> Load:
        client, run, model = newcomer.exported.name, self._loaded(models), newcomer.model
        self._need_new(client)
        place = None if self.keep is None else keep_newcomer(run, newcomer, self.keep, self._joined)
        self.clients[client] = NEW
        self._joined[client] = Kept(newcomer.exported.about, place)
        return (lambda: model) if place is None else partial(load_newcomer, run, place, client)

    def keeps(self, client: str) -> bool:
        return client not in self._joined or self._joined[client].folder is not None

    def _need_new(self, client: str) -> None:
        if client in self.clients:
            raise PartitaError(f"{self.name} has a client called {client!r} already. Choose another name.")

    def _loaded(self, models: Models) -> LoadedRun:
        if not isinstance(models, LoadedRun):
            raise PartitaError(f"{self.name} is not loaded.")
        return models

    def report(self) -> str | None:
        return report(study([self.folder]))


@dataclass(frozen=True)
class ExportedEntry:
    """Models that were exported."""

    name: str
    folder: Path
    trust: bool = False
    network: str | None = None
    """Where their network is, if it is a class of the user's own."""

    @cached_property
    def _card(self) -> Mapping[str, Any]:
        return read_card(self.folder)

    @cached_property
    def clients(self) -> Mapping[str, int]:
        return {name: entry["number"] for name, entry in self._card["clients"].items()}

    def facts(self) -> dict[str, Any]:
        card = self._card
        metric = Metric(card["metric"])
        return _facts(card["method"]["label"], card["data"]["name"], len(card["clients"]), metric, self._score(), False)

    def _score(self) -> float | None:
        """The mean over the clients of the run; of clients that joined it later, the mean over these."""
        told = self._card["clients"].values()
        if all("onboarded" in each for each in told):
            own = [scores["personal"] for each in told if "personal" in (scores := scores_told(each))]
            return fmean(own) if own else None
        test = self._card["scores"]["test"]
        return test and float(test["macro"])

    def score(self, client: str) -> float | None:
        return scores_told(self._card["clients"][client]).get("personal")

    def samples(self, client: str) -> int | None:
        return _samples_told(self._card["clients"][client])

    def client_facts(self, client: str) -> dict[str, Any]:
        return _facts_told(self._card["clients"][client], self._card["classes"], UNTOLD)

    def models(self) -> Models:
        return load_exported(self.folder, network=self.network, trust=self.trust)

    def newcomers(self, models: Models) -> Mapping[str, Load]:
        return {}

    def onboard(self, models: Models, client: str, samples: Questions) -> NoReturn:
        raise PartitaError(
            f"{self.name} is a folder of exported models. Onboard clients to the run that they were exported from."
        )

    def add(self, models: Models, newcomer: Newcomer) -> NoReturn:
        raise PartitaError(
            f"{self.name} is a folder of exported models. Onboard clients to the run that they were exported from."
        )

    def keeps(self, client: str) -> bool:
        return True

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


def _facts_told(told: Mapping[str, Any], classes: Sequence[str], no_counts: str) -> dict[str, Any]:
    """What a card says of a client."""
    counts = told.get("label_counts")
    if "onboarded" in told:
        no_counts = "The labels of a client that was onboarded are not counted."
    return {
        "samples": _samples_told(told),
        "counts": counts,
        "labels": None if counts is None else list(classes),
        "no_counts": no_counts if counts is None else "",
        "scores": scores_told(told),
        "new": "onboarded" in told,
    }


def _samples_told(told: Mapping[str, Any]) -> int | None:
    """What a client was trained on: the samples it joined with, or those of all labels together."""
    if "onboarded" in told:
        return int(told["onboarded"]["samples"])
    return sum(told["label_counts"]) if "label_counts" in told else None


def matching(entry: Entry, find: str) -> Sequence[str]:
    """The clients whose name has these letters; the name itself comes first."""
    wanted = find.strip().casefold()
    found = [name for name in entry.clients if wanted in name.casefold()]
    return sorted(found, key=lambda name: name.casefold() != wanted) if wanted else found
