"""How is an experiment run so that nothing is lost? In a folder of its own, from which it can go on."""

import datetime
import os
import platform
import warnings
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from ..core.algorithm import initial_state
from ..data.manifests import manifest_of
from ..errors import DegenerateWarning, PartitaError
from ..evaluation.analysis import declared
from ..evaluation.scores import used_variant
from ..experiment.describe import describe
from ..experiment.description import describe_experiment, differences, rebuild
from ..experiment.files import trusted
from ..simulation.events import OnEvent, ignore
from ..simulation.executor import Executor, executor_of
from ..simulation.experiment import Experiment, Stage
from ..simulation.population import population_at
from ..simulation.rounds import Checkpoint, rounds
from ..simulation.setup import Setup
from ..tensors import Tensors
from .environment import environment
from .record import BaselinesPlace, RunRecord
from .recorder import Recorder
from .states import States
from .store import Store
from .stored import StoredRun, stored_run
from .verify import check

COMMIT_EVERY = 1
MEMORY = 1 << 30
MOST_CLIENTS = 100_000
"""Up to so many, a run keeps who has which rows; beyond, where the division came from and its fingerprint."""


class Session:
    """A run that is worked on. Its store is open, its data and networks are loaded once for all that is done."""

    def __init__(
        self, store: Store, experiment: Experiment, executor: Executor, on_event: OnEvent, *, trust: bool = False
    ) -> None:
        self.store, self.experiment, self.executor, self.on_event = store, experiment, executor, on_event
        self.trust = trust
        self._setups: dict[str, Setup] = {}
        self._beside: dict[Path, Session] = {}

    @classmethod
    def start(
        cls,
        experiment: Experiment,
        folder: Path,
        *,
        commit_every: int = COMMIT_EVERY,
        memory: int = MEMORY,
        baselines: BaselinesPlace | None = None,
        on: Executor | str | None = None,
        on_event: OnEvent = ignore,
    ) -> "Session":
        """A new run in a new folder, before its first round; `baselines` says where its baselines are to be made."""
        if commit_every < 1:
            raise PartitaError(f"A commit every {commit_every} rounds: it must be at least 1.")
        executor = executor_of(on)
        data = experiment.data
        whole = len(data) <= MOST_CLIENTS
        record = RunRecord(
            experiment=describe_experiment(experiment),
            label=experiment.algorithm.label,
            variant=used_variant(experiment.algorithm),
            metric=data.metric,
            data=data.name,
            origin=_as_json(data.origin),
            fingerprint=data.fingerprint,
            division="whole" if whole else "origin and fingerprint alone: there are too many clients",
            clients=len(data),
            names=list(data.names) if whole and list(data.names) != [str(at) for at in range(len(data))] else [],
            newcomers=sorted(data.newcomers),
            evaluated=min(len(data), experiment.evaluation_clients),
            rounds=experiment.rounds,
            seed=experiment.seed,
            oracle_validation=experiment.oracle_validation,
            environment=environment(),
            started=_now(),
            commit_every=commit_every,
            memory=memory,
            baselines=baselines,
        )
        setup = Setup.of(experiment, experiment.stages[-1], experiment.weights)
        manifest = manifest_of(data) if whole else None
        session = cls(Store.create(folder, record, _first_analyses(setup), manifest), experiment, executor, on_event)
        if len(experiment.stages) == 1:
            session._setups["run"] = setup
        return session

    @classmethod
    def open(
        cls,
        folder: Path,
        experiment: Experiment | None = None,
        *,
        like: Experiment | None = None,
        write: bool = True,
        trust: bool = False,
        on: Executor | str | None = None,
        on_event: OnEvent = ignore,
    ) -> "Session":
        """A run that is there. Its experiment is made again, unless the same one is given.

        What it has in common with the experiment `like` is taken from there. With `trust`, functions that the record
        names by their path are imported.
        """
        executor = executor_of(on)
        store = Store.open(folder, write=write)
        try:
            if write:
                check(store)
            record = store.record
            found = experiment or rebuild(trusted(record.experiment) if trust else record.experiment, like)
            _need_same(record, found, folder)
            return cls(store, found, executor, on_event, trust=trust)
        except BaseException:
            store.close()
            raise

    @property
    def folder(self) -> Path:
        return self.store.folder

    @cached_property
    def record(self) -> RunRecord:
        """As it was when the session began, but for the status."""
        return self.store.record

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for session in (self, *self._beside.values()):
            session.store.close()

    def beside(self, folder: Path) -> "Session":
        """Another run, to be read. What it has in common with this one is not loaded again; it is closed with it."""
        place = Path(os.path.abspath(folder))
        if place not in self._beside or self._beside[place].store.closed:
            on, tell = self.executor, self.on_event
            self._beside[place] = Session.open(
                folder, like=self.experiment, write=False, trust=self.trust, on=on, on_event=tell
            )
        return self._beside[place]

    def keep_open(self, other: "Session") -> None:
        """Read a run that was just made, and let other processes write to it."""
        other.store.release()
        self._beside[Path(os.path.abspath(other.folder))] = other

    @property
    def stored(self) -> StoredRun:
        """What the run says now."""
        return stored_run(self.store)

    @property
    def stored_beside(self) -> dict[Path, StoredRun]:
        """What the runs beside it say, by their folders."""
        return {
            Path(os.path.normpath(each.folder)): each.stored for each in self._beside.values() if not each.store.closed
        }

    def run(self, on_event: OnEvent | None = None) -> None:
        """Go on to the last round, from where the run is; one that is done stays as it is.

        Rounds are told to `on_event`, by default to whom the session tells everything.
        """
        if self.store.record.done:
            return
        self.store.note(status="running")
        for stage in self.experiment.stages:
            self._run(stage, on_event or self.on_event)
        self.store.note(status="done", ended=_now())

    def _run(self, stage: Stage, on_event: OnEvent) -> None:
        states = self.states(stage)
        recorder = Recorder(self.store, stage.name, states, self.record.commit_every)
        found = self.store.server(stage.name)
        start = Checkpoint(*found) if found else None
        try:
            for ended in rounds(self.setup(stage), self.executor, states, start):
                recorder.add(ended)
                on_event(ended)
        except BaseException as problem:
            recorder.commit()
            self.store.note(status="interrupted" if isinstance(problem, KeyboardInterrupt) else f"failed: {problem}")
            raise

    def setup(self, stage: Stage | None = None) -> Setup:
        """That of a stage, by default the last; it needs the stages before to be done."""
        stage = stage or self.experiment.stages[-1]
        if stage.name not in self._setups:
            self._setups[stage.name] = Setup.of(self.experiment, stage, self._weights_before(stage))
        return self._setups[stage.name]

    def states(self, stage: Stage | None = None) -> States:
        """What clients keep in a stage, by default the last."""
        return States(self.store, (stage or self.experiment.stages[-1]).name, self.record.memory)

    def need_done(self) -> None:
        record = self.store.record
        if not record.done:
            raise PartitaError(
                f"{self.folder} is not done ({record.status}). Continue it with: partita resume {self.folder}"
            )

    def _weights_before(self, stage: Stage) -> Tensors:
        """The weights that a stage starts from: those of the stage before, where there is one."""
        stages = self.experiment.stages
        at = [each.name for each in stages].index(stage.name)
        if at == 0:
            return self.experiment.weights
        before = stages[at - 1]
        found = self.store.server(before.name)
        if found is None:
            raise PartitaError(f"{self.folder} is not pretrained yet. Continue it with: partita resume {self.folder}")
        return self.setup(before).network_weights(found[1])


