"""LEAF's JSON: files of users, each with x and y, in a folder for training and one for testing."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import PartitaError
from ..arrays import reading
from ..download import find


@dataclass(frozen=True)
class User:
    """The entry of one user in one file."""

    where: str
    name: str
    test: bool
    inputs: list[Any]
    targets: list[Any]


def leaf_folder(name: str) -> Path | None:
    """The folder with LEAF's files of that name, if there is one."""
    for inner in (f"{name}/data", name, f"leaf/data/{name}/data"):
        folder = find(inner)
        if folder and any((folder / each).is_dir() for each in ("train", "all_data")):
            return folder
    return None


def read_leaf(folder: Path) -> tuple[list[User], bool]:
    """All users, and whether the data have an official test set."""
    divided = (folder / "train").is_dir()
    parts = (("train", False), ("test", True)) if divided else (("all_data", False),)
    users: list[User] = []
    for part, test in parts:
        files = sorted((folder / part).glob("*.json"))
        if not files:
            raise PartitaError(f"{folder / part} has no .json file. LEAF's preprocess.sh writes one there.")
        for file in files:
            users += _users(file, test)
    return users, divided


def _users(file: Path, test: bool) -> Iterator[User]:
    with reading(file, "JSON"):
        content = json.loads(file.read_text(encoding="utf-8"))
    data = content.get("user_data") if isinstance(content, dict) else None
    if not isinstance(data, dict) or not isinstance(content.get("users"), list):
        raise PartitaError(f"{file} is not of LEAF's form: an object with users, num_samples and user_data.")
    for name in content["users"]:
        where = f"{file}, user {name}"
        own = data.get(name) if isinstance(name, str) else None
        if not isinstance(own, dict) or not all(isinstance(own.get(key), list) for key in ("x", "y")):
            raise PartitaError(f"{where}: user_data has no lists x and y for them.")
        if len(own["x"]) != len(own["y"]):
            raise PartitaError(
                f"{where}: {len(own['x'])} inputs, but {len(own['y'])} targets. They must be of the same length."
            )
        yield User(where, name, test, own["x"], own["y"])
