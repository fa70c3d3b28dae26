"""How do many clients share one pass through the body? Each takes its own head to the features of its inputs."""

from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..tensors import Tensors

TOLERANCE = 1e-4
"""Relative to the largest logit: the body and the head by themselves must give what the whole network gives."""


@dataclass(frozen=True, eq=False)
class Body:
    """A network without its head, a linear layer, which is every client's own."""

    module: nn.Module
    head: str

    def features(self, inputs: Tensor) -> Tensor:
        found: Tensor = self.module(inputs)
        return found

    def head_of(self, tensors: Tensors) -> tuple[Tensor, Tensor | None]:
        """The weight and the bias of a client's head."""
        return tensors[f"{self.head}.weight"], tensors.get(f"{self.head}.bias")


def body_of(network: nn.Module, personal: Collection[str], example: Tensor) -> Body | None:
    """The body, if the personal tensors are those of one linear layer, which the network ends with; else None.

    That it ends with this layer, and that nothing else depends on the personal tensors, is tried on an example.
    """
    owners = {name.rpartition(".")[0] for name in personal}
    if len(owners) != 1:
        return None
    [head] = owners
    layer = dict(network.named_modules()).get(head)
    own = {f"{head}.{name}" for name, _ in layer.named_parameters()} if layer else set()
    if not head or type(layer) is not nn.Linear or own != set(personal) or _hooked(layer):
        return None
    held = {id(tensor) for tensor in layer.parameters()}
    everywhere = [name for name, tensor in network.named_parameters(remove_duplicate=False) if id(tensor) in held]
    if set(everywhere) != own:
        return None
    module = deepcopy(network)
    module.set_submodule(head, nn.Identity())
    made = Body(module.eval(), head)
    return made if _agrees(made, network, layer, example) else None


def _hooked(layer: nn.Module) -> bool:
    return bool(layer._forward_hooks or layer._forward_pre_hooks)


def _agrees(body: Body, network: nn.Module, layer: nn.Linear, example: Tensor) -> bool:
    with torch.no_grad():
        wanted = network(example)
        features = body.features(example)
        if not isinstance(features, Tensor) or features.shape[-1] != layer.in_features:
            return False
        found = F.linear(features, layer.weight, layer.bias)
        # A head of other weights must show in the answer as it does here.
        return found.shape == wanted.shape and bool((found - wanted).abs().max() <= TOLERANCE * wanted.abs().max())


def apply_heads(
    features: Sequence[Tensor], heads: Sequence[tuple[Tensor, Tensor | None]]
) -> list[Tensor]:
    """The logits of each client: its own head, applied to its own features.

    Clients with as many labels and as many rows are one product of stacked matrices; others are others.
    """
    groups: dict[tuple[torch.Size, torch.Size, bool], list[int]] = {}
    for at, (own, (weight, bias)) in enumerate(zip(features, heads, strict=True)):
        groups.setdefault((own.shape, weight.shape, bias is None), []).append(at)
    found: dict[int, Tensor] = {}
    for (shape, _, unbiased), members in groups.items():
        rows = torch.stack([features[at].reshape(-1, shape[-1]) for at in members])
        weights = torch.stack([heads[at][0] for at in members]).mT
        if unbiased:
            logits = torch.bmm(rows, weights)
        else:
            biases = torch.stack([bias for at in members if (bias := heads[at][1]) is not None])
            logits = torch.baddbmm(biases[:, None], rows, weights)
        for at, own in zip(members, logits, strict=True):
            found[at] = own.reshape(*shape[:-1], own.shape[-1])
    return [found[at] for at in range(len(features))]
