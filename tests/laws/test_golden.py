"""Facts worked out by hand, mostly on F(w) = (w - a)^2 / 2, whose gradient is w - a.

One file, since all numbers are worked out on the same tiny networks.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from partita.algorithms._layerwise import Factors, official_factors, paper_factors
from partita.algorithms._masks import largest_changes, official_changes, official_count, top_fraction
from partita.algorithms.apple import apple, faded
from partita.algorithms.ditto import ditto
from partita.algorithms.fedala import fedala
from partita.algorithms.fedalt import fedalt
from partita.algorithms.fedamp import fedamp
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedbabu import fedbabu
from partita.algorithms.fedprox import fedprox
from partita.algorithms.fedrep import fedrep
from partita.algorithms.fedsim import fedsim
from partita.algorithms.flayer import flayer
from partita.algorithms.per_fedavg import per_fedavg
from partita.algorithms.pfedme import pfedme
from partita.core.algorithm import Algorithm, client_round, initial_state, personalize, server_round
from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.initialization import HeadInit, with_head
from partita.core.optimizers import SGD, Optimizer, adam, clipped
from partita.core.samples import Samples
from partita.core.schedules import Schedule, linear, step
from partita.core.selectors import HEAD
from partita.core.server import Server, Update
from partita.core.task import Task
from partita.engine.reference import run_phase
from partita.evaluation.representation import Similarity, nearest_template, similarities
from partita.models.cnn4 import cnn4
from partita.randomness import Moment
from partita.servers.averaging import averaging
from partita.tensors import Tensors
from toys import scalar_client, scalar_task


def numbers(**values: float) -> Tensors:
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}


def exactly(*expected: float) -> object:
    return pytest.approx(expected, rel=1e-12, abs=1e-12)


def values(tensors: Tensors, *names: str) -> tuple[float, ...]:
    return tuple(tensors[name].item() for name in names)


def trained(algorithm: Algorithm, client: Client) -> Tensors:
    """The client's tensors right after its local update."""
    [result] = client_round(algorithm, [client], run_phase)
    return result.tensors


def tuned(algorithm: Algorithm, client: Client) -> Tensors:
    [result] = personalize(algorithm, [client], run_phase)
    return result


def aggregated(algorithm: Algorithm, state: Tensors, updates: list[Update], client: Client) -> Tensors:
    return server_round(algorithm, state, updates, Moment(), client, run_phase)


def by_hand(*clients: tuple[int, Tensors]) -> list[Update]:
    """Updates of clients with so many samples and these values."""
    return [Update(number, sent, samples, batches=1) for number, (samples, sent) in enumerate(clients)]


@pytest.mark.parametrize(("server", "expected"), [(averaging(), 4.0), (averaging(weights="uniform"), 3.0)])
def test_g01_weighted_mean(server: Server, expected: float) -> None:
    """(10 * 1 + 30 * 5) / 40 = 4, and (1 + 5) / 2 = 3, wherever the server was before."""
    updates = by_hand((10, numbers(w=1.0)), (30, numbers(w=5.0)))
    client = scalar_client(scalar_task(w=0.0), 0.0)
    after = aggregated(replace(fedavg(), server=server), numbers(w=2.0), updates, client)
    assert values(after, "w") == exactly(expected)


def test_g02_fedavg_local_steps() -> None:
    """1 - 0.9^3 = 0.271: each step leaves 0.9 of the distance to 1."""
    assert values(trained(fedavg(optimizer=SGD(0.1)), scalar_client(scalar_task(w=0.0), 1.0, 3)), "w") == exactly(0.271)


@pytest.mark.parametrize(("steps", "expected"), [(1, 0.1), (2, 0.18), (3, 0.244), (300, 0.5)])
def test_g03_fedprox_steps(steps: int, expected: float) -> None:
    """With mu = 1 the gradient is (w - 1) + w, so w -> 0.8 w + 0.1, to the fixed point a / (1 + mu) = 0.5."""
    task = scalar_task(w=0.0)
    client = replace(scalar_client(task, 1.0, steps), received=dict(task.weights))
    assert values(trained(fedprox(mu=1.0, on=fedavg(optimizer=SGD(0.1))), client), "w") == exactly(expected)


