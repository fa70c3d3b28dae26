"""How fast, and with which part, does a model become personal? Scores after every epoch of fine-tuning, by part.

As in Oh et al., 2022 (FedBABU), tables 4 and 6: a copy of each client's model is fine-tuned on its training data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from ...core.algorithm import Algorithm
from ...core.client import Client
from ...core.optimizers import SGD, Optimizer
from ...core.penalties import Penalty
from ...core.phases import Phase
from ...core.selectors import BODY, HEAD, NETWORK, Selector
from ...errors import PartitaError
from ...tensors import Tensors
from ..analysis import Analysis, Findings, Result
from ..figures import Line, Lines, Table
from ..metric import Metric
from ..population import ClientModels, Population
from ..scores import Record
from ..seeds import Numbers
from ._common import CLIENTS, over_clients

PARTS = {"head": HEAD, "body": BODY, "full": NETWORK}
Curve = Sequence[tuple[int, float, float]]
"""Epoch, mean over clients, and spread over clients."""


def finetuning(*, clients: int = CLIENTS, epochs: int | None = None, lr: float | None = None) -> Analysis:
    """Test scores after every epoch of fine-tuning the head, the body or the full network."""
    return Analysis(
        name="finetuning",
        title="Fine-tuning by part",
        compute=lambda population: _curves(population, clients, tuning_of(population.algorithm, epochs, lr)),
        obstacle=_needs_parts,
        tables=_tables,
        figures=_figures,
        numbers=_numbers,
        place=10,
    )


@dataclass(frozen=True)
class Tuning:
    """How to fine-tune: by default as FedBABU does."""

    epochs: int = 5
    optimizer: Optimizer = SGD(0.001, momentum=0.9)
    penalty: Penalty | None = None

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise PartitaError(f"epochs is {self.epochs}, but must be at least 1.")


def tuning_of(algorithm: Algorithm, epochs: int | None = None, lr: float | None = None) -> Tuning:
    """The settings of the last phase of the method's own fine-tuning, where it has one, else FedBABU's.

    `epochs` replaces the number of epochs, and `lr` the optimizer by SGD with momentum 0.9.
    """
    phases = [stage for stage in algorithm.finetune if isinstance(stage, Phase)]
    own = phases[-1] if phases else None
    usual = own.epochs if own and isinstance(own.epochs, int) else Tuning.epochs
    return Tuning(
        usual if epochs is None else epochs,
        SGD(lr, momentum=0.9) if lr is not None else own.optimizer if own else Tuning.optimizer,
        own.penalty if own else None,
    )


def after_each_epoch(models: ClientModels, part: Selector, tuning: Tuning) -> list[Tensors]:
    """The client's tensors after 0, 1, 2 and more epochs; empty where the network has no such part to train."""
    algorithm, client = models.algorithm, replace(models.client, purpose="finetune")
    seen: list[Tensors] = [models.before]

    def on_epoch(tensors: Tensors, client: Client) -> None:
        seen.append(tensors)

    phase = Phase(
        algorithm.view.place(part),
        tuning.optimizer,
        epochs=tuning.epochs,
        penalty=tuning.penalty,
        view=algorithm.view,
        on_epoch=on_epoch,
    )
    if not phase.trained(client.task.network, frozenset(models.before)):
        return []
    if not client.batches_per_epoch(len(client.train)):
        # There are too few samples for a step, and the model stays as it is.
        return [models.before] * (tuning.epochs + 1)
    models.run_phase(phase, [client], [models.before])
    return seen


def _needs_parts(population: Population) -> str | None:
    algorithm = population.algorithm
    if not algorithm.predict:
        return None
    return f"{algorithm.label} predicts by more than a network, so that its parts cannot be fine-tuned one by one."


def _curves(population: Population, most: int, tuning: Tuning) -> Result:
    """Test scores and validation means, from the model as received (epoch 0) on."""
    numbers: list[int] = []
    tests: dict[str, list[list[Record]]] = {}
    validations: dict[str, list[list[Record]]] = {}
    for models in population.models(most):
        numbers.append(models.client.id)
        for part, selector in PARTS.items():
            after = after_each_epoch(models, selector, tuning)
            if not after:
                continue
            for found, samples in ((tests, models.test), (validations, models.client.validation)):
                epochs = found.setdefault(part, [[] for _ in range(tuning.epochs + 1)])
                for records, tensors in zip(epochs, after, strict=True):
                    records.append(models.record(tensors, samples))
    return {
        "clients": numbers,
        "epochs": list(range(tuning.epochs + 1)),
        "lr": tuning.optimizer.lr,
        "parts": {part: _scores(tests[part], validations[part]) for part in tests},
    }


def _scores(tests: list[list[Record]], validations: list[list[Record]]) -> dict[str, Any]:
    test, validation = [over_clients(each) for each in tests], [over_clients(each) for each in validations]
    return {
        **{name: [each and each[name] for each in test] for name in ("macro", "std", "micro")},
        "validation": [each and each["macro"] for each in validation],
        "scores": [[record.score if record.count else None for record in each] for each in tests],
    }


def _tables(result: Result, metric: Metric) -> list[Table]:
    rows = [
        [part, *("-" if value is None else metric.text(value) for value in curve["macro"])]
        for part, curve in result["parts"].items()
    ]
    note = f"Mean over {len(result['clients']):,} clients, at a learning rate of {result['lr']:g}."
    return [Table([f"test {metric.name} after epoch", *map(str, result["epochs"])], rows, note=note)]


def _numbers(result: Result) -> Numbers:
    epochs = [f"epoch {epoch}" for epoch in result["epochs"]]
    return Numbers(
        {part: dict(zip(epochs, curve["macro"], strict=True)) for part, curve in result["parts"].items()},
    )


def _figures(findings: Sequence[Findings], metric: Metric) -> list[Lines]:
    """One chart for each method, all with the same vertical axis."""
    measured = [(each, curves) for each in findings if (curves := _mean_curves(each.results))]
    covered = [mean for _, curves in measured for curve in curves.values() for _, mean, _ in curve]
    return [_figure(each, curves, covered, metric) for each, curves in measured]


def _mean_curves(results: Sequence[Result]) -> dict[str, Curve]:
    """The curve of each part, as the mean over runs; empty where there are no test data."""
    found: dict[str, list[tuple[int, float, float]]] = {}
    epochs = results[0]["epochs"]
    for part in PARTS:
        known = [result["parts"][part] for result in results if part in result["parts"] and result["epochs"] == epochs]
        for place, epoch in enumerate(epochs):
            means = [each["macro"][place] for each in known if each["macro"][place] is not None]
            stds = [each["std"][place] for each in known if each["std"][place] is not None]
            if means:
                found.setdefault(part, []).append((epoch, fmean(means), fmean(stds)))
    return dict(found)


def _figure(findings: Findings, curves: Mapping[str, Curve], covered: Sequence[float], metric: Metric) -> Lines:
    lines = [
        Line(part, [(epoch, mean) for epoch, mean, _ in curves[part]], number)
        for number, part in enumerate(PARTS)
        if part in curves
    ]
    rows = [[part, str(epoch), metric.spread(mean, std)] for part, each in curves.items() for epoch, mean, std in each]
    runs = len(findings.results)
    return Lines(
        title=findings.method,
        lines=lines,
        x="epoch",
        table=Table(["part", "epoch", f"{metric.name} ± over clients"], rows),
        covered=covered,
        note=f"Mean over {len(findings.results[0]['clients']):,} clients"
        + (f" and {runs} seeds." if runs > 1 else "."),
    )
