"""What does a card hold, and how is it read? As JSON, whose fields are checked before use."""

from pathlib import Path
from typing import Any, TypedDict

from ..core.objectives import Problem
from ..core.signatures.stored import misfit
from ..errors import PartitaError
from ..evaluation.variants import Variant
from ..parsing import parse_json

CARD = "card.json"
"""The file by which an exported folder is known."""
FORMAT = 1
PREPARATION = "preparation.safetensors"
"""The file with the mean and the standard deviation by which inputs are normalised, where they are."""


class Method(TypedDict):
    label: str
    settings: dict[str, Any]
    predicts: bool


class Run(TypedDict):
    rounds: int
    seed: int
    started: str


class Data(TypedDict):
    name: str
    fingerprint: str


class Mean(TypedDict):
    macro: float


class Scores(TypedDict):
    test: Mean | None


class ClientScore(TypedDict, total=False):
    test: float
    guarded: float


class Onboarded(TypedDict):
    samples: int


class Client(TypedDict):
    number: int
    file: str | None
    weight: float | None
    score: ClientScore | None


class FullClient(Client, total=False):
    compared: dict[str, float]
    label_counts: list[int]
    onboarded: Onboarded
    facts: dict[str, Any]
    classes: list[str]


class File(TypedDict):
    sha256: str


class Card(TypedDict):
    """What is read of a card. There is more in it for people and for other tools."""

    method: Method
    network: dict[str, Any]
    facts: dict[str, Any]
    groups: dict[str, list[str]]
    buffers: str
    variant: Variant
    kind: Problem
    metric: str
    inputs: dict[str, Any]
    classes: list[str]
    run: Run
    data: Data
    scores: Scores
    personal: list[str]
    tensors: list[str]
    clients: dict[str, FullClient]
    files: dict[str, File]


def read_card(folder: Path) -> dict[str, Any]:
    """What a folder of models says of itself."""
    path = folder / CARD
    try:
        card = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PartitaError(
            f"{folder} holds no exported models. Write them with: partita export RUN --models {folder}"
        ) from None
    except (OSError, ValueError) as problem:
        raise PartitaError(f"{path} cannot be read: {problem}. Export the models again.") from problem
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        found = card.get("format") if isinstance(card, dict) else None
        raise PartitaError(
            f"{path} is in format {found}; this version of partita reads format {FORMAT}. Export the models again."
        )
    if (wrong := misfit(card, Card)) or not card["clients"]:
        raise PartitaError(f"{path} is damaged: see {wrong or 'clients'}. Export the models again.")
    return card
