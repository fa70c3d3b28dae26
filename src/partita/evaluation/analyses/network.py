"""What is shared and what is personal? The partition of the network by the method."""

from typing import TYPE_CHECKING

from ..analysis import Analysis, Result
from ..figures import Table
from ..metric import Metric

if TYPE_CHECKING:
    from ..population import Population


def network() -> Analysis:
    """The tensors that the method shares, keeps, trains and freezes, its phases, and the bytes of a round."""
    return Analysis(
        name="network",
        title="Partition of the network",
        compute=_partition,
        tables=_tables,
        when="start",
        section="network",
    )


def _partition(population: "Population") -> Result:
    from ..partition import partition

    return partition(population.algorithm, population.task).as_dict()


def _tables(result: Result, metric: Metric) -> list[Table]:
    parts = ("parameters", "shared", "personal", "frozen")
    return [Table(["method", *parts], [[result["algorithm"], *(f"{result[part]:,}" for part in parts)]])]
