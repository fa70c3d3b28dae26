"""How are runs made and read in Python? `run` makes one and keeps it, `open` reads it, `compare` compares several."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, overload

from torch import nn
from typing_extensions import Unpack

from .core.algorithm import Algorithm
from .data.federation import Federation
from .data.pool import Pool
from .errors import PartitaError
from .evaluation.analysis import Analysis
from .evaluation.comparison import Comparison, compare as compare_scores
from .evaluation.gains import Gain
from .evaluation.scores import Summary
from .evaluation.variants import Variant
from .extras import optional
from .report import REPORT
from .report.report import write_report
from .runs.complete import complete
from .runs.evaluate import Evaluated, evaluate
from .runs.folders import BASELINES, runs_in
from .runs.gains import gains_of
from .runs.reuse import session_for
from .runs.scores import scores_of
from .runs.session import Session
from .runs.store import Store
from .runs.stored import StoredRun, read_run
from .simulation.events import Event, OnEvent, ignore
from .simulation.executor import Executor
from .simulation.experiment import Experiment, Options
from .simulation.simulate import experiment_of
from .simulation.tasks import Factory
from .tensors import Tensors
from .trackers.tracking import tracking


class Run:
    """A run in a folder. What it says is read when it is first asked for."""

    def __init__(self, folder: Path, experiment: Experiment | None = None) -> None:
        self.folder = folder
        self._experiment = experiment

    def __repr__(self) -> str:
        record = self.stored.record
        return f"Run({str(self.folder)!r}: {record.label} on {record.data}, {record.status})"

    @cached_property
    def stored(self) -> StoredRun:
        """Everything that is stored but tensors, as of one moment."""
        return read_run(self.folder)

    def score(self, variant: Variant | None = None) -> Summary:
        """The score on test data over the clients that train, after the last evaluated round."""
        found = self.stored.summaries().get(variant or self.stored.record.variant)
        if found is None:
            raise PartitaError(f"{self.folder} has no score of {variant or 'its model'} yet.")
        return found

    def scores(self, variant: Variant | None = None) -> dict[str, float]:
        """Each client's score on test data, by the client's name."""
        name_of = self.stored.record.name_of
        return {name_of(client): score for client, score in self.stored.scores(variant).items()}

    def gains(self) -> list[Gain]:
        """Over the floor and every baseline."""
        return gains_of(self.stored)

    def table(self) -> Any:
        """All records: a pandas data frame if pandas is installed, else a list of dictionaries."""
        name_of = self.stored.record.name_of
        return _table(
            [{**asdict(each), "name": name_of(each.client), "score": each.score} for each in self.stored.records]
        )

    def evaluate(self, *analyses: Analysis, trust: bool = False, on_event: OnEvent = ignore) -> Evaluated:
        """Analyse the models of a run that is done, by default with all analyses that apply; the results are kept."""
        with Session.open(self.folder, self._experiment, trust=trust, on_event=on_event) as session:
            found = evaluate(session, analyses or None)
        self.__dict__.pop("stored", None)
        return found

    def report(self, path: Path | str | None = None) -> Path:
        """Write a report of this run; by default into its folder."""
        return write_report([self.folder], Path(path) if path else self.folder / REPORT)

    def client_state(self, client: int | str) -> Tensors:
        """What a client keeps, by name or number; empty if it never took part."""
        record = self.stored.record
        number = record.names.index(client) if isinstance(client, str) and client in record.names else int(client)
        if not 0 <= number < record.clients:
            raise PartitaError(f"There is no client {client!r} among the {record.clients} of {self.folder}.")
        with Store.open(self.folder) as store:
            return store.own("run", number) or {}

    def server_state(self) -> Tensors:
        """The server's state after the last committed round."""
        with Store.open(self.folder) as store:
            found = store.server("run")
        return found[1] if found else {}

    def resume(
        self,
        *,
        trust: bool = False,
        track: Sequence[str] = (),
        on: Executor | str | None = None,
        on_event: OnEvent = ignore,
    ) -> "Run":
        """Go on to the last round, then to the baselines that the run asks for; what is done stays as it is.

        A run that was made from objects needs them: call `partita.run` with the same objects and folder.
        """
        with Session.open(self.folder, self._experiment, trust=trust, on=on, on_event=on_event) as session:
            _finish(session, track)
        made = Run(self.folder, self._experiment)
        made.report()
        return made


class Runs(Sequence[Run]):
    """Runs of one experiment under several seeds, on the same division of the data."""

    def __init__(self, folder: Path, runs: Sequence[Run]) -> None:
        self.folder, self._runs = folder, tuple(runs)

    @overload
    def __getitem__(self, at: int) -> Run: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Run]: ...

    def __getitem__(self, at: int | slice) -> Run | Sequence[Run]:
        return self._runs[at]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __repr__(self) -> str:
        return f"Runs({str(self.folder)!r}: {len(self)} seeds)"

    def score(self, variant: Variant | None = None) -> list[Summary]:
        """One for each seed."""
        return [run.score(variant) for run in self]

    def table(self) -> Any:
        """All records with their seed: a pandas data frame if pandas is installed, else a list of dictionaries."""
        return _table(
            [
                {"seed": run.stored.seed, **asdict(each), "score": each.score}
                for run in self
                for each in run.stored.records
            ]
        )

    def report(self, path: Path | str | None = None) -> Path:
        """Write one report of all seeds; by default into the folder that holds them."""
        return write_report([run.folder for run in self], Path(path) if path else self.folder / REPORT)


