"""Who takes part, and with which data? Clients by number, each with three disjoint roles of data."""

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

from ..core.objectives import Problem
from ..core.samples import Preparation, Samples
from ..core.signatures import named_arguments
from ..errors import PartitaError
from ..randomness import derive, generator
from .duplicates import check_duplicates
from .manifests import fingerprint
from .names import find_client
from .pool import Pool, Texts
from .roles import check_fraction, check_roles, in_one_piece, reduced, roles_of
from .source import division_settings
from .split import Role, Split, check_least, check_part
from .splits.dirichlet import dirichlet
from .splits.natural import natural
from .targets import check_class_names
from .text import encode


@dataclass(frozen=True, eq=False)
class ClientData:
    """A client's samples by role. No sample has more than one role."""

    train: Samples
    validation: Samples
    test: Samples


@dataclass(frozen=True, eq=False)
class Federation:
    """All samples in one place, and for each client the rows of each role."""

    samples: Samples
    roles: Sequence[Mapping[Role, Tensor]]
    classes: int
    name: str = "data"
    kind: Problem = "classification"
    facts: Mapping[str, int] = field(default_factory=dict)
    """Values that networks may ask for besides shape and classes."""
    label_sets: Sequence[Tensor] = ()
    """The classes that each client has, if clients number their own."""
    newcomers: frozenset[int] = frozenset()
    """Clients that never train; they show how new clients fare."""
    names: Sequence[str] = ()
    """One name for each client. Without names, clients are called by their numbers."""
    class_names: Sequence[str] = ()
    """One name for each class. Without names, classes are called by their numbers."""
    origin: Mapping[str, object] = field(default_factory=dict)
    """Where the division came from: data, split with settings, seed and notes. It is part of the manifest."""
    settings: Mapping[str, object] | None = field(default=None, repr=False)
    """The data settings, as in an experiment file, from which this federation can be made again; None if unknown."""
    pool: Pool | None = field(default=None, repr=False)
    """The data before they were divided; None for data that come divided."""

    def __post_init__(self) -> None:
        _check_names(self)
        check_class_names(self.name, self.class_names, self.classes)

    def __len__(self) -> int:
        return len(self.roles)

    def __getitem__(self, client: int) -> ClientData:
        samples = self.samples
        if self.label_sets:
            samples = samples.relabelled(self.label_sets[client], self.classes)
        return ClientData(**{role: samples.take(rows) for role, rows in self.roles[client].items()})

    def name_of(self, client: int) -> str:
        """The name of a client."""
        return self.names[client] if self.names else str(client)

    def client(self, name_or_number: str | int) -> int:
        """The number of a client, given its name (a text) or its number."""
        return find_client(name_or_number, self._numbers, self.name)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {self.name_of(client): client for client in range(len(self))}

    def classes_of(self, client: int) -> int:
        """How many classes a client's network distinguishes."""
        return len(self.label_sets[client]) if self.label_sets else self.classes

    @cached_property
    def sizes(self) -> list[int]:
        """The number of training samples of each client."""
        return [len(roles["train"]) for roles in self.roles]

    def size(self, client: int) -> int:
        """The number of training samples of a client."""
        return self.sizes[client]

    @property
    def held(self) -> bool:
        """Whether samples are here; the server of a real federation knows how many there are, and holds none."""
        return len(self.samples) > 0

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the data and of who has which rows in which role."""
        return fingerprint(self)

    @property
    def metric(self) -> str:
        """What a score is: accuracy, or the root of the mean squared error."""
        return "RMSE" if self.kind == "regression" else "accuracy"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.samples.stored.shape[1:])

    def sample_of_training(self, fraction: float, seed: int) -> Samples:
        """A random fraction of the training data of all clients that train, for a server that holds data."""
        everything = torch.cat([roles["train"] for at, roles in enumerate(self.roles) if at not in self.newcomers])
        count = int(fraction * len(everything) + 1e-9)
        order = torch.randperm(len(everything), generator=generator(seed, "server data"))
        return self.samples.take(everything[order[:count]])


class Division(TypedDict, total=False):
    """The keyword arguments of `federate`."""

    validation: float
    newcomers: int
    own_labels: bool
    standardize: bool
    crop: int
    flip: bool
    vocabulary: int | None
    length: int | None
    most_duplicates: float
    fraction: float
    seed: int


@named_arguments
def federate(
    pool: Pool,
    split: Split | None = None,
    *,
    validation: float = 0.2,
    newcomers: int = 0,
    own_labels: bool = False,
    standardize: bool = False,
    crop: int = 0,
    flip: bool = False,
    vocabulary: int | None = None,
    length: int | None = None,
    most_duplicates: float = 0.01,
    fraction: float = 1.0,
    seed: int = 0,
) -> Federation:
    """Divide a pool among clients: by default those that the data name, else 20 by Dirichlet(0.1).

    `validation` is the part of each client's training rows that is held out. `newcomers` clients, drawn at random,
    never train. With `own_labels` each client numbers only the classes it has, so that heads may differ in size.
    `standardize` gives every entry of an input mean 0 and deviation 1 over the training rows; `crop` and `flip` augment
    images in training. Texts become numbers with the words of the training part alone: at most `vocabulary` of them,
    `length` words of each text. Rows that stand in train and in test are counted, and above a share of
    `most_duplicates` refused. A `fraction` below 1 keeps so much of each client's rows of each class, for short trials.
    """
    given = {
        "validation": validation,
        "newcomers": newcomers,
        "own_labels": own_labels,
        "standardize": standardize,
        "crop": crop,
        "flip": flip,
        "vocabulary": vocabulary,
        "length": length,
        "most_duplicates": most_duplicates,
        "fraction": fraction,
    }
    if not isinstance(pool, Pool):
        raise PartitaError(
            f"federate divides a Pool, not a {type(pool).__name__}. Make one: from_dataset(dataset), or a source such "
            "as npz(path=...); if you know the client of each sample: from_clients(inputs, targets, clients)."
        )
    check_part("validation", validation)
    check_fraction(fraction)
    check_least(0, crop=crop, most_duplicates=most_duplicates)
    check_least(1, vocabulary=vocabulary, length=length)
    if not isinstance(pool.inputs, Texts) and (vocabulary is not None or length is not None):
        raise PartitaError(f"{pool.name} holds numbers, and vocabulary and length are settings of texts. Omit them.")
    if (crop or flip) and (isinstance(pool.inputs, Texts) or pool.inputs.ndim != 4):
        raise PartitaError(f"{pool.name} holds no images, and crop and flip are settings of images. Omit them.")
    if crop and isinstance(pool.inputs, Tensor) and crop > min(pool.inputs.shape[2:]):
        raise PartitaError(f"crop is {crop}, but must be at most {min(pool.inputs.shape[2:])}, a side of the images.")
    split = split or default_split(pool)
    assignment = split(pool, seed)
    shares = [reduced(share, pool, fraction, seed, client) for client, share in enumerate(assignment.shares)]
    roles = [roles_of(share, pool, validation, seed, client) for client, share in enumerate(shares)]
    names = [share.name or str(client) for client, share in enumerate(assignment.shares)]
    check_roles(f"{split.name} on {pool.name}", roles, names)
    notes = [*assignment.notes, *check_duplicates(pool, roles, most_duplicates)]
    inputs, facts = pool.inputs, dict(pool.facts)
    targets, classes = pool.targets, pool.classes
    if isinstance(inputs, Texts):
        training = torch.cat([each["train"] for each in roles])
        inputs, targets, words = encode(inputs, targets, pool.kind, training.numpy(), vocabulary, length or pool.length)
        facts["vocabulary"] = words
        classes = words if pool.kind == "next_word" else classes
    preparation = pool.preparation
    if standardize:
        preparation = _standardizing(Samples(inputs, targets), torch.cat([each["train"] for each in roles]))
    if crop or flip:
        preparation = Preparation(preparation.mean, preparation.std, crop, flip)
    held_out = assignment.newcomers
    count = newcomers if held_out is None else len(held_out)
    if not 0 <= count < len(roles):
        raise PartitaError(
            f"newcomers is {count}, but must be from 0 to {len(roles) - 1}: at least one of the {len(roles)} clients "
            "must train."
        )
    if held_out is None:
        order = np.random.RandomState(derive(seed, "newcomers") % 2**32).permutation(len(roles))
        held_out = frozenset(order[:newcomers].tolist())
    return Federation(
        samples=Samples(inputs, targets, preparation=preparation),
        roles=in_one_piece(roles),
        classes=classes,
        name=pool.name,
        kind=pool.kind,
        facts=facts,
        newcomers=held_out,
        label_sets=_label_sets(pool, roles) if own_labels else (),
        names=names,
        class_names=pool.class_names,
        origin={
            "data": pool.name,
            "split": {"name": split.name, **split.settings},
            "seed": seed,
            "validation": validation,
            "notes": notes,
        },
        settings=division_settings(pool, split, {**_not_default(given), "seed": seed}),
        pool=pool,
    )


def _not_default(given: Mapping[str, object]) -> dict[str, object]:
    """The arguments of `federate` that differ from its defaults."""
    known = inspect.signature(federate).parameters
    return {name: value for name, value in given.items() if value != known[name].default}


def default_split(pool: Pool) -> Split:
    """The clients that the data name, or else 20 by Dirichlet(0.1)."""
    return dirichlet() if pool.clients is None else natural()


def _standardizing(samples: Samples, training: Tensor) -> Preparation:
    """(x - mean) / (deviation + 1e-6) for each entry, as Pillutla et al. do with EMNIST."""
    if not samples.stored.is_floating_point() and samples.stored.dtype != torch.uint8:
        raise PartitaError("Only numbers and images can be standardized, not indices or words. Omit standardize.")
    total, squares = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for rows in torch.split(training, 4096):
        # In parts: all inputs at once, in double precision, would take eight times the memory of images.
        values = samples.take(rows).inputs.double()
        total, squares = total + values.sum(0), squares + values.square().sum(0)
    mean = total / len(training)
    deviation = (squares / len(training) - mean.square()).clamp(min=0).sqrt()
    kind = torch.get_default_dtype()
    return Preparation(mean.to(kind), (deviation + 1e-6).to(kind))


def _label_sets(pool: Pool, roles: Sequence[Mapping[Role, Tensor]]) -> list[Tensor]:
    if pool.kind != "classification":
        raise PartitaError(f"{pool.name} has no classes that clients could number. Omit own_labels.")
    return [torch.unique(pool.targets[torch.cat(list(each.values()))]) for each in roles]


def _check_names(federation: Federation) -> None:
    names = federation.names
    if not names:
        return
    if len(names) != len(federation):
        raise PartitaError(
            f"{federation.name}: {len(names)} names for {len(federation)} clients. Give each client one name."
        )
    if odd := [name for name in names if not isinstance(name, str) or not name]:
        raise PartitaError(f"{federation.name}: a client is called {odd[0]!r}. Names must be text, and not empty.")
    if len(set(names)) != len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise PartitaError(f"{federation.name}: two clients are called {twice!r}. Give each a name of its own.")
