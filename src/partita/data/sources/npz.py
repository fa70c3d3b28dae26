"""Arrays in an .npz file."""

from pathlib import Path
from typing import Literal

from ...core.objectives import Problem
from ..arrays import read_npz
from ..pool import Pool
from ..source import source


@source
def npz(
    *,
    path: str,
    kind: Problem = "classification",
    text: Literal["words", "characters"] = "words",
    classes: int | None = None,
) -> Pool:
    """x, y and client, or x_train, y_train, x_test, y_test (client_train, client_test); text becomes words."""
    return read_npz(Path(path), kind=kind, text=text, classes=classes)
