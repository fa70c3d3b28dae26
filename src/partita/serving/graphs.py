"""How do models run without Partita? As ONNX graphs, programs of torch.export, or adapters of PEFT."""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import PartitaError
from ..extras import optional
from .artefact import Artefact
from .files import file_names
from .together import all_alike, obstacle, together

Format = Literal["safetensors", "onnx", "torch-export", "peft"]
OPSET = 20
TOLERANCE = 1e-4
"""A graph whose logits differ by more than this share of the largest one is refused."""
ROWS = 3
ENDINGS = {"onnx": ".onnx", "torch-export": ".pt2"}
NAMES = {"onnx": "ONNX", "torch-export": "a program of torch.export"}
Ask = Callable[[Mapping[str, Tensor]], Tensor]
"""Logits of a graph for its inputs by name."""


def write_graphs(models: Artefact, form: Format) -> dict[str, Any]:
    """Write all models in a format into the folder; what the card is to say of it."""
    if form == "peft":
        return _write_adapters(models)
    (models.folder / form).mkdir()
    clients, inputs = models.clients, models.inputs.example(4)
    one = f"{form}/clients{ENDINGS[form]}"
    if len(clients) > 1 and all_alike(models):
        _write(models, {0: clients[0]}, form, one, models.model(clients[0]), {"inputs": inputs})
        return {"file": one, "clients": clients, "client": None}
    why = obstacle(models)
    if why is None:
        module = together(models)
        client = torch.zeros(1 if module.takes == "one" else len(inputs), dtype=torch.int64)
        _write(models, dict(enumerate(clients)), form, one, module, {"inputs": inputs, "client": client})
        return {"file": one, "clients": clients, "client": module.takes}
    names = file_names(clients)
    files = {name: f"{form}/{names[name]}{ENDINGS[form]}" for name in clients}
    for name, file in files.items():
        _write(models, {0: name}, form, file, models.model(name), {"inputs": inputs})
    return {"files": files, "why": why}


def _write(
    models: Artefact, places: Mapping[int, str], form: Format, file: str, module: nn.Module, given: Mapping[str, Tensor]
) -> None:
    """Write a graph of the clients at some places, and ask it once for each of them."""
    path = models.folder / file
    ask = (write_onnx if form == "onnx" else write_program)(module, given, path)
    few = {name: tensor[:ROWS] for name, tensor in given.items()}
    for place, client in places.items():
        asked = {name: torch.full_like(each, place) if name == "client" else each for name, each in few.items()}
        with _explained(path, form), torch.no_grad():
            found, expected, again = ask(asked), *(models.model(client)(few["inputs"]) for _ in range(2))
        if not torch.equal(expected, again):
            raise PartitaError(
                f"{models.card['method']['label']} draws random numbers when its models are used, which no graph "
                "repeats. Take --format safetensors."
            )
        scale = float(expected.abs().max()) or 1.0
        if found.shape != expected.shape or not float((found - expected).abs().max()) <= TOLERANCE * scale:
            raise PartitaError(
                f"{path.name} gives other numbers than the model of client {client}, and is not written. "
                "Take --format safetensors."
            )


def write_onnx(module: nn.Module, inputs: Mapping[str, Tensor], path: Path) -> Ask:
    """Write a graph; returned is what asks it."""
    for library in ("onnx", "onnxscript"):
        optional(library, "partita[onnx]")
    runtime = optional("onnxruntime", "partita[onnx]")
    with _explained(path, "onnx"):
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            str(path),
            input_names=list(inputs),
            output_names=["logits"],
            dynamic_shapes=_batch(inputs),
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            verbose=False,
        )
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    known = {each.name for each in session.get_inputs()}

    def ask(asked: Mapping[str, Tensor]) -> Tensor:
        [found] = session.run(None, {name: tensor.numpy() for name, tensor in asked.items() if name in known})
        return torch.from_numpy(found)

    return ask


def write_program(module: nn.Module, inputs: Mapping[str, Tensor], path: Path) -> Ask:
    """Write a program of torch.export; returned is what asks it."""
    with _explained(path, "torch-export"), torch.no_grad():
        program = torch.export.export(module, tuple(inputs.values()), dynamic_shapes=_batch(inputs))
        torch.export.save(program, path)
    answer = program.module()
    return lambda asked: answer(*asked.values())


def _batch(inputs: Mapping[str, Tensor]) -> tuple[dict[int, Any], ...]:
    """As many rows as the inputs have may be any number."""
    batch, rows = torch.export.Dim("batch", min=1), len(inputs["inputs"])
    return tuple({0: batch} if len(tensor) == rows else {} for tensor in inputs.values())


@contextmanager
def _explained(path: Path, form: Format) -> Iterator[None]:
    """What torch cannot export is reported in one line, without torch's warnings and notes."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except PartitaError:
        raise
    except Exception as problem:
        reason = str(problem).strip().splitlines() or [type(problem).__name__]
        raise PartitaError(
            f"{path.stem} cannot be written as {NAMES[form]}: {reason[0]} Take --format safetensors."
        ) from problem
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _write_adapters(models: Artefact) -> dict[str, Any]:
    """Each client's adapters in a folder as PEFT itself writes it, for `PeftModel.from_pretrained`."""
    library = optional("peft", "partita[hf]")
    names = file_names(models.clients)
    for client in models.clients:
        network = models.model(client, guarded=False).network
        found = next((part for part in network.modules() if isinstance(part, library.PeftModel)), None)
        if found is None:
            raise PartitaError("The network has no adapters of PEFT. Take --format safetensors.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.save_pretrained(models.folder / "peft" / names[client], save_embedding_layers=False)
    return {"folders": {client: f"peft/{names[client]}" for client in models.clients}}
