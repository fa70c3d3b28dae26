"""How are labels distributed over clients? As counts, in a terminal, as a picture, and the floor that follows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt

from ..core.objectives import SPECIAL
from ..errors import PartitaError
from .federation import Federation
from .pool import Pool, Texts
from .split import ROLES, Role

Counts = npt.NDArray[np.int64]
SHADES = " .:-=+*#%@"


@dataclass(frozen=True)
class Floor:
    """Test scores of a constant answer: the client's most common training class or word, or its mean.

    Accuracies, or for regression roots of mean squared errors. Clients without a test sample have no score; where none
    has one, the means are not a number.
    """

    clients: tuple[int, ...]
    score: tuple[float, ...]
    micro: float
    macro: float


def label_counts(
    federation: Federation, roles: tuple[Role, ...] = ROLES, clients: Sequence[int] | None = None
) -> Counts:
    """How many samples of each class each client has: (clients, classes)."""
    if federation.kind != "classification":
        raise PartitaError(f"{federation.name} has no classes to count. Give data of a classification.")
    targets = federation.samples.targets.numpy()
    chosen = range(len(federation)) if clients is None else clients
    rows = [np.concatenate([federation.roles[each][role].numpy() for role in roles]) for each in chosen]
    return np.stack([np.bincount(targets[own], minlength=federation.classes) for own in rows])


def floor(federation: Federation, clients: Iterable[int] | None = None) -> Floor:
    """The floor of all clients, or of some."""
    chosen = range(len(federation)) if clients is None else clients
    sums = {client: _constant_answer(federation, client) for client in chosen}
    known = {client: each for client, each in sums.items() if each[1]}
    power = 0.5 if federation.kind == "regression" else 1.0
    score = tuple((total / count) ** power for total, count in known.values())
    if not known:
        return Floor((), (), micro=float("nan"), macro=float("nan"))
    total, count = (sum(each) for each in zip(*known.values(), strict=True))
    return Floor(tuple(known), score, micro=(total / count) ** power, macro=sum(score) / len(score))


def _constant_answer(federation: Federation, client: int) -> tuple[float, int]:
    """The number of test targets that a constant gets right, or its squared error; and the number of all."""
    targets = federation.samples.targets.numpy()
    train, test = (targets[federation.roles[client][role].numpy()] for role in ("train", "test"))
    if federation.kind == "regression":
        return float(np.square(test - train.mean(dtype=np.float64)).sum()), test.size
    if federation.kind == "next_word":
        train, test = (words[words >= SPECIAL] for words in (train, test))
    return float((test == np.bincount(train, minlength=1).argmax()).sum()), test.size


def facts_of(pool: Pool) -> dict[str, object]:
    """What can be said of data before they are divided."""
    return {
        "name": pool.name,
        "samples": len(pool),
        "kind": pool.kind,
        "input": "text"
        if isinstance(pool.inputs, Texts)
        else " x ".join(map(str, pool.inputs.shape[1:])) or "a number",
        "classes": pool.classes if pool.kind == "classification" else None,
        "clients": len(pool.client_names) or None,
        "official test samples": int(pool.official_test.sum()) if pool.official_test is not None else None,
    }


def summary_of(federation: Federation) -> dict[str, object]:
    """What can be said of a division, for machines too."""
    rows = [{role: len(each[role]) for role in ROLES} for each in federation.roles]
    summary: dict[str, object] = {
        **federation.origin,
        "clients": len(federation),
        "newcomers": sorted(federation.newcomers),
        "samples": {role: sum(row[role] for row in rows) for role in ROLES},
        "by client": [
            {"name": name, **row} for name, row in zip(map(federation.name_of, range(len(rows))), rows, strict=True)
        ],
    }
    if federation.kind == "classification":
        lowest = floor(federation)
        summary["floor"] = {"micro": lowest.micro, "macro": lowest.macro}
        summary["labels"] = label_counts(federation).tolist()
    return summary


def shaded(counts: Counts) -> list[str]:
    """A line of characters for each client, one for each class: the darker, the larger its share."""
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    levels = np.ceil(shares * (len(SHADES) - 1)).astype(int)
    return ["".join(SHADES[level] for level in row) for row in levels]


def picture(federation: Federation) -> str:
    """An SVG file: clients from left to right, classes from top to bottom, areas by counts."""
    counts = label_counts(federation)
    clients, classes = counts.shape
    cell = max(min(640 // max(clients, classes), 24), 3)
    left, top = 60, 40
    largest = counts.max()
    circles = "".join(
        f'<circle cx="{left + cell * (client + 0.5):g}" cy="{top + cell * (label + 0.5):g}" '
        f'r="{cell / 2 * (counts[client, label] / largest) ** 0.5:.2f}"><title>client '
        f"{escape(federation.name_of(client))}, class {label}: "
        f"{counts[client, label]}</title></circle>"
        for client in range(clients)
        for label in range(classes)
        if counts[client, label]
    )
    width, height = left + cell * clients + 20, top + cell * classes + 40
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="12">'
        f'<rect width="{width}" height="{height}" fill="white"/>'
        f'<text x="{left}" y="20">{escape(federation.name)}: samples by class (down) and client (across)</text>'
        f'<rect x="{left}" y="{top}" width="{cell * clients}" height="{cell * classes}" fill="none" stroke="#999"/>'
        f'<g fill="#2a6f97">{circles}</g>'
        f'<text x="{left - 8}" y="{top + cell * 0.5 + 4:g}" text-anchor="end">0</text>'
        f'<text x="{left - 8}" y="{top + cell * (classes - 0.5) + 4:g}" text-anchor="end">{classes - 1}</text>'
        f'<text x="{left + cell * 0.5:g}" y="{top + cell * classes + 18}" text-anchor="middle">0</text>'
        f'<text x="{left + cell * (clients - 0.5):g}" y="{top + cell * classes + 18}" text-anchor="middle">'
        f"{clients - 1}</text>"
        "</svg>\n"
    )