@pytest.mark.parametrize(("steps", "expected"), [(1, 0.2), (2, 0.37), (3, 0.5145), (300, 4 / 3)])
def test_g04_ditto_personal_steps(steps: int, expected: float) -> None:
    """The gradient at v is (v - 1) + 0.5 (v - 2), so v -> 0.85 v + 0.2, to the fixed point 4 / 3.

    The centre is the received w = 2, although w itself moves on to another value in the same round.
    """
    client = replace(scalar_client(scalar_task(w=0.0), 1.0, steps), received=numbers(w=2.0))
    after = trained(ditto(strength=0.5, optimizer=SGD(0.1)), client)
    assert values(after, "personal/w") == exactly(expected)
    assert values(after, "w") == exactly(1 + 0.9**steps)


def test_g05_pfedme_theta_and_outer_step() -> None:
    """Inner: theta -> theta - 0.03 ((theta - 1) + 15 (theta - w)), five times; outer: w -> w - 0.005 * 15 (w - theta).

    Exactly, theta = (a + 15 w) / 16 = 0.0625 and w = 0.075 * 0.0625.
    """
    task = scalar_task(w=0.0)
    client = replace(scalar_client(task, 1.0, 2), received=numbers(w=0.0))

    def variant(*, steps: int, inner_steps: int = 5, carry: bool = False) -> Algorithm:
        return pfedme(strength=15.0, inner_steps=inner_steps, inner_lr=0.03, steps=steps, carry_theta=carry)

    def close(expected: float) -> object:
        return pytest.approx((expected,), rel=1e-8)

    assert values(tuned(variant(steps=1), client), "w") == close(0.0601237248)
    first = trained(variant(steps=1), client)
    assert values(first, "w") == close(0.00450927936)
    many = variant(steps=1, inner_steps=300)
    assert values(tuned(many, client), "w") == close(0.0625)
    assert values(trained(many, client), "w") == close(0.0046875)

    assert values(trained(variant(steps=1, carry=True), client), "theta/w", "w") == pytest.approx(
        (0.0601237248, 0.00450927936), rel=1e-8
    )
    assert values(trained(variant(steps=2, carry=True), client), "theta/w") == close(0.0664763731)
    after_reset = tuned(variant(steps=1), replace(client, received={"w": first["w"]}))
    assert values(after_reset, "w") == close(0.0643618895)
    second = values(trained(variant(steps=2), client), "w")
    assert second == close(0.00450927936 + 0.075 * (0.0643618895 - 0.00450927936))


def test_g06_per_fedavg_first_order() -> None:
    """Adapted to 0.1, where the gradient is -0.9: 0.1 * 0.9 = 0.09 (with second derivatives it would be 0.081)."""
    after = trained(per_fedavg(alpha=0.1, optimizer=SGD(0.1)), scalar_client(scalar_task(w=0.0), 1.0, 2))
    assert values(after, "w") == exactly(0.09)


@pytest.mark.parametrize(("steps", "expected"), [(1, 0.1), (2, 0.18), (5, 0.33616)])
def test_g07_fedsim_steps(steps: int, expected: float) -> None:
    """F = (u + v - 1)^2 / 2: both move by 0.1 of the rest, so a step leaves 0.8 of it; u = (1 - 0.8^steps) / 2."""
    client = scalar_client(scalar_task({"head": "v"}, u=0.0, v=0.0), 1.0, steps)
    assert values(trained(fedsim(optimizer=SGD(0.1)), client), "u", "v") == exactly(expected, expected)


@pytest.mark.parametrize(
    ("steps", "shared", "personal"), [(1, 0.09, 0.1), (2, 0.1539, 0.19), (5, 0.2418115599, 0.40951)]
)
def test_g08_fedalt_steps(steps: int, shared: float, personal: float) -> None:
    """First v = 1 - 0.9^steps while u = 0; then u = 0.9^steps (1 - 0.9^steps) under the new v."""
    client = scalar_client(scalar_task({"head": "v"}, u=0.0, v=0.0), 1.0, steps)
    assert values(trained(fedalt(optimizer=SGD(0.1)), client), "u", "v") == exactly(shared, personal)


