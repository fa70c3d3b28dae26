"""What does a kept run offer? Scores, gains, records as a table, reports, and clients' states."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.optimizers import SGD, Optimizer
from ..data.names import find_client
from ..errors import PartitaError, unknown
from ..evaluation.analyses.guard import guard
from ..evaluation.analysis import Analysis, Result
from ..evaluation.gains import Gain
from ..evaluation.guard import PRIOR
from ..evaluation.onboarding import Onboarding, Start
from ..evaluation.prediction.model import ClientModel
from ..evaluation.scores import Summary
from ..evaluation.variants import Variant
from ..experiment.events import OnEvent, ignore
from ..experiment.executor import Executor
from ..experiment.experiment import Experiment
from ..extras import optional
from ..report import REPORT
from ..report.report import write_report
from ..runs.evaluate import Evaluated, evaluate
from ..runs.folders import find_runs
from ..runs.gains import NamedBaselines, gains_of, named_baselines
from ..runs.session import Session
from ..runs.store import SERVER, Store
from ..runs.stored import StoredRun, read_run
from ..serving.export import export_models
from ..serving.graphs import Format
from ..serving.loaded import LoadedRun, load
from ..serving.onboard import Newcomer, onboard, write_newcomer
from ..serving.questions import questions_of
from ..tensors import Tensors
from .finish import finish

if TYPE_CHECKING:
    from .seeds import Runs


class Run:
    """A run in a folder. Its contents are read when they are first used."""

    def __init__(self, folder: Path, experiment: Experiment | None = None) -> None:
        self.folder = folder
        self._experiment = experiment
        self._read: dict[Path, StoredRun] = {}

    @classmethod
    def of(cls, session: Session) -> "Run":
        """The run of a session, without reading again what the session has read."""
        made = cls(session.folder, session.experiment)
        made._read = {_place(session.folder): session.stored, **session.stored_beside}
        return made

    def __repr__(self) -> str:
        record = self.stored.record
        return f"Run({str(self.folder)!r}: {record.label} on {record.data}, {record.status})"

    @cached_property
    def stored(self) -> StoredRun:
        """Everything that is stored except tensors, in one consistent snapshot."""
        return self._read.get(_place(self.folder)) or read_run(self.folder)

    def score(self, variant: Variant | None = None) -> Summary:
        """The test score over the clients that train, after the last evaluated round."""
        found = self.stored.summaries()
        wanted = variant or self.stored.record.variant
        if wanted not in found:
            raise PartitaError(f"{self.folder} has no score of this variant yet. {unknown('variant', wanted, found)}")
        return found[wanted]

    def scores(self, variant: Variant | None = None) -> dict[str, float]:
        """Each client's test score, by the client's name."""
        name_of = self.stored.record.name_of
        return {name_of(client): score for client, score in self.stored.scores(variant).items()}

    def gains(self) -> list[Gain]:
        """The gains over the floor and over every baseline."""
        return gains_of(self.stored, self.baselines)

    @property
    def lost(self) -> Mapping[str, str]:
        """Baselines that cannot be read, and why."""
        return self.baselines.lost

    @cached_property
    def baselines(self) -> NamedBaselines:
        """The baselines of the run, and how the settings of each were chosen."""
        return named_baselines(self.stored, self._read)

    def table(self) -> Any:
        """All records: a pandas data frame if pandas is installed, else a list of dictionaries."""
        return as_table(rows_of(self))

    def evaluate(self, *analyses: Analysis, trust: bool = False, on_event: OnEvent = ignore) -> Evaluated:
        """Analyse the models of a finished run, by default with every analysis that applies, and keep the results."""
        with Session.open(self.folder, self._experiment, trust=trust, on_event=on_event) as session:
            found = evaluate(session, analyses or None)
        self.__dict__.pop("stored", None)
        return found

    def guard(
        self,
        *,
        global_run: Path | str | None = None,
        prior: float = PRIOR,
        trust: bool = False,
        on_event: OnEvent = ignore,
    ) -> Result:
        """Choose each client's personal model, the global one or a mixture on validation data; scores are of test data.

        The global model is that of `global_run`, by default of the run itself or its baseline. See docs/guard.md.
        """
        analysis = guard(global_run=None if global_run is None else Path(global_run), prior=prior)
        return self.evaluate(analysis, trust=trust, on_event=on_event).found["guard"]

    def report(self, path: Path | str | None = None) -> Path:
        """Write a report of this run; by default into its folder."""
        return write_report([self.folder], Path(path) if path else self.folder / REPORT)

    def model(self, client: int | str, which: Variant | None = None, *, guarded: bool = True) -> ClientModel:
        """A client's model, by the client's name or number, as a module in evaluation mode.

        It is the one that the method is meant to be used with, or what the guard chose instead, and says which. With
        `which`, it is another variant, and with `guarded=False` the personal model whatever the guard chose.
        """
        return self._loaded.model(client, which, guarded=guarded)

    def global_model(self) -> ClientModel:
        """The model that is the same for all: the method's own where it shares the whole network, or its baseline's."""
        return self._loaded.global_model()

    def export(
        self,
        folder: Path | str,
        *,
        clients: Sequence[int | str] | None = None,
        which: Variant | None = None,
        formats: Sequence[Format] = (),
        merged: bool = False,
        licence: str | None = None,
        label_counts: bool = False,
        force: bool = False,
    ) -> Path:
        """Write the models of some clients, by default of all, into a new folder; `load_exported` reads it.

        `formats` are graphs beside safetensors: "onnx", "torch-export", "peft". `merged` adds whole networks,
        `label_counts` how many training samples of each label a client has.
        """
        return export_models(
            self._loaded,
            Path(folder),
            clients=clients,
            which=which,
            formats=formats,
            merged=merged,
            licence=licence,
            label_counts=label_counts,
            force=force,
        )

    def onboard(
        self,
        name: str,
        inputs: Any,
        labels: Any = None,
        *,
        test: tuple[Any, Any] | None = None,
        start: Start = "mean",
        epochs: int = 20,
        optimizer: Optimizer = SGD(0.05),
        folder: Path | str | None = None,
        force: bool = False,
    ) -> Newcomer:
        """Make a model for a new client: train the personal part on its samples, with all else frozen.

        `inputs` and `labels` are arrays, tensors or lists, as the data hold them; texts whose next word is learned need
        no labels. The personal part begins as at first (`initial`), as the `mean` of the others', or as the `nearest`
        of theirs. `test` has more inputs and labels to score the model on. With a `folder`, the model is written
        there as `export` writes it. See docs/models.md.
        """
        asked = questions_of(inputs, labels, f"The data of {name}")
        later = None if test is None else questions_of(*test, f"The test data of {name}")
        made = onboard(self._loaded, name, asked, test=later, settings=Onboarding(start, epochs, optimizer))
        if folder is not None:
            write_newcomer(self._loaded, made, Path(folder), force=force)
        return made

    @cached_property
    def _loaded(self) -> LoadedRun:
        return load(self.folder, experiment=self._experiment)

    def client_state(self, client: int | str) -> Tensors:
        """The tensors that a client keeps, by its name or number; empty if it never took part."""
        record = self.stored.record
        numbers = {record.name_of(number): number for number in range(record.clients)}
        return self._state(find_client(client, numbers, str(self.folder)))

    def server_state(self) -> Tensors:
        """The server's state after the last committed round."""
        return self._state(SERVER)

    def _state(self, client: int) -> Tensors:
        with Store.open(self.folder) as store:
            return store.own("run", client) or {}

    def resume(
        self,
        *,
        trust: bool = False,
        track: Sequence[str] = (),
        on: Executor | str | None = None,
        on_event: OnEvent = ignore,
    ) -> "Run":
        """Continue to the last round, then make the baselines that are missing. A finished run is only read.

        A run of Python objects needs the objects again: call `partita.run` with the same objects and folder. With
        `trust`, functions that the run names by their path are imported.
        """
        with Session.open(self.folder, self._experiment, trust=trust, on=on, on_event=on_event) as session:
            finish(session, track)
            made = Run.of(session)
        report_of(made)
        return made


def open(folder: Path | str) -> Run:
    """Open the run that is kept in a folder."""
    place = Path(folder)
    below = find_runs(place)
    if below and place not in below:
        raise PartitaError(f"{place} holds {len(below)} runs. Open one of them: {', '.join(map(str, below[:5]))}")
    made = Run(place)
    _ = made.stored
    return made


def report_of(made: "Run | Runs") -> None:
    """Write a report; a failure is a warning, because the runs themselves are complete."""
    try:
        made.report()
    except (PartitaError, OSError) as problem:
        warnings.warn(f"The report of {made.folder} could not be written: {problem} The run is kept.", stacklevel=3)


def _place(folder: Path) -> Path:
    return Path(os.path.normpath(folder))


def rows_of(run: Run) -> list[dict[str, Any]]:
    name_of = run.stored.record.name_of
    return [{**asdict(each), "name": name_of(each.client), "score": each.score} for each in run.stored.records]


def as_table(rows: list[dict[str, Any]]) -> Any:
    return optional("pandas", "pandas").DataFrame(rows) if find_spec("pandas") else rows
