"""Data that FL-bench generated, https://github.com/KarhouTam/FL-bench"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from ...errors import PartitaError
from ..arrays import load_npy, naming
from ..datasets import owners_of
from ..pool import Array, Pool, Texts, number_clients, pool
from ..source import source
from ._files import read_bytes
from ._pickles import unpickle
from .cifar10 import cifar10
from .cifar100 import cifar100
from .mnist import mnist

# FL-bench leaves these where torchvision puts them; its rows are train, then test, as here.
SOURCES = {"cifar10": cifar10, "cifar100": cifar100, "mnist": mnist}


@source
def flbench(*, path: str) -> Pool:
    """A folder that FL-bench generated (partition.pkl; data.npy and targets.npy), with its clients and test rows.

    Rows for validation count as training rows: `federate` holds out its own.
    """
    root = Path(path)
    if not root.is_dir():
        raise PartitaError(f"There is no folder {root}.")
    everything = _everything(root)
    file = root / "partition.pkl"
    with naming(file):
        clients = _clients(file)
        rows, owners = owners_of(
            [[row for each in roles.values() for row in each] for roles in clients], len(everything)
        )
    assert not isinstance(everything.inputs, Texts)
    tested = [row for roles in clients for row in roles.get("test", ())]
    numbers, names = number_clients(owners)
    return replace(
        everything,
        inputs=everything.inputs[rows],
        targets=everything.targets[rows],
        clients=numbers,
        client_names=names,
        official_test=torch.from_numpy(np.isin(rows, tested)),
    )


def _everything(root: Path) -> Pool:
    if (root / "data.npy").exists():
        data, targets = load_npy(root / "data.npy"), load_npy(root / "targets.npy")
        with naming(root):
            return pool(root.name, _images(data, root.name), targets)
    if root.name in SOURCES:
        return SOURCES[root.name]()
    raise PartitaError(
        f"{root} has no data.npy, and {root.name!r} is none of {', '.join(SOURCES)}, whose rows are known. Write the "
        "inputs and targets to data.npy and targets.npy there."
    )


def _images(data: Array, name: str) -> Array:
    """Images as FL-bench reads them: channels first, from 0 to 1."""
    if name == "femnist" and data.ndim == 2 and data.shape[1] == 784:
        data = data.reshape(-1, 1, 28, 28)
    if data.dtype != np.uint8 and data.ndim == 4:
        data = data.transpose(0, 3, 1, 2) if data.shape[-1] in (1, 3) else data
        data = np.divide(data, np.float32(255)) if data.max(initial=0) > 1 else data
    return data


def _clients(file: Path) -> list[dict[str, list[int]]]:
    """The rows of each client by role."""
    partition = unpickle(read_bytes(file), file)
    clients = partition.get("data_indices") if isinstance(partition, dict) else None
    if not isinstance(clients, list) or not all(isinstance(each, dict) and "train" in each for each in clients):
        raise PartitaError("it has no data_indices with train and test of each client, as FL-bench writes them.")
    return [
        {role: _rows(rows, f"the {role} rows of client {client}") for role, rows in each.items()}
        for client, each in enumerate(clients)
    ]


def _rows(rows: object, what: str) -> list[int]:
    flat = rows.reshape(-1).tolist() if isinstance(rows, np.ndarray) else rows
    # Looked at one by one: numpy would unfold a small list of lists of lists to any size.
    if not isinstance(flat, list) or not all(isinstance(row, int | np.integer) for row in flat):
        raise PartitaError(f"{what} are not a list of whole numbers.")
    return [int(row) for row in flat]
