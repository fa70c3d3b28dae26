"""A shortcut that disagrees with the reference is given up, with a warning, and results are those of the reference."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.test_fast import difference, holder, some, words
from partita.core.optimizers import SGD
from partita.core.phases import Phase
from partita.core.samples import Samples
from partita.core.selectors import HEAD, NETWORK, Selector, where
from partita.core.task import Task
from partita.engine import fast, reference, training
from partita.engine.fast import FastEngine
from partita.engine.shortcuts import Shortcut
from partita.errors import ShortcutWarning
from toys import small_network

SMALL = 1e-4
"""What a broken shortcut adds: far more than rounding, far less than anybody would see in a score."""
EPOCH = Phase(NETWORK, SGD(0.1), epochs=1)
MOMENTUM = Phase(NETWORK, SGD(0.1, momentum=0.9), epochs=1)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(40, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.table(inputs).mean(1))
        return outputs


class Wide(nn.Module):
    """No part of it holds what is trained, and enough comes before for the network to be resumed."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 64), nn.Linear(64, 64)
        self.third, self.head = nn.Linear(64, 8), nn.Linear(8, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.third(self.second(self.first(inputs).relu()).relu()).relu())
        return outputs


def network() -> nn.Module:
    return small_network(norm=False)


def moved_(parameters: Any) -> None:
    with torch.no_grad():
        next(iter(parameters)).add_(SMALL)


def stacked(genuine: Callable[..., Any]) -> Callable[..., Any]:
    def broken(*arguments: Any) -> Any:
        found = genuine(*arguments)
        return [each | {"head.bias": each["head.bias"] + SMALL} for each in found]

    return broken


def learning(genuine: Callable[..., Any]) -> Callable[..., Any]:
    """Of functions that make a step or what learns by steps."""

    def broken(*arguments: Any) -> Any:
        step = genuine(*arguments)
        trained = next(each for each in arguments if isinstance(each, dict) and each)

        def wrong(*told: Any) -> Any:
            found = step(*told)
            moved_(trained.values())
            return found

        return wrong

    return broken


def tail(genuine: Callable[..., Any]) -> Callable[..., Any]:
    def broken(*arguments: Any, **named: Any) -> Any:
        found = genuine(*arguments, **named)
        if found is None:
            return None
        samples = Samples(found.samples.inputs + SMALL, found.samples.targets)
        return replace(found, samples=samples)

    return broken


def embeddings(genuine: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def broken(module: nn.Module | None) -> Iterator[None]:
        with genuine(module):
            yield
        if module:
            moved_(module.parameters())

    return broken


@dataclass(frozen=True)
class Broken:
    """Where the code of a shortcut is, how it is broken, and a network and a phase that use it."""

    module: Any
    name: str
    change: Callable[[Callable[..., Any]], Callable[..., Any]]
    make: Callable[[], nn.Module] = network
    phase: Phase = EPOCH


BROKEN = {
    Shortcut.STACKED: Broken(fast, "run_stacked", stacked),
    Shortcut.BY_HAND: Broken(training, "_by_hand", learning, phase=MOMENTUM),
    Shortcut.FEATURES: Broken(training, "tail_of", tail, phase=replace(MOMENTUM, train=HEAD)),
    Shortcut.RESUMED: Broken(training, "tail_of", tail, Wide, replace(MOMENTUM, train=HEAD | where("third"), epochs=2)),
    Shortcut.SPARSE: Broken(training, "_sparse_embeddings", embeddings, Words),
    Shortcut.FUSED: Broken(training, "fused", learning, phase=MOMENTUM),
}

RAISING = [shortcut for shortcut in BROKEN if shortcut is not Shortcut.SPARSE]
"""The code of sparse gradients is entered whether they are used or not."""


def distances(case: Broken) -> list[float]:
    """How far an engine is from the reference, the first time and the second."""
    engine = FastEngine()
    client, tensors = holder(Task(case.make().double()), words() if case.make is Words else some((4,)))
    [slow] = reference.run_phase(case.phase, [client], [tensors])
    assert difference(slow, tensors) > 1e-3
    return [difference(engine(case.phase, [client], [tensors])[0], slow) for _ in range(2)]


def test_every_shortcut_is_broken_once() -> None:
    assert BROKEN.keys() == set(Shortcut)


@pytest.mark.parametrize("shortcut", BROKEN, ids=lambda each: each.name)
def test_a_shortcut_that_disagrees_is_given_up(shortcut: Shortcut, monkeypatch: pytest.MonkeyPatch) -> None:
    case = BROKEN[shortcut]
    monkeypatch.setattr(case.module, case.name, case.change(getattr(case.module, case.name)))
    with pytest.warns(ShortcutWarning) as told:
        assert max(distances(case)) <= 1e-6
    [warning] = told
    assert str(warning.message).startswith(f"{shortcut.value[0].upper()}{shortcut.value[1:]}: ")
    assert "differs by" in str(warning.message)


@pytest.mark.parametrize("shortcut", RAISING, ids=lambda each: each.name)
def test_a_shortcut_that_raises_is_given_up(shortcut: Shortcut, monkeypatch: pytest.MonkeyPatch) -> None:
    case = BROKEN[shortcut]

    def raises(*arguments: Any, **named: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(case.module, case.name, raises)
    with pytest.warns(ShortcutWarning, match="fails: ZeroDivisionError"):
        assert max(distances(case)) <= 1e-6


def test_where_training_in_place_disagrees_the_reference_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_by_hand", "fused", "in_place"):
        monkeypatch.setattr(training, name, learning(getattr(training, name)))
    with pytest.warns(ShortcutWarning) as told:
        assert distances(Broken(training, "in_place", learning, phase=MOMENTUM)) == [0.0, 0.0]
    assert str(told[-1].message).startswith("Training in place: ")


def test_a_shortcut_is_tried_on_what_is_trained_however_it_is_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client that a shortcut is tried on does not hold the optimizer's state of this one."""
    broken = BROKEN[Shortcut.FUSED]
    monkeypatch.setattr(broken.module, broken.name, broken.change(getattr(broken.module, broken.name)))

    def choose(_: object, names: frozenset[str]) -> frozenset[str]:
        return names & {"head.bias"} if "optimizer/count" in names else frozenset()

    phase = replace(MOMENTUM, train=Selector("by state", choose))
    client, weights = holder(Task(network().double()), some((4,)))
    tensors = weights | {"optimizer/count": torch.tensor(3)}
    [slow] = reference.run_phase(phase, [client], [tensors])
    with pytest.warns(ShortcutWarning, match="differs by"):
        [quick] = FastEngine()(phase, [client], [tensors])
    assert difference(quick, slow) <= 1e-6
