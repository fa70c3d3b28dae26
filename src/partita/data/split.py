"""Which samples go to which client? A split is a value; it assigns a pool's rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Literal, ParamSpec, get_args

import numpy as np
import numpy.typing as npt

from ..core.signatures import bound
from ..errors import PartitaError
from ..randomness import derive
from .pool import Pool

Role = Literal["train", "validation", "test"]
ROLES: tuple[Role, ...] = get_args(Role)
Rows = npt.NDArray[np.int64]
Arguments = ParamSpec("Arguments")


@dataclass(frozen=True, eq=False)
class Share:
    """One client's rows."""

    train: Rows
    test: Rows
    name: str = ""
    validation: Rows | None = None
    """Given by some splits; otherwise they are cut from the training rows."""


@dataclass(frozen=True, eq=False)
class Assignment:
    """Every client's rows, and notes on what the split did to get there."""

    shares: Sequence[Share]
    notes: Sequence[str] = ()
    newcomers: frozenset[int] | None = None
    """Given by some splits; otherwise they are drawn."""


Assign = Callable[[Pool, np.random.RandomState], Assignment]


@dataclass(frozen=True, eq=False)
class Split:
    name: str
    settings: Mapping[str, object] = field(default_factory=dict)
    assign: Assign = field(repr=False, kw_only=True)

    def __call__(self, pool: Pool, seed: int) -> Assignment:
        return self.assign(pool, np.random.RandomState(derive(seed, "split") % 2**32))


def splitting(make: Callable[Arguments, Assign]) -> Callable[Arguments, Split]:
    """Decorate a function that returns an `Assign`: it returns a `Split` with its name and settings instead."""

    @wraps(make)
    def named(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Split:
        given = bound(make, args, kwargs)
        made = make(*given.args, **given.kwargs)
        given.apply_defaults()
        return Split(make.__name__, given.arguments, assign=made)

    return named


def check_part(what: str, part: float | None) -> None:
    """Refuse a fraction that leaves nothing for training."""
    if part is not None and not 0 <= part < 1:
        raise PartitaError(f"{what} is {part}, but must be at least 0 and below 1.")


def check_least(least: int, **settings: float | None) -> None:
    """Refuse settings that are below the least value, infinite or not a number; None is not given."""
    for name, value in settings.items():
        if value is not None and not least <= value < float("inf"):
            allowed = "finite" if value >= least else f"at least {least}"
            raise PartitaError(f"{name} is {value}, but must be {allowed}.")


def cut(rows: Rows, test: float, draw: np.random.RandomState) -> Share:
    """Cut one client's rows at random into train (rounded down) and test (at least one)."""
    check_part("test", test)
    order = draw.permutation(rows)
    training = min(int((1 - test) * len(order) + 1e-9), len(order) - 1)
    return Share(np.sort(order[:training]), np.sort(order[training:]))


def enough(pool: Pool, clients: int, each: int = 1, count: int | None = None) -> None:
    """Refuse a number of clients for which there are too few samples."""
    available = len(pool) if count is None else count
    if clients < 1:
        raise PartitaError(f"clients is {clients}, but must be at least 1.")
    if clients * each > available:
        raise PartitaError(
            f"{available} samples of {pool.name} cannot give {clients} clients at least {each} each. Take fewer "
            "clients or a smaller minimum."
        )


def dirichlet_shares(alpha: float, clients: int, draw: np.random.RandomState) -> npt.NDArray[np.float64]:
    """A draw from Dirichlet(alpha). If a tiny alpha underflows, one client gets everything."""
    if not 0 < alpha < float("inf"):
        raise PartitaError(
            f"alpha is {alpha}, but must be above 0 and finite; small values make clients more different."
        )
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: npt.NDArray[np.float64] = draw.dirichlet(np.repeat(alpha, clients))
    if np.isfinite(shares).all():
        return shares
    one = np.zeros(clients)
    one[draw.randint(clients)] = 1.0
    return one


def by_class(pool: Pool, rows: Rows | None = None) -> list[Rows]:
    """The rows of each class, in the order of the data."""
    if pool.kind != "classification":
        raise PartitaError(f"{pool.name} has no classes to split by. Take iid, quantity or natural.")
    chosen = np.arange(len(pool)) if rows is None else rows
    labels = pool.targets.numpy()[chosen]
    counts = np.bincount(labels, minlength=pool.classes)
    return np.split(chosen[np.argsort(labels, kind="stable")], np.cumsum(counts)[:-1])


def draws(count: int) -> list[str]:
    """A note if a division was drawn more than once."""
    return [] if count == 1 else [f"drawn {count} times, because clients had too few samples"]


def top_up_(parts: list[Rows], least: int, draw: np.random.RandomState) -> int:
    """Move samples at random from the largest clients to those below the minimum; return how many."""
    moved = 0
    for client in range(len(parts)):
        while (missing := least - len(parts[client])) > 0:
            giver = max(range(len(parts)), key=lambda other: len(parts[other]))
            count = min(missing, max((len(parts[giver]) - least) // 2, 1))
            order = draw.permutation(parts[giver])
            parts[giver], parts[client] = order[count:], np.append(parts[client], order[:count])
            moved += count
    return moved