@pytest.mark.parametrize(
    ("algorithm", "by_samples", "uniformly"),
    [(fedsim(optimizer=SGD(0.1)), 0.25, 0.2), (fedalt(optimizer=SGD(0.1)), 0.225, 0.18)],
    ids=["fedsim", "fedalt"],
)
def test_g09_two_clients(algorithm: Algorithm, by_samples: float, uniformly: float) -> None:
    """One step each, a = 1 and 3: v = 0.1 and 0.3. FedSim's u are the same: (0.1 + 3 * 0.3) / 4; FedAlt's 0.9 of it."""
    task = scalar_task({"head": "v"}, u=0.0, v=0.0)
    clients = [
        replace(scalar_client(task, target, count, id=number), batching=Batching(size=3))
        for number, (target, count) in enumerate([(1.0, 1), (3.0, 3)])
    ]
    results = client_round(algorithm, clients, run_phase)
    assert [values(result.own, "v") for result in results] == [exactly(0.1), exactly(0.3)]
    updates = [result.update for result in results]
    for server, expected in ((averaging(), by_samples), (averaging(weights="uniform"), uniformly)):
        state = aggregated(replace(algorithm, server=server), numbers(u=0.0), updates, clients[0])
        assert values(state, "u") == exactly(expected)


def with_norm(tensor: Tensor, norm: float) -> Tensor:
    """A gradient of that shape with all entries equal."""
    return torch.full(tensor.shape, norm / math.sqrt(tensor.numel()), dtype=torch.float64)


def factor_of_each(factors: Factors, gradients: Tensors, task: Task, parts: Iterable[tuple[str, ...]]) -> list[float]:
    """The factor of each part, which all of its tensors must share."""
    found = factors(gradients, task.network)
    each = [{found[name] for name in names if name in found} for names in parts]
    assert all(len(factor) == 1 for factor in each)
    return [factor.pop() for factor in each]


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        (1.0, [1.173287, 1.346574, 1.519860, 1.693147]),
        (0.1, [1.599474, 2.198948, 2.798421, 3.397895]),
        (10.0, [1.023828, 1.047655, 1.071483, 1.095310]),
        (0.5, [1.274653, 1.549306, 1.823959, 2.098612]),
        (math.inf, [1.0, 1.0, 1.0, 1.0]),
    ],
)
def test_g10_flayer_paper_factors(norm: float, expected: list[float]) -> None:
    """1 + ln(1 + 1 / norm) * i / 4; the norm of weight (0.6) and bias (0.8) together is that of the layer."""
    task = Task(cnn4(hidden=8))
    gradients = {n: with_norm(t, norm * (0.8 if n.endswith("bias") else 0.6)) for n, t in task.weights.items()}
    found = factor_of_each(paper_factors(), gradients, task, task.network.units)
    assert found == pytest.approx(expected, abs=6e-7)


def resembling(*names: str) -> nn.Module:
    """A network of small top-level children: blocks of two layers, norms and single layers."""
    module = nn.Module()
    for name in names:
        if name.startswith("layer"):
            module.add_module(name, nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2)))
        else:
            module.add_module(name, nn.BatchNorm1d(2) if name.startswith("bn") else nn.Linear(2, 2))
    return module


RESNET18 = ("conv1", "bn1", "layer1", "layer2", "layer3", "layer4", "fc")


