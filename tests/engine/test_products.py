"""Products by another library are those of torch, and are left to torch wherever something is not known."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from partita.engine import products
from partita.engine.chain import Chains
from partita.engine.products import FastProducts, fast_products, linear
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
    product = products._product

    def counted(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        calls.append(1)
        return product(inputs, weight, bias)

    products._agrees(ROWS, WIDTH, OUTPUTS, True, True)
    monkeypatch.setattr(products, "_preferred", lambda: True)
    monkeypatch.setattr(products, "_agrees", lambda *shape: True)
    monkeypatch.setattr(products, "_product", counted)
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
        with FastProducts():
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
    with FastProducts():
        found = F.linear(*given.values())
    [gradient] = torch.autograd.grad(found.sum(), [given[trained]])
    [expected] = torch.autograd.grad(F.linear(*given.values()).sum(), [given[trained]])
    assert close(gradient, expected)


def test_transposed_matrices_are_multiplied(preferred: list[int]) -> None:
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
    with FastProducts():
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
    monkeypatch.setattr(products, "_preferred", lambda: True)
    wrong = products._product
    monkeypatch.setattr(products, "_product", lambda inputs, weight, bias: 1.01 * wrong(inputs, weight, bias))
    # A shape that no other test has tried.
    inputs, weight = torch.randn(ROWS + 1, WIDTH), torch.randn(OUTPUTS, WIDTH)
    assert torch.equal(linear(inputs, weight), F.linear(inputs, weight))


def test_small_networks_are_left_alone() -> None:
    small, large = nn.Linear(8, 8), nn.Linear(WIDTH, OUTPUTS)
    assert not isinstance(fast_products(small), FastProducts)
    assert isinstance(fast_products(large), FastProducts)


@pytest.mark.parametrize("network", [mobilenet(shape=(3, 32, 32), classes=10), har_convnet(shape=(6, 128), classes=12)])
def test_networks_of_the_papers_are_chains(network: nn.Module) -> None:
    assert Chains().of(network)
