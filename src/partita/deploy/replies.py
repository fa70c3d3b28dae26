"""Can a reply be used? Names, shapes, types, numbers and size are checked before it touches the model."""

import math
import sys
from typing import get_args

import torch

from ..core.algorithm import shared_names
from ..core.client import Client
from ..core.server import Update
from ..errors import PartitaError
from ..evaluation.scores import HeldOut, Record
from ..evaluation.variants import Variant
from ..experiment.setup import Setup
from ..tensors import Tensors
from .messages import MOST, Reply, unpacked_update

HEADER = 1 << 20
"""Bytes that a message may have beside its tensors."""
VARIANTS: dict[str, Variant] = {each: each for each in get_args(Variant)}
ROLES: dict[str, HeldOut] = {each: each for each in get_args(HeldOut)}


def checked_update(reply: Reply, setup: Setup, client: Client, norm: float | None) -> Update:
    """The update of a client that received something and was to train; `norm` bounds the change."""
    tensors = setup.algorithm.expand(client) | client.received
    shared = shared_names(setup.algorithm, client.task, tensors)
    expected = {name: tensors[name] for name in shared}
    values, masks = unpacked_update(reply.sent, {name: tensor.shape for name, tensor in expected.items()})
    for name, tensor in values.items():
        if tensor.dtype != expected[name].dtype:
            raise PartitaError(f"{name} is of type {tensor.dtype}, and must be {expected[name].dtype}")
        if not torch.isfinite(tensor).all():
            raise PartitaError(f"{name} holds values that are not finite")
    samples = setup.data.size(client.id)
    if (reply.samples, reply.batches) != (samples, client.batches_per_epoch(samples)):
        raise PartitaError(
            f"it says {reply.samples} samples in {reply.batches} batches, and the site introduced itself with {samples}"
        )
    if norm is not None and (found := distance(values, masks, expected)) > norm:
        raise PartitaError(f"its change has the norm {found:.4g}, and at most {norm:.4g} is accepted")
    weight = None if reply.weight is None else float(reply.weight)
    return Update(client.id, values, samples, reply.batches, masks, weight)


def need_size(message: bytes, setup: Setup, client: Client) -> None:
    """A message may be so large as all that the client holds and received, and something for its header."""
    most = HEADER + sum(tensor.nbytes for tensor in {**setup.algorithm.expand(client), **client.received}.values())
    if len(message) > most:
        raise PartitaError(f"it has {len(message)} bytes, and at most {most} are accepted")


def distance(values: Tensors, masks: Tensors | None, before: Tensors) -> float:
    """The Euclidean norm of the change of all entries that are sent."""
    total = 0.0
    for name, tensor in values.items():
        change = tensor.double() - before[name].double()
        if masks and name in masks:
            change = change[masks[name]]
        total += float(change.square().sum())
    return math.sqrt(total)


def checked_records(reply: Reply, client: int, round: int) -> list[Record]:
    """Metrics of a client after a round, counted from 1."""
    return [_record(row, client, round) for row in reply.records]


def _record(row: object, client: int, round: int) -> Record:
    match row:
        case (str() as variant, str() as role, int() as count, (int() | None) as correct, (int() | float()) as loss):
            measured, held_out = VARIANTS.get(variant), ROLES.get(role)
            counted = 0 < count <= MOST and (correct is None or 0 <= correct <= count)
            if measured and held_out and counted and abs(loss) <= sys.float_info.max:
                return Record(round, client, measured, held_out, count, correct, float(loss))
    raise PartitaError(f"its metrics hold {row!r}")
