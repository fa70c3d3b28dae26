"""How fast can a network be trained on one thread? By a plain loop, with the best kernels and layout that are known.

Images are stored channels last, large layers use the faster kernels, a chain of layers is run backwards by hand, and a
step is one call for all tensors. With group norm images are stored channels first, which is as fast: torch's kernel for
the other layout crashes in some gradients.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from partita.core.objectives import OBJECTIVES
from partita.core.samples import Samples
from partita.data.federation import Federation
from partita.engine.chain import Chains
from partita.engine.kernels import fast_kernels
from partita.engine.steps import Gathering
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
            slopes_of = gradients(own, loss, chosen, inputs.dim())
            for epoch in range(training.epochs):
                order = torch.randperm(len(targets), generator=generator(0, "train", 0, client, epoch))
                for rows in torch.split(order, batch):
                    slopes = slopes_of(_rows(inputs, rows), targets[rows])
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


def gradients(
    own: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], chosen: list[nn.Parameter], dimensions: int
) -> Callable[[Tensor, Tensor], list[Tensor]]:
    """The gradients of a batch: by hand if the network is a chain of layers, else by autograd."""
    chain = Chains().of(own) if loss is F.cross_entropy else None
    if chain and chain.accepts(dimensions):

        @torch.no_grad()
        def by_hand(inputs: Tensor, targets: Tensor) -> list[Tensor]:
            gathering = Gathering()
            chain.step(inputs, targets, chain.first_trained(), gathering)
            return [gathering.gradients[each] for each in chosen]

        return by_hand

    kernels = fast_kernels(own)

    def by_autograd(inputs: Tensor, targets: Tensor) -> list[Tensor]:
        with kernels:
            value = loss(own(inputs), targets)
        return list(torch.autograd.grad(value, chosen))

    return by_autograd


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


def operations(model: nn.Module, inputs: torch.Tensor, trainings: Sequence[Training], evaluations: int) -> float:
    """Of a client with these inputs, by number of inputs: the epochs of all trainings, and the evaluations."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.eval()(inputs)
    forward = float(counter.get_total_flops())
    counts = {name: float(sum(found.values())) for name, found in counter.get_flop_counts().items()}
    root = type(model).__name__
    own = {
        f"{root}.{name}": [f"{name}.{parameter}" for parameter, _ in part.named_parameters(recurse=False)]
        for name, part in model.named_modules()
        if name
    }

    def a_step(training: Training) -> float:
        trained = (place for place, names in own.items() if any(map(training.trained, names)))
        return 2 * forward + sum(counts.get(place, 0.0) for place in trained)

    return sum(training.epochs * a_step(training) for training in trainings) + evaluations * forward
