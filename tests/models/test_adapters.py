"""Adapters put into any module: where they are, what they change, and what they leave as it was.

One file, since all adapters are put into the same modules.
"""

import doctest
import io
from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from partita.algorithms.fedalt import fedalt
from partita.algorithms.fedper import fedper
from partita.core.batching import Batching
from partita.core.network import network_of, tensors_of
from partita.core.optimizers import SGD
from partita.core.selectors import BODY, HEAD, Selector, group, last_blocks, matches, of_type, where
from partita.core.task import Task
from partita.errors import PartitaError
from partita.experiment.simulate import simulate
from partita.models import _adapters as adapters
from partita.models._adapters import Bottleneck, ConvAdapter, with_adapters
from partita.models.cnn4 import cnn4
from partita.models.har_convnet import har_convnet
from partita.models.mlp import mlp
from partita.models.resnet10 import resnet10
from toys import small_federation, small_network


def draw(*shape: int, seed: int = 5) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def zero_(module: nn.Module) -> nn.Module:
    """Let all adapters be the identity."""
    for name, parameter in module.named_parameters():
        if ".adapter." in name:
            nn.init.zeros_(parameter)
    return module


class Twofold(nn.Module):
    """Gives its output and something else, as attention does."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> tuple[Tensor, str]:
        return self.linear(inputs), "weights"


class Scaled(nn.Module):
    """A layer that nobody knows."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.scale * inputs


