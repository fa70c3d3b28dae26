"""What is a run compared with? Local training, the global model and the fine-tuned one, tuned on validation data."""

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..algorithms.fedavg import fedavg
from ..algorithms.finetune import finetune
from ..algorithms.local import local
from ..core.algorithm import Algorithm
from ..core.optimizers import SGD
from ..core.phases import Phase
from ..errors import DegenerateWarning, DivergedError, PartitaError
from ..evaluation.metric import Metric
from ..evaluation.scores import summarize
from ..evaluation.variants import Variant
from ..experiment.events import part_of
from ..experiment.experiment import Experiment
from ..experiment.rounds import evaluate
from ..experiment.settings.description import describe_experiment
from ..experiment.setup import Setup
from .database import DATABASE
from .derived import derive
from .folders import BESIDE
from .reuse import folder_for, session_for
from .session import Session
from .tuning import FINETUNING, FIRST, QUICK, QUICK_FINETUNING, Tried, as_dicts, best, from_dicts, scaled, tried_rates

SEARCH = "finetuning_search"
"""The analysis of a global baseline that holds what fine-tuning was tried on it."""


def add_baselines(session: Session, place: Path | None = None) -> list[dict[str, Any]]:
    """Make or find the baselines of a finished run, and record where they are and how they were chosen.

    Each baseline is a run in `place`, by default the folder that the run's record names, or `baselines` beside it.
    Existing ones are reused. A baseline that fails is recorded with the reason, in the analysis `baselines_failed`.
    """
    session.need_done()
    search = _Search(session, Path(os.path.normpath(place)) if place else _place(session))
    found: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    makers: tuple[tuple[tuple[str, ...], Callable[[], list[dict[str, Any]]]], ...] = (
        (("local",), search.alone),
        (("global", "global + fine-tune"), search.together),
    )
    for names, make in makers:
        try:
            found += make()
        except PartitaError as problem:
            failed += [{"name": name, "problem": str(problem)} for name in names]
    session.store.add_analysis("baselines", found)
    session.store.add_analysis("baselines_failed", failed)
    return found


def rounds_ahead(session: Session) -> int:
    """The rounds of baselines that do not exist yet, for the rates that are tried first."""
    return _Search(session, _place(session)).rounds_ahead


def _place(session: Session) -> Path:
    return Path(os.path.normpath(session.folder / (session.record.baselines or BESIDE)))


def protocol(experiment: Experiment) -> Experiment:
    """What all baselines of an experiment have in common with it: data, network, seed, participation, batches, rounds.

    A method's own choices are not theirs: its server, its pretraining (which counts as rounds), its optimizer.
    """
    before = experiment.pretrain.rounds if experiment.pretrain else 0
    return replace(
        experiment,
        rounds=experiment.rounds + before,
        server=None,
        pretrain=None,
        evaluate_every=0,
        oracle_validation=False,
    )


def epochs_of(algorithm: Algorithm) -> int:
    """The local epochs of the baselines: those of the innermost method, where it has such a setting, else one."""
    on = algorithm.settings.get("on")
    if isinstance(on, Algorithm):
        return epochs_of(on)
    epochs = algorithm.settings.get("epochs")
    return epochs if isinstance(epochs, int) and epochs > 0 else 1


def local_epochs(algorithm: Algorithm) -> int | None:
    """How many epochs all phases of a round take together; None where they are counted in steps, or differ."""
    lengths = [(stage.epochs, stage.steps) for stage in algorithm.phases if isinstance(stage, Phase)]
    counts = [1 if epochs is None else epochs for epochs, steps in lengths if steps is None]
    if len(counts) < len(lengths) or any(callable(count) for count in counts):
        return None
    return sum(count for count in counts if isinstance(count, int))


