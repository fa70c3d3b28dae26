"""Data of the shapes that the papers have, made up: what a round costs does not depend on the values."""

import numpy as np
import torch

from partita.data.federation import Federation, federate
from partita.data.pool import Pool, pool
from partita.data.splits.iid import iid
from partita.data.splits.natural import natural


def images(
    clients: int, train: int, test: int, shape: tuple[int, ...], classes: int, crop: int = 0, flip: bool = False
) -> Federation:
    """Clients with so many inputs of this shape each, for training and for testing."""
    draw = np.random.default_rng(0)
    count = clients * (train + test)
    inputs = draw.standard_normal((count, *shape), dtype=np.float32)
    made = pool("made-up images", inputs, draw.integers(classes, size=count), classes=classes)
    return federate(made, iid(clients=clients, test=test / (train + test)), validation=0.0, crop=crop, flip=flip)


def texts(clients: int, train: int, test: int, length: int, words: int) -> Federation:
    """Clients with so many texts each, of which the next word is wanted; none of them is filled up."""
    draw = torch.Generator().manual_seed(0)
    rows = torch.randint(4, words, (clients * (train + test), length + 1), generator=draw)
    made = Pool("made-up texts", rows[:, :-1].contiguous(), rows[:, 1:].contiguous(), words, kind="next_word")
    return federate(made, iid(clients=clients, test=test / (train + test)), validation=0.0)


def ratings(clients: int, each: int, items: int) -> Federation:
    """People who rate so many items each; a fifth of them is for testing."""
    draw = np.random.default_rng(0)
    made = pool(
        "made-up ratings",
        draw.integers(items, size=clients * each),
        draw.uniform(0.5, 5.0, clients * each),
        kind="regression",
        clients=np.repeat(np.arange(clients), each),
        facts={"items": items},
        rows_identify=False,
    )
    return federate(made, natural(test=0.2), validation=0.0)
