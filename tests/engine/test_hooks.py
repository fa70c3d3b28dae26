"""What is added to a network from outside counts, whichever way a phase is computed: hooks, parametrizations, modes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrizations, parametrize, prune, weight_norm

from engine.test_fast import difference, holder, some
from partita.core.optimizers import SGD
from partita.core.phases import Phase
from partita.core.selectors import HEAD, NETWORK
from partita.core.task import Task
from partita.engine import reference
from partita.engine.fast import FastEngine

PHASES = {
    "stacked": Phase(NETWORK, SGD(0.1)),
    "by hand": Phase(NETWORK, SGD(0.1, momentum=0.5), epochs=2),
    "features": Phase(HEAD, SGD(0.1, momentum=0.5), epochs=2),
}
Change = Callable[[nn.Module], Any]


def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        inner = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
        return nn.Sequential(nn.Flatten(), nn.Linear(4, 6), nn.ReLU(), inner).double()


def root(module: nn.Module) -> nn.Module:
    return module


def layer(module: nn.Module) -> nn.Module:
    return module.get_submodule("1")


def last(module: nn.Module) -> nn.Module:
    return module.get_submodule("3.2")


def twice(*given: Any) -> Any:
    """A hook of any kind: doubles the last thing that it is given."""
    value = given[-1]
    return 2 * value if isinstance(value, Tensor) else tuple(None if each is None else 2 * each for each in value)


HOOKS: dict[str, Callable[[nn.Module], Callable[..., Any]]] = {
    "forward": lambda part: part.register_forward_hook,
    "forward pre": lambda part: part.register_forward_pre_hook,
    "full backward": lambda part: (
        lambda hook: part.register_full_backward_hook(lambda own, inputs, outputs: hook(own, inputs))
    ),
    "full backward pre": lambda part: part.register_full_backward_pre_hook,
}
GLOBAL_HOOKS: dict[str, Callable[[Any], Any]] = {
    "forward": torch_module.register_module_forward_hook,
    "forward pre": torch_module.register_module_forward_pre_hook,
    "full backward": lambda hook: torch_module.register_module_full_backward_hook(
        lambda own, inputs, outputs: hook(own, inputs)
    ),
    "full backward pre": torch_module.register_module_full_backward_pre_hook,
}


def agree(task: Task, phase: Phase) -> None:
    client, tensors = holder(task, some((4,), 13))
    # The fast engine comes first, so that it finds the module as it was given.
    [quick] = FastEngine()(phase, [client], [tensors])
    [slow] = reference.run_phase(phase, [client], [tensors])
    assert difference(quick, slow) <= 1e-12
    assert difference(slow, tensors) > 1e-4


every_phase = pytest.mark.parametrize("phase", PHASES.values(), ids=PHASES)
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing when gradients are computed")


@every_phase
@pytest.mark.parametrize("place", [root, layer, last])
@pytest.mark.parametrize("kind", HOOKS)
def test_hooks_of_modules(kind: str, place: Callable[[nn.Module], nn.Module], phase: Phase) -> None:
    module = network()
    HOOKS[kind](place(module))(twice)
    agree(Task(module), phase)


@contextmanager
def added(handle: Any) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()


@every_phase
@pytest.mark.parametrize("kind", GLOBAL_HOOKS)
def test_hooks_of_all_modules(kind: str, phase: Phase) -> None:
    task = Task(network())
    with added(GLOBAL_HOOKS[kind](lambda own, *rest: twice(*rest) if type(own) is nn.Linear else None)):
        agree(task, phase)


@every_phase
@pytest.mark.parametrize("kind", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_of_parameters_are_without_effect(kind: str, phase: Phase) -> None:
    """Weights are arguments of the network: its own parameters are only where the fast engine keeps them."""
    task = Task(network())
    for parameter in task.module.parameters():
        getattr(parameter, kind)(lambda own: 3 * own)
    agree(task, phase)


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


class Shifted(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) + 1


def replaced_forward(part: nn.Module) -> None:
    usual = part.forward
    part.forward = lambda inputs: 2 * usual(inputs)


def another_class(module: nn.Module) -> None:
    layer(module).__class__ = Shifted


def magnitude_and_direction(module: nn.Module) -> None:
    with pytest.warns(FutureWarning, match="weight_norm"):
        weight_norm(layer(module))


def pruned(module: nn.Module) -> None:
    apply: Any = prune.random_unstructured
    apply(layer(module), "weight", 0.5)


CHANGES: dict[str, Change] = {
    "parametrization": lambda module: parametrize.register_parametrization(layer(module), "weight", Doubled()),
    "parametrization of the last": lambda module: parametrize.register_parametrization(
        last(module), "weight", Doubled()
    ),
    "weight norm": lambda module: parametrizations.weight_norm(layer(module)),
    "weight norm, the old one": magnitude_and_direction,
    "spectral norm": lambda module: parametrizations.spectral_norm(layer(module)),
    "pruning": pruned,
    "a forward of its own": lambda module: replaced_forward(layer(module)),
    "a forward of its own, the last": lambda module: replaced_forward(last(module)),
    "a forward of its own, the root": replaced_forward,
    "a forward of its own, between": lambda module: replaced_forward(module.get_submodule("3")),
    "a class of its own": another_class,
}


@every_phase
@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_a_network(name: str, phase: Phase) -> None:
    """The task is made first: a copy of a module has its forward bound to the original."""
    task = Task(network())
    if "forward" in name:
        CHANGES[name](task.module)
    else:
        module = network()
        CHANGES[name](module)
        task = Task(module)
    agree(task, phase)


class ByMode(nn.Module):
    """Has another activation in training than in use."""

    def __init__(self, at_root: bool) -> None:
        super().__init__()
        self.first, self.last, self.at_root = nn.Linear(4, 6), nn.Linear(6, 3), at_root

    def forward(self, inputs: Tensor) -> Tensor:
        hidden: Tensor = self.first(inputs)
        hidden = hidden if self.training else F.relu(hidden)
        answer: Tensor = self.last(hidden)
        return answer


@every_phase
@pytest.mark.parametrize("training", [True, False])
def test_a_forward_that_depends_on_the_mode(training: bool, phase: Phase) -> None:
    task = Task(ByMode(True).double().train(training))
    agree(task, phase)


def test_a_chain_of_one_mode_is_not_used_in_another() -> None:
    task = Task(ByMode(True).double())
    engine, phase = FastEngine(), PHASES["by hand"]
    client, tensors = holder(task, some((4,), 13))
    [first] = engine(phase, [client], [tensors])
    task.evaluate_()
    [again] = engine(phase, [client], [tensors])
    assert difference(first, again) == 0


class Counting(nn.Module):
    """Answers by how often it was called."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        return inputs * self.calls


def test_a_forward_of_its_own_is_no_reason_to_warn() -> None:
    """A copy of the network would still call the original, whose count goes on."""
    task = Task(nn.Sequential(nn.Linear(4, 3), Counting()).double())
    replaced_forward(task.module.get_submodule("1"))
    agree(task, PHASES["by hand"])
