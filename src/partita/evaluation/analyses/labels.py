"""Who has which labels? Counts by client and role, for the report."""

from typing import TYPE_CHECKING

from ..analysis import Analysis, Result, needs_classes
from ..figures import Table
from ..metric import Metric

if TYPE_CHECKING:
    from ..population import Population

MOST_CLIENTS = 1000
"""If there are more clients, the labels of a sample are stored; the sample is the same for every run."""


def labels() -> Analysis:
    """How many samples of each label each client has."""
    return Analysis(
        name="labels",
        title="Labels over clients",
        compute=_count,
        obstacle=needs_classes,
        tables=_tables,
        when="start",
        section="labels",
    )


def _count(population: "Population") -> Result:
    from ...data.distribution import label_counts
    from ...data.split import ROLES
    from ..population import fixed_sample

    data = population.data
    clients = list(fixed_sample(range(len(data)), MOST_CLIENTS))
    counts = {str(role): label_counts(data, (role,), clients).tolist() for role in ROLES}
    return {"classes": data.classes, "names": list(data.class_names), "clients": clients, **counts}


def _tables(result: Result, metric: Metric) -> list[Table]:
    from ...data.split import ROLES

    rows = [[role, f"{sum(map(sum, result[role])):,}"] for role in ROLES]
    return [Table(["role", "samples"], rows, note=f"{len(result['clients']):,} clients, {result['classes']:,} labels.")]
