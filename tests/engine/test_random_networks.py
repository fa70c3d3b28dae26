"""The fast engine and the reference agree on any network, phase and optimizer that can be drawn."""

import os
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from engine.drawing import drawn
from partita.core.algorithm import RunPhase
from partita.engine import kernels, reference, resumed
from partita.engine.fast import FastEngine
from partita.errors import ShortcutWarning
from partita.tensors import Tensors

PARTS = 20
COUNT = int(os.environ.get("PARTITA_RANDOM_NETWORKS", "400"))
"""How many are drawn in all."""
ROUNDING = 1e-9

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing when gradients are computed")


@pytest.fixture(autouse=True)
def anything_is_worthwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what pays in large networks alone."""
    monkeypatch.setattr(resumed, "WORTH", 0)
    monkeypatch.setattr(kernels, "LARGE_KERNEL", 1)


def result(seed: int, run_phase: RunPhase) -> Sequence[Tensors] | Exception:
    """What an engine makes of a case, or how it fails."""
    case = drawn(seed)
    tensors = list(case.tensors)
    before = [{name: tensor.clone() for name, tensor in own.items()} for own in tensors]
    try:
        for phase in case.phases:
            tensors = run_phase(phase, case.clients, tensors)
    except Exception as error:
        return error
    for own, kept in zip(case.tensors, before, strict=True):
        changed = [name for name in kept if not torch.equal(own[name], kept[name])]
        assert not changed, f"{seed}: given tensors were changed: {changed}"
    return tensors


def without_steps(seed: int) -> bool:
    """Whether there is a phase in which no client has a batch: samples are too few, and the last batch is dropped."""
    case = drawn(seed)
    return any(not any(map(phase.steps_taken, case.clients)) for phase in case.phases)


def disagreement(seed: int) -> str | None:
    slow = result(seed, reference.run_phase)
    if isinstance(slow, Exception):
        return None  # Such as what torch says of a tensor that is changed in place before its gradient is computed.
    with warnings.catch_warnings():
        if without_steps(seed):
            # Nobody notices that such a network cannot be trained but the check of the fast engine.
            warnings.simplefilter("ignore", ShortcutWarning)
        quick = result(seed, FastEngine())
    if isinstance(quick, Exception):
        return f"{seed}: {quick!r}"
    worst: tuple[float, Any] = max(
        (
            (float((one[name] - own[name]).double().norm() / own[name].double().norm().clamp(min=0.1)), name)
            for one, own in zip(quick, slow, strict=True)
            for name in own
        ),
        default=(0.0, None),
    )
    lists = all(list(one) == list(own) for one, own in zip(quick, slow, strict=True))
    return None if lists and worst[0] <= ROUNDING else f"{seed}: {worst[1]} differs by {worst[0]:.1e}"


@pytest.mark.parametrize("part", range(PARTS))
def test_any_network_agrees(part: int) -> None:
    found = [disagreement(seed) for seed in range(part, COUNT, PARTS)]
    assert not [each for each in found if each]
