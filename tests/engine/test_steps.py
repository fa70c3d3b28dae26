"""Does a fused step give what the optimizer's own step gives, however kernels lie in memory?"""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from partita.core.client import Client
from partita.core.optimizers import SGD
from partita.engine.steps import fused, in_place
from partita.randomness import Moment

LAST, FIRST = torch.channels_last, torch.contiguous_format
SHAPES = ((4, 3, 3, 3), (4, 1, 3, 3), (4, 3, 1, 1), (1, 1, 3, 3), (4, 3), (4,))


def values(seed: int, layout: torch.memory_format) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    made = {str(shape): torch.randn(shape, generator=draw) for shape in SHAPES}
    return {name: each.contiguous(memory_format=layout if each.dim() == 4 else FIRST) for name, each in made.items()}


@pytest.mark.parametrize("optimizer", [SGD(0.1), SGD(0.1, weight_decay=0.2), SGD(0.1, momentum=0.9, weight_decay=0.2)])
@pytest.mark.parametrize("weights", [FIRST, LAST])
@pytest.mark.parametrize("gradients", [FIRST, LAST])
@pytest.mark.parametrize("velocities", [FIRST, LAST])
def test_a_fused_step_is_the_optimizers_own(
    optimizer: SGD, weights: torch.memory_format, gradients: torch.memory_format, velocities: torch.memory_format
) -> None:
    found = []
    moment = Moment()
    client = cast(Client, SimpleNamespace(moment=moment, task=SimpleNamespace(network=cast(Any, None))))
    for make in (fused, in_place):
        trained = values(0, weights)
        state = {"momentum/" + name: each for name, each in values(1, velocities).items()} if optimizer.momentum else {}
        step = make(optimizer, trained, state, client)
        for seed in (2, 3):
            step(list(values(seed, gradients).values()), moment)
        found.append(trained | state)
    for name, value in found[1].items():
        torch.testing.assert_close(found[0][name], value)
