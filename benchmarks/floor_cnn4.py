"""How fast can CNN4 be trained on one thread? By hand: forwards, backwards and the step in one function.

Images are stored channels last. Pooling comes before ReLU, which gives the same numbers from a quarter of the work. The
large linear layer takes its step in place, so that no gradient of 3 MB is written and read again.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from partita.data.federation import Federation
from partita.experiment.memory import keep_freed_memory
from partita.randomness import generator
from partita.tensors import Tensors

aten = torch.ops.aten
ONE, NONE, TWO = [1, 1], [0, 0], [2, 2]


@torch.no_grad()
def step(weights: Tensors, images: Tensor, labels: Tensor, rate: float) -> None:
    """One step of SGD on the mean cross entropy; the weights change in place."""
    conv1, conv2 = weights["conv1.weight"], weights["conv2.weight"]
    wide, last = weights["fc1.weight"], weights["fc.weight"]
    count = len(images)
    maps = torch.conv2d(images, conv1, weights["conv1.bias"])
    first, first_places = aten.max_pool2d_with_indices(maps, TWO, TWO)
    first.relu_()
    maps2 = torch.conv2d(first, conv2, weights["conv2.bias"])
    second, second_places = aten.max_pool2d_with_indices(maps2, TWO, TWO)
    second.relu_()
    flat = second.reshape(count, -1)
    # Of this shape, the product of weight and inputs is twice as fast as that of inputs and weight.
    hidden = torch.mm(wide, flat.t()).t().add_(weights["fc1.bias"]).relu_()
    slope = torch.softmax(F.linear(hidden, last, weights["fc.bias"]), 1)
    slope[torch.arange(count), labels] -= 1
    slope.div_(count)
    to_hidden = aten.threshold_backward(slope @ last, hidden, 0)
    last.addmm_(slope.t(), hidden, alpha=-rate)
    weights["fc.bias"].sub_(slope.sum(0), alpha=rate)
    to_flat = to_hidden @ wide
    wide.addmm_(to_hidden.t(), flat, alpha=-rate)
    weights["fc1.bias"].sub_(to_hidden.sum(0), alpha=rate)
    pooled = aten.threshold_backward(to_flat, flat, 0).view(second.shape)
    pooled = pooled.contiguous(memory_format=torch.channels_last)
    weights["conv2.bias"].sub_(pooled.sum((0, 2, 3)), alpha=rate)
    spread = aten.max_pool2d_with_indices_backward(pooled, maps2, TWO, TWO, NONE, ONE, False, second_places)
    geometry = (ONE, NONE, ONE, False, NONE, 1)
    to_first, change2, _ = aten.convolution_backward(spread, first, conv2, None, *geometry, [True, True, False])
    to_first = aten.threshold_backward(to_first, first, 0)
    weights["conv1.bias"].sub_(to_first.sum((0, 2, 3)), alpha=rate)
    spread = aten.max_pool2d_with_indices_backward(to_first, maps, TWO, TWO, NONE, ONE, False, first_places)
    _, change1, _ = aten.convolution_backward(spread, images, conv1, None, *geometry, [False, True, False])
    conv2.sub_(change2, alpha=rate)
    conv1.sub_(change1, alpha=rate)


@torch.no_grad()
def right_answers(weights: Tensors, images: Tensor, labels: Tensor, batch: int = 512) -> int:
    """How many images are recognised."""
    right = 0
    for some, truth in zip(torch.split(images, batch), torch.split(labels, batch), strict=True):
        maps = F.max_pool2d(torch.conv2d(some, weights["conv1.weight"], weights["conv1.bias"]), 2).relu_()
        maps = F.max_pool2d(torch.conv2d(maps, weights["conv2.weight"], weights["conv2.bias"]), 2).relu_()
        hidden = F.linear(maps.flatten(1), weights["fc1.weight"], weights["fc1.bias"]).relu_()
        answers = F.linear(hidden, weights["fc.weight"], weights["fc.bias"]).argmax(1)
        right += int((answers == truth).sum())
    return right


def prepared(weights: Tensors) -> Tensors:
    """Copies of the weights as `step` wants them."""
    return {
        name: tensor.clone(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor.clone()
        for name, tensor in weights.items()
    }


def prepare(
    data: Federation, weights: Tensors, *, batch: int, rate: float, evaluations: int
) -> Callable[[Sequence[int]], Callable[[], None]]:
    """A round for some clients: each trains for an epoch, and models of it are evaluated on what is held out."""

    def for_clients(clients: Sequence[int]) -> Callable[[], None]:
        keep_freed_memory()
        held = {client: data[client] for client in clients}
        train = {client: (_last(each.train.inputs), each.train.targets) for client, each in held.items()}
        tests = {
            client: [(_last(part.inputs), part.targets) for part in (each.validation, each.test) if len(part)]
            for client, each in held.items()
        }

        def work() -> None:
            for client in clients:
                own = prepared(weights)
                for images, labels in batches(*train[client], batch, client):
                    step(own, images, labels, rate)
                for _ in range(evaluations):
                    for images, labels in tests[client]:
                        right_answers(own, images, labels)

        return work

    return for_clients


def batches(images: Tensor, labels: Tensor, size: int, client: int) -> Iterable[tuple[Tensor, Tensor]]:
    """An epoch in the order in which a simulation of seed 0 goes through it in its first round."""
    order = torch.randperm(len(labels), generator=generator(0, "train", 0, client, 0))
    stored = images.permute(0, 2, 3, 1)
    for rows in torch.split(order, size):
        yield stored.index_select(0, rows).permute(0, 3, 1, 2), labels[rows]


def _last(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last)
