"""What do representations look like? A map of test samples in the plane, by t-SNE.

As in Oh et al., 2022 (FedBABU), figure 15.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ...errors import PartitaError
from ...randomness import generator
from .. import representation
from ..analysis import Analysis, Findings, Result, needs_classes
from ..figures import Cloud, Figure, Point, Table
from ..metric import Metric
from ..population import Population
from ._common import CLIENTS

SAMPLES = 1000
MOST_LABELS, FEWEST_POINTS = 16, 30
"""More labels cannot be distinguished by colour and shape; fewer points show no groups."""


def embedding(*, clients: int = CLIENTS, samples: int = SAMPLES) -> Analysis:
    """A map of representations of test samples in the plane (t-SNE)."""
    return Analysis(
        name="embedding",
        title="A map of representations (t-SNE)",
        compute=lambda population: _map(population, clients, samples),
        obstacle=needs_classes,
        tables=_tables,
        figures=_figures,
        place=50,
    )


def _map(population: Population, most: int, samples: int) -> Result:
    """Equally many test samples of every client, as its own body, before fine-tuning, represents them."""
    each = max(samples // len(population.sample(most)), 1)
    features: list[Tensor] = []
    labels: list[int] = []
    numbers: list[int] = []
    for models in population.models(most):
        client, test = models.client, models.test
        order = torch.randperm(len(test), generator=generator(0, "embedded samples", client.id))
        chosen = test.take(order[:each].sort().values)
        if not len(chosen):
            continue
        features.append(representation.body_features(client.task, models.weights(models.before), chosen, models.batch))
        labels += (chosen.targets if models.classes is None else models.classes[chosen.targets.cpu()]).tolist()
        numbers += [client.id] * len(chosen)
    if not features:
        raise PartitaError("No client has test samples.")
    if len({found.shape[1] for found in features}) > 1:
        raise PartitaError("The clients' bodies differ in the number of features, which have no common map.")
    x, y = representation.embedding(torch.cat(features)).T.tolist()
    return {"x": x, "y": y, "label": labels, "client": numbers}


def _tables(result: Result, metric: Metric) -> list[Table]:
    clients = len(set(result["client"]))
    return [Table(["map of representations"], [[f"{len(result['x']):,} test samples of {clients:,} clients"]])]


def _figures(findings: Sequence[Findings], metric: Metric) -> list[Figure]:
    note = "Nearness means likeness; directions, distances between groups and their sizes mean nothing."
    readable = [each for each in findings if _is_readable(each)]
    if len(readable) == len(findings):
        return [*map(_cloud, findings), note]
    why = f"A map is drawn of {FEWEST_POINTS} points or more with at most {MOST_LABELS} labels; others cannot be read."
    return [*map(_cloud, readable), *([note] if readable else []), why]


def _is_readable(findings: Findings) -> bool:
    first = findings.results[0]
    return len(set(first["label"])) <= MOST_LABELS and len(first["x"]) >= FEWEST_POINTS


def _cloud(findings: Findings) -> Cloud:
    """The map of the first run."""
    result = findings.results[0]
    labels = sorted(set(result["label"]))
    points = [
        Point(x, y, labels.index(label), [findings.name_of(client), findings.label_of(label)])
        for x, y, label, client in zip(result["x"], result["y"], result["label"], result["client"], strict=True)
    ]
    groups = [findings.label_of(label) for label in labels]
    return Cloud(findings.method, ["client", "label"], points, groups, "Colour and shape: the label.")
