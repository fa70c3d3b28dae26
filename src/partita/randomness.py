"""Where do random numbers come from? From (seed, purpose, round, client), never from a shared generator."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

CPU = torch.device("cpu")


def derive(seed: int, purpose: str, *key: int) -> int:
    """A separate seed for each purpose, round and client."""
    text = repr((seed, purpose, *key)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def generator(seed: int, purpose: str, *key: int) -> torch.Generator:
    return torch.Generator().manual_seed(derive(seed, purpose, *key))


@contextmanager
def seeded(seed: int, purpose: str, *key: int, device: torch.device = CPU) -> Iterator[None]:
    """Inside the context, torch's global generators depend on the arguments alone; afterwards they are as they were.

    They are those of the CPU and, where it is another one, of `device`.
    """
    others = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=others):
        # torch.manual_seed would reseed other devices too, and not restore them.
        torch.default_generator.manual_seed(derive(seed, purpose, *key))
        for other in others:
            with torch.cuda.device(other):
                torch.cuda.manual_seed(derive(seed, purpose, *key))
        yield


@dataclass(frozen=True)
class Moment:
    """How far a run has come: rounds, epochs and steps, counted from 0."""

    round: int = 0
    rounds: int = 1
    seed: int = 0
    epoch: int = 0
    step: int = 0