@pytest.mark.parametrize(
    ("make", "rate", "middle", "expected"),
    [
        (cnn4, 0.005, 20.0, [0.005, 0.1231049, 0.1462098, 0.001]),
        (lambda: resembling(*RESNET18), 0.1, 1.0, [0.1, 0.1115525, 0.1231049, 0.1346574, 0.1462098, 0.1577623, 0.02]),
        (lambda: resembling("embedding", "fc1", "fc"), 0.1, 1.0, [0.1, 0.1346574, 0.02]),
    ],
    ids=["cnn4", "resnet18", "fasttext"],
)
def test_g11_flayer_official_rates(
    make: Callable[[], nn.Module], rate: float, middle: float, expected: list[float]
) -> None:
    """Norms of 1: the child at k of n gets middle * (1 + ln 2 * k / (n - 1)); the first 1, the last a fifth."""
    task = Task(make())
    gradients = {name: with_norm(task.weights[name], 1.0) for name in task.network.parameters}
    found = factor_of_each(official_factors(middle, 0.2), gradients, task, task.network.children)
    assert [rate * factor for factor in found] == pytest.approx(expected, abs=6e-8)


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (3, {1: 1 / 3, 2: 2 / 3, 3: 1.0}),
        (4, {1: 0.25, 2: 0.5, 3: 0.75, 4: 1.0}),
        (5, {1: 0.2, 2: 0.4, 3: 0.6, 4: 0.8, 5: 1.0}),
        (8, {1: 0.125, 2: 0.25, 4: 0.5, 8: 1.0}),
        (12, {1: 0.1, 2: 1 / 6, 3: 0.25, 12: 1.0}),
        (20, {1: 0.1, 2: 0.1, 3: 0.15, 20: 1.0}),
        (62, {1: 0.1, 2: 0.1, 3: 0.1, 4: 0.1, 5: 0.1, 6: 0.1, 7: 7 / 62, 62: 1.0}),
    ],
)
def test_g12_flayer_fraction_sent(layers: int, expected: Mapping[int, float]) -> None:
    """Layer i of L sends i / L of its entries, at least a tenth: of 10 L entries a whole number."""
    task = Task(nn.Sequential(*(nn.Linear(10, layers, bias=False) for _ in range(layers))))
    before = {name: torch.zeros_like(tensor) for name, tensor in task.weights.items()}
    sent = [mask.double().mean().item() for mask in largest_changes(before, task.weights, task.network).values()]
    assert len(sent) == layers
    assert {i: sent[i - 1] for i in expected} == pytest.approx(expected)


def test_g13_flayer_official_mask_of_cnn4() -> None:
    """Of each 5 x 5 kernel 3, then 6 entries; of vectors a share; of matrices and the last two tensors all."""
    task = Task(cnn4())
    before = {name: torch.zeros_like(tensor) for name, tensor in task.weights.items()}
    masks = official_changes(before, task.weights, task.network)
    everything = {name: torch.ones_like(tensor, dtype=torch.bool) for name, tensor in task.weights.items()}
    kept = {name: int(mask.sum()) for name, mask in (everything | masks).items()}
    assert list(kept.values()) == [288, 4, 12288, 24, 819200, 320, 5120, 10]
    assert [tensor.numel() for tensor in task.weights.values()] == [2400, 32, 51200, 64, 819200, 512, 5120, 10]
    assert sum(kept.values()) == 837_254
    assert set(masks["conv1.weight"].sum(dim=(2, 3)).flatten().tolist()) == {3}
    assert set(masks["conv2.weight"].sum(dim=(2, 3)).flatten().tolist()) == {6}


@pytest.mark.parametrize(
    ("size", "ratio", "pruned"),
    [
        *((9, tenths / 10, pruned) for tenths, pruned in enumerate((1, 2, 3, 4, 4, 5, 6, 7, 8), 1)),
        (49, 0.9, 44),
        *((1, tenths / 10, 1) for tenths in range(1, 10)),
    ],
)
def test_g14_flayer_official_pruning(size: int, ratio: float, pruned: int) -> None:
    """size * ratio rounded, halves to even (4.5 is 4), at least 1, and all but one unless there is only one."""
    assert size - official_count(size, 1 - ratio) == pruned


@pytest.mark.parametrize(("accuracy", "expected"), [(0.6, 4.0), (0.0, 7.0), (1.0, 2.0)])
def test_g15_flayer_blend(accuracy: float, expected: float) -> None:
    """0.6 * 2 + 0.4 * 7 = 4."""
    own = numbers(w=2.0) | {"flayer/accuracy": torch.tensor(accuracy, dtype=torch.float64)}
    client = replace(scalar_client(scalar_task({"head": "w"}, w=0.0), 1.0), own=own, received=numbers(w=7.0))
    assert values(tuned(flayer(), client), "w") == exactly(expected)


