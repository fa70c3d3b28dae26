"""Products by another library are those of torch, and are left to torch wherever something is not known."""

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from partita.engine import kernels
from partita.engine.chain import Chains
from partita.engine.kernels import FastKernels, fast_kernels, linear
from partita.models.har_convnet import har_convnet
from partita.models.mobilenet import mobilenet

ROWS, WIDTH, OUTPUTS = 64, 256, 512
pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="torch was built without oneDNN"
)


@pytest.fixture(autouse=True)
def preferred(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """As on a processor where oneDNN is taken; and how often it was."""
    calls: list[int] = []
    product = kernels._product

    def counted(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        calls.append(1)
        return product(inputs, weight, bias)

    kernels._agrees(ROWS, WIDTH, OUTPUTS, True, True)
    monkeypatch.setattr(kernels, "_preferred", lambda: True)
    monkeypatch.setattr(kernels, "_agrees", lambda *shape: True)
    monkeypatch.setattr(kernels, "_product", counted)
    return calls


def tensors(*batch: int) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    shapes = ((*(batch or (ROWS,)), WIDTH), (OUTPUTS, WIDTH), (OUTPUTS,))
    inputs, weight, bias = (torch.randn(shape, generator=draw) for shape in shapes)
    return inputs, weight, bias


def close(found: Tensor, expected: Tensor) -> bool:
    with torch.no_grad():
        return float((found - expected).norm()) <= 1e-5 * float(expected.norm())


def test_products_and_gradients_are_torchs(preferred: list[int]) -> None:
    for given in (tensors(), tensors(4, 16)):
        usual = [each.clone().requires_grad_() for each in given]
        other = [each.clone().requires_grad_() for each in given]
        expected = F.linear(*usual)
        with FastKernels():
            found = F.linear(*other)
        assert preferred
        assert close(found, expected)
        slope = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2))
        pairs = zip(torch.autograd.grad(found, other, slope), torch.autograd.grad(expected, usual, slope), strict=True)
        for one, another in pairs:
            assert close(one, another)


@pytest.mark.parametrize("trained", ["inputs", "weight", "bias"])
def test_only_what_is_asked_for_has_a_gradient(trained: str) -> None:
    given = dict(zip(("inputs", "weight", "bias"), tensors(), strict=True))
    given[trained].requires_grad_()
    with FastKernels():
        found = F.linear(*given.values())
    [gradient] = torch.autograd.grad(found.sum(), [given[trained]])
    [expected] = torch.autograd.grad(F.linear(*given.values()).sum(), [given[trained]])
    assert close(gradient, expected)


def test_transposed_matrices_are_faster(preferred: list[int]) -> None:
    inputs, weight, _ = tensors()
    across = weight.t().contiguous().t()
    assert close(linear(inputs, across), F.linear(inputs, weight))
    assert preferred


class Twofold(Tensor):
    """A class of tensors that shortcuts do not know."""


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize(
    "call",
    [
        lambda x, w, b: F.linear(x.double(), w.double(), b.double()),
        lambda x, w, b: F.linear(x[:1, :8], w[:4, :8], b[:4]),
        lambda x, w, b: F.linear(x[:, ::2], w[:, ::2], b),
        lambda x, w, b: F.linear(x, w, bias=b),
        lambda x, w, b: F.linear(x.as_subclass(Twofold), w, b),
        lambda x, w, b: torch.func.vmap(lambda row: F.linear(row, w, b))(x.view(2, -1, WIDTH)),
        lambda x, w, b: torch.func.jvp(lambda each: F.linear(each, w, b), (x,), (x,))[1],
    ],
    ids=["double", "small", "strided", "named", "subclass", "vmap", "forward mode"],
)
def test_what_is_not_known_is_torchs(call: Callable[..., Tensor], preferred: list[int]) -> None:
    expected = call(*tensors())
    with FastKernels():
        found = call(*tensors())
    assert torch.equal(found, expected)
    assert not preferred


def test_less_exact_products_are_left_to_torch(preferred: list[int]) -> None:
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        linear(*tensors())
        assert not preferred
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_product_that_disagrees_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(kernels, "_preferred", lambda: True)
    wrong = kernels._product
    monkeypatch.setattr(kernels, "_product", lambda inputs, weight, bias: 1.01 * wrong(inputs, weight, bias))
    # A shape that no other test has tried.
    inputs, weight = torch.randn(ROWS + 1, WIDTH), torch.randn(OUTPUTS, WIDTH)
    assert torch.equal(linear(inputs, weight), F.linear(inputs, weight))


@pytest.mark.parametrize("seed", range(60))
def test_weights_that_meet_nothing_but_padding_are_left_out(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "LARGE_KERNEL", 1)
    draw = random.Random(seed)
    groups, (height, width) = draw.choice([1, 2]), (draw.randint(1, 4), draw.randint(1, 4))
    layer = nn.Conv2d(
        4,
        6,
        (draw.randint(1, 5), draw.randint(1, 5)),
        stride=(draw.randint(1, 3), draw.randint(1, 3)),
        padding=(draw.randint(0, 4), draw.randint(0, 4)),
        dilation=draw.choice([1, 1, 2]),
        groups=groups,
        bias=draw.random() < 0.5,
    ).double()
    for name, weight in layer.named_parameters():
        weight.requires_grad_(name == "weight" or draw.random() < 0.7)
    inputs = torch.randn(2, 4, height, width, dtype=torch.float64, requires_grad=draw.random() < 0.7)
    if draw.random() < 0.5:
        nn.utils.convert_conv2d_weight_memory_format(layer, torch.channels_last)
    try:
        expected = layer(inputs)
    except RuntimeError:
        return  # The kernel is larger than the padded image.
    with FastKernels():
        found = layer(inputs)
    wanted = [each for each in (inputs, *layer.parameters()) if each.requires_grad]
    slope = torch.randn_like(expected)
    pairs = zip(torch.autograd.grad(found, wanted, slope), torch.autograd.grad(expected, wanted, slope), strict=True)
    assert found.shape == expected.shape
    assert all(torch.allclose(one, another, rtol=1e-12, atol=1e-12) for one, another in [(found, expected), *pairs])


def test_one_pixel_meets_the_middle_of_a_kernel() -> None:
    assert kernels._span(1, 3, 1, 1, 1) == (1, 2, 0)
    assert kernels._span(2, 3, 2, 1, 1) == (1, 3, 0)
    assert kernels._span(4, 3, 1, 1, 1) is None


def test_small_networks_are_left_alone() -> None:
    small, large = nn.Linear(8, 8), nn.Linear(WIDTH, OUTPUTS)
    assert not isinstance(fast_kernels(small), FastKernels)
    assert isinstance(fast_kernels(large), FastKernels)


@pytest.mark.parametrize("network", [mobilenet(shape=(3, 32, 32), classes=10), har_convnet(shape=(6, 128), classes=12)])
def test_networks_of_the_papers_are_chains(network: nn.Module) -> None:
    assert Chains().of(network)


def test_a_table_of_words_alone_is_no_large_layer() -> None:
    table, layer = nn.Embedding(5000, 16), nn.Linear(WIDTH, OUTPUTS)
    assert not isinstance(fast_kernels(nn.Sequential(table, nn.Linear(16, 2))), FastKernels)
    assert isinstance(fast_kernels(nn.Sequential(table, layer)), FastKernels)