class _Search:
    """The baselines of one run: which are tried, and where they are kept."""

    def __init__(self, session: Session, place: Path) -> None:
        self._session, self._place = session, place
        self._shared = protocol(session.experiment)
        self._epochs = epochs_of(session.experiment.algorithm)
        self._metric = Metric(session.record.metric)
        self._can_tune = any(len(roles["validation"]) for roles in session.experiment.data.roles)
        self._tuned = session.record.baseline_tuning and self._can_tune
        self._done = 0

    @property
    def rounds_ahead(self) -> int:
        rates = FIRST if self._tuned else (QUICK,)
        wanted = [self._experiment(method, rate) for method in (local, fedavg) for rate in rates]
        return sum(each.rounds for each in wanted if not (self._folder(each) / DATABASE).exists())

    def alone(self) -> list[dict[str, Any]]:
        chosen, tried = self._rate(local)
        return [self._entry("local", self._experiment(local, chosen.lr), "before_local", tried)]

    def together(self) -> list[dict[str, Any]]:
        chosen, tried = self._rate(fedavg)
        experiment = self._experiment(fedavg, chosen.lr)
        with self._opened(experiment) as source:
            tuning = self._finetuning(source, experiment, chosen.lr)
            tuned = self._tuned_experiment(experiment, best(tuning, self._metric.gain))
            self._derive(tuned, source)
        return [
            self._entry("global", experiment, "before_local", tried),
            self._entry("global + fine-tune", tuned, "after_finetune", tuning),
        ]

    def _rate(self, method: Callable[..., Algorithm]) -> tuple[Tried, list[Tried]]:
        def score(rate: float) -> float | None:
            try:
                return self._trained(self._experiment(method, rate))
            except DivergedError:
                return None

        if not self._tuned:
            self._trained(self._experiment(method, QUICK))
            return Tried(QUICK, None), [Tried(QUICK, None)]
        tried = tried_rates(score, self._metric.gain)
        chosen = best(tried, self._metric.gain)
        if chosen.score is None:
            rates = ", ".join(f"{each.lr:g}" for each in tried)
            raise PartitaError(f"{method.__name__} diverges at every rate that was tried: {rates}.")
        return chosen, tried

    def _experiment(self, method: Callable[..., Algorithm], rate: float) -> Experiment:
        return replace(self._shared, algorithm=method(epochs=self._epochs, optimizer=SGD(rate)))

    def _tuned_experiment(self, experiment: Experiment, tuning: Tried) -> Experiment:
        with warnings.catch_warnings():
            # The run itself has warned already of what is degenerate.
            warnings.simplefilter("ignore", DegenerateWarning)
            algorithm = finetune(on=experiment.algorithm, epochs=tuning.epochs or 0, optimizer=SGD(tuning.lr))
        return replace(experiment, algorithm=algorithm)

    def _folder(self, experiment: Experiment) -> Path:
        """A method that is its own baseline is not run again."""
        own = self._session.record.experiment
        if describe_experiment(replace(experiment, evaluate_every=self._session.experiment.evaluate_every)) == own:
            return self._session.folder
        return folder_for(experiment.algorithm.name, experiment, self._place)

    def _trained(self, experiment: Experiment) -> float | None:
        """Train, unless that was done before; the score on validation data."""
        folder, before = self._folder(experiment), self._done
        self._done += experiment.rounds
        if folder == self._session.folder:
            return _validation_score(self._session)
        expected = 2 * experiment.rounds * (len(FIRST) if self._tuned else 1)
        [rate] = [stage.optimizer.lr for stage in experiment.algorithm.phases if isinstance(stage, Phase)]
        name = f"baselines: {experiment.algorithm.name}, rate {rate:g}"
        on_event = part_of("baselines", name, before, max(expected, self._done), self._session.on_event)
        with session_for(experiment, folder, on=self._session.executor, on_event=on_event) as made:
            made.run()
            return _validation_score(made)

    def _opened(self, experiment: Experiment) -> Session:
        """A run that was made just now."""
        folder, on = self._folder(experiment), self._session.executor
        if folder == self._session.folder:
            # It may have been evaluated more often than baselines are.
            return Session.open(folder, self._session.experiment, write=False, on=on)
        return Session.open(folder, experiment, on=on)

    def _finetuning(self, source: Session, experiment: Experiment, rate: float) -> list[Tried]:
        """The settings of fine-tuning that were tried, kept with the run that is fine-tuned."""
        if not self._tuned:
            epochs, factor = QUICK_FINETUNING
            return [Tried(scaled(rate, factor), None, epochs)]
        if kept := source.store.analyses.get(SEARCH):
            return from_dicts(kept)
        tried = []
        for epochs, factor in FINETUNING:
            candidate = Tried(scaled(rate, factor), None, epochs)
            tried.append(replace(candidate, score=self._finetuned(source, experiment, candidate)))
        if source.folder != self._session.folder:
            source.store.add_analysis(SEARCH, as_dicts(tried))
        return tried

    def _finetuned(self, source: Session, experiment: Experiment, candidate: Tried) -> float | None:
        """The score of all clients on validation data after fine-tuning."""
        found = source.store.server("run")
        assert found, "a run that is done has a state"
        tuned = self._tuned_experiment(experiment, candidate)
        own = {client: source.store.own("run", client) or {} for client in source.store.clients("run")}
        setup = Setup.of(tuned, tuned.stages[-1], tuned.weights)
        try:
            records, _ = evaluate(setup, self._session.executor, own, found[1], found[0])
        except DivergedError:
            return None
        newcomers = tuned.data.newcomers
        counted = [
            each
            for each in records
            if (each.variant, each.role) == ("after_finetune", "validation") and each.client not in newcomers
        ]
        return summarize(counted).macro

    def _derive(self, experiment: Experiment, source: Session) -> None:
        folder = self._folder(experiment)
        if folder == self._session.folder:
            return
        made = session_for(experiment, folder, on=self._session.executor, on_event=self._session.on_event)
        try:
            derive(made, source)
        except BaseException:
            made.close()
            raise
        self._session.keep_open(made)

    def _entry(self, name: str, experiment: Experiment, variant: Variant, tried: list[Tried]) -> dict[str, Any]:
        algorithm = experiment.algorithm
        own = self._session.experiment
        return {
            "name": name,
            "run": os.path.relpath(self._folder(experiment), self._session.folder),
            "variant": variant,
            "label": "fedavg" if name == "global" else algorithm.label,
            "chosen": "tuned" if self._tuned else "quick",
            "tunable": self._can_tune,
            "tried": as_dicts(tried),
            "budget": {"rounds": experiment.rounds, "epochs": local_epochs(algorithm)},
            "own_budget": {"rounds": self._shared.rounds, "epochs": local_epochs(own.algorithm)},
        }


def _validation_score(session: Session) -> float | None:
    """The score of the model before local training, the one that these methods are used with."""
    found = session.stored.summaries(role="validation").get("before_local")
    return found.macro if found else None
