"""Who takes part, and with which data? Clients by number, each with three disjoint roles of data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from .randomness import generator
from .samples import Samples

Role = Literal["train", "validation", "test"]


@dataclass(frozen=True, eq=False)
class ClientData:
    """A client's samples by role; no sample has two."""

    train: Samples
    validation: Samples
    test: Samples


@dataclass(frozen=True, eq=False)
class Federation:
    """All samples in one place, and for each client the indices of each role."""

    samples: Samples
    roles: Sequence[dict[Role, Tensor]]
    classes: int
    name: str = "data"

    def __len__(self) -> int:
        return len(self.roles)

    def __getitem__(self, client: int) -> ClientData:
        return ClientData(**{role: self.samples.take(indices) for role, indices in self.roles[client].items()})

    @property
    def sizes(self) -> list[int]:
        """The number of training samples of each client."""
        return [len(roles["train"]) for roles in self.roles]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.samples.inputs.shape[1:])

    def sample_of_training(self, fraction: float, seed: int) -> Samples:
        """A random fraction of all clients' training data, for a server that holds some."""
        everything = torch.cat([roles["train"] for roles in self.roles])
        count = int(fraction * len(everything) + 1e-9)
        order = torch.randperm(len(everything), generator=generator(seed, "server data"))
        return self.samples.take(everything[order[:count]])


def into_roles(indices: Tensor, seed: int, client: int, validation: float, test: float) -> dict[Role, Tensor]:
    """Cut one client's samples at random; each role gets at least one sample if there are three."""
    order = indices[torch.randperm(len(indices), generator=generator(seed, "roles", client))]
    tested = _share(len(order), test)
    validated = _share(len(order) - tested, validation)
    return {
        "test": order[:tested],
        "validation": order[tested : tested + validated],
        "train": order[tested + validated :],
    }


def _share(count: int, fraction: float) -> int:
    """About a fraction of a count, at least one where asked for, and never the last one."""
    return min(max(round(count * fraction), 1 if fraction else 0), max(count - 1, 0))
