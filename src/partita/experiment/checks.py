"""Is the set-up sound? Nonsense is refused; a method that amounts to another one is noted."""

from collections.abc import Callable, Iterable, Sequence

from torch import nn

from ..core.algorithm import Algorithm, kept_names, shared_names
from ..core.batching import Batching
from ..core.client import Client
from ..core.phases import Phase
from ..core.task import Task
from ..data.federation import Federation
from ..errors import PartitaError
from ..formatting import amount


def check_algorithm(algorithm: Algorithm, client: Client) -> list[str]:
    """Resolve every selector against the network, and note a personal part that is empty or everything."""
    notes: list[str] = []
    network = client.task.network
    tensors = algorithm.expand(client)
    names = frozenset(tensors)
    shared_names(algorithm, client.task, names)
    kept_names(algorithm, client.task, names)
    phases = [stage for stage in (*algorithm.phases, *algorithm.finetune) if isinstance(stage, Phase)]
    if not set().union(*(phase.trained(network, names) for phase in phases)):
        raise PartitaError(
            f"{algorithm.label} trains no tensor of this network. Are all parameters frozen (requires_grad = False)?"
        )
    for phase in phases:
        if isinstance(phase.epochs, int) and phase.epochs < 0:
            raise PartitaError(f"{algorithm.label}: epochs of {phase.train} is {phase.epochs}, but must be at least 0.")
    if all(stage.epochs == 0 for stage in algorithm.phases if isinstance(stage, Phase)):
        notes.append(
            f"{algorithm.label}: every phase of a round has 0 epochs, so nothing is learned. Set epochs above 0."
        )
    if algorithm.personal is not None:
        personal = algorithm.personal(network, frozenset(network.parameters))
        if not personal:
            notes.append(f"{algorithm.name}: nothing is personal, so this is FedAvg. Choose a part to keep personal.")
        elif len(personal) == len(network.parameters):
            notes.append(
                f"{algorithm.name}: everything is personal, so this is local training. Choose a part to share."
            )
    return notes


def check_agreement(algorithm: Algorithm, first: Client, others: Iterable[Client]) -> None:
    """Shared tensors must agree in name and shape. Clients' networks may differ in what is not shared."""
    expected = _shared_shapes(algorithm, first)
    for client in others:
        found = _shared_shapes(algorithm, client)
        for name in sorted(expected.keys() | found.keys()):
            if expected.get(name) != found.get(name):
                raise PartitaError(
                    f"{algorithm.label} shares {name}, but it is {_shape(expected.get(name))} at {first} and "
                    f"{_shape(found.get(name))} at {client}. Clients may differ only in their personal part: choose "
                    "a method that keeps it personal (fedper, fedrep, fedsim, fedalt, local), or one network for all."
                )


def _shared_shapes(algorithm: Algorithm, client: Client) -> dict[str, tuple[int, ...]]:
    tensors = algorithm.expand(client)
    return {name: tuple(tensors[name].shape) for name in shared_names(algorithm, client.task, tensors)}


def _shape(shape: tuple[int, ...] | None) -> str:
    return "missing" if shape is None else " x ".join(map(str, shape)) or "a number"


def check_clients(data: Federation) -> None:
    """There must be clients, and each must have training samples."""
    if not len(data):
        raise PartitaError("There are no clients. Split the data among at least one.")
    if empty := [client for client, size in enumerate(data.sizes) if size == 0]:
        raise PartitaError(
            f"{_clients(data, empty)} without training samples. Split with a minimum size, or leave them out."
        )


def check_data(algorithm: Algorithm, task: Task, data: Federation, batching: Batching) -> list[str]:
    """Every client must be able to train: enough samples for a batch, and for a step of every phase."""
    sizes = data.sizes
    notes: list[str] = []
    if batching.drop_last and (small := [c for c, size in enumerate(sizes) if size < batching.size]):
        raise PartitaError(
            f"{_clients(data, small)} with fewer than {batching.size} samples would not train at all. Set drop_last to "
            "false, or use smaller batches."
        )
    if task.network.has_batch_norm:
        if batching.size == 1:
            raise PartitaError("Batch norm cannot train on batches of one sample. Use larger batches or group norm.")
        if single := [client for client, size in enumerate(sizes) if size == 1]:
            raise PartitaError(
                f"{_clients(data, single)} with one training sample cannot train a network with batch norm. Split with "
                "a minimum size of 2, or use group norm."
            )
    if algorithm.refinement and int(algorithm.refinement.fraction * sum(sizes)) == 0:
        notes.append(
            f"{algorithm.label}: a fraction of {algorithm.refinement.fraction} of {sum(sizes)} samples is no sample at "
            "all, so the server learns nothing. Raise the fraction."
        )
    needed = max((s.gradient.batches for s in algorithm.phases if isinstance(s, Phase)), default=1)
    least = min(size for size in range(batching.size * needed + 1) if _batches(size, batching, task) >= needed)
    idle = [client for client, size in enumerate(sizes) if size < least]
    if idle:
        notes.append(
            f"{algorithm.name}: a step needs {needed} batches; {_clients(data, idle)} with fewer will not train. "
            "Use smaller batches."
        )
    return notes


def check_participation(rounds: int, participants: Callable[[int], Sequence[int]]) -> None:
    """At least one client must take part in at least one round."""
    if not any(participants(round) for round in range(rounds)):
        raise PartitaError(
            "No client takes part in any round. Raise the participation, or put clients in the schedule."
        )


def check_evaluation(data: Federation, task: Task, batch: int) -> None:
    """At least one client must have test data, and the network must be able to evaluate every batch of them."""
    if not any(len(roles["test"]) for roles in data.roles):
        raise PartitaError("No client has test samples. Split the data with a part for testing.")
    flat = any(isinstance(m, nn.BatchNorm1d) and not m.track_running_stats for m in task.module.modules())
    if flat and any(len(roles["test"]) % batch == 1 for roles in data.roles):
        raise PartitaError(
            f"Batch norm without running statistics cannot evaluate a batch of one sample, and batches of {batch} "
            "leave such a batch. Change evaluation_batch, or keep running statistics (buffers = 'follow')."
        )


def _batches(samples: int, batching: Batching, task: Task) -> int:
    return batching.count(samples, task.network.has_batch_norm)


def _clients(data: Federation, clients: Sequence[int]) -> str:
    listed = ", ".join(map(data.name_of, clients[:10])) + (", ..." if len(clients) > 10 else "")
    return f"{amount(len(clients), 'client')} ({listed})"
