"""How fast can a network be trained on one thread? By a loop of plain torch, in the best layout.

Images are stored channels last, large layers use the faster kernels, and a step is one call for all tensors. With group
norm images are stored channels first, which is as fast: torch's kernel for the other layout crashes in some gradients.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from partita.core.objectives import OBJECTIVES
from partita.core.samples import Samples
from partita.data.federation import Federation
from partita.engine.kernels import fast_kernels
from partita.experiment.memory import keep_freed_memory
from partita.randomness import generator


@dataclass(frozen=True)
class Training:
    """Epochs of SGD on some of the tensors."""

    rate: float
    epochs: int = 1
    trained: Callable[[str], bool] = lambda name: True
    momentum: float = 0.0
    clip: float | None = None


def prepare(
    data: Federation,
    model: nn.Module,
    chosen: Sequence[int],
    trainings: Sequence[Training],
    *,
    batch: int,
    evaluations: int = 0,
    evaluation_batch: int = 64,
) -> Callable[[Sequence[int]], Callable[[], None]]:
    """A round for some of the chosen clients: the trainings, then passes over what is held out."""
    loss = OBJECTIVES[data.kind].loss
    grouped = any(isinstance(part, nn.GroupNorm) for part in model.modules())
    layout = torch.contiguous_format if grouped else torch.channels_last

    def for_clients(places: Sequence[int]) -> Callable[[], None]:
        keep_freed_memory()
        clients = [chosen[place] for place in places]
        train = {client: _ready(data[client].train, layout) for client in clients}
        tests = {client: _ready(data[client].test, layout) for client in clients}

        def learn(own: nn.Module, client: int, training: Training) -> None:
            inputs, targets = train[client]
            chosen = [own_parameter for name, own_parameter in own.named_parameters() if training.trained(name)]
            for name, parameter in own.named_parameters():
                parameter.requires_grad_(training.trained(name))
            velocity = [torch.zeros_like(each) for each in chosen] if training.momentum else []
            for epoch in range(training.epochs):
                order = torch.randperm(len(targets), generator=generator(0, "train", 0, client, epoch))
                for rows in torch.split(order, batch):
                    some = _rows(inputs, rows)
                    with fast_kernels(own):
                        value = loss(own(some), targets[rows])
                    slopes = list(torch.autograd.grad(value, chosen))
                    with torch.no_grad():
                        _step(chosen, slopes, velocity, training)

        @torch.no_grad()
        def evaluate(own: nn.Module, client: int) -> None:
            inputs, _ = tests[client]
            with fast_kernels(own):
                for some in torch.split(inputs, evaluation_batch):
                    own(some).argmax(-1)

        def work() -> None:
            for client in clients:
                own = nn.utils.convert_conv2d_weight_memory_format(deepcopy(model), layout).train()
                for training in trainings:
                    learn(own, client, training)
                own.eval()
                for _ in range(evaluations):
                    evaluate(own, client)

        return work

    return for_clients


def _step(parameters: Sequence[Tensor], slopes: list[Tensor], velocity: list[Tensor], training: Training) -> None:
    if training.clip is not None:
        norm = torch.stack(torch._foreach_norm(slopes)).norm()
        torch._foreach_mul_(slopes, (training.clip / norm.clamp(min=training.clip)).item())
    if velocity:
        torch._foreach_mul_(velocity, training.momentum)
        torch._foreach_add_(velocity, slopes)
    torch._foreach_add_(list(parameters), velocity or slopes, alpha=-training.rate)


def _ready(samples: Samples, layout: torch.memory_format) -> tuple[Tensor, Tensor]:
    inputs, targets = samples.inputs, samples.targets
    return (inputs.contiguous(memory_format=layout) if inputs.dim() == 4 else inputs), targets


def _rows(inputs: Tensor, rows: Tensor) -> Tensor:
    if inputs.is_contiguous():
        return inputs.index_select(0, rows)
    return inputs.permute(0, 2, 3, 1).index_select(0, rows).permute(0, 3, 1, 2)
