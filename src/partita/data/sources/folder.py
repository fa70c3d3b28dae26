"""A folder for each client."""

from pathlib import Path

import numpy as np

from ...core.objectives import Problem
from ...errors import PartitaError
from ..arrays import Units, assemble, load_npz, naming, stack
from ..pool import Array, Pool
from ..source import source


@source
def folder(*, path: str, kind: Problem = "classification", text: Units = "words", classes: int | None = None) -> Pool:
    """A folder for each client, named after it, with one .npz file of x and y, and maybe x_test and y_test."""
    root = Path(path)
    if not root.is_dir():
        raise PartitaError(f"There is no folder {root}.")
    folders = sorted(each for each in root.iterdir() if each.is_dir() and not each.name.startswith("."))
    if not folders:
        raise PartitaError(f"{root} has no folders. Each client needs one, with an .npz file in it.")
    files = [_only_file(each) for each in folders]
    arrays = {file: _arrays(file) for file in files}
    divided = "x_test" in arrays[files[0]]
    if odd := [file for file in files if ("x_test" in arrays[file]) != divided]:
        raise PartitaError(f"{odd[0]}: x_test must be in the files of all clients or of none, unlike {files[0]}.")
    parts = [(file, suffix) for file in files for suffix in (("", "_test") if divided else ("",))]
    counts = [len(arrays[file]["x" + suffix]) for file, suffix in parts]
    joined = {
        what: stack([(f"{file}: {what}{suffix}", arrays[file][what + suffix]) for file, suffix in parts])
        for what in "xy"
    }
    with naming(root):
        return assemble(
            root.name,
            joined["x"],
            joined["y"],
            kind=kind,
            text=text,
            classes=classes,
            clients=np.repeat([file.parent.name for file, _ in parts], counts),
            official_test=np.repeat([suffix == "_test" for _, suffix in parts], counts) if divided else None,
        )


def _only_file(client: Path) -> Path:
    files = sorted(client.glob("*.npz"))
    if len(files) != 1:
        raise PartitaError(f"{client} has {len(files)} .npz files; it must have one, with x and y.")
    return files[0]


def _arrays(file: Path) -> dict[str, Array]:
    arrays = load_npz(file)
    keys = ("x", "y", "x_test", "y_test") if {"x_test", "y_test"} & arrays.keys() else ("x", "y")
    if lacking := [key for key in keys if key not in arrays]:
        raise PartitaError(f"{file} lacks {lacking[0]}; it has {', '.join(sorted(arrays)) or 'nothing'}.")
    for suffix in ("", "_test")[: len(keys) // 2]:
        if arrays["x" + suffix].shape[:1] != arrays["y" + suffix].shape[:1]:
            raise PartitaError(
                f"{file}: {len(arrays['x' + suffix])} inputs x{suffix}, but {len(arrays['y' + suffix])} targets "
                f"y{suffix}. They must be of the same length."
            )
    return arrays
