"""How does a newcomer join a finished run? It gets a personal part, and files like the other clients."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core.algorithm import enter
from ..core.client import Client
from ..core.samples import Samples
from ..core.task import Task
from ..data.datasets import texts_of
from ..errors import PartitaError
from ..evaluation.onboarding import (
    Donors,
    Onboarding,
    answers,
    donors_of,
    guarded_weight,
    onboard as train_personal_part,
    sums,
    usual_weight,
)
from ..evaluation.population import ClientModels
from ..evaluation.prediction.clients import assemble
from ..evaluation.prediction.model import About, Answering, ClientModel, class_names
from ..evaluation.scores import record_of
from ..tensors import Tensors
from .answers import class_of
from .export import Exported, common_weights, write_models
from .facts import scores_told
from .loaded import LoadedRun
from .questions import Questions

NEW = -1
"""The number of a client that the run does not have."""
VALIDATION = 0.2


@dataclass(frozen=True, eq=False)
class Newcomer:
    """A newcomer with its model."""

    model: ClientModel
    exported: Exported

    @property
    def samples(self) -> int:
        """The number of samples that it learned from."""
        return self.model.about.onboarded or 0

    @property
    def scores(self) -> dict[str, float]:
        """Scores on the test file, if there is one, by model: guarded, personal, global."""
        return scores_told(self.exported.about)


def onboard(
    run: LoadedRun,
    name: str,
    asked: Questions,
    *,
    test: Questions | None = None,
    settings: Onboarding | None = None,
    validation: float = VALIDATION,
) -> Newcomer:
    """Train the personal part of a new client on labelled samples; the shared part stays as it is.

    The share `validation` of the samples, rounded down, is held out for the guard.
    """
    if name in run.clients:
        raise PartitaError(f"{run.folder} has a client called {name!r} already. Choose another name.")
    if not 0 <= validation < 1:
        raise PartitaError(f"validation is {validation}, but must be at least 0 and below 1.")
    settings = settings or Onboarding()
    classes, samples = _samples(run, asked)
    facts, task = _network(run, len(classes))
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(run.experiment.seed))
    held = int(validation * len(samples) + 1e-9)
    models = _models(run, task, samples.take(order[held:]), samples.take(order[:held]))
    donors: Donors = donors_of(run.population, settings)
    tensors = train_personal_part(models, donors, settings)
    own = Answering(task, tensors, models.algorithm if models.algorithm.predict else None)
    weight, common = _guarded(run, models, tensors, task)
    record, moment = run.stored.record, models.client.moment
    about = About(name, NEW, record.label, record.variant, weight, moment, len(samples))
    model = assemble(own, about, run.inputs, classes, common if about.guarded else None)
    told: dict[str, Any] = {
        "onboarded": {"samples": len(samples), "start": settings.start, "epochs": settings.epochs},
        "score": None,
    }
    if test is not None:
        alone = assemble(own, replace(about, weight=None), run.inputs, classes)
        told["score"] = {"test": _score(run, alone, models, test), "count": len(test)}
        if common is not None:
            everyone = assemble(common, replace(about, weight=None), run.inputs, classes)
            told["score"]["guarded"] = _score(run, model, models, test)
            told["compared"] = {"global": _score(run, everyone, models, test)}
    exported = Exported(name, NEW, own, weight, common if about.guarded else None, facts, classes, told)
    return Newcomer(model, exported)


def write_newcomer(run: LoadedRun, newcomer: Newcomer, folder: Path, *, force: bool = False) -> Path:
    """Write a new client's model as `partita export` writes those of the run."""
    write_models(run, folder, [newcomer.exported], force=force)
    return folder


def _samples(run: LoadedRun, asked: Questions) -> tuple[tuple[str, ...], Samples]:
    """The names of the client's outputs, and what it learns from."""
    data = run.experiment.data
    if data.kind == "next_word":
        return tuple(class_names((), 0, None, run.inputs)), _successors(run, asked)
    if asked.answers is None:
        raise PartitaError(
            f"{asked.where} has no labels. Give one for each row: y of an .npz file, a column of a table "
            "(--label-column), or `labels` in Python and in a request."
        )
    inputs = run.inputs(asked.inputs)
    if data.kind == "regression":
        return (), Samples(inputs, _numbers(asked))
    names = run.class_names
    labels = [names.index(class_of(each, names)) for each in asked.answers]
    known = sorted(set(labels)) if data.label_sets else list(range(len(names)))
    targets = torch.tensor([known.index(label) for label in labels])
    return tuple(names[label] for label in known), Samples(inputs, targets)


def _numbers(asked: Questions) -> Tensor:
    try:
        return torch.tensor([float(each) for each in asked.answers or ()], dtype=torch.get_default_dtype())
    except ValueError as problem:
        raise PartitaError(f"{asked.where}: a label is not a number: {problem}.") from None


def _successors(run: LoadedRun, asked: Questions) -> Samples:
    """Texts, of which each word is the right answer to those before it."""
    if run.inputs.words is None or (texts := texts_of(asked.inputs)) is None:
        raise PartitaError(
            f"{asked.where}: the next word is learned from texts. Give a .txt file, a column of texts, or a list."
        )
    return run.inputs.words.successors(texts, run.inputs.shape[0])


def _network(run: LoadedRun, classes: int) -> tuple[dict[str, Any], Task]:
    """The network of a client, by its number of classes."""
    facts = run.facts(0)
    if "classes" in facts and run.experiment.data.kind == "classification":
        facts["classes"] = classes
    given = {name: tuple(fact) if isinstance(fact, list) else fact for name, fact in facts.items()}
    return facts, run.setup.tasks.of(given)


def _models(run: LoadedRun, task: Task, train: Samples, validation: Samples) -> ClientModels:
    setup, first = run.setup, run.population[0]
    moment = first.client.moment
    client = Client(
        NEW,
        task,
        train.alone(task.layout, task.device),
        validation.alone(task.layout, task.device),
        moment,
        run.experiment.batching,
        received=task.place(setup.download(run.state, NEW, moment)),
    )
    return replace(first, client=enter(setup.algorithm, client), test=train.take(slice(0)))


def _guarded(
    run: LoadedRun, models: ClientModels, tensors: Tensors, task: Task
) -> tuple[float | None, Answering | None]:
    """What the guard chooses for the new client, and the global network; nothing where there is none."""
    weights = common_weights(run)
    if weights is None or {n: t.shape for n, t in weights.items()} != {n: t.shape for n, t in task.weights.items()}:
        return None, None
    common = Answering(task, weights)
    moment = models.client.moment
    weight = guarded_weight(
        models,
        lambda inputs: answers(models, tensors, inputs),
        lambda inputs: common.outputs(inputs, NEW, moment),
        run.experiment.data.kind,
        usual_weight(list(run.weights.values())),
    )
    return weight, common


def _score(run: LoadedRun, model: ClientModel, models: ClientModels, asked: Questions) -> float:
    names, kind = run.class_names, run.experiment.data.kind
    if kind == "next_word":
        samples = _successors(run, asked)
    elif asked.answers is None:
        raise PartitaError(f"{asked.where} has no labels. Give one for each row.")
    elif kind == "regression":
        samples = Samples(run.inputs(asked.inputs), _numbers(asked))
    else:
        # A class that the client did not have is -1: no answer is right.
        places = {label: place for place, label in enumerate(model.classes)}
        targets = torch.tensor([places.get(class_of(each, names), -1) for each in asked.answers])
        return float((model.outputs(run.inputs(asked.inputs)).argmax(1) == targets).double().mean())
    return record_of(sums(models, samples, model.outputs), 0, NEW).score
