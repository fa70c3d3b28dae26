"""How good is the body alone? Accuracy without the head, by the nearest template.

As in Oh et al., 2022 (FedBABU), section 5.2.1: by cosine in the paper, by Euclidean distance in its published code.
"""

from collections.abc import Sequence

from .. import representation
from ..analysis import Analysis, Findings, Result, needs_classes
from ..figures import Figure, Table
from ..metric import Metric
from ..population import Population
from ..representation import Similarity
from ..scores import Record, record_of
from ..seeds import Numbers
from ._common import CLIENTS, OverClients, mean_spread, over_clients, scores_numbers, scores_table

SIMILARITIES: tuple[Similarity, ...] = ("cosine", "euclidean")


def without_head(*, clients: int = CLIENTS) -> Analysis:
    """Accuracy by the nearest template, by cosine and by Euclidean distance, beside that with the head."""
    return Analysis(
        name="without_head",
        title="Accuracy without the head",
        compute=lambda population: _accuracies(population, clients),
        obstacle=needs_classes,
        tables=_tables,
        figures=_figures,
        numbers=_numbers,
        place=20,
    )


def _accuracies(population: Population, most: int) -> Result:
    """The accuracy of the model before fine-tuning, with templates from each client's own training data."""
    numbers: list[int] = []
    found: dict[str, list[Record]] = {name: [] for name in (*SIMILARITIES, "with_head")}
    for models in population.models(most):
        if not len(models.test):
            continue
        client, weights = models.client, models.weights(models.before)
        numbers.append(client.id)
        found["with_head"].append(models.record(models.before, models.test))
        for similarity in SIMILARITIES:
            sums = representation.without_head(
                client.task, weights, client.train, models.test, similarity, models.batch
            )
            found[similarity].append(record_of(sums, client.moment.round, client.id))
    scores = {name: [record.score for record in records] for name, records in found.items()}
    return {"clients": numbers, **{name: over_clients(records) for name, records in found.items()}, "scores": scores}


def _named(result: Result) -> dict[str, OverClients]:
    return {name.replace("_", " "): result[name] for name in ("with_head", *SIMILARITIES)}


def _tables(result: Result, metric: Metric) -> list[Table]:
    return [scores_table(metric, _named(result))]


def _numbers(result: Result) -> Numbers:
    return scores_numbers(_named(result))


def _figures(findings: Sequence[Findings], metric: Metric) -> list[Figure]:
    rows = [
        [each.method, *(mean_spread(metric, each.results, key) for key in ("with_head", *SIMILARITIES))]
        for each in findings
    ]
    columns = ["method", "with its head", "nearest template, cosine", "nearest template, Euclidean"]
    note = (
        "A test sample is answered by the class whose mean feature is nearest: what the body alone knows. All scores "
        "are of models before fine-tuning."
    )
    return [Table(columns, rows, "Accuracy without the head", note)]
