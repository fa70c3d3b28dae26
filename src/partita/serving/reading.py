"""How is the card of exported models read? Its form is checked, since somebody else may have written it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from ..core.objectives import Problem
from ..errors import PartitaError
from ..evaluation.variants import Variant
from ..parsing import parse_json
from .loaded import CARD

FORMAT = 1
Form = Any
"""A type or several, a tuple of allowed texts, a list of one form, or a dictionary of forms by key.

A key that ends in a question mark may be missing; the key `*` stands for any.
"""
NUMBER, NOTHING = (int, float), type(None)
CARD_FORM: Mapping[str, Form] = {
    "method": {"label": str, "settings": dict, "predicts": bool},
    "network": {"name": str},
    "facts": dict,
    "groups": {"*": [str]},
    "buffers": str,
    "variant": get_args(Variant),
    "kind": get_args(Problem),
    "metric": str,
    "inputs": {
        "shape": [int],
        "type": ("bytes", "numbers", "indices"),
        "dtype": ("float16", "bfloat16", "float32", "float64", "int64"),
        "below": (int, NOTHING),
        "texts": (dict, NOTHING),
    },
    "classes": [str],
    "run": {"rounds": int, "seed": int, "started": str},
    "data": {"name": str, "fingerprint": str},
    "scores": {"test": (dict, NOTHING)},
    "personal": [str],
    "tensors": [str],
    "clients": {
        "*": {
            "number": int,
            "weight": (*NUMBER, NOTHING),
            "file": (str, NOTHING),
            "score?": (dict, NOTHING),
            "classes?": [str],
            "facts?": dict,
            "label_counts?": [int],
        }
    },
    "files": {"*": {"sha256": str}},
}


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
        raise PartitaError(f"{path} is in format {found}; this version of partita reads format {FORMAT}.")
    try:
        need_form(card, CARD_FORM, "it")
    except PartitaError as problem:
        raise PartitaError(f"{path} is damaged: {problem}. Export the models again.") from problem
    return card


def need_form(value: object, form: Form, where: str) -> None:
    """Refuse what is of another form, and say where."""
    if isinstance(form, Mapping):
        if not isinstance(value, dict):
            raise PartitaError(f"{where} is no table")
        for key, inner in form.items():
            name = key.removesuffix("?")
            if key == "*":
                for each, content in value.items():
                    need_form(content, inner, f"{where}.{each}")
            elif name in value:
                need_form(value[name], inner, f"{where}.{name}")
            elif name == key:
                raise PartitaError(f"{where} has no {name}")
    elif isinstance(form, list):
        if not isinstance(value, list):
            raise PartitaError(f"{where} is no list")
        for at, content in enumerate(value):
            need_form(content, form[0], f"{where}[{at}]")
    elif not _fits(value, form if isinstance(form, tuple) else (form,)):
        raise PartitaError(f"{where} is {str(value)[:80]!r}")


def _fits(value: object, allowed: tuple[Any, ...]) -> bool:
    if isinstance(allowed[0], str):
        return value in allowed
    return isinstance(value, allowed) and (not isinstance(value, bool) or bool in allowed)
