"""How do models run without Partita? As ONNX graphs, programs of torch.export, or adapters of PEFT."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..core.objectives import Problem
from ..errors import PartitaError
from ..extras import optional
from .artefact import Artefact
from .files import file_names

Format = Literal["safetensors", "onnx", "torch-export", "peft"]
OPSET = 20
TOLERANCE = 1e-4
"""A graph whose logits differ by more than this share of the largest one is refused."""
ENDINGS = {"onnx": ".onnx", "torch-export": ".pt2"}


class AllClients(nn.Module):
    """One body and all heads: logits for prepared inputs, each by the head of the client whose place is given."""

    def __init__(self, models: Artefact) -> None:
        super().__init__()
        separation = models.separation
        assert separation is not None, "asked for by `one_for_all`"
        self.body = separation.body
        heads = [separation.head(models.shared | models.personal(client)) for client in models.clients]
        self.register_buffer("weight", torch.stack([weight for weight, _ in heads]))
        biases = [bias for _, bias in heads if bias is not None]
        self.register_buffer("bias", torch.stack(biases) if biases else None)
        shares = [1.0 if (weight := models.weight(client)) is None else weight for client in models.clients]
        self.common = models.global_model().network if min(shares) < 1 else None
        self.register_buffer("share", torch.tensor(shares, dtype=heads[0][0].dtype))
        self.kind: Problem = models.inputs.kind
        self.eval()

    def forward(self, inputs: Tensor, client: Tensor) -> Tensor:
        features = self.body(inputs)
        rows = features.flatten(1, -2) if features.ndim > 2 else features.unsqueeze(1)
        own = torch.bmm(rows, self.get_buffer("weight")[client].transpose(1, 2))
        if self.bias is not None:
            own = own + self.get_buffer("bias")[client].unsqueeze(1)
        own = own.reshape(*features.shape[:-1], -1)
        return own if self.common is None else self._guarded(own, self.common(inputs), client)

    def _guarded(self, own: Tensor, common: Tensor, client: Tensor) -> Tensor:
        """As `evaluation.guard.mixture` has it, with a weight for each row."""
        share = self.get_buffer("share")[client].reshape(-1, *(1,) * (own.ndim - 1))
        if self.kind == "regression":
            return share * own + (1 - share) * common.reshape(own.shape)
        inner = share.clamp(1e-6, 1 - 1e-6)
        mixed = torch.logaddexp(own.log_softmax(-1) + inner.log(), common.log_softmax(-1) + (1 - inner).log())
        return torch.where(share == 1, own, torch.where(share == 0, common, mixed))


def one_for_all(models: Artefact) -> bool:
    """Whether one graph can hold all clients: their personal part is a linear head of one shape."""
    return (
        len(models.clients) > 1
        and models.separation is not None
        and len({models.classes(client) for client in models.clients}) == 1
        and not any("facts" in models.entry(client) for client in models.clients)
    )


def write_graphs(models: Artefact, form: Format) -> dict[str, Any]:
    """Write all models in a format into the folder; what the card is to say of it."""
    if form == "peft":
        return _write_adapters(models)
    place = models.folder / form
    place.mkdir()
    write = write_onnx if form == "onnx" else write_program
    ending, inputs = ENDINGS[form], models.inputs.example(4)
    if one_for_all(models):
        client = torch.arange(len(inputs)) % len(models.clients)
        write(AllClients(models), {"inputs": inputs, "client": client}, place / f"clients{ending}")
        return {"file": f"{form}/clients{ending}", "clients": list(models.clients)}
    names = file_names(models.clients)
    for client_name in models.clients:
        write(models.model(client_name), {"inputs": inputs}, place / f"{names[client_name]}{ending}")
    return {"files": {client: f"{form}/{names[client]}{ending}" for client in models.clients}}


def write_onnx(model: nn.Module, inputs: dict[str, Tensor], path: Path) -> None:
    for module in ("onnx", "onnxscript"):
        optional(module, "partita[onnx]")
    runtime = optional("onnxruntime", "partita[onnx]")
    with _explained(path, "ONNX"):
        torch.onnx.export(
            model,
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
        few = {name: tensor[:3] for name, tensor in inputs.items()}
        known = {each.name for each in session.get_inputs()}
        [found] = session.run(None, {name: tensor.numpy() for name, tensor in few.items() if name in known})
    with torch.no_grad():
        expected = model(*few.values())
    scale = float(expected.abs().max()) or 1.0
    if (
        found.shape != tuple(expected.shape)
        or float((torch.from_numpy(found) - expected).abs().max()) > TOLERANCE * scale
    ):
        raise PartitaError(f"The ONNX graph {path.name} gives other numbers than the model, and is not written.")


def write_program(model: nn.Module, inputs: dict[str, Tensor], path: Path) -> None:
    with _explained(path, "a program of torch.export"), torch.no_grad():
        program = torch.export.export(model, tuple(inputs.values()), dynamic_shapes=_batch(inputs))
        torch.export.save(program, path)


def _batch(inputs: dict[str, Tensor]) -> tuple[dict[int, Any], ...]:
    batch = torch.export.Dim("batch", min=1)
    return tuple({0: batch} for _ in inputs)


@contextmanager
def _explained(path: Path, what: str) -> Iterator[None]:
    """Whatever torch cannot export is told in one line, without its warnings and notes."""
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
            f"{path.stem} cannot be written as {what}: {reason[0]} Take --format safetensors."
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
