"""How does an algorithm divide a network? Into shared, personal and frozen tensors."""

from ...core.algorithm import Algorithm
from ...core.task import Task
from ...errors import warn
from ...evaluation.partition import Partition, client_without_data, partition
from ..checks import check_algorithm


def describe(algorithm: Algorithm, task: Task) -> Partition:
    """Resolve an algorithm against a network. A combination that makes no sense is refused."""
    for note in check_algorithm(algorithm, client_without_data(task)):
        warn(note)
    return partition(algorithm, task)
