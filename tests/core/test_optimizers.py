"""Optimizers: against torch's own and against formulas."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from partita.algorithms._layerwise import Layerwise
from partita.core.network import Network
from partita.core.optimizers import OPTIMIZERS, SGD, Optimizer, adagrad, adam, clipped, yogi
from partita.core.schedules import exponential
from partita.core.selectors import HEAD, WEIGHTS, where
from partita.core.task import Task
from partita.errors import PartitaError
from partita.randomness import Moment
from partita.tensors import Tensors
from toys import small_network

SMALL = Task(small_network(norm=False))
RATES = st.floats(1e-4, 1.0)
SHARES = st.floats(0.0, 0.99)
SEEDS = st.integers(0, 1000)


def random_gradients(draw: torch.Generator, like: Tensors) -> Tensors:
    return {name: torch.randn(tensor.shape, generator=draw, dtype=tensor.dtype) for name, tensor in like.items()}


def follow(
    optimizer: Optimizer, params: Tensors, gradients: list[Tensors], network: Network = SMALL.network
) -> Tensors:
    state = optimizer.init(params)
    for number, gradient in enumerate(gradients):
        params, state = optimizer.update(params, gradient, state, Moment(step=number), network)
    return params


def follow_torch(
    make: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
    params: Tensors,
    gradients: list[Tensors],
    clip: float | None = None,
) -> Tensors:
    leaves = {name: nn.Parameter(tensor.clone()) for name, tensor in params.items()}
    optimizer = make(list(leaves.values()))
    for gradient in gradients:
        for name, leaf in leaves.items():
            leaf.grad = gradient[name].clone()
        if clip is not None:
            nn.utils.clip_grad_norm_(leaves.values(), clip)
        optimizer.step()
    return {name: leaf.detach() for name, leaf in leaves.items()}


def assert_close(left: Tensors, right: Tensors) -> None:
    assert left.keys() == right.keys()
    for name in left:
        torch.testing.assert_close(left[name], right[name], rtol=1e-9, atol=1e-12)


def drawn(seed: int, steps: int) -> list[Tensors]:
    draw = torch.Generator().manual_seed(seed)
    return [random_gradients(draw, SMALL.weights) for _ in range(steps)]


@settings(deadline=None)
@given(RATES, SHARES, st.booleans(), st.floats(0, 0.1), st.none() | st.floats(0.01, 20), SEEDS)
def test_sgd_is_torchs(
    lr: float, momentum: float, nesterov: bool, weight_decay: float, clip: float | None, seed: int
) -> None:
    nesterov = nesterov and momentum > 0
    own = SGD(lr, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay, clip=clip)
    gradients = drawn(seed, 4)
    expected = follow_torch(
        lambda leaves: torch.optim.SGD(
            leaves, lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay, foreach=False
        ),
        SMALL.weights,
        gradients,
        clip,
    )
    assert_close(follow(own, SMALL.weights, gradients), expected)


@settings(deadline=None)
@given(RATES, st.floats(0, 0.99), st.floats(0.5, 0.9999), st.sampled_from([1e-8, 1e-3]), SEEDS)
def test_adam_is_torchs(lr: float, beta1: float, beta2: float, epsilon: float, seed: int) -> None:
    gradients = drawn(seed, 4)
    expected = follow_torch(
        lambda leaves: torch.optim.Adam(leaves, lr=lr, betas=(beta1, beta2), eps=epsilon, foreach=False),
        SMALL.weights,
        gradients,
    )
    assert_close(follow(adam(lr, beta1=beta1, beta2=beta2, epsilon=epsilon), SMALL.weights, gradients), expected)


def by_hand(second: Callable[[float, float], float], beta1: float, epsilon: float, lr: float) -> list[float]:
    """A number that starts at 1 and follows the gradients 2, -1, 0.5, without bias correction."""
    weight, first, squares = 1.0, 0.0, 0.0
    path = []
    for gradient in (2.0, -1.0, 0.5):
        first = beta1 * first + (1 - beta1) * gradient
        squares = second(squares, gradient**2)
        weight -= lr * first / (math.sqrt(squares) + epsilon)
        path.append(weight)
    return path


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        (
            yogi(0.1, beta1=0.8, beta2=0.9, epsilon=1e-2),
            by_hand(lambda v, g: v - 0.1 * g * ((v > g) - (v < g)), 0.8, 1e-2, 0.1),
        ),
        (adagrad(0.1), by_hand(lambda v, g: v + g, 0.0, 1e-3, 0.1)),
        (adagrad(0.1, beta1=0.9), by_hand(lambda v, g: v + g, 0.9, 1e-3, 0.1)),
        (
            adam(0.1, beta2=0.99, epsilon=1e-3, bias_correction=False),
            by_hand(lambda v, g: 0.99 * v + 0.01 * g, 0.9, 1e-3, 0.1),
        ),
    ],
    ids=["yogi", "adagrad", "adagrad with momentum", "adam without correction"],
)
def test_adaptive_steps_by_hand(optimizer: Optimizer, expected: list[float]) -> None:
    params = {"w": torch.tensor(1.0, dtype=torch.float64)}
    state, path = optimizer.init(params), []
    for gradient in (2.0, -1.0, 0.5):
        given = {"w": torch.tensor(gradient, dtype=torch.float64)}
        params, state = optimizer.update(params, given, state, Moment(), SMALL.network)
        path.append(params["w"].item())
    assert path == pytest.approx(expected)


EVERY = {"sgd": SGD(0.1, momentum=0.9), **{name: make(0.1) for name, make in OPTIMIZERS.items() if name != "sgd"}}


@pytest.mark.parametrize("optimizer", EVERY.values(), ids=EVERY)
def test_an_update_is_a_function(optimizer: Optimizer) -> None:
    """What is given stays as it is, and the same arguments have the same result."""
    params, [gradient] = SMALL.weights, drawn(3, 1)
    state = optimizer.init(params)
    given = [{name: tensor.clone() for name, tensor in each.items()} for each in (params, gradient, state)]
    first = optimizer.update(params, gradient, state, Moment(), SMALL.network)
    assert_close(first[0], optimizer.update(params, gradient, state, Moment(), SMALL.network)[0])
    for before, after in zip(given, (params, gradient, state), strict=True):
        assert all(torch.equal(before[name], after[name]) for name in after)


@pytest.mark.parametrize("optimizer", [*EVERY.values(), SGD(0.1, clip=1.0)], ids=[*EVERY, "clip"])
def test_tensors_without_a_gradient_stay(optimizer: Optimizer) -> None:
    [gradient] = drawn(3, 1)
    partial = {name: tensor for name, tensor in gradient.items() if name.startswith("head")}
    for present in (partial, {}):
        after = follow(optimizer, SMALL.weights, [present, present])
        for name, tensor in SMALL.weights.items():
            assert torch.equal(after[name], tensor) == (name not in present)


@pytest.mark.parametrize("optimizer", EVERY.values(), ids=EVERY)
def test_types_stay(optimizer: Optimizer) -> None:
    params = {name: tensor.float() for name, tensor in SMALL.weights.items()}
    assert {tensor.dtype for tensor in follow(optimizer, params, [params, params]).values()} == {torch.float32}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_the_schedule_multiplies_the_rate(make: Callable[..., Optimizer]) -> None:
    params, [gradient] = SMALL.weights, drawn(5, 1)

    def after(optimizer: Optimizer, round: int) -> Tensors:
        return optimizer.update(params, gradient, optimizer.init(params), Moment(round, 10), SMALL.network)[0]

    assert_close(after(make(0.8, schedule=exponential(0.5)), 3), after(make(0.1), 0))


def test_factors_on_the_rate_multiply() -> None:
    gradients = drawn(1, 1)
    plain = follow(SGD(0.1), SMALL.weights, gradients)
    rated = follow(SGD(0.1, rates=((HEAD, 0.5), (where("*.bias"), 0.0), (HEAD, 4.0))), SMALL.weights, gradients)
    for name, start in SMALL.weights.items():
        factor = (2.0 if name.startswith("head") else 1.0) * (0.0 if name.endswith("bias") else 1.0)
        torch.testing.assert_close(rated[name], start + factor * (plain[name] - start))


def test_decay_reaches_the_selected_tensors_only() -> None:
    nothing = [{name: torch.zeros_like(tensor) for name, tensor in SMALL.weights.items()}]
    after = follow(SGD(0.1, weight_decay=0.5, decayed=WEIGHTS), SMALL.weights, nothing)
    for name, start in SMALL.weights.items():
        torch.testing.assert_close(after[name], start if name.endswith("bias") else 0.95 * start)


@settings(deadline=None)
@given(st.floats(0.01, 100), SEEDS)
def test_clipping_bounds_the_norm_over_all_tensors(largest: float, seed: int) -> None:
    [gradient] = drawn(seed, 1)
    norm, after = (
        torch.cat([tensor.flatten() for tensor in each.values()]).norm().item()
        for each in (gradient, clipped(gradient, largest))
    )
    assert after <= largest * (1 + 1e-9)
    assert after == pytest.approx(min(norm, largest), rel=1e-5)


def test_clipping_sees_the_trained_tensors_alone() -> None:
    """What is not trained has no gradient, however large it would be."""
    [gradient] = drawn(2, 1)
    head = {name: tensor for name, tensor in gradient.items() if name.startswith("head")}
    alone = follow(SGD(0.1, clip=0.1), SMALL.weights, [head])
    huge = follow(SGD(0.1, clip=0.1), SMALL.weights, [{n: t * (1 if n in head else 1e6) for n, t in gradient.items()}])
    assert not torch.allclose(alone["head.weight"], huge["head.weight"])
    moved = torch.cat([(alone[name] - SMALL.weights[name]).flatten() for name in head])
    assert moved.norm().item() == pytest.approx(0.01, rel=1e-4)


@pytest.mark.parametrize(("recompute", "times"), [("round", 1), ("epoch", 2), ("step", 4)])
def test_factors_by_layer_are_computed_anew(recompute: str, times: int) -> None:
    asked = []

    def factors(gradients: Tensors, network: Network) -> dict[str, float]:
        asked.append(1)
        return dict.fromkeys(gradients, 0.5)

    optimizer = Layerwise(SGD(0.1), factors, recompute=recompute)  # type: ignore[arg-type]
    params, gradients = SMALL.weights, drawn(4, 4)
    state = optimizer.init(params)
    for gradient, (epoch, step) in zip(gradients, [(0, 0), (0, 1), (1, 0), (1, 1)], strict=True):
        params, state = optimizer.update(params, gradient, state, Moment(epoch=epoch, step=step), SMALL.network)
    assert len(asked) == times
    assert_close(params, follow(SGD(0.05), SMALL.weights, gradients))


def test_a_second_moment_that_does_not_begin_at_zero_has_no_bias_to_correct() -> None:
    with pytest.raises(PartitaError, match=r"begin at 0, not at 1e-06. Set bias_correction to false"):
        adam(0.1, second_moment=1e-6)
