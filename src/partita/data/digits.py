"""Handwritten digits, 8 x 8 pixels: 1,797 samples of 10 classes, embedded in scikit-learn."""

from typing import Literal

import torch
from sklearn.datasets import load_digits

from ..federation import Federation, into_roles
from ..samples import Samples
from ..splits import dirichlet, iid


def digits(
    *,
    clients: int = 20,
    split: Literal["dirichlet", "iid"] = "dirichlet",
    alpha: float = 0.1,
    smallest: int = 10,
    validation: float = 0.2,
    test: float = 0.25,
    seed: int = 0,
) -> Federation:
    """Digits, divided among clients: by default each gets shares of the classes drawn from Dirichlet(0.1)."""
    pixels, labels = load_digits(return_X_y=True)
    samples = Samples(
        torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16, torch.tensor(labels, dtype=torch.int64)
    )
    if split == "iid":
        parts = iid(samples.targets, clients, seed)
    else:
        parts = dirichlet(samples.targets, clients, seed, alpha=alpha, smallest=smallest)
    roles = [into_roles(part, seed, client, validation, test) for client, part in enumerate(parts)]
    return Federation(samples, roles, classes=10, name="digits")
