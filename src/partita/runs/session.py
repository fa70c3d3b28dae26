"""How is an experiment run so that nothing is lost? In a folder, from which it can be resumed."""

import datetime
import os
import platform
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from ..core.algorithm import initial_state
from ..data.manifests import manifest_of
from ..data.questions import remarks
from ..errors import PartitaError
from ..evaluation.analysis import declared
from ..evaluation.scores import used_variant
from ..experiment.events import OnEvent, ignore
from ..experiment.executor import Executor, executor_of
from ..experiment.experiment import Experiment, Stage
from ..experiment.population import population_at
from ..experiment.rounds import Checkpoint, rounds
from ..experiment.settings.chosen import chosen_settings
from ..experiment.settings.description import describe_experiment, differences, rebuild
from ..experiment.settings.files import trusted
from ..experiment.setup import Setup
from ..tensors import Tensors
from .environment import environment
from .record import WHOLE, BaselinesPlace, RunRecord
from .recorder import Recorder
from .states import States
from .store import Store
from .stored import StoredRun, stored_run
from .verify import check

COMMIT_EVERY = 1
MEMORY = 1 << 30
OWN_WEIGHTS = "the network is a module with weights of its own, which the seed does not decide"
MOST_CLIENTS = 100_000
"""Up to this number of clients, a run keeps who has which rows; beyond, only origin and fingerprint of the division."""


