"""What is to be learned of each sample? A number, or a class, given by its number or by its name."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..core.objectives import Problem
from ..errors import PartitaError

Values = npt.NDArray[np.generic]


def read_targets(name: str, targets: Values, kind: Problem, classes: int | None) -> tuple[Tensor, int, Sequence[str]]:
    """Targets of the type that the loss wants, the number of classes, and their names where labels are texts.

    Without `classes`, all of them must occur among the labels.
    """
    if kind == "classification" and targets.dtype.kind in "UOT":
        return _numbered(name, targets, classes)
    labels = _checked(name, targets, kind)
    return labels, _count(name, labels, kind) if classes is None else classes, ()


def check_class_names(where: str, names: Sequence[str], classes: int) -> None:
    """Refuse names that are not one text for each class."""
    if not names:
        return
    if len(names) != classes:
        raise PartitaError(f"{where}: {len(names)} class names for {classes} classes. Give one for each, or none.")
    if odd := [each for each in names if not isinstance(each, str) or not each]:
        raise PartitaError(f"{where}: a class is called {odd[0]!r}. Names must be text, and not empty.")
    if len(set(names)) != len(names):
        twice = next(each for at, each in enumerate(names) if each in names[:at])
        raise PartitaError(f"{where}: two classes are called {twice!r}. Give each a name of its own.")


def numbers_of(name: str, what: str, values: Values) -> Tensor:
    """A tensor of an array of numbers."""
    if values.dtype.kind not in "biuf" or values.ndim == 0:
        raise PartitaError(
            f"{name}: the {what} are of type {values.dtype} and shape {values.shape}. Give an array of numbers with a "
            "row for each sample."
        )
    if values.dtype.kind == "u" and values.max(initial=0) > np.iinfo(np.int64).max:
        raise PartitaError(f"{name}: the {what} hold {values.max()}, which is too large for a whole number of 64 bits.")
    kind = values.dtype.newbyteorder("=")
    if kind.kind == "f" and kind.itemsize > 8:
        # Torch has no longer numbers.
        kind = np.dtype(np.float64)
    # Torch takes only the machine's byte order, and warns of arrays that cannot be written.
    return torch.from_numpy(np.require(values, kind, ["C", "W"]))


def _numbered(name: str, targets: Values, classes: int | None) -> tuple[Tensor, int, Sequence[str]]:
    """Texts as numbers from 0, in the order of their names: by value where all are numbers, else by letter."""
    given = targets.tolist()
    if targets.ndim != 1 or not all(isinstance(each, str) for each in given):
        raise PartitaError(
            f"{name}: the targets are of type {targets.dtype} and shape {targets.shape}. Give one text for each row, "
            "or number the classes from 0, as numpy.unique(targets, return_inverse=True)[1] does."
        )
    if "" in given:
        raise PartitaError(f"{name}: the label of row {given.index('')} is empty. Give every row a label.")
    names = _in_order(set(given))
    if classes is not None and classes != len(names):
        raise PartitaError(
            f"{name}: the labels are {len(names)} different texts, but there should be {classes} classes. Give as "
            "many, or number the classes from 0."
        )
    numbers = {each: number for number, each in enumerate(names)}
    return torch.tensor([numbers[each] for each in given], dtype=torch.int64), len(names), tuple(names)


def _in_order(labels: set[str]) -> list[str]:
    try:
        values = {label: float(label) for label in labels}
    except ValueError:
        return sorted(labels)
    # Two texts may be the same number, and nan is in no order.
    return sorted(labels, key=lambda label: (values[label] != values[label], values[label], label))


def _checked(name: str, targets: Values, kind: Problem) -> Tensor:
    """Labels of classes must be one whole number for each row."""
    labels = numbers_of(name, "targets", targets)
    if kind != "next_word" and labels.ndim == 2 and labels.shape[1] == 1:
        raise PartitaError(
            f"{name}: the targets have shape {tuple(labels.shape)}. Give one number for each row: targets.reshape(-1)."
        )
    if kind == "regression":
        return labels.to(torch.get_default_dtype())
    if kind == "classification" and labels.ndim != 1:
        raise PartitaError(
            f"{name}: the targets have shape {tuple(labels.shape)}. Give one label for each row, the number of its "
            "class: argmax(1) of one-hot rows."
        )
    whole = labels.to(torch.int64)
    if labels.is_floating_point() and len(wrong := torch.nonzero(whole != labels)):
        row = int(wrong[0, 0])
        raise PartitaError(f"{name}: the label of row {row} is {labels[row].tolist()}, not the number of a class.")
    return whole


def _count(name: str, labels: Tensor, kind: Problem) -> int:
    """The number of classes, all of which must occur among the labels; for regression, the number of outputs."""
    if kind == "regression":
        return 1 if labels.ndim == 1 else int(labels.shape[1])
    classes = int(labels.max()) + 1 if labels.numel() else 0
    found = torch.unique(labels[labels >= 0])
    if kind == "classification" and len(found) < classes:
        some = ", ".join(map(str, found[:5].tolist())) + (", ..." if len(found) > 5 else "")
        raise PartitaError(
            f"{name}: the labels go up to {classes - 1}, but only {len(found)} classes occur ({some}). Number them "
            "from 0 without gaps, as numpy.unique(targets, return_inverse=True)[1] does, or, if the others are meant, "
            f"say how many there are: classes={classes}."
        )
    return classes
