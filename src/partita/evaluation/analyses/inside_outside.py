"""What does a personal model make of classes that its client never trained on?

As in Oh et al., 2022 (FedBABU), appendix J: accuracy on classes in the client's training data and on all others.
"""

from collections.abc import Sequence

import torch

from ...core.samples import Samples
from ...tensors import Tensors
from ..analysis import Analysis, Findings, Result, needs_classes
from ..figures import Figure, Table
from ..metric import Metric
from ..population import ClientModels, Population
from ..scores import Record
from ..seeds import Numbers
from ._common import CLIENTS, OverClients, common_test, mean_spread, over_clients, scores_numbers, scores_table

SAMPLES = 2000
Sides = dict[str, list[Record]]


def inside_outside(*, clients: int = CLIENTS, samples: int = SAMPLES) -> Analysis:
    """Accuracy on classes that a client trained on, and on all others."""
    return Analysis(
        name="inside_outside",
        title="Classes inside and outside a client's data",
        compute=lambda population: _accuracies(population, clients, samples),
        obstacle=_needs_common_classes,
        tables=_tables,
        figures=_figures,
        numbers=_numbers,
        place=30,
    )


def _needs_common_classes(population: Population) -> str | None:
    if population.data.label_sets:
        return "Every client numbers its own classes, and cannot answer with another."
    return needs_classes(population)


def _accuracies(population: Population, most: int, samples: int) -> Result:
    """Every client's model on the same test samples, split by whether the client trained on their class.

    The model is the one that is meant to be used; where the method fine-tunes, `before_local` has the same before it.
    A client that trained on all classes has no samples outside, and counts inside alone.
    """
    common = common_test(population.data, samples).alone(device=population.task.device)
    numbers: list[int] = []
    used: Sides = {"inside": [], "outside": []}
    before: Sides = {"inside": [], "outside": []}
    for models in population.models(most):
        numbers.append(models.client.id)
        _add_(used, models, models.used, common)
        if models.algorithm.finetune:
            _add_(before, models, models.before, common)
    earlier = {side: over_clients(records) for side, records in before.items()}
    return {
        "clients": numbers,
        "samples": len(common),
        **{side: over_clients(records) for side, records in used.items()},
        "before_local": earlier if any(earlier.values()) else None,
    }


def _add_(sides: Sides, models: ClientModels, tensors: Tensors, common: Samples) -> None:
    """One model on the samples of the client's training classes and on the others; either may be empty."""
    inside = torch.isin(common.targets, torch.unique(models.client.train.targets))
    for side, rows in (("inside", inside), ("outside", ~inside)):
        sides[side].append(models.record(tensors, common.take(rows.nonzero().flatten())))


def _named(result: Result) -> dict[str, OverClients]:
    named = {"classes trained on": result["inside"], "other classes": result["outside"]}
    if earlier := result["before_local"]:
        named["before fine-tuning: trained on"] = earlier["inside"]
        named["before fine-tuning: other"] = earlier["outside"]
    return named


def _tables(result: Result, metric: Metric) -> list[Table]:
    return [scores_table(metric, _named(result))]


def _numbers(result: Result) -> Numbers:
    return scores_numbers(_named(result))


def _figures(findings: Sequence[Findings], metric: Metric) -> list[Figure]:
    rows = [
        [each.method, *(mean_spread(metric, each.results, side) for side in ("inside", "outside"))] for each in findings
    ]
    note = "On test samples of all evaluated clients: what a model still knows of what its client never sees."
    return [Table(["method", "classes it trained on", "other classes"], rows, "Classes inside and outside", note)]
