"""How do all clients fit into one graph? Tensors in which they differ are stacked; a client's place picks its own."""

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from ..core.objectives import Problem
from ..evaluation.prediction.model import Answering
from ..randomness import Moment
from ..tensors import Tensors, under
from .artefact import GUARD, Artefact

MOST_BYTES = 2**31 - 2**24
"""The largest size of stacked tensors: an ONNX file holds at most 2 GiB, with the rest of the graph."""
Places = Literal["one", "each row"]
"""How the input `client` is given: one place for the whole batch, or one for each row."""


class Choice(nn.Module):
    """Networks of one shape as one: a tensor that is the same for all is held once, the others are stacked."""

    def __init__(
        self, first: Answering, each: Iterable[Tensors], stacked: frozenset[str], count: int, moment: Moment
    ) -> None:
        super().__init__()
        self._function = first.function(0, moment)
        self._stacked = stacked
        # A dot in the name of a buffer is not allowed.
        self._places = {name: name.replace(".", ":") for name in first.tensors}
        for name, tensor in first.tensors.items():
            held = tensor.new_empty((count, *tensor.shape)) if name in stacked else tensor.detach().clone()
            self.register_buffer(self._places[name], held)
        for at, tensors in enumerate(each):
            for name in stacked:
                self.get_buffer(self._places[name])[at] = tensors[name]

    def forward(self, inputs: Tensor, client: Tensor) -> Tensor:
        """The logits of one client, whose place is given as a tensor of one number."""
        held = {name: self.get_buffer(place) for name, place in self._places.items()}
        return self._function(
            {name: each.index_select(0, client)[0] if name in self._stacked else each for name, each in held.items()},
            inputs,
        )


class Guard(nn.Module):
    """What the guard chose for each client: its own answer, the global one, or a mixture, as `mixture` has it."""

    def __init__(self, shares: Sequence[float], kind: Problem, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("share", torch.tensor(shares, dtype=dtype))
        self._kind = kind

    def forward(self, own: Tensor, common: Tensor, places: Tensor) -> Tensor:
        share = self.get_buffer("share").index_select(0, places).reshape(-1, *(1,) * (own.ndim - 1))
        if self._kind == "regression":
            return share * own + (1 - share) * common.reshape(own.shape)
        inner = share.clamp(1e-6, 1 - 1e-6)
        mixed = torch.logaddexp(own.log_softmax(-1) + inner.log(), common.log_softmax(-1) + (1 - inner).log())
        return torch.where(share == 1, own, torch.where(share == 0, common, mixed))


class Parts(nn.Module):
    """Logits for prepared inputs of one client, whatever its personal part is."""

    takes: Places = "one"

    def __init__(self, models: Artefact) -> None:
        super().__init__()
        clients, moment = models.clients, models._moment
        self._count = len(clients)
        each = (models._answering(client).tensors for client in clients)
        self.own = Choice(models._answering(clients[0]), each, models.personal_names, len(clients), moment)
        self.common, self.guard = _guarded(models)
        self.eval()

    def forward(self, inputs: Tensor, client: Tensor) -> Tensor:
        place = _known(client, self._count)
        own: Tensor = self.own(inputs, place)
        if self.common is None or self.guard is None:
            return own
        result: Tensor = self.guard(own, self.common(inputs, place), place)
        return result


class Heads(nn.Module):
    """Logits for prepared inputs, each row of any client: one body, and linear heads of one shape."""

    takes: Places = "each row"

    def __init__(self, models: Artefact) -> None:
        super().__init__()
        separation = models.separation
        assert separation is not None, "asked for by `together`"
        self._count = len(models.clients)
        self.body = separation.body
        heads = [separation.head(models.shared | models.personal(client)) for client in models.clients]
        self.register_buffer("weight", torch.stack([weight for weight, _ in heads]))
        biases = [bias for _, bias in heads if bias is not None]
        self.register_buffer("bias", torch.stack(biases) if biases else None)
        self.common, self.guard = _guarded(models)
        self.eval()

    def forward(self, inputs: Tensor, client: Tensor) -> Tensor:
        places = _known(client, self._count)
        features = self.body(inputs)
        rows = features.flatten(1, -2) if features.ndim > 2 else features.unsqueeze(1)
        own = torch.bmm(rows, self.get_buffer("weight").index_select(0, places).transpose(1, 2))
        if self.bias is not None:
            own = own + self.get_buffer("bias").index_select(0, places).unsqueeze(1)
        own = own.reshape(*features.shape[:-1], -1)
        if self.common is None or self.guard is None:
            return own
        result: Tensor = self.guard(own, self.common(inputs, places), places)
        return result


def together(models: Artefact) -> Heads | Parts:
    """One module for all clients, where there is no obstacle."""
    heads = models.separation is not None and not _guard_names(models)
    return Heads(models) if heads else Parts(models)


def obstacle(models: Artefact) -> str | None:
    """Why the clients do not fit into one graph, if they do not."""
    clients, personal, guard = models.clients, models.personal_names, _guard_names(models)
    if len(clients) < 2:
        return "there is one client"
    if any("facts" in models.entry(client) for client in clients):
        return "clients have different networks"
    if len({_shapes(models.shared | models.personal(client), personal) for client in clients}) > 1:
        return "personal parts have different shapes"
    first = models.shared | models.personal(clients[0])
    size = sum(first[name].nbytes for name in personal) + sum(models._common[name].nbytes for name in guard)
    if size * len(clients) > MOST_BYTES:
        return f"together, personal parts have {size * len(clients) / 1e9:.1f} GB, and an ONNX file holds 2 GB"
    return None


def all_alike(models: Artefact) -> bool:
    """Whether every client has the same model."""
    return (
        not models.personal_names
        and not any(models.about(client).guarded for client in models.clients)
        and not any("facts" in models.entry(client) for client in models.clients)
    )


def _shapes(tensors: Tensors, names: frozenset[str]) -> frozenset[tuple[str, torch.Size, torch.dtype]]:
    return frozenset((name, tensors[name].shape, tensors[name].dtype) for name in names)


def _guard_names(models: Artefact) -> frozenset[str]:
    """The tensors in which the global network of some client differs from that of others."""
    return frozenset(name for client in models.clients for name in under(GUARD, models._own(client)))


def _guarded(models: Artefact) -> tuple[Choice | None, Guard | None]:
    """The global networks and what the guard chose; nothing where all clients have their personal model."""
    abouts = [models.about(client) for client in models.clients]
    if not any(about.guarded for about in abouts):
        return None, None
    first, each = models._global_answering(models.clients[0]), map(models._global_answering, models.clients)
    shares = [1.0 if about.weight is None else about.weight for about in abouts]
    dtype = next(tensor.dtype for tensor in models._common.values() if tensor.is_floating_point())
    tensors = (network.tensors for network in each)
    choice = Choice(first, tensors, _guard_names(models), len(shares), models._moment)
    return choice, Guard(shares, models.inputs.kind, dtype)


def _known(client: Tensor, count: int) -> Tensor:
    """Places, of which a negative one becomes too large: counted from the end, it would be another client's."""
    return torch.where(client < 0, count, client)
