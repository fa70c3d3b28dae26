"""A network that begins in the middle gives the numbers of the whole, and does so only if nothing else is needed."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from partita.algorithms.fedavg import fedavg
from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.objectives import OBJECTIVES, next_word_loss
from partita.core.optimizers import SGD
from partita.core.phases import Phase
from partita.core.samples import Samples
from partita.core.selectors import where
from partita.core.task import Task
from partita.engine import prefix, reference, resumed
from partita.engine.fast import FastEngine
from partita.engine.prefix import tail_of
from partita.engine.resumed import Resumed
from partita.evaluation import measurement
from partita.evaluation.variants import Variant
from partita.models.resnet18 import resnet18
from partita.models.word_transformer import word_transformer
from partita.randomness import Moment
from partita.tensors import Tensors


@pytest.fixture(autouse=True)
def anything_is_worthwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumed, "WORTH", 0)


def client_of(network: nn.Module, samples: Samples, **options: object) -> Client:
    task = Task(network.double(), **options)  # type: ignore[arg-type]
    weights = {name: tensor.clone() for name, tensor in task.weights.items()}
    return Client(0, task, samples, samples.take(slice(0)), Moment(0, 2, 0), Batching(3), weights, {}, weights)


def texts() -> Samples:
    rows = torch.randint(4, 12, (7, 6), generator=torch.Generator().manual_seed(0))
    return Samples(rows[:, :-1], rows[:, 1:])


def vectors(count: int = 7) -> Samples:
    draw = torch.Generator().manual_seed(0)
    return Samples(
        torch.randn(count, 4, generator=draw, dtype=torch.float64), torch.randint(3, (count,), generator=draw)
    )


@pytest.mark.parametrize("trained", ["layers.3", "layers.2.adapter2", "decoder"])
def test_the_last_layers_of_a_transformer_are_trained_alone(trained: str) -> None:
    network = word_transformer(shape=(5,), classes=12, adapters=True)
    client = client_of(network, texts(), loss=next_word_loss)
    owners = {owner for name, owner in client.task.network.owners.items() if name.startswith(trained + ".")}
    client.task.load_(client.initial)
    client.task.train_(frozenset())
    tail = tail_of(client.task.module, owners, client.train)
    assert tail is not None
    assert isinstance(tail.module, Resumed)
    calls: list[int] = []
    lowest = client.task.module.get_submodule("layers.0.attention")
    lowest.register_forward_hook(lambda *given: calls.append(1))
    torch.testing.assert_close(tail.module(tail.samples.inputs), client.task.module(client.train.inputs))
    assert calls == [1], "the lowest layer was called by the whole network alone"


@pytest.mark.parametrize("trained", ["layers.3", "decoder"])
def test_phases_agree_with_the_reference(trained: str) -> None:
    phase = Phase(where(trained), SGD(0.1, momentum=0.9), epochs=2)
    client = client_of(word_transformer(shape=(5,), classes=12), texts(), loss=next_word_loss)
    [expected] = reference.run_phase(phase, [client], [client.initial])
    [found] = FastEngine()(phase, [client], [client.initial])
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-9, atol=1e-11)


def test_blocks_of_a_resnet_under_a_head_with_other_trained_blocks() -> None:
    network = resnet18(shape=(3, 8, 8), classes=3, norm="group").double()
    inputs = torch.randn(4, 3, 8, 8, dtype=torch.float64)
    owners = [part for name, part in network.named_modules() if name in ("layer4.1.conv2", "fc")]
    tail = tail_of(network, owners, Samples(inputs, torch.zeros(4, dtype=torch.int64)))
    assert tail is not None
    assert isinstance(tail.module, Resumed)
    assert tail.samples.inputs.shape[1:] == (512, 1, 1)
    torch.testing.assert_close(tail.module(tail.samples.inputs), network(inputs))


class Network(nn.Module):
    """Two layers before two others, and a way to join them."""

    def __init__(self, join: Callable[["Network", Tensor], Any]) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(4, 4) for _ in range(3))
        self.head = nn.Linear(4, 3)
        self.relu = nn.ReLU()
        self.join = join

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.join(self, inputs)
        return outputs


def plain(own: Network, x: Tensor) -> Any:
    return F.relu(own.head(own.relu(own.third(own.relu(own.second(F.relu(own.first(x)))))))) - 0.1


def around(own: Network, x: Tensor) -> Any:
    hidden = own.second(own.first(x))
    return own.head(hidden + own.third(hidden)) - 0.1


def inputs_again(own: Network, x: Tensor) -> Any:
    return own.head(own.third(own.second(own.first(x)))) + x[:, :3]


def masked(own: Network, x: Tensor) -> Any:
    return own.head(own.third(own.second(own.first(x))) * (x > -100)) + 0.1


def by_value(own: Network, x: Tensor) -> Any:
    sign = 1.0 if float(x.sum()) > -1e9 else -1.0
    return sign * own.head(own.third(own.second(own.first(x))))


def again(own: Network, x: Tensor) -> Any:
    return own.head(own.first(own.third(own.second(own.first(x))))) + 0.1


def twice(own: Network, x: Tensor) -> Any:
    return own.head(own.third(own.third(own.second(own.first(x))))) + 0.1


@pytest.mark.parametrize(("join", "resumes"), [(plain, True), (again, True), (twice, None)])
def test_what_needs_nothing_else_is_resumed(join: Callable[[Network, Tensor], Any], resumes: bool | None) -> None:
    network, samples = Network(join).double(), vectors()
    tail = tail_of(network, [network.third, network.head], samples)
    if resumes:
        assert tail is not None
    if tail is not None:
        torch.testing.assert_close(tail.module(tail.samples.inputs), network(samples.inputs))


@pytest.mark.parametrize("join", [around, inputs_again, masked, by_value])
def test_what_needs_a_value_from_before_is_not_resumed(join: Callable[[Network, Tensor], Any]) -> None:
    network = Network(join).double()
    assert tail_of(network, [network.third, network.head], vectors()) is None


def test_little_work_before_is_not_worth_keeping_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    network = Network(plain).double()
    assert tail_of(network, [network.third, network.head], vectors()) is None


def test_the_network_is_left_as_it_was() -> None:
    network, samples = Network(plain).double(), vectors()
    tail = tail_of(network, [network.third, network.head], samples)
    assert tail is not None
    tail.module(tail.samples.inputs)
    with pytest.raises(RuntimeError):
        tail.module(tail.samples.inputs[:, :2])
    for part in network.modules():
        assert "forward" not in vars(part)
        assert not part._forward_pre_hooks
        assert not part._forward_hooks


@pytest.mark.parametrize(("epochs", "steps", "resumed_there"), [(1, None, False), (2, None, True), (None, 9, True)])
def test_a_network_is_resumed_only_for_samples_that_are_seen_again(
    epochs: int | None, steps: int | None, resumed_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def count(*given: Any) -> Iterator[Any]:
        asked.append(1)
        return iter(())

    monkeypatch.setattr(prefix, "resumptions", count)
    client = client_of(word_transformer(shape=(5,), classes=12), texts(), loss=next_word_loss)
    FastEngine()(Phase(where("layers.3"), SGD(0.1), epochs=epochs, steps=steps), [client], [client.initial])
    assert bool(asked) is resumed_there


def test_few_samples_are_measured_without_resuming(monkeypatch: pytest.MonkeyPatch) -> None:
    objective = OBJECTIVES["next_word"]
    network = word_transformer(shape=(5,), classes=12)
    client = client_of(network, texts(), loss=objective.loss, measure=objective.measure)
    changed = "layers.3.feed_forward.0.bias"
    other = client.initial | {changed: client.initial[changed] + 1.0}
    models: dict[Variant, Tensors] = {"before_local": client.initial, "after_local": other}
    asked: list[bool] = []

    def ask(*given: Any, resume: bool) -> None:
        asked.append(resume)

    monkeypatch.setattr(measurement, "tail_of", ask)
    few = measurement.measure_all(fedavg(), client, models, client.train, 4)
    monkeypatch.setattr(measurement, "MANY", 7)
    assert measurement.measure_all(fedavg(), client, models, client.train, 4) == few
    assert asked == [False, True]
