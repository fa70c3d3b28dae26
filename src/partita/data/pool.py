"""What data are there, before they are divided among clients?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..core.objectives import Problem
from ..core.samples import AS_STORED, Preparation
from ..errors import PartitaError
from ..threads import one_thread
from .targets import check_class_names, numbers_of, read_targets

Array = npt.NDArray[np.generic]
MOST_CLASSES = 1_000_000


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts as word numbers, all in one array: text i is tokens[bounds[i]:bounds[i + 1]]."""

    tokens: npt.NDArray[np.int32]
    bounds: npt.NDArray[np.int64]
    words: Sequence[str]
    characters: bool = False
    """Whether the words are single characters."""

    def __len__(self) -> int:
        return len(self.bounds) - 1


@dataclass(frozen=True, eq=False)
class Pool:
    """Samples with their labels; where known, which client each belongs to and whether it is of the official test set.

    `inputs` are numbers, or texts that become numbers when the training part is known. `facts` are what networks may
    ask for beside shape and classes, for instance the number of items.
    """

    name: str
    inputs: Tensor | Texts
    targets: Tensor
    classes: int
    kind: Problem = "classification"
    clients: Tensor | None = None
    client_names: Sequence[str] = ()
    official_test: Tensor | None = None
    preparation: Preparation = AS_STORED
    length: int | None = None
    """How many words of a text are used, unless `federate` sets another length."""
    facts: Mapping[str, int] = field(default_factory=dict)
    rows_identify: bool = True
    """Whether equal inputs mean the same sample. They do not for ratings: many people rate the same film."""
    class_names: Sequence[str] = ()
    """One for each class. Without names, classes are called by their numbers."""
    settings: Mapping[str, object] | None = field(default=None, init=False, repr=False)
    """The name and the arguments of the source that made it; a changed copy has none."""

    def __post_init__(self) -> None:
        _check(self)

    def __len__(self) -> int:
        return len(self.targets)

    def rows(self, *, test: bool) -> npt.NDArray[np.int64]:
        """The indices of the official test set, or of all other rows."""
        if self.official_test is None:
            raise PartitaError(
                f"{self.name} has no official test set. Take a split that cuts one for each client: iid or dirichlet."
            )
        return np.flatnonzero(self.official_test.numpy() == test)

    def named(self, class_names: Sequence[str]) -> "Pool":
        """The same pool with names of its classes, unless its labels were names."""
        return replace(self, class_names=self.class_names or tuple(class_names))

    def normalized(self, mean: Sequence[float], std: Sequence[float]) -> "Pool":
        """The same pool with inputs normalised by channel."""
        if min(std) <= 0:
            raise PartitaError(f"{self.name}: a standard deviation of {min(std)}; it must be above 0.")
        shape = (-1, *(1,) * (self.inputs.ndim - 2)) if isinstance(self.inputs, Tensor) else (-1,)
        kind = torch.get_default_dtype()
        preparation = replace(
            self.preparation,
            mean=torch.tensor(mean, dtype=kind).reshape(shape),
            std=torch.tensor(std, dtype=kind).reshape(shape),
        )
        return replace(self, preparation=preparation)


def pool(
    name: str,
    inputs: Array,
    targets: Array,
    *,
    classes: int | None = None,
    kind: Problem = "classification",
    clients: Array | None = None,
    official_test: Array | None = None,
    facts: Mapping[str, int] | None = None,
    rows_identify: bool = True,
) -> Pool:
    """Plain arrays as a pool.

    Images of bytes may be (count, height, width) or (count, height, width, channels); they become channels first.
    """
    values = numbers_of(name, "inputs", _channels_first(name, inputs))
    if values.is_floating_point():
        values = values.to(torch.get_default_dtype())
    elif values.dtype != torch.uint8:
        values = values.to(torch.int64)
    return pool_of(
        name,
        values,
        targets,
        kind,
        classes=classes,
        clients=clients,
        official_test=official_test,
        facts=facts,
        rows_identify=rows_identify,
    )


def pool_of(
    name: str,
    inputs: Tensor | Texts,
    targets: Array,
    kind: Problem,
    *,
    classes: int | None,
    clients: Array | None,
    official_test: Array | None,
    facts: Mapping[str, int] | None = None,
    rows_identify: bool = True,
) -> Pool:
    """The pool of inputs that are read already."""
    labels, count, class_names = read_targets(name, targets, kind, classes)
    owners, names = number_clients(clients, name)
    return Pool(
        name,
        inputs,
        labels,
        count,
        kind=kind,
        clients=owners,
        client_names=names,
        official_test=None if official_test is None else torch.from_numpy(official_test.astype(bool)),
        facts=facts or {},
        rows_identify=rows_identify,
        class_names=class_names,
    )


