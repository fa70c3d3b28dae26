"""How good is a model on the samples that it was trained on? Beside its test scores, what it learned by heart.

As in Pillutla et al., 2022 (FedSim and FedAlt), figures 3 and 7: what personalization changes on training and on test
data. Published code that tests on training rows measures this too.
"""

from collections.abc import Sequence

from ..analysis import Analysis, Findings, Result
from ..figures import Table
from ..metric import Metric
from ..population import Population
from ..scores import Record
from ..seeds import Numbers
from ._common import CLIENTS, OverClients, mean_spread, over_clients, scores_numbers, scores_table

MODELS = ("before_local", "used")


def training(*, clients: int = CLIENTS) -> Analysis:
    """Scores on each client's own training samples, before training and of the model to be used."""
    return Analysis(
        name="training",
        title="On training samples",
        compute=lambda population: _scores(population, clients),
        tables=_tables,
        figures=_figures,
        numbers=_numbers,
        place=25,
    )


def _scores(population: Population, most: int) -> Result:
    numbers: list[int] = []
    found: dict[str, list[Record]] = {name: [] for name in MODELS}
    for models in population.models(most):
        numbers.append(models.client.id)
        for name, tensors in zip(MODELS, (models.before, models.used), strict=True):
            found[name].append(models.record(tensors, models.client.train))
    scores = {name: [each.score if each.count else None for each in records] for name, records in found.items()}
    return {"clients": numbers, **{name: over_clients(records) for name, records in found.items()}, "scores": scores}


def _named(result: Result) -> dict[str, OverClients]:
    return {name.replace("_", " "): result[name] for name in MODELS}


def _tables(result: Result, metric: Metric) -> list[Table]:
    return [scores_table(metric, _named(result), on="training")]


def _figures(findings: Sequence[Findings], metric: Metric) -> list[Table]:
    rows = [[each.method, *(mean_spread(metric, each.results, name) for name in MODELS)] for each in findings]
    note = "Each client's model on its own training samples: beside its test scores, what it learned by heart."
    return [Table(["method", "before local training", "of the model used"], rows, f"Training {metric.name}", note)]


def _numbers(result: Result) -> Numbers:
    return scores_numbers(_named(result), on="training")
