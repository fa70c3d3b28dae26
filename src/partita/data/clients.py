"""How do data in Python become a federation? By client, or with a client id for each row."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.utils.data import Dataset

from ..core.objectives import Problem
from ..core.signatures import check_names
from ..errors import PartitaError, unknown
from ..formatting import amount
from .arrays import Units, stack
from .datasets import Inputs, array_of, read_dataset, texts_of
from .federation import Division, Federation, federate
from .frames import Frame, columns_of, is_frame
from .pool import MOST_CLASSES, Array, Pool, number_clients, pool
from .split import ROLES, Assignment, Role, Rows, Share, Split, check_part, cut
from .text import text_pool

if TYPE_CHECKING:
    from typing_extensions import Unpack

Values = npt.ArrayLike | Tensor
"""Arrays, tensors, or lists of numbers or of texts."""
Part = tuple[Values, Values] | Dataset[Any] | Sequence[str]
"""Inputs and targets, or a torch dataset of such pairs; or texts of which the next word is to be predicted."""


@dataclass(frozen=True, eq=False)
class _Table:
    """All rows, and which of them each client has: by role, or to be cut into train and test."""

    inputs: Inputs
    targets: Array | None
    clients: Mapping[str, Mapping[Role, Rows]]


def from_clients(
    data: Mapping[Any, Part | Mapping[str, Part]] | Sequence[Dataset[Any]] | Dataset[Any] | Frame | Values,
    targets: Values | str | None = None,
    clients: Values | str | None = None,
    *,
    name: str = "data",
    kind: Problem = "classification",
    classes: int | None = None,
    indices: bool = False,
    text: Units = "words",
    test: float = 0.25,
    **division: "Unpack[Division]",
) -> Federation:
    """Make a federation of your own data, if you know which client each sample belongs to.

    By client: `from_clients({"anna": (inputs, targets), "ben": ...})`. Each value is a pair of inputs and targets, a
    torch dataset of such pairs, or a dictionary of those by part: "train", and optionally "test" and "validation". A
    list of datasets is of clients without names.

    By row: `from_clients(inputs, targets, clients)`, where `clients` is a text or a whole number for each row;
    `from_clients(dataset, clients=clients)` for one torch dataset; and `from_clients(frame, "label", "user")` for a
    data frame, with the names of the columns of targets and clients. All other columns are features.

    Arrays, tensors and lists are accepted. Labels are numbers from 0, or texts, which become the names of the classes.
    Bytes (uint8) are taken as images and scaled to 0..1. Other whole numbers become floating-point numbers, unless
    `indices` says that they number things, for instance films. Inputs may be texts; without targets, the next word is
    predicted.

    If there is no test part, the fraction `test` of each client's samples, at least one, is drawn at random for it.
    The other keyword arguments are those of `federate`.
    """
    check_names("from_clients", division, [*inspect.signature(from_clients).parameters, *Division.__annotations__])
    check_part("test", test)
    if isinstance(data, Mapping):
        _refuse_more(name, targets, clients)
        table = _by_client(data, name, kind, classes, indices)
    elif isinstance(data, list | tuple) and data and all(isinstance(each, Dataset) for each in data):
        _refuse_more(name, targets, clients)
        table = _by_client(dict(enumerate(data)), name, kind, classes, indices)
    else:
        together = isinstance(data, tuple) and len(data) == 3 and targets is None and clients is None
        given: Any = data if together else (data, targets, clients)
        inputs, labels, owners = given
        table = _by_row(inputs, labels, owners, name, indices)
    made = _pool(name, table.inputs, table.targets, kind, classes, text)
    return federate(made, _as_given(table.clients, test), **division)


def _as_given(clients: Mapping[str, Mapping[Role, Rows]], test: float) -> Split:
    def assign(pool: Pool, draw: np.random.RandomState) -> Assignment:
        return Assignment([_share(name, roles, test, draw) for name, roles in clients.items()])

    return Split("as_given", {"test": test}, assign=assign)


def _share(name: str, roles: Mapping[Role, Rows], test: float, draw: np.random.RandomState) -> Share:
    drawn = Share(roles["train"], roles["test"]) if "test" in roles else cut(roles["train"], test, draw)
    return Share(drawn.train, drawn.test, name, validation=roles.get("validation"))


def _pool(
    name: str, inputs: Inputs, targets: Array | None, kind: Problem, classes: int | None, text: Units = "words"
) -> Pool:
    if isinstance(inputs, list):
        return text_pool(name, inputs, targets, kind=kind, characters=text == "characters", classes=classes)
    if targets is None:
        raise PartitaError(
            f"{name}: there are inputs, but no targets. Give targets; only texts can do without, to predict the next "
            "word."
        )
    return pool(name, inputs, targets, kind=kind, classes=classes)


# Client by client


def _by_client(data: Mapping[Any, Any], name: str, kind: Problem, classes: int | None, indices: bool) -> _Table:
    if not data:
        raise PartitaError(f"{name}: there are no clients. Give at least one.")
    blocks: list[tuple[str, Inputs, Array | None]] = []
    clients: dict[str, dict[Role, Rows]] = {}
    count = 0
    for key, value in data.items():
        client = _client_name(key, name)
        if client in clients:
            raise PartitaError(f"{name}: two clients are called {client!r}. Give each a name of its own.")
        clients[client] = {}
        for role, part in _parts(value, f"{name}, client {client}").items():
            where = f"{name}, client {client}" + (f", {role}" if isinstance(value, Mapping) else "")
            inputs, targets = _read(part, where, indices)
            _check_block(where, inputs, targets, kind, classes)
            blocks.append((where, inputs, targets))
            clients[client][role] = np.arange(count, count + len(inputs))
            count += len(inputs)
    _check_roles_given(name, clients)
    _check_two(name, clients)
    return _Table(
        _joined([(f"{where}: the array of inputs", inputs) for where, inputs, _ in blocks]),
        _joined_targets([(f"{where}: the array of targets", targets) for where, _, targets in blocks]),
        clients,
    )


def _client_name(key: object, name: str) -> str:
    if isinstance(key, bool) or not isinstance(key, str | int | np.integer) or key == "":
        raise PartitaError(f"{name}: a client is called {key!r}. Call clients by a text or a whole number.")
    return str(key)


def _parts(value: object, where: str) -> dict[Role, object]:
    if not isinstance(value, Mapping):
        return {"train": value}
    for role in value:
        if role not in ROLES:
            raise PartitaError(f"{where}: {unknown('part', str(role), ROLES)}")
    if "train" not in value:
        raise PartitaError(f"{where}: there is no part 'train'.")
    return {role: value[role] for role in ROLES if role in value}


def _read(part: Any, where: str, indices: bool) -> tuple[Inputs, Array | None]:
    if isinstance(part, Dataset):
        inputs, targets = read_dataset(part, where)
        return _as_numbers(inputs, indices), targets
    if isinstance(part, tuple) and len(part) == 2 and not isinstance(part[0], str):
        return _inputs(part[0], where, indices), _rows(part[1], where, "targets")
    if (texts := texts_of(part)) is not None:
        return texts, None
    raise PartitaError(
        f"{where}: a value of type {type(part).__name__} was given. Give a tuple (inputs, targets), a torch dataset, "
        "or {'train': ..., 'test': ...} of such."
    )


def _check_block(where: str, inputs: Inputs, targets: Array | None, kind: Problem, classes: int | None) -> None:
    """The same checks as of all rows together, so that errors name the client and count its rows."""
    if targets is not None and len(targets) != len(inputs):
        raise PartitaError(
            f"{where}: {len(inputs)} inputs, but {len(targets)} targets. They must be of the same length."
        )
    if classes is None and kind == "classification" and targets is not None and targets.dtype.kind in "biuf":
        # A client need not have all classes that others have.
        classes = min(int(np.nan_to_num(targets.max(initial=0))) + 1, MOST_CLASSES)
    elif targets is not None and targets.dtype.kind in "UOT":
        classes = None
    # Texts are read later, all of them together.
    _pool(where, [""] * len(inputs) if isinstance(inputs, list) else inputs, targets, kind, classes)


def _check_roles_given(name: str, clients: Mapping[str, Mapping[Role, Rows]]) -> None:
    first, like = next(iter(clients.items()))
    for client, roles in clients.items():
        if roles.keys() != like.keys():
            raise PartitaError(
                f"{name}: client {first} comes with {' and '.join(like)}, client {client} with {' and '.join(roles)}. "
                "Give all clients the same parts."
            )


def _check_two(name: str, clients: Mapping[str, Mapping[Role, Rows]]) -> None:
    few = [client for client, roles in clients.items() if "test" not in roles and len(roles["train"]) < 2]
    if few:
        listed = ", ".join(few[:10]) + (", ..." if len(few) > 10 else "")
        raise PartitaError(
            f"{name}: {amount(len(few), 'client')} with a single sample ({listed}). Two are needed, one to train and "
            "one to test: leave such clients out, or give test data."
        )


def _joined(blocks: list[tuple[str, Inputs]]) -> Inputs:
    texts = [(where, inputs) for where, inputs in blocks if isinstance(inputs, list)]
    arrays = [(where, inputs) for where, inputs in blocks if not isinstance(inputs, list)]
    if texts and arrays:
        raise PartitaError(f"{texts[0][0]} is of texts, but {arrays[0][0]} is of numbers. Give all clients the same.")
    return [each for _, inputs in texts for each in inputs] if texts else stack(arrays)


def _joined_targets(blocks: list[tuple[str, Array | None]]) -> Array | None:
    known = [(where, targets) for where, targets in blocks if targets is not None]
    if known and len(known) < len(blocks):
        lacking = next(where for where, targets in blocks if targets is None)
        raise PartitaError(f"{lacking} is missing, unlike {known[0][0]}. Give it for all clients or for none.")
    return stack(known) if known else None


# Row by row


def _by_row(data: Any, targets: Any, clients: Any, name: str, indices: bool) -> _Table:
    inputs: Inputs
    if clients is None:
        raise PartitaError(
            f"{name}: the client of each row is missing. Give clients, a name or a number for each row, or a "
            "dictionary of clients. Data without clients are divided by a split: federate(pool(...), dirichlet())."
        )
    if is_frame(data):
        inputs, labels, ids = columns_of(data, targets, clients, name)
    elif isinstance(data, Dataset):
        if targets is not None:
            raise PartitaError(f"{name}: a torch dataset has its own targets. Omit the argument targets.")
        found, labels = read_dataset(data, name)
        inputs, ids = _as_numbers(found, indices), clients
    else:
        inputs, ids = _inputs(data, name, indices), clients
        labels = None if targets is None else _rows(targets, name, "targets")
    owners, names = number_clients(_identifiers(ids, name), name)
    assert owners is not None
    lengths = [(len(inputs), "inputs"), (len(owners), "client ids")]
    if labels is not None:
        lengths.insert(1, (len(labels), "targets"))
    if len({length for length, _ in lengths}) > 1:
        counted = ", ".join(f"{length} {what}" for length, what in lengths)
        raise PartitaError(f"{name}: {counted}. They must be of the same length.")
    numbers = owners.numpy()
    rows = np.split(np.argsort(numbers, kind="stable"), np.cumsum(np.bincount(numbers))[:-1]) if names else []
    found_clients: dict[str, dict[Role, Rows]] = {
        client: {"train": own} for client, own in zip(names, rows, strict=True)
    }
    _check_two(name, found_clients)
    return _Table(inputs, labels, found_clients)


# What everything is made of


def _inputs(values: Any, where: str, indices: bool) -> Inputs:
    texts = texts_of(values)
    return _as_numbers(_rows(values, where, "inputs"), indices) if texts is None else texts


def _rows(values: Any, where: str, what: str) -> Array:
    found = array_of(values, f"{where}: the {what}")
    if found.ndim == 0:
        raise PartitaError(
            f"{where}: the {what} are a single value of type {type(values).__name__}. Give a row for each sample."
        )
    return found


def _as_numbers(values: Inputs, indices: bool) -> Inputs:
    """Whole numbers, other than bytes, as what networks compute with, unless they number things."""
    if isinstance(values, list) or indices or values.dtype == np.uint8 or values.dtype.kind not in "biu":
        return values
    return values.astype(np.float64)


def _identifiers(ids: Any, name: str) -> Array:
    # Of objects: numpy would otherwise make text of a number beside one.
    return np.array(ids, dtype=object) if isinstance(ids, list | tuple) else _rows(ids, name, "client ids")


def _refuse_more(name: str, targets: object, clients: object) -> None:
    if targets is not None or clients is not None:
        raise PartitaError(
            f"{name}: data given by client have their own targets and clients. Omit the arguments targets and clients."
        )