class Holder(nn.Module):
    """Has modules named as declarations are, and a list of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Scaled(), Scaled()])
        self.twofold = Twofold()
        self.head = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        for block in self.blocks:
            inputs = block(inputs)
        hidden, other = self.twofold(inputs)
        assert other == "weights"
        answer: Tensor = self.head(hidden)
        return answer


# The adapters


def test_sizes_of_adapters() -> None:
    assert sum(p.numel() for p in Bottleneck(256, 16).parameters()) == 8_464
    assert sum(p.numel() for p in ConvAdapter(64).parameters()) == 64 * 64
    assert sum(p.numel() for p in ConvAdapter(64, groups=8).parameters()) == 64 * 64 + 2 * 64


def test_a_bottleneck_by_hand() -> None:
    adapter = Bottleneck(2, 1).double()
    with torch.no_grad():
        adapter.down.weight.copy_(torch.tensor([[1.0, -1.0]]))
        adapter.up.weight.copy_(torch.tensor([[2.0], [3.0]]))
        adapter.up.bias.copy_(torch.tensor([0.5, 0.0]))
    inputs = torch.tensor([[3.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    assert torch.equal(adapter(inputs), torch.tensor([[7.5, 7.0], [1.5, 3.0]], dtype=torch.float64))


@pytest.mark.parametrize("places", [(5,), (4, 3), (2, 3, 2)])
def test_a_convolution_adapts_each_place_alike(places: tuple[int, ...]) -> None:
    adapter = ConvAdapter(3).double()
    inputs = draw(2, 3, *places)
    matrix = torch.eye(3, dtype=torch.float64) + adapter.conv.weight[:, :, 0, 0]
    expected = torch.einsum("oc,bcp->bop", matrix, inputs.flatten(2)).reshape(inputs.shape)
    assert torch.allclose(adapter(inputs), expected)


@pytest.mark.parametrize(
    ("adapter", "deviation"), [(Bottleneck(200, 100), 0.01), (ConvAdapter(200), 1e-4)], ids=["bottleneck", "conv"]
)
def test_adapters_begin_small_and_so_does_a_new_draw(adapter: nn.Module, deviation: float) -> None:
    for part in adapter.modules():
        if isinstance(part, nn.Linear | nn.Conv2d):
            for _ in range(2):
                assert float(part.weight.detach().std()) == pytest.approx(deviation, rel=0.05)
                assert part.bias is None or not part.bias.any()
                part.reset_parameters()


# Where they are put


def sites(module: nn.Module) -> list[str]:
    return [name for name, part in module.named_modules() if isinstance(part, Bottleneck | ConvAdapter)]


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("layer1", ["layer1"]),
        ("layer?", ["layer1", "layer2"]),
        (("head", "layer1"), ["layer1", "head"]),
        (where("layer*"), ["layer1", "layer2"]),
        (of_type(nn.Linear), ["layer1", "layer2", "head"]),
        (BODY & ~where("norm1"), ["layer1", "layer2"]),
    ],
    ids=str,
)
def test_places(at: Selector | str | tuple[str, ...], expected: list[str]) -> None:
    assert sites(with_adapters(small_network(), at)) == [f"{name}.adapter" for name in expected]


def test_a_star_is_one_part_of_a_name() -> None:
    network = resnet10(shape=(1, 8, 8), classes=3)
    assert sites(with_adapters(network, "layer*.*")) == [f"layer{number}.0.adapter" for number in (1, 2, 3, 4)]
    assert len(sites(with_adapters(network, "layer*.*.conv?"))) == 8


@pytest.mark.parametrize(
    ("make", "at", "kinds"),
    [
        (cnn4, ("conv1", "fc1"), {"conv1": 32 * 32, "fc1": 2 * 512 * 16 + 16 + 512}),
        (lambda: har_convnet(shape=(6, 128), classes=4), "conv2", {"conv2": 64 * 64}),
        (lambda: resnet10(shape=(1, 8, 8), classes=3), "layer2.0", {"layer2.0": 128 * 128}),
        (lambda: nn.Sequential(nn.Embedding(9, 6), nn.LayerNorm(6)), "?", {"0": 214, "1": 214}),
        (lambda: nn.Sequential(nn.GroupNorm(2, 6), nn.BatchNorm2d(6)), "?", {"0": 36, "1": 36}),
    ],
)
def test_kinds_and_sizes_are_read_from_the_last_layer(
    make: Callable[[], nn.Module], at: str | tuple[str, ...], kinds: dict[str, int]
) -> None:
    adapted = with_adapters(make(), at)
    found = {name: adapted.get_submodule(f"{name}.adapter") for name in kinds}
    assert {name: sum(p.numel() for p in part.parameters()) for name, part in found.items()} == kinds


def test_a_pattern_that_matches_no_module_lists_the_modules() -> None:
    with pytest.raises(
        PartitaError, match=r"'layer9' matches no module of the network\. Its modules: layer1, norm1, relu1, layer2"
    ):
        with_adapters(small_network(), ("layer1", "layer9"))
    with pytest.raises(PartitaError, match=r"'layer9' matches no tensor"):
        with_adapters(small_network(), where("layer9"))


def test_layers_that_nobody_knows_must_be_described() -> None:
    network = nn.Sequential(Scaled(), nn.ReLU())
    with pytest.raises(PartitaError, match=r"output of 1 \(ReLU\) is not known.*features.*kind"):
        with_adapters(network, "1")
    adapted = with_adapters(network, "0", kind="bottleneck", features=4, width=2)
    assert adapted(draw(3, 4)).shape == (3, 4)


def test_places_that_are_never_called_or_taken_are_refused() -> None:
    with pytest.raises(PartitaError, match=r"blocks \(ModuleList\) cannot get an adapter"):
        with_adapters(Holder(), "blocks", kind="bottleneck", features=4)
    with pytest.raises(PartitaError, match=r"The whole network \(Linear\)"):
        with_adapters(nn.Linear(2, 2), of_type(nn.Linear))
    with pytest.raises(PartitaError, match=r"layer1 \(Linear\).*have none yet"):
        with_adapters(with_adapters(small_network(), "layer1"), "layer?")


# What they change and what they leave


NETWORKS: list[tuple[Callable[[], nn.Module], str | tuple[str, ...], Tensor]] = [
    (small_network, "layer?", draw(5, 4)),
    (lambda: cnn4(shape=(1, 20, 20)), ("conv1", "fc1"), draw(2, 1, 20, 20)),
    (lambda: har_convnet(shape=(3, 40), classes=4), ("conv1", "conv2"), draw(2, 3, 40)),
    (lambda: resnet10(shape=(1, 8, 8), classes=3), ("layer?.0.conv?", "layer1"), draw(2, 1, 8, 8)),
    (lambda: nn.Sequential(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), nn.Linear(3, 2)), "0", draw(5, 4)),
    (lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), ("self_attn", "linear2"), draw(2, 5, 8)),
    (Holder, "twofold", draw(5, 4)),
]


@pytest.mark.parametrize(("make", "at", "inputs"), NETWORKS)
def test_adapters_change_outputs_unless_they_are_zero(
    make: Callable[[], nn.Module], at: str | tuple[str, ...], inputs: Tensor
) -> None:
    network = make().double().eval()
    before = deepcopy(network.state_dict())
    adapted = with_adapters(network, at)
    with torch.no_grad():
        assert not torch.equal(adapted(inputs), network(inputs))
        assert torch.equal(zero_(adapted)(inputs), network(inputs))
    assert network.state_dict().keys() == before.keys()
    kept = adapted.state_dict()
    assert all(torch.equal(kept[name], tensor) for name, tensor in before.items())
    assert {name for name in kept if ".adapter." not in name} == before.keys()
    assert not adapted.load_state_dict(network.state_dict(), strict=False).unexpected_keys
    assert {parameter.dtype for parameter in adapted.parameters()} == {torch.float64}
    assert not any(part.training for part in adapted.modules())


@pytest.mark.parametrize(("make", "at", "inputs"), NETWORKS)
def test_a_copy_uses_its_own_adapters(make: Callable[[], nn.Module], at: str | tuple[str, ...], inputs: Tensor) -> None:
    adapted = with_adapters(make().double().eval(), at)
    copy = zero_(deepcopy(adapted))
    with torch.no_grad():
        assert not torch.equal(copy(inputs), adapted(inputs))
        given = {name: tensor.detach() for name, tensor in tensors_of(copy).items()}
        assert torch.equal(functional_call(adapted, given, (inputs,)), copy(inputs))
        assert torch.equal(Task(adapted).outputs(given, inputs), copy(inputs))


def test_a_sequence_is_adapted_once() -> None:
    inputs = draw(5, 4)
    adapted = with_adapters(nn.Sequential(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), nn.Linear(3, 2)).double(), "0")
    for parameter in adapted.parameters():
        nn.init.normal_(parameter)
    layer, adapter, last = (adapted.get_submodule(name) for name in ("0.0", "0.adapter", "1"))
    assert torch.equal(adapted(inputs), last(adapter(layer(inputs).relu())))


def test_an_adapted_network_can_be_stored() -> None:
    adapted = with_adapters(small_network(), "layer?")
    file = io.BytesIO()
    torch.save(adapted, file)
    file.seek(0)
    read: nn.Module = torch.load(file, weights_only=False)
    assert torch.equal(read.eval()(draw(3, 4)), adapted.eval()(draw(3, 4)))


def test_adapters_are_a_group_beside_those_declared() -> None:
    adapted = with_adapters(cnn4(shape=(1, 20, 20)), "conv1")
    network = network_of(adapted, matches, {})
    assert network.groups["adapter"] == ("conv1.adapter.conv.weight",)
    assert network.groups["head"] == ("fc.weight", "fc.bias")
    assert "conv1.weight" in network.groups["input"]
    twice = network_of(with_adapters(adapted, "fc1"), matches, {})
    assert {name.partition(".")[0] for name in twice.groups["adapter"]} == {"conv1", "fc1"}
    assert len(twice.groups["adapter"]) == 5


def test_what_was_the_head_stays_the_head() -> None:
    network = network_of(with_adapters(small_network(), "head"), matches, {})
    assert network.groups["head"] == ("head.weight", "head.bias")


@pytest.mark.parametrize("at", ["layer1", "layer?", "head", "relu2"])
def test_an_adapter_belongs_to_the_block_before_it(at: str) -> None:
    before = network_of(small_network(), matches, {})
    after = network_of(
        with_adapters(small_network(), at, kind="bottleneck", features=5 if at[-1] == "2" else None), matches, {}
    )
    assert [tuple(name for name in block if ".adapter." not in name) for block in after.blocks] == list(before.blocks)
    assert tuple(name for block in after.blocks for name in block) == after.names
    first = {"layer1": [0], "layer?": [0, 1], "head": [2], "relu2": [1]}[at]
    assert [number for number, block in enumerate(after.blocks) if any(".adapter." in n for n in block)] == first


def test_modules_named_as_declarations_are_left_alone() -> None:
    adapted = with_adapters(Holder().double(), "blocks.*", kind="bottleneck", features=4)
    assert isinstance(adapted.blocks, nn.ModuleList)
    assert len(network_of(adapted, matches, {}).groups["adapter"]) == 8


def test_a_number_named_groups_is_left_alone() -> None:
    """As in torchvision's ResNet."""

    class Grouped(Twofold):
        groups = 1

    adapted = with_adapters(nn.Sequential(Grouped()), "0.linear")
    assert len(network_of(adapted, matches, {}).groups["adapter"]) == 4
    own = with_adapters(Grouped(), "linear")
    network = network_of(own, matches, {})
    assert own.groups == 1
    assert len(where("*.adapter")(network, frozenset(network.names))) == 4