@pytest.mark.parametrize(
    ("dilute", "expected"), [(False, [5.0, 2.0, 9.0, 1.0]), (True, [5.0, 0.5, 0.0, 0.75])], ids=["contributors", "all"]
)
def test_g16_masked_aggregation(dilute: bool, expected: list[float]) -> None:
    """n = (1, 3), old 9, each sends the two entries that changed most: both 0, the first 1, none 2, the second 3.

    Contributors: (2 + 18) / 4, 2, old, 1. With zeros for what was not sent: 5, 2 / 4, 0, 3 / 4.
    """
    task = Task(nn.Sequential(nn.Linear(4, 1, bias=False), nn.Linear(1, 1, bias=False)).double())
    algorithm = flayer(dilute=dilute)
    before = {name: torch.full_like(tensor, 9.0) for name, tensor in task.weights.items()}
    updates = []
    for number, (samples, after) in enumerate([(1, [2.0, 2.0, 8.0, 9.0]), (3, [6.0, 6.0, 8.0, 1.0])]):
        client = scalar_client(task, 0.0, samples, id=number)
        changed = {"0.weight": torch.tensor([after], dtype=torch.float64), "1.weight": before["1.weight"] + number}
        sent, mask = algorithm.upload(before, changed, client)
        updates.append(Update(number, sent, samples, samples, mask))
    state = aggregated(algorithm, before, updates, scalar_client(task, 0.0))
    assert state["0.weight"].flatten().tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("fraction", "expected"), [("1/2", [True, False, False, True]), ("1/10", [False, False, False, True])]
)
def test_g17_top_fraction(fraction: str, expected: list[bool]) -> None:
    """Of four changes the two largest are 0.3 and 0.4; a tenth of four is still one."""
    assert top_fraction(torch.tensor([0.3, 0.1, 0.2, 0.4]), Fraction(fraction)).tolist() == expected


def server_steps(optimizer: Optimizer) -> list[float]:
    """Where a server at 1 goes by pseudo-gradients 0.2, -0.1 and 0.05."""
    algorithm = replace(fedavg(), server=averaging(optimizer=optimizer))
    client = scalar_client(scalar_task(u=1.0), 0.0)
    state = initial_state(algorithm, client, [1])
    path: list[float] = []
    for gradient in (0.2, -0.1, 0.05):
        state = aggregated(algorithm, state, by_hand((1, {"u": state["u"] - gradient})), client)
        path += values(state, "u")
    return path


def test_g18_server_adam() -> None:
    """The first step is the learning rate: with correction m / sqrt(v) = 0.2 / 0.2; then momentum wears off."""
    assert server_steps(adam(5e-4)) == pytest.approx(
        [0.999500000025, 0.9993668315135933, 0.9991966169523603], abs=1e-13
    )


def test_g19_server_adam_of_reddi() -> None:
    """Uncorrected, the first step is 5e-4 * 0.02 / (0.02 + 0.001)."""
    assert server_steps(adam(5e-4, beta2=0.99, epsilon=1e-3, bias_correction=False)) == pytest.approx(
        [0.9995238095238095, 0.9993519221908695, 0.9990947174411725], abs=1e-13
    )


def factors_at(schedule: Schedule, rounds: int, *at: int) -> list[float]:
    return [schedule(Moment(round=number, rounds=rounds)) for number in at]


def test_g20_linear_schedule() -> None:
    """Rises (t + 1) / 2 in one of 10 rounds, then falls (10 - t) / 9; of 500 rounds the first 50 rise.

    The published code rises from 0, so that its first round learns nothing; the rest is the same.
    """
    ten = [0.5, 1, 0.888889, 0.777778, 0.666667, 0.555556, 0.444444, 0.333333, 0.222222, 0.111111]
    assert factors_at(linear(0.1), 10, *range(10)) == pytest.approx(ten, abs=6e-7)
    at = factors_at(linear(0.1), 500, 0, 25, 49, 50, 275, 499)
    assert at == pytest.approx([1 / 51, 26 / 51, 50 / 51, 1.0, 0.5, 0.002222], abs=6e-7)