def _need_same(record: RunRecord, experiment: Experiment, folder: Path) -> None:
    """An experiment must be the one that a run was started with: settings, code, values and data."""
    if changed := differences(record.experiment, describe_experiment(experiment)):
        then, now = str(record.environment.get("python")), platform.python_version()
        same = then.split(".")[:2] == now.split(".")[:2]
        raise PartitaError(
            f"{folder} holds another experiment: {'; '.join(changed)}. Give the same objects and settings, or choose "
            "another folder."
            + (
                ""
                if same
                else f" It was started under Python {then}; code can be compared under the same version alone."
            )
        )
    if experiment.data.fingerprint != record.fingerprint:
        raise PartitaError(
            f"The data are not those that {folder} was started with: values or division differ. Give the same data "
            "(for files: PARTITA_DATA), or start a new run."
        )


def _first_analyses(setup: Setup) -> dict[str, object]:
    """What analyses find before the first round. A method that does not fit the network is refused here already."""
    with warnings.catch_warnings():
        # Warnings are given when the rounds start.
        warnings.simplefilter("ignore", DegenerateWarning)
        describe(setup.algorithm, setup.tasks[0])
    population = population_at(
        setup, setup.moment(0), lambda: initial_state(setup.algorithm, setup.server_client(), setup.data.sizes), {}
    )
    applying = (each for each in declared("start").values() if not each.obstacle(population))
    return {analysis.name: analysis(population) for analysis in applying}


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def _as_json(value: Mapping[str, Any]) -> Any:
    """As JSON would give it back; what JSON cannot say is text."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