@overload
def run(
    algorithm: Algorithm,
    model: nn.Module | Factory,
    data: Federation | Pool,
    *,
    folder: Path | str,
    seeds: None = None,
    baselines: bool = True,
    commit_every: int = 1,
    track: Sequence[str] = (),
    on: Executor | str | None = None,
    on_event: OnEvent = ignore,
    **options: Unpack[Options],
) -> Run: ...


@overload
def run(
    algorithm: Algorithm,
    model: nn.Module | Factory,
    data: Federation | Pool,
    *,
    folder: Path | str,
    seeds: int,
    baselines: bool = True,
    commit_every: int = 1,
    track: Sequence[str] = (),
    on: Executor | str | None = None,
    on_event: OnEvent = ignore,
    **options: Unpack[Options],
) -> Runs: ...


def run(
    algorithm: Algorithm,
    model: nn.Module | Factory,
    data: Federation | Pool,
    *,
    folder: Path | str,
    seeds: int | None = None,
    baselines: bool = True,
    commit_every: int = 1,
    track: Sequence[str] = (),
    on: Executor | str | None = None,
    on_event: OnEvent = ignore,
    **options: Unpack[Options],
) -> Run | Runs:
    """Run an experiment and keep it in a folder, with its baselines, its guard and its report.

    A run that is in the folder already goes on where it was, to the same bits as without the interruption, and one that
    is done is only read. The objects must be the same as then: their source and values are compared, and a difference
    is refused. `seeds` repeats the experiment under so many seeds on the same division of the data, each in a folder
    below. `options` are the fields of `Experiment`: rounds, seed, participation, batching and others. `track` names
    trackers, as in `tensorboard` or `mlflow:ADDRESS`. `on` says who does the work; it does not change a bit of the
    result.
    """
    experiment, place = experiment_of(algorithm, model, data, options), Path(folder)
    if seeds is None:
        return keep(
            experiment, place, baselines=baselines, commit_every=commit_every, track=track, on=on, on_event=on_event
        )
    return keep_seeds(
        experiment, place, seeds, baselines=baselines, commit_every=commit_every, track=track, on=on, on_event=on_event
    )


def keep(
    experiment: Experiment,
    folder: Path,
    *,
    baselines: bool | Path = True,
    commit_every: int = 1,
    track: Sequence[str] = (),
    on: Executor | str | None = None,
    on_event: OnEvent = ignore,
) -> Run:
    """Run an experiment in a folder, or go on with it; then make its baselines, its guard and its report.

    Baselines are made in the folder `baselines` beside the run, or in the one that is given.
    """
    place = (folder.parent / BASELINES if baselines is True else baselines) or None
    with session_for(
        experiment, folder, baselines=place, commit_every=commit_every, on=on, on_event=on_event
    ) as session:
        _finish(session, track)
    made = Run(folder, experiment)
    made.report()
    return made


def _finish(session: Session, track: Sequence[str]) -> None:
    """The rounds that are left, and what belongs to a run that is done."""
    tell = session.on_event
    with tracking(track, session.experiment, session) as tracked:

        def both(event: Event) -> None:
            tell(event)
            tracked(event)

        session.on_event = both
        session.run()
        session.on_event = tell
    complete(session)


def keep_seeds(
    experiment: Experiment,
    folder: Path,
    seeds: int,
    *,
    baselines: bool = True,
    commit_every: int = 1,
    track: Sequence[str] = (),
    on: Executor | str | None = None,
    on_event: OnEvent = ignore,
) -> Runs:
    """The same experiment under several seeds, on the same division of the data, so that clients can be paired."""
    if seeds < 1:
        raise PartitaError(f"{seeds} seeds: at least 1 is needed.")
    made = []
    for seed in range(experiment.seed, experiment.seed + seeds):
        made.append(
            keep(
                replace(experiment, seed=seed),
                folder / f"seed-{seed}",
                baselines=baselines and folder.parent / BASELINES,
                commit_every=commit_every,
                track=track,
                on=on,
                on_event=on_event,
            )
        )
    found = Runs(folder, made)
    found.report()
    return found


def open(folder: Path | str) -> Run:
    """A run that is kept in a folder."""
    made = Run(Path(folder))
    _ = made.stored
    return made


def compare(*runs: Run | Runs | Path | str, baseline: str | None = None, level: float = 0.95) -> Comparison:
    """Compare runs, paired over clients and seeds: differences with intervals, corrected tests, wins and losses."""
    folders = runs_in([each.folder if isinstance(each, Run | Runs) else Path(each) for each in runs])
    stored = [read_run(folder) for folder in folders]
    scores = scores_of(stored)
    lower = stored[0].metric.lower_is_better
    return compare_scores(scores, baseline=baseline or next(iter(scores)), level=level, lower_is_better=lower)


def _table(rows: list[dict[str, Any]]) -> Any:
    return optional("pandas", "pandas").DataFrame(rows) if find_spec("pandas") else rows
