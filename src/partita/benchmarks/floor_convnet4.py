"""How fast can 4convNet be trained on one thread, its head frozen? Autograd, channels last, pooling before ReLU."""

from collections.abc import Callable, Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..federation import Federation
from ..memory import keep_freed_memory
from ..randomness import generator
from ..samples import Samples


def outputs(model: nn.Module, images: Tensor) -> Tensor:
    """What the network answers; pooling before ReLU gives the same numbers."""
    hidden = images
    for name, block in model.named_children():
        if name != "fc":
            maps = block.get_submodule("norm")(block.get_submodule("conv")(hidden))
            hidden = F.relu(F.max_pool2d(maps, 2))
    answer: Tensor = model.get_submodule("fc")(torch.flatten(hidden, 1))
    return answer


def train(
    model: nn.Module, samples: Samples, *, batch: int, epochs: int, rate: float, momentum: float, client: int
) -> None:
    """The body follows the gradient with momentum; the augmentation is that of the samples."""
    body: list[Tensor] = [tensor for name, tensor in model.named_parameters() if not name.startswith("fc.")]
    velocity = [torch.zeros_like(tensor) for tensor in body]
    for epoch in range(epochs):
        order = torch.randperm(len(samples), generator=generator(0, "train", 0, client, epoch))
        draw = generator(0, "train/augment", 0, client, epoch)
        for rows in torch.split(order, batch):
            some = samples.take(rows).augmented(draw)
            loss = F.cross_entropy(outputs(model, _last(some.inputs)), some.targets)
            slopes = torch.autograd.grad(loss, body)
            with torch.no_grad():
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
