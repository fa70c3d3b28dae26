"""How good is a constant answer? Each client's test score if it always gave its best constant."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from ..analysis import Analysis, Result, needs_samples
from ..figures import Table
from ..metric import Metric

if TYPE_CHECKING:
    from ..population import Population


def floor() -> Analysis:
    """The test score of the best constant answer of each client: its most common label, or its mean."""
    return Analysis(
        name="floor",
        title="The floor",
        compute=_floor,
        obstacle=_needs_test_data,
        tables=_tables,
        when="start",
        section="headline",
    )


def _needs_test_data(population: "Population") -> str | None:
    tested = any(len(roles["test"]) for roles in population.data.roles)
    return needs_samples(population) if tested else "No client has test samples."


def _floor(population: "Population") -> Result:
    from ...data.distribution import floor as floor_of

    data = population.data
    return asdict(floor_of(data, sorted(set(range(len(data))) - data.newcomers)))


def _tables(result: Result, metric: Metric) -> list[Table]:
    row = ["floor", metric.text(result["macro"]), metric.text(result["micro"]), f"{len(result['clients']):,}"]
    return [Table([f"test {metric.name}", "mean", "all samples", "clients"], [row])]