# How they are trained


def test_personal_adapters_on_pretrained_weights() -> None:
    data = small_federation((12, 7))
    network = small_network(norm=False)
    adapted = with_adapters(network, ("layer1", "layer2"), width=3)
    result = simulate(
        fedalt(personal=group("adapter"), personal_init="independent", optimizer=SGD(0.1)),
        adapted,
        data,
        rounds=2,
        batching=Batching(4),
        weights={name: tensor.detach() for name, tensor in tensors_of(network).items()},
    )
    names = result.task.network.groups["adapter"]
    assert set(result.own[0]) == set(names)
    assert len(names) == 8
    assert all(not torch.equal(result.own[0][name], result.own[1][name]) for name in names)
    assert set(result.state) == set(tensors_of(network))


def test_last_blocks_count_as_before() -> None:
    task = Task(with_adapters(mlp(shape=(4,), classes=3), "layer1"))
    assert last_blocks(1)(task.network, frozenset(task.network.names)) == HEAD(
        task.network, frozenset(task.network.names)
    )
    assert len(task.network.blocks) == 2
    result = simulate(fedper(epochs=1), with_adapters(small_network(), "layer1"), small_federation((12, 7)), rounds=1)
    assert set(result.own[0]) == {"head.weight", "head.bias"}


def test_the_example() -> None:
    assert doctest.testmod(adapters).failed == 0
