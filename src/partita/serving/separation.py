"""Can clients share one pass through the network? Where their models differ in a linear layer at the end alone."""

from collections.abc import Collection, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..core.samples import Samples
from ..core.task import Task
from ..engine.prefix import tail_of
from ..evaluation.prediction.inputs import Inputs
from ..tensors import Tensors

Head = tuple[Tensor, Tensor | None]
"""Weight and bias of a linear layer."""


@dataclass(frozen=True, eq=False)
class Separation:
    """A body, the same for all, and the names of the weight and the bias of each client's head."""

    body: nn.Module
    """What the network makes of prepared inputs before its head, with the shared weights."""
    weight: str
    bias: str | None

    def features(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            found: Tensor = self.body(inputs)
        return found

    def head(self, tensors: Tensors) -> Head:
        return tensors[self.weight], tensors[self.bias] if self.bias else None

    def outputs(self, features: Iterable[Tensor], heads: Sequence[Head]) -> list[Tensor]:
        """The logits of each client: its own head, applied to the features of its own inputs.

        Heads may have different numbers of outputs. Those that are alike, of clients with as many inputs, are one
        product of stacked matrices.
        """
        given = list(features)
        groups: dict[tuple[torch.Size, torch.Size], list[int]] = {}
        for at, (own, (weight, _)) in enumerate(zip(given, heads, strict=True)):
            groups.setdefault((own.shape, weight.shape), []).append(at)
        found: dict[int, Tensor] = {}
        for (shape, _), members in groups.items():
            rows = torch.stack([given[at].reshape(-1, shape[-1]) for at in members])
            answers = torch.bmm(rows, torch.stack([heads[at][0] for at in members]).mT)
            biases = [bias for at in members if (bias := heads[at][1]) is not None]
            if biases:
                answers += torch.stack(biases)[:, None]
            found |= zip(members, answers.reshape(len(members), *shape[:-1], answers.shape[-1]), strict=True)
        return [found[at] for at in range(len(given))]


def separate(task: Task, shared: Tensors, personal: Collection[str], inputs: Inputs) -> Separation | None:
    """The network without its head; None where the personal part is not a linear layer at its end, or may not be.

    The layer must be used once, on one tensor, its answer must be the network's, and what comes before must treat every
    input alone, without chance. This is tried out on inputs without meaning, and anything unknown means None.
    """
    if not personal or not set(personal) <= task.weights.keys():
        return None
    owners = {task.network.owners[name] for name in personal}
    if len(owners) != 1 or type(owner := next(iter(owners))) is not nn.Linear:
        return None
    place = next(iter(personal)).rpartition(".")[0]
    names = {name: f"{place}.{name}" for name, _ in owner.named_parameters()}
    weights = {name: shared.get(name, tensor) for name, tensor in task.weights.items()}
    network = task.module_with(weights)
    few = inputs.example(4)
    samples = Samples(few, torch.zeros(len(few)))
    if not place or tail_of(network, [network.get_submodule(place)], samples) is None:
        return None
    body = deepcopy(network)
    body.set_submodule(place, nn.Identity())
    bias = names.get("bias")
    made = Separation(body, names["weight"], bias)
    try:
        features = made.features(few)
        again = torch.stack(made.outputs(features, [made.head(weights)] * len(few)))
    except Exception:
        # Whatever the network does with its head beside calling it.
        return None
    with torch.no_grad():
        whole = network(few)
    rounding = torch.finfo(whole.dtype).eps ** 0.5 / 4
    alike = again.shape == whole.shape and torch.allclose(again, whole, rtol=rounding, atol=rounding / 10)
    return made if alike else None
