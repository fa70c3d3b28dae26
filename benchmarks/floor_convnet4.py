"""How fast can 4convNet be trained on one thread, its head frozen? By hand: forwards, backwards and the step.

Images are stored channels last. Pooling comes before ReLU, which gives the same numbers from a quarter of the work.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from partita.core.samples import Samples
from partita.data.federation import Federation
from partita.experiment.memory import keep_freed_memory
from partita.randomness import generator

aten = torch.ops.aten
ONE, NONE, TWO = [1, 1], [0, 0], [2, 2]


@torch.no_grad()
def gradients(weights: Sequence[Tensor], head: Sequence[Tensor], images: Tensor, labels: Tensor) -> list[Tensor]:
    """Of the mean cross entropy by the weights of the body: of each block the convolution's, then the norm's."""
    hidden, kept = images, []
    for conv, shift, scale, offset in zip(*(weights[at::4] for at in range(4)), strict=True):
        maps = torch.conv2d(hidden, conv, shift, padding=1)
        normal, mean, spread = aten.native_batch_norm(maps, scale, offset, None, None, True, 0.1, 1e-5)
        pooled, places = aten.max_pool2d_with_indices(normal, TWO, TWO)
        kept.append((hidden, conv, scale, maps, mean, spread, pooled.relu_(), places))
        hidden = pooled
    slope = torch.softmax(F.linear(hidden.flatten(1), *head), 1)
    slope[torch.arange(len(labels)), labels] -= 1
    back = (slope.div_(len(labels)) @ head[0]).view(hidden.shape).contiguous(memory_format=torch.channels_last)
    found: list[Tensor] = []
    for before, conv, scale, maps, mean, spread, pooled, places in reversed(kept):
        back = aten.threshold_backward(back, pooled, 0)
        back = aten.max_pool2d_with_indices_backward(back, maps, TWO, TWO, NONE, ONE, False, places)
        back, by_scale, by_offset = aten.native_batch_norm_backward(
            back, maps, scale, None, None, mean, spread, True, 1e-5, [True, True, True]
        )
        needed = before is not images
        geometry = (ONE, ONE, ONE, False, NONE, 1, [needed, True, True])
        back, by_conv, by_shift = aten.convolution_backward(back, before, conv, [len(conv)], *geometry)
        found = [by_conv, by_shift, by_scale, by_offset, *found]
    return found


def train(
    model: nn.Module, samples: Samples, *, batch: int, epochs: int, rate: float, momentum: float, client: int
) -> None:
    """The body follows the gradient with momentum; the augmentation is that of the samples."""
    *body, weight, bias = (parameter.detach() for parameter in model.parameters())
    velocity = [torch.zeros_like(tensor) for tensor in body]
    for epoch in range(epochs):
        order = torch.randperm(len(samples), generator=generator(0, "train", 0, client, epoch))
        draw = generator(0, "train/augment", 0, client, epoch)
        for rows in torch.split(order, batch):
            some = samples.take(rows).augmented(draw)
            slopes = gradients(body, (weight, bias), _last(some.inputs), some.targets)
            torch._foreach_mul_(velocity, momentum)
            torch._foreach_add_(velocity, slopes)
            torch._foreach_sub_(body, velocity, alpha=rate)


def prepare(
    data: Federation, model: nn.Module, chosen: Sequence[int], *, batch: int, epochs: int, rate: float, momentum: float
) -> Callable[[Sequence[int]], Callable[[], None]]:
    """A round for some of the chosen clients."""

    def for_clients(places: Sequence[int]) -> Callable[[], None]:
        keep_freed_memory()
        clients = [chosen[place] for place in places]
        held = {client: data[client].train.alone() for client in clients}

        def work() -> None:
            for client in clients:
                own = deepcopy(model)
                nn.utils.convert_conv2d_weight_memory_format(own, torch.channels_last)
                train(own, held[client], batch=batch, epochs=epochs, rate=rate, momentum=momentum, client=client)

        return work

    return for_clients


def _last(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last)