def test_g21_step_schedule() -> None:
    """Halved after every 500 rounds."""
    assert factors_at(step(500, 0.5), 2000, 499, 500, 999, 1000, 1999) == [1.0, 0.5, 0.5, 0.25, 0.125]


@pytest.mark.parametrize(("rounds", "half", "three_quarters"), [(320, 160, 240), (80, 40, 60), (32, 16, 24)])
def test_g22_fedbabu_learning_rate(rounds: int, half: int, three_quarters: int) -> None:
    """0.1, then a tenth after K // 2 rounds and a hundredth after 3 K // 4; seen in what a step does to a body."""
    algorithm = fedbabu(epochs=1)
    task = scalar_task({"head": "h"}, b=0.0, h=0.0)

    def rate(number: int) -> float:
        """The first step's length under a gradient of 1."""
        return values(trained(algorithm, scalar_client(task, -1.0, moment=Moment(number, rounds))), "b")[0] * -1

    switches = (0, half - 1, half, three_quarters - 1, three_quarters, rounds - 1)
    assert [rate(number) for number in switches] == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001], rel=1e-12)


@pytest.mark.parametrize(
    ("similarity", "expected", "nearest"), [("cosine", [0.970143, 0.857493], "A"), ("euclidean", [8.0156, 1.1180], "B")]
)
def test_g23_templates(similarity: Similarity, expected: list[float], nearest: str) -> None:
    """cos = 20 / (10 * 2.0616) and 2.5 / (1.4142 * 2.0616): A. Distances sqrt(64.25) and sqrt(1.25): B."""
    templates, query = torch.tensor([[10.0, 0.0], [1.0, 1.0]]), torch.tensor([[2.0, 0.5]])
    found = similarities(query, templates, similarity)[0].abs().tolist()
    assert found == pytest.approx(expected, abs=6e-7 if similarity == "cosine" else 6e-5)
    answer = nearest_template(query, templates, torch.tensor([0, 1]), similarity)
    assert "AB"[int(answer)] == nearest


def head_of(kind: HeadInit) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        task = Task(nn.Linear(1024, 100))
    nothing = Samples(torch.zeros(0, 1024), torch.zeros(0, dtype=torch.int64))
    return with_head(kind)(Client(0, task, nothing, nothing))["weight"]


def cosines(weight: Tensor) -> Tensor:
    """Between each two rows."""
    rows = F.normalize(weight.double(), dim=1)
    above, beside = torch.triu_indices(len(rows), len(rows), offset=1)
    return (rows @ rows.T)[above, beside]


def test_g24_head_initialisations() -> None:
    """U[0.45, 0.55] has cosine 0.25 / (0.25 + 0.01 / 12) = 0.99668; random rows of 1024 have sqrt(2 / (1024 pi))."""
    assert cosines(head_of("similar")).mean().item() == pytest.approx(0.99668, abs=1e-3)
    assert torch.allclose(head_of("similar").norm(dim=1), torch.ones(100))
    default = cosines(head_of("default"))
    assert default.mean().item() == pytest.approx(0.0, abs=5e-3)
    assert default.abs().mean().item() == pytest.approx(0.025, abs=5e-3)
    orthogonal = head_of("orthogonal")
    assert torch.allclose(orthogonal @ orthogonal.T, 2 * torch.eye(100), atol=1e-5)


@pytest.mark.parametrize(("steps", "mix", "weight"), [(1, 0.7, 1.4), (2, 0.52, 1.04), (3, 0.412, 0.824)])
def test_g25_fedala_mixture(steps: int, mix: float, weight: float) -> None:
    """At mix 1 the weight is 2, its gradient 1.5, that of the mix 1.5 * (2 - 0) = 3, so the mix falls by 0.3."""
    own = numbers(**{"w": 0.0, "mix/w": 1.0, "fedala/started": 1.0})
    client = replace(scalar_client(scalar_task(w=0.0), 0.5, steps), own=own, received=numbers(w=2.0))
    after = tuned(fedala(layers=1, mix_lr=0.1, fraction=1.0), client)
    assert values(after, "mix/w", "w") == exactly(mix, weight)