class Session:
    """A run in progress. Its store stays open, and its data and networks are loaded once for everything."""

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
        baseline_tuning: bool = True,
        on: Executor | str | None = None,
        on_event: OnEvent = ignore,
    ) -> "Session":
        """Create a run in a new folder, before its first round; `baselines` is the folder for its baselines."""
        if commit_every < 1:
            raise PartitaError(f"commit_every is {commit_every}, but must be at least 1.")
        executor = executor_of(on)
        data = experiment.data
        setups = {stage.name: Setup.of(experiment, stage, experiment.weights) for stage in experiment.stages}
        # All checks are made before anything is written, so that a refused start leaves nothing.
        weights = [OWN_WEIGHTS] if isinstance(experiment.model, nn.Module) else []
        notes = dict.fromkeys([*remarks(data), *weights, *(note for setup in setups.values() for note in setup.notes)])
        whole = len(data) <= MOST_CLIENTS
        record = RunRecord(
            experiment=(description := describe_experiment(experiment)),
            settings=chosen_settings(description),
            label=experiment.algorithm.label,
            variant=used_variant(experiment.algorithm),
            metric=data.metric,
            data=data.name,
            origin=_as_json(data.origin),
            fingerprint=data.fingerprint,
            division=WHOLE if whole else "origin and fingerprint alone: there are too many clients",
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
            baseline_tuning=baseline_tuning,
            notes=list(notes),
        )
        setup = setups["run"]
        manifest = manifest_of(data) if whole else None
        session = cls(Store.create(folder, record, _first_analyses(setup), manifest), experiment, executor, on_event)
        first = experiment.stages[0].name
        session._setups[first] = setups[first]
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
        """Open an existing run. Its experiment is made again from the record, unless it is given.

        Parts that it shares with the experiment `like` are taken from there. With `trust`, functions that the record
        names by their path are imported.
        """
        executor = executor_of(on)
        store = Store.open(folder, write=write)
        try:
            record = store.record
            if write and not record.done:
                check(store)
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
        """The record as it was when the session began, except for the status."""
        return self.store.record

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for session in (self, *self._beside.values()):
            session.store.close()

    def beside(self, folder: Path) -> "Session":
        """Open another run for reading. Parts that both share are not loaded again. It is closed with this session."""
        place = Path(os.path.abspath(folder))
        if place not in self._beside or self._beside[place].store.closed:
            on, tell = self.executor, self.on_event
            self._beside[place] = Session.open(
                folder, like=self.experiment, write=False, trust=self.trust, on=on, on_event=tell
            )
        return self._beside[place]

    def keep_open(self, other: "Session") -> None:
        """Keep a run that was just made open for reading, and let other processes write to it."""
        other.store.release()
        self._beside[Path(os.path.abspath(other.folder))] = other

    @property
    def stored(self) -> StoredRun:
        """The run as it is stored now."""
        return stored_run(self.store)

    @property
    def stored_beside(self) -> dict[Path, StoredRun]:
        """The other runs that this session has opened, by folder."""
        return {
            Path(os.path.normpath(each.folder)): each.stored for each in self._beside.values() if not each.store.closed
        }

    def run(self, on_event: OnEvent | None = None) -> None:
        """Continue to the last round. A finished run stays as it is.

        Rounds are passed to `on_event`, by default to the session's own.
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
        start = Checkpoint(*found, self.store.left_out(stage.name)) if found else None
        try:
            for ended in rounds(self.setup(stage), self.executor, states, start):
                recorder.add(ended)
                on_event(ended)
        except BaseException as problem:
            recorder.commit()
            if isinstance(problem, PartitaError) and not any(map(self.store.rounds, ("pretrain", "run"))):
                # The run holds nothing, so its folder is free for another attempt.
                self.store.discard()
                raise
            failed = f"failed: {str(problem) or type(problem).__name__}"
            self.store.note(status="interrupted" if isinstance(problem, KeyboardInterrupt) else failed)
            raise

    def setup(self, stage: Stage | None = None) -> Setup:
        """The setup of a stage, by default the last. The stages before it must be finished."""
        stage = stage or self.experiment.stages[-1]
        if stage.name not in self._setups:
            self._setups[stage.name] = Setup.of(self.experiment, stage, self._weights_before(stage))
        return self._setups[stage.name]

    def states(self, stage: Stage | None = None) -> States:
        """The clients' states in a stage, by default the last."""
        return States(self.store, (stage or self.experiment.stages[-1]).name, self.record.memory)

    def finished_state(self) -> tuple[int, Tensors]:
        """The round of the last stage that was committed last, and the server's state then."""
        found = self.store.server(self.experiment.stages[-1].name)
        if found is None:
            raise PartitaError(f"{self.folder} has no finished round. Continue it with: partita resume {self.folder}")
        return found

    def need_done(self) -> None:
        record = self.store.record
        if not record.done:
            raise PartitaError(
                f"{self.folder} is not finished ({record.status}). Continue it with: partita resume {self.folder}"
            )

    def _weights_before(self, stage: Stage) -> Tensors:
        """The initial weights of a stage: those of the stage before, if there is one."""
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
    """Refuse an experiment that is not the one a run was started with: settings, code, values and data."""
    if changed := differences(record.experiment, describe_experiment(experiment)):
        then, now = str(record.environment.get("python")), platform.python_version()
        same = then.split(".")[:2] == now.split(".")[:2]
        raise PartitaError(
            f"{folder} holds another experiment: {'; '.join(changed)}. Give the same objects and settings, or choose "
            "another folder."
            + (
                ""
                if same
                else f" It was started under Python {then}, and code can only be compared under the same version."
            )
        )
    if experiment.data.fingerprint != record.fingerprint:
        raise PartitaError(
            f"The data are not those that {folder} was started with: values or division differ. Give the same data "
            "(for files: PARTITA_DATA), or start a new run."
        )


def _first_analyses(setup: Setup) -> dict[str, object]:
    """The results of analyses before the first round."""
    population = population_at(
        setup, setup.moment(0), lambda: initial_state(setup.algorithm, setup.server_client(), setup.data.sizes), {}
    )
    applying = (each for each in declared("start").values() if not each.obstacle(population))
    return {analysis.name: analysis(population) for analysis in applying}


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def _as_json(value: Mapping[str, Any]) -> Any:
    """A value as JSON returns it; values that JSON cannot hold become text."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
