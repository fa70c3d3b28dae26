"""Where do random numbers come from? From (seed, purpose, round, client), never from a stream held somewhere."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

CPU = torch.device("cpu")


def derive(seed: int, purpose: str, *key: int) -> int:
    """A seed of its own for each purpose, round and client."""
    text = repr((seed, purpose, *key)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def generator(seed: int, purpose: str, *key: int) -> torch.Generator:
    return torch.Generator().manual_seed(derive(seed, purpose, *key))


@contextmanager
def seeded(seed: int, purpose: str, *key: int, device: torch.device = CPU) -> Iterator[None]:
    """Within, torch's global generators (dropout, initialisation) are a function of the arguments; outside, untouched.

    They are those of the processor, and of the device where that is another one.
    """
    others = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=others):
        # Not torch.manual_seed: that would reseed all devices, and for good.
        torch.default_generator.manual_seed(derive(seed, purpose, *key))
        for other in others:
            with torch.cuda.device(other):
                torch.cuda.manual_seed(derive(seed, purpose, *key))
        yield


@dataclass(frozen=True)
class Moment:
    """Where a run is: rounds, epochs and steps count from 0."""

    round: int = 0
    rounds: int = 1
    seed: int = 0
    epoch: int = 0
    step: int = 0
