"""What do the server and sites send each other? Orders and replies: a header in JSON, and named tensors."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor

from ..core.server import Update
from ..core.signatures import Count, between, check_fields
from ..errors import PartitaError
from ..parsing import parse_json
from ..runs.blobs import pack, unpack
from ..tensors import Tensors, prefixed, under

LENGTH = 8
"""Bytes at the start of a message that say how long its header is."""
VALUES, MASK = "values/", "mask/"
MOST = 1 << 48
"""Samples that a site may say it has."""
Samples = Annotated[int, between(0, MOST)]
SECURE, MASKED = "secure/", "masked/"
Kind = Literal["introduce", "train", "stay_away", "evaluate", "keys", "shares", "unmask"]
"""The last three are the steps of a sum of masked updates, around the training."""
Said = TypeVar("Said", bound="Order | Reply")


@dataclass(frozen=True, eq=False)
class Order:
    """What the server asks of a site."""

    kind: Kind
    plan: str
    """The plan's hash; in an introduction, its text."""
    round: Count = 0
    """Counted from 0, as in `Moment`."""
    kept: Count = 0
    """The round (counted from 1) after which the site's own state was last accepted; it starts from there."""
    evaluated: bool = False
    taking_part: Count = 0
    """How many sites take part in the round."""
    threshold: Count = 0
    """How many sites can open the sum of masked updates."""
    rejected: str = ""
    """The reason why the last reply of the site was left out; empty if it was used."""
    received: Tensors = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)

    def write(self) -> bytes:
        return _write(self, self.received)

    @classmethod
    def read(cls, message: bytes) -> "Order":
        header, tensors = _read(cls, message)
        return cls(**header, received=tensors)


@dataclass(frozen=True, eq=False)
class Reply:
    """What a site answers."""

    kind: Kind
    plan: str
    """The plan's hash."""
    round: Count = 0
    refused: str = ""
    """The reason why the site refused the order; empty if it did not."""
    facts: Mapping[str, int] = field(default_factory=dict)
    """In an introduction: the site's numbers of samples by role, and of classes."""
    records: tuple[tuple[Any, ...], ...] = ()
    """Metrics: variant, role, count, correct and loss of each."""
    samples: Samples = 0
    batches: Samples = 0
    weight: float | None = None
    sent: Tensors = field(default_factory=dict)
    """Values and masks, as `packed_update` gives them."""

    def __post_init__(self) -> None:
        check_fields(self)

    def write(self) -> bytes:
        return _write(self, self.sent)

    @classmethod
    def read(cls, message: bytes) -> "Reply":
        header, tensors = _read(cls, message)
        return cls(**header, sent=tensors)


def packed_bytes(prefix: str, parts: Mapping[int, bytes]) -> Tensors:
    """Bytes by the number of a site, as tensors with names under a prefix."""
    return {f"{prefix}{at}": torch.frombuffer(bytearray(part), dtype=torch.uint8) for at, part in parts.items()}


def unpacked_bytes(prefix: str, tensors: Tensors) -> dict[int, bytes]:
    try:
        return {int(at): part.numpy().tobytes() for at, part in under(prefix, tensors).items()}
    except ValueError as problem:
        raise PartitaError(f"The message cannot be read: {problem}.") from problem


def packed_update(update: Update) -> Tensors:
    """An update as tensors: of a masked one the entries that are sent, and a bit for each entry."""
    masks = update.mask or {}
    values = {name: tensor[masks[name]] if name in masks else tensor for name, tensor in update.values.items()}
    bits = {name: torch.from_numpy(np.packbits(mask.reshape(-1).numpy())) for name, mask in masks.items()}
    return {**prefixed(VALUES, values), **prefixed(MASK, bits)}


def unpacked_update(sent: Tensors, shapes: Mapping[str, torch.Size]) -> tuple[Tensors, Tensors | None]:
    """Values and masks; `shapes` are those that tensors must have."""
    values, bits = under(VALUES, sent), under(MASK, sent)
    if len(values) + len(bits) != len(sent) or not bits.keys() <= values.keys():
        raise PartitaError("it holds something other than values and their masks")
    if unknown := values.keys() - shapes.keys():
        raise PartitaError(f"it holds {min(unknown)}, which is not shared")
    masks = {name: _mask(name, packed, shapes[name]) for name, packed in bits.items()}
    return {name: _whole(name, each, shapes[name], masks.get(name)) for name, each in values.items()}, masks or None


def _mask(name: str, packed: Tensor, shape: torch.Size) -> Tensor:
    count = shape.numel()
    if packed.dtype != torch.uint8 or packed.shape != ((count + 7) // 8,):
        raise PartitaError(f"the mask of {name} does not fit its shape {list(shape)}")
    return torch.from_numpy(np.unpackbits(packed.numpy(), count=count).astype(bool)).view(shape)


def _whole(name: str, sent: Tensor, shape: torch.Size, mask: Tensor | None) -> Tensor:
    expected = shape if mask is None else (int(mask.sum()),)
    if sent.shape != expected:
        raise PartitaError(f"{name} has the shape {list(sent.shape)}, and must have {list(expected)}")
    if mask is None:
        return sent
    whole = torch.zeros(shape, dtype=sent.dtype)
    whole[mask] = sent
    return whole


def _write(said: "Order | Reply", tensors: Tensors) -> bytes:
    names = [each.name for each in fields(said) if each.name not in ("received", "sent")]
    header = json.dumps({name: getattr(said, name) for name in names}).encode()
    return len(header).to_bytes(LENGTH, "little") + header + pack(tensors)


def _read(kind: type[Said], message: bytes) -> tuple[dict[str, Any], Tensors]:
    """The header and the tensors, each in memory of its own: where a tensor begins decides the last bits of sums."""
    names = [each.name for each in fields(kind) if each.name not in ("received", "sent")]
    try:
        end = LENGTH + int.from_bytes(message[:LENGTH], "little")
        header = parse_json(message[LENGTH:end])
        if not isinstance(header, dict) or sorted(header) != sorted(names):
            raise ValueError("its header has other fields")
        tensors = unpack(message[end:])
        if len(tensors) != len({*tensors}):
            raise ValueError("a tensor comes twice")
    except (ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as problem:
        raise PartitaError(f"The message cannot be read: {problem}.") from problem
    lists = {name: _as_tuples(value) for name, value in header.items()}
    return lists, {name: tensor.clone() for name, tensor in tensors.items()}


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value
