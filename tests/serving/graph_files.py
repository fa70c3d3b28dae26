"""Graphs of exported models, asked as their users would."""

import os
from collections.abc import Callable, Sequence
from importlib import import_module

import torch
from torch import Tensor

from partita.serving.artefact import Artefact

WHOLE = os.environ.get("PARTITA_ALL_GRAPHS") == "1"
"""Whether everything is exported, which takes minutes."""


def asked(models: Artefact, form: str) -> Callable[[Tensor, int | Sequence[int]], Tensor]:
    """The one graph of all clients: logits for inputs and a place, or as many places as there are rows."""
    about = models.card["graphs"][form]
    path = models.folder / about["file"]
    if form == "onnx":
        session = import_module("onnxruntime").InferenceSession(str(path), providers=["CPUExecutionProvider"])
    else:
        program = torch.export.load(path).module()

    def ask(inputs: Tensor, place: int | Sequence[int]) -> Tensor:
        count = {"one": 1, "each row": len(inputs), None: 0}[about["client"]]
        client = torch.tensor([place] * count if isinstance(place, int) else place)
        given = {"inputs": inputs, **({"client": client} if count else {})}
        if form == "onnx":
            return torch.from_numpy(session.run(None, {name: each.numpy() for name, each in given.items()})[0])
        found: Tensor = program(*given.values())
        return found

    return ask
