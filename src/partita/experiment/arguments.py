"""Are these the parts of an experiment? If not, what was given and how to make what is needed."""

import inspect
from types import FunctionType

import torch
from torch import Tensor, nn

from ..core.algorithm import Algorithm
from ..core.signatures.kinds import shown
from ..data.federation import Federation
from ..data.pool import Pool
from ..errors import PartitaError
from ..formatting import amount

FROM_CLIENTS = "from_clients(inputs, targets, clients)"


def need_parts(algorithm: object, model: object, data: object) -> None:
    """Refuses what is no algorithm, network or data."""
    need_algorithm(algorithm)
    if isinstance(model, type) and issubclass(model, nn.Module):
        pass
    elif not isinstance(model, nn.Module) and not callable(model):
        hint = f" Import it: from partita import {model}." if isinstance(model, str) and model.isidentifier() else ""
        raise PartitaError(
            f"The model is {shown(model)}: it must be a torch.nn.Module, its class, or a function that makes one.{hint}"
        )
    need_data(data)


def need_algorithm(algorithm: object) -> None:
    if isinstance(algorithm, Algorithm):
        return
    if inspect.isfunction(algorithm):
        raise PartitaError(f"The algorithm is {shown(algorithm)}, not what it makes.{_call_of(algorithm)}")
    hint = " Import and call it: from partita import fedper; fedper()." if isinstance(algorithm, str) else ""
    raise PartitaError(f"The algorithm is {shown(algorithm)}: it must be an Algorithm, such as fedper().{hint}")


def need_data(data: object) -> None:
    if isinstance(data, Federation | Pool):
        return
    if inspect.isfunction(data):
        raise PartitaError(f"The data are {shown(data)}, not what it makes.{_call_of(data)}")
    if hasattr(data, "columns") and hasattr(data, "to_numpy"):
        way = 'from_clients(frame, "LABEL", "CLIENT"), with the names of two of its columns'
    elif isinstance(data, Tensor) or hasattr(data, "__array__"):
        way = f"{FROM_CLIENTS}, with a client's name for each row"
    elif isinstance(data, dict):
        way = "from_clients(data), with (inputs, targets) for each client"
    elif isinstance(data, tuple | list):
        way = f"{FROM_CLIENTS}, or from_clients({{client: (inputs, targets), ...}})"
    elif isinstance(data, torch.utils.data.DataLoader):
        way = "from_clients(loader.dataset, clients=...), with a client's name for each sample"
    elif isinstance(data, torch.utils.data.Dataset):
        way = "from_clients(dataset, clients=...), or federate(from_dataset(dataset)) for synthetic clients"
    else:
        way = f"{FROM_CLIENTS}, or take a data source such as digits()"
    what = "None" if data is None else f"a {type(data).__name__}"
    raise PartitaError(f"The data are {what}, which does not name the client of each sample. Give {way}.")


def _call_of(function: FunctionType) -> str:
    if not function.__name__.isidentifier():
        return " Is the order right? First the algorithm, then the model, then the data."
    return f" Call it: {function.__name__}()."


def need_device(name: str) -> None:
    """A device must be one that shortcuts and random numbers know, and be there."""
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise PartitaError(f"device is {name!r}, but must be 'cpu', 'cuda', or 'cuda:1' for the second such device.")
    if device.type == "cuda" and (device.index or 0) >= (found := torch.cuda.device_count()):
        there = f"finds {amount(found, 'such device')}" if found else "finds no such device"
        raise PartitaError(f"device is {name!r}, but torch {there} on this machine. Set device = 'cpu'.")