def number_clients(clients: Array | None, name: str = "data") -> tuple[Tensor | None, Sequence[str]]:
    """Client ids as numbers from 0, in sorted order, and the name of each client: its id as text."""
    if clients is None:
        return None, ()
    unique, numbers = np.unique(_identifiers(clients, name), return_inverse=True)
    return torch.from_numpy(numbers.astype(np.int64)), tuple(map(str, unique.tolist()))


def _identifiers(clients: Array, name: str) -> Array:
    """One text or one whole number for each row."""
    if clients.ndim != 1:
        raise PartitaError(f"{name}: the client ids have shape {clients.shape}. Give one id for each row.")
    if clients.dtype.kind == "S":
        clients = np.char.decode(clients.astype(np.bytes_), "utf-8", "replace")
    if clients.dtype.kind in "OT":
        kinds = {_kind(each) for each in clients.tolist()}
        if len(kinds) > 1 or not kinds <= {str, int}:
            raise PartitaError(
                f"{name}: the client ids are of type {' and '.join(sorted(kind.__name__ for kind in kinds))}. Give one "
                "text or one whole number for each row."
            )
    elif clients.dtype.kind == "f":
        if len(wrong := np.flatnonzero(~np.isfinite(clients) | (clients != np.trunc(clients)))):
            raise PartitaError(
                f"{name}: the client id of row {wrong[0]} is {clients[wrong[0]]}. Give text or whole numbers."
            )
        clients = clients.astype(np.int64)
    elif clients.dtype.kind not in "biuU":
        raise PartitaError(f"{name}: the client ids are of type {clients.dtype}. Give text or whole numbers.")
    if clients.dtype.kind in "UOT" and len(empty := np.flatnonzero(clients == "")):
        raise PartitaError(f"{name}: the client id of row {empty[0]} is empty. Give every client a name.")
    return clients


def _kind(identifier: object) -> type:
    if isinstance(identifier, np.integer):
        return int
    return str if isinstance(identifier, str) else type(identifier)


def _channels_first(name: str, inputs: Array) -> Array:
    """Images of bytes, with channels first. Other numbers stay, but images with channels last are refused."""
    if inputs.dtype == np.uint8 and inputs.ndim == 3:
        return inputs[:, None]
    if inputs.ndim != 4:
        return inputs
    _, first, second, last = inputs.shape
    if inputs.dtype == np.uint8 and (last in (1, 3) or (last in (2, 4) and first > 4)):
        return inputs.transpose(0, 3, 1, 2)
    if last in (1, 3, 4) and first == second > 4:
        raise PartitaError(
            f"{name}: the inputs have shape {inputs.shape}, like images with their channels last. Put the channels "
            "first: inputs.transpose(0, 3, 1, 2)."
        )
    return inputs


def _check(pool: Pool) -> None:
    count = len(pool.targets)
    if count == 0:
        raise PartitaError(f"{pool.name}: there are no samples.")
    for what, length in (
        ("inputs", len(pool.inputs)),
        ("clients", len(pool.clients) if pool.clients is not None else count),
        ("official_test", len(pool.official_test) if pool.official_test is not None else count),
    ):
        if length != count:
            raise PartitaError(f"{pool.name}: {length} {what}, but {count} targets. They must be of the same length.")
    if isinstance(pool.inputs, Tensor) and pool.inputs.is_floating_point():
        _check_finite(f"{pool.name}: inputs", pool.inputs)
    if pool.kind == "regression":
        _check_finite(f"{pool.name}: targets", pool.targets)
    elif pool.kind == "classification":
        check_class_names(pool.name, pool.class_names, pool.classes)
        if pool.classes > MOST_CLASSES:
            raise PartitaError(f"{pool.name}: {pool.classes} classes are too many; at most {MOST_CLASSES} are allowed.")
        wrong = torch.nonzero((pool.targets < 0) | (pool.targets >= pool.classes)).flatten()
        if len(wrong):
            row = int(wrong[0])
            raise PartitaError(
                f"{pool.name}: the label of row {row} is {int(pool.targets[row])}, outside 0..{pool.classes - 1} "
                f"({len(wrong)} such rows). Number the classes from 0, or say how many there are."
            )


@one_thread()
def _check_finite(what: str, values: Tensor) -> None:
    finite = torch.isfinite(values).reshape(len(values), -1).all(1)
    if not bool(finite.all()):
        row = int(torch.nonzero(~finite)[0])
        raise PartitaError(
            f"{what}: row {row} holds a value that is not a finite number ({int((~finite).sum())} such rows). Replace "
            "such values, or leave the rows out."
        )
