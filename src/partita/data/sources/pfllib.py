"""Data that PFLlib generated. Zhang et al., 2023, https://arxiv.org/abs/2312.04992"""

import json
from pathlib import Path

import numpy as np

from ...errors import PartitaError
from ..arrays import naming, reading, stack
from ..pool import Array, Pool, pool
from ..source import source
from ._pickles import load_pickled_npz


@source
def pfllib(*, path: str) -> Pool:
    """A folder that PFLlib generated (train/0.npz, test/0.npz, ..., config.json), with its clients and test rows."""
    root = Path(path)
    if not (root / "train").is_dir() or not (root / "test").is_dir():
        raise PartitaError(
            f"{root} has no folders train and test. Give the folder of one data set, as dataset/Cifar10."
        )
    config = _config(root / "config.json")
    clients = sorted(int(file.stem) for file in (root / "train").glob("*.npz") if file.stem.isdecimal())
    expected = config.get("num_clients", len(clients))
    if not clients or clients != list(range(expected)):
        raise PartitaError(
            f"{root / 'train'} has files for {len(clients)} clients, but there should be 0.npz to {expected - 1}.npz "
            f"for the {expected} of config.json. Was another division written over this one?"
        )
    files = [root / role / f"{client}.npz" for client in clients for role in ("train", "test")]
    parts = [_client(file) for file in files]
    counts = [len(y) for _, y in parts]
    with naming(root):
        return pool(
            root.name,
            stack([(f"{file}: x", x) for file, (x, _) in zip(files, parts, strict=True)]),
            stack([(f"{file}: y", y) for file, (_, y) in zip(files, parts, strict=True)]),
            classes=config.get("num_classes"),
            clients=np.repeat(np.repeat(clients, 2), counts),
            official_test=np.repeat([False, True] * len(clients), counts),
        )


def _config(file: Path) -> dict[str, int]:
    """The numbers of clients and of classes, as far as the file says them."""
    if not file.exists():
        return {}
    with reading(file, "JSON"):
        config = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("it is not an object")
    given = {key: config[key] for key in ("num_clients", "num_classes") if config.get(key) is not None}
    for key, value in given.items():
        if type(value) is not int or value < 1:
            raise PartitaError(f"{file}: {key} is {value!r}, not a whole number above 0.")
    return given


def _client(file: Path) -> tuple[Array, Array]:
    found = load_pickled_npz(file, "data")
    if not isinstance(found, dict) or not all(isinstance(found.get(key), np.ndarray) for key in "xy"):
        raise PartitaError(f"{file} does not hold arrays x and y. Texts of PFLlib, which are lists, cannot be read.")
    x, y = found["x"], found["y"]
    if x.dtype == object or y.dtype == object:
        raise PartitaError(f"{file} holds Python objects. Only images and other numbers of PFLlib can be read.")
    if x.shape[:1] != y.shape[:1] or not x.ndim:
        raise PartitaError(f"{file}: {len(x)} inputs, but {len(y)} targets. They must be of the same length.")
    return x, y