def test_g26_fedamp_messages() -> None:
    """xi = 0.1 e^-1; u = (xi, 1 - xi); the nearest w to a = 0.5 and u with weights 1 and 10: (0.5 + 10 xi) / 11."""
    algorithm = fedamp(strength=1.0, alpha=0.1, sigma=1.0, optimizer=SGD(0.05))
    client = scalar_client(scalar_task(w=0.0), 0.5, 100)
    state = initial_state(algorithm, client, [1, 1])
    state = aggregated(algorithm, state, by_hand((1, numbers(w=0.0)), (1, numbers(w=1.0))), client)
    first, second = (algorithm.server.download(state, number, Moment()) for number in (0, 1))
    assert values(first, "w") == pytest.approx((0.0367879441,), abs=6e-11)
    assert values(second, "w") == pytest.approx((0.9632121,), abs=6e-8)
    after = trained(algorithm, replace(client, own=numbers(w=0.0), received=first))
    assert values(after, "w") == pytest.approx((0.0788981,), abs=6e-8)


@pytest.mark.parametrize(("switched", "body"), [(False, 0.14736), (True, 0.24956)], ids=["separate", "switched"])
def test_g27_fedrep_momentum(switched: bool, body: float) -> None:
    """Head 0.1, 0.24, 0.386; then the rest 0.614 moves the body by 0.0614 and 0.08596.

    One switched optimizer has gathered momentum 1.0, 1.4, 1.46 for the body before its first step of 0.1344.
    """
    algorithm = fedrep(head_epochs=3, epochs=2, optimizer=SGD(0.1, momentum=0.5), switched=switched)
    client = scalar_client(scalar_task({"head": "h"}, b=0.0, h=0.0), 1.0)
    assert values(trained(algorithm, client), "b", "h") == exactly(body, 0.386)


def test_g28_apple_step() -> None:
    """The mixture is 2, its gradient 1: the core moves by 0.1 * 0.5, the relations by 0.01 * (1, 3)."""
    algorithm = apple(mu=0.0, relation_rate=0.1, epochs=1, optimizer=SGD(0.1))
    client = scalar_client(scalar_task(w=0.0), 1.0)
    state = initial_state(algorithm, client, [1, 1])
    state = aggregated(algorithm, state, by_hand((1, numbers(w=1.0)), (1, numbers(w=3.0))), client)
    received = algorithm.server.download(state, 0, Moment())
    after = trained(algorithm, replace(client, own=numbers(w=1.0), received=received))
    assert values(after, "w") == exactly(0.95)
    assert after["relations/all"].tolist() == exactly(0.49, 0.47)
    assert [faded(number, 10, "cosine") for number in (0, 5, 10)] == exactly(1.0, 0.5, 0.0)


def test_g29_clipping_sees_what_is_trained() -> None:
    """0.1 is below 0.25 and stays; with a stale gradient of 1 the norm 1.00499 would make it 0.0248759."""
    stale = clipped(numbers(active=0.1, stale=1.0), 0.25)
    assert values(stale, "active") == pytest.approx((0.0248759,), abs=6e-8)
    assert values(clipped(numbers(active=0.1), 0.25), "active") == exactly(0.1)
    # Both parts have the gradient -0.2, together of norm 0.28: neither phase may see the other's.
    client = scalar_client(scalar_task({"head": "v"}, u=0.0, v=0.0), 0.2)
    algorithm = fedalt(personal=HEAD, optimizer=SGD(0.5, clip=0.25))
    assert values(trained(algorithm, client), "u", "v") == exactly(0.05, 0.1)


def test_g30_group_norm_almost_cancels_a_factor() -> None:
    """Plain torch: 1 / sqrt(s + e) against 2 / sqrt(4 s + e) differ by 3/8 of e = 1e-5, times entries up to about 4."""
    inputs = torch.randn(16, 64, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    norm = nn.GroupNorm(8, 64).double()
    with torch.no_grad():
        difference = (norm(2 * inputs) - norm(inputs)).abs().max().item()
    assert difference == pytest.approx(1.5e-5, rel=0.3)
