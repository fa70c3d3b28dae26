"""What comes before trained layers is computed once, where that is exact, and nowhere else.

One file, since where a prefix is used and where it is not is one subject, on the same networks.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings as examples, strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from engine.test_fast import FLOATS, difference, every_float, holder, some
from partita.algorithms.fedalt import fedalt
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedbabu import fedbabu
from partita.algorithms.fedper import fedper
from partita.algorithms.fedrep import fedrep
from partita.algorithms.flayer import flayer
from partita.core.algorithm import Algorithm, RunPhase
from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.optimizers import SGD, adam
from partita.core.phases import Phase
from partita.core.samples import Preparation, Samples
from partita.core.selectors import HEAD, NETWORK, Selector, last_blocks, where
from partita.core.task import Task
from partita.engine import features, reference, shortcuts, training
from partita.engine.fast import FastEngine
from partita.engine.features import Features
from partita.engine.prefix import Tail, tail_of
from partita.engine.shortcuts import ALL, Shortcut
from partita.evaluation.measurement import measure, measure_all
from partita.evaluation.variants import Variant
from partita.experiment import jobs
from partita.experiment.result import Result
from partita.experiment.simulate import simulate
from partita.tensors import Tensors
from toys import small_federation, small_network

with_cache = FastEngine(keep_features=False)
without_cache = FastEngine(ALL - {Shortcut.FEATURES})


class Net(nn.Module):
    """A body and a head; what happens between and after them is the test's."""

    def __init__(self, between: nn.Module | None = None, head: nn.Module | None = None) -> None:
        super().__init__()
        self.body = nn.Linear(4, 5)
        self.between = between or nn.Identity()
        self.head = head or nn.Linear(5, 3)

    def features(self, inputs: Tensor) -> Tensor:
        hidden: Tensor = self.between(self.body(inputs).tanh())
        return hidden

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.features(inputs))
        return outputs


def made(make: Callable[[], nn.Module], samples: Samples | None = None, **options: Any) -> tuple[Client, Tensors]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        module = make().double()
    return holder(Task(module, **options), samples or some((4,)))


@contextmanager
def counted(module: nn.Module, place: str) -> Iterator[list[int]]:
    """How many samples a part of the module is given, call by call. Not by a hook: shortcuts refuse hooks."""
    sizes: list[int] = []
    part = module.get_submodule(place)
    kind = type(part)
    usual = kind.forward

    def counting(self: nn.Module, *given: Any, **named: Any) -> Any:
        if self is part:
            sizes.append(len(given[0]))
        return usual(self, *given, **named)

    kind.forward = counting
    try:
        yield sizes
    finally:
        kind.forward = usual


def three_ways(phase: Phase, client: Client, tensors: Tensors, to: float = 1e-12) -> Tensors:
    """With the cache, without, and as the readable runner does it: the same."""
    [cached] = with_cache(phase, [client], [tensors])
    [uncached] = without_cache(phase, [client], [tensors])
    [readable] = reference.run_phase(phase, [client], [tensors])
    assert difference(uncached, readable) <= to
    assert difference(cached, uncached) <= to
    assert difference(readable, tensors) > 1e-4
    return cached


HEAD_EPOCHS = Phase(HEAD, SGD(0.1, momentum=0.9), epochs=3)
BODY_STEPS = 3 * 6


def body_calls(phase: Phase, client: Client, tensors: Tensors, place: str = "body") -> int:
    with_cache(phase, [client], [tensors])  # The first time, shortcuts are compared with the reference.
    with counted(client.task.module, place) as sizes:
        with_cache(phase, [client], [tensors])
    return len(sizes)


# Where it is exact.


@every_float
@pytest.mark.parametrize("optimizer", [SGD(0.1, momentum=0.9), adam(0.01)], ids=["sgd", "adam"])
def test_the_body_is_computed_once(optimizer: Any, kind: torch.dtype) -> None:
    module = Net().to(kind)
    client, tensors = holder(Task(module), some((4,), 64, kind=kind))
    phase = replace(HEAD_EPOCHS, optimizer=optimizer, epochs=4)
    # Over 64 steps with momentum, rounding adds up.
    three_ways(phase, client, tensors, 2 * FLOATS[kind])
    with counted(client.task.module, "body") as sizes:
        with_cache(phase, [client], [tensors])
    assert max(sizes) == 64, "all samples at once"
    assert sum(sizes) <= 64 + 10, "and a few to try it out"


def test_many_samples_go_through_in_parts() -> None:
    client, tensors = made(Net, some((4,), 1100))
    phase = replace(HEAD_EPOCHS, epochs=1)
    with_cache(phase, [client], [tensors])
    with counted(client.task.module, "body") as sizes:
        with_cache(phase, [client], [tensors])
    assert [size for size in sizes if size > 2] == [512, 512, 76]


def test_less_than_an_epoch_is_not_worth_it() -> None:
    client, tensors = made(Net)
    phase = Phase(HEAD, SGD(0.1), steps=2)
    three_ways(phase, client, tensors)
    assert body_calls(phase, client, tensors) == 2


def test_a_new_round_has_a_new_body() -> None:
    client, tensors = made(Net)
    with_cache(HEAD_EPOCHS, [client], [tensors])
    three_ways(HEAD_EPOCHS, client, tensors | {"body.weight": -tensors["body.weight"]})


# Kept from one phase to the next.


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Whose features were computed, one by one."""
    clients: list[int] = []
    real = Features.remember

    def noted(self: Features, client: int, purpose: str, layers: Any, compute: Callable[[], Tensor]) -> Tensor:
        def noting() -> Tensor:
            clients.append(client)
            return compute()

        return real(self, client, purpose, layers, noting)

    monkeypatch.setattr(Features, "remember", noted)
    return clients


def as_if_anew(run_phase: RunPhase, phase: Phase, client: Client, tensors: Tensors) -> None:
    """The same to the last bit as by a runner that knows nothing."""
    [remembered], [anew] = (each(phase, [client], [tensors]) for each in (run_phase, with_cache))
    assert difference(remembered, anew) == 0
    assert difference(anew, tensors) > 1e-4


def test_the_same_body_is_computed_once_for_each_client(computed: list[int]) -> None:
    run_phase = FastEngine()
    client, tensors = made(Net)
    others = Samples(some((4,)).inputs.flip(0) + 1, client.train.targets)
    for _ in range(3):
        as_if_anew(run_phase, HEAD_EPOCHS, client, tensors)
        as_if_anew(
            run_phase, HEAD_EPOCHS, replace(client, purpose="finetune"), tensors | {"head.bias": -tensors["head.bias"]}
        )
        as_if_anew(run_phase, HEAD_EPOCHS, replace(client, id=7, train=others), tensors)
    assert computed == [client.id, client.id, 7, client.id], "kept once each purpose was seen to ask again"


class OfMode(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs if self.training else 2 * inputs


def deep() -> nn.Module:
    return nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm1d(6), OfMode(), nn.Sequential(nn.Linear(6, 5), nn.Tanh()), nn.Linear(5, 3)
    )


@pytest.mark.parametrize("name", ["0.weight", "0.bias", "1.weight", "1.running_mean", "1.running_var", "3.0.bias"])
def test_any_other_number_before_is_noticed(name: str, computed: list[int]) -> None:
    run_phase = FastEngine()
    client, tensors = made(deep, frozen_norm="eval")
    phase = replace(HEAD_EPOCHS, train=where("4.*"))
    changed = tensors[name].clone()
    changed.view(-1)[-1] += 1e-7
    for each in (tensors, tensors | {name: changed}, tensors):
        as_if_anew(run_phase, phase, client, each)
    assert len(computed) == 3


def test_another_part_is_noticed(computed: list[int]) -> None:
    run_phase = FastEngine()
    client, tensors = made(lambda: nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))))
    for train in ("1.1.*", "1.*", "1.1.*"):
        as_if_anew(run_phase, replace(HEAD_EPOCHS, train=where(train)), client, tensors)
    assert len(computed) == 3


def test_another_mode_is_noticed() -> None:
    client, _ = made(deep)
    module, remember = client.task.module, partial(Features().remember, 0, "train")
    module.get_submodule("1").eval()
    for mode in (True, False, True):
        module.get_submodule("2").train(mode)
        kept, anew = (tail_of(module, {module.get_submodule("4")}, client.train, remember=r) for r in (remember, None))
        assert kept
        assert anew
        assert torch.equal(kept.samples.inputs, anew.samples.inputs)


def test_chosen_samples_are_not_known_by_their_client(computed: list[int]) -> None:
    run_phase = FastEngine()
    client, tensors = made(Net, some((4,), 48))
    for choose in (lambda own: own.train.take(slice(0, 24)), lambda own: own.train.take(slice(24, 48))):
        as_if_anew(run_phase, replace(HEAD_EPOCHS, samples=choose), client, tensors)
    assert not computed


def test_no_more_is_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch, computed: list[int]) -> None:
    client, tensors = made(Net)
    monkeypatch.setattr(features, "MOST", 2 * 5 * len(client.train))
    run_phase = FastEngine()
    for _ in range(3):
        for number in range(4):
            as_if_anew(run_phase, HEAD_EPOCHS, replace(client, id=number), tensors)
    assert computed == [0, 1, 2, 3, 0, 1, 2, 3, 2, 3], "those who asked again first stay"


def test_a_round_and_its_evaluation_compute_features_once(computed: list[int]) -> None:
    """Fine-tuning after a round sees the body that the next round begins with."""
    data = small_federation()
    rounds = 4
    simulate(METHODS["fedrep"], small_network(norm=False), data, rounds=rounds, evaluate_every=1, on="inline")
    passes = (
        rounds + 2
    )  # For the first round, after each, and once before it is known that features are asked for again.
    assert sorted(computed) == sorted([*range(len(data))] * passes)


@pytest.mark.parametrize("workers", [1, 2])
def test_methods_are_the_same_to_the_bit_with_a_memory(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "SAMPLES_PER_JOB", 1)
    for algorithm in METHODS.values():
        options: dict[str, Any] = {"rounds": 3, "evaluate_every": 1, "on": f"processes:{workers}"}
        remembering, forgetful = (run(algorithm, each, torch.float32, **options) for each in ("fast", with_cache))
        assert difference(remembering.state, forgetful.state) == 0
        assert remembering.records == forgetful.records
        for client in forgetful.own:
            assert difference(remembering.own[client], forgetful.own[client]) == 0


def test_a_few_blocks_at_the_end() -> None:
    client, tensors = made(
        lambda: nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)))
    )
    phase = replace(HEAD_EPOCHS, train=where("2.*"))
    three_ways(phase, client, tensors)
    assert body_calls(phase, client, tensors, "0") <= 6


def test_statistics_in_the_part_that_is_trained_see_the_batches_and_nothing_else() -> None:
    """Trying the network out must not move them."""
    client, tensors = made(
        lambda: nn.Sequential(
            nn.Linear(4, 6), nn.Tanh(), nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
        )
    )
    after = three_ways(replace(HEAD_EPOCHS, train=where("2.*")), client, tensors)
    assert int(after["2.1.num_batches_tracked"]) == BODY_STEPS


def test_a_norm_that_does_not_move_may_come_before() -> None:
    client, tensors = made(lambda: Net(nn.BatchNorm1d(5)), frozen_norm="eval")
    three_ways(HEAD_EPOCHS, client, tensors)
    assert body_calls(HEAD_EPOCHS, client, tensors) <= 6


METHODS: dict[str, Algorithm] = {
    "fedrep": fedrep(head_epochs=4, final_head_epochs=3),
    "fedalt": fedalt(personal_epochs=3),
    "fedalt, last blocks": fedalt(personal=last_blocks(2), personal_epochs=3),
    "fedbabu": fedbabu(epochs=2, finetune_part=HEAD, finetune_epochs=4),
    "flayer": flayer(variant="official"),
    "flayer(fedper)": flayer(variant="official", on=fedper(), head_warmup_epochs=3),
}


def run(algorithm: Algorithm, engine: Any, kind: torch.dtype, **options: Any) -> Result:
    data = small_federation()
    samples = data.samples
    data = replace(data, samples=Samples(samples.inputs.to(kind), samples.targets))
    module = small_network(norm="frozen_norm" in options).to(kind)
    given: dict[str, Any] = {"rounds": 2, "batching": Batching(4), "engine": engine, **options}
    return simulate(algorithm, module, data, **given)


@pytest.fixture(autouse=True)
def one_client_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small networks are otherwise trained side by side, without a cache."""
    monkeypatch.setattr(shortcuts, "can_stack", lambda *_: False)


@every_float
@pytest.mark.parametrize("options", [{}, {"frozen_norm": "eval"}, {"frozen_norm": "train"}], ids=str)
@pytest.mark.parametrize("name", METHODS)
def test_methods_are_the_same_with_and_without(name: str, options: dict[str, Any], kind: torch.dtype) -> None:
    cached, uncached = (run(METHODS[name], each, kind, **options) for each in (with_cache, without_cache))
    assert difference(cached.state, uncached.state) <= FLOATS[kind]
    for client in uncached.own:
        assert difference(cached.own[client], uncached.own[client]) <= FLOATS[kind]
    for one, other in zip(cached.records, uncached.records, strict=True):
        assert replace(one, loss=0.0) == replace(other, loss=0.0)
        assert one.loss == pytest.approx(other.loss, rel=10 * FLOATS[kind])


def test_the_methods_do_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Tail | None] = []

    def note(*given: Any, **named: Any) -> Tail | None:
        found.append(tail_of(*given, **named))
        return found[-1]

    monkeypatch.setattr(training, "tail_of", note)
    for name, algorithm in METHODS.items():
        found.clear()
        run(algorithm, with_cache, torch.float64)
        assert any(found) == (name != "fedalt, last blocks"), f"{name}: blocks of a sequence are no module of their own"


# Where it is not.


class Rescaled(Net):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) * 3


class RescaledInPlace(Net):
    """What the head answered is the very tensor that is returned, but not the same numbers."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs).mul_(3)


class Rectified(nn.Sequential):
    """The same, as one meets it."""

    def __init__(self) -> None:
        super().__init__()
        self.add_module("body", nn.Linear(4, 5))
        self.add_module("tanh", nn.Tanh())
        self.add_module("head", nn.Linear(5, 3))
        self.add_module("relu", nn.ReLU(inplace=True))


class UsedTwice(Net):
    def __init__(self) -> None:
        super().__init__(head=nn.Linear(5, 5))

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.head(self.features(inputs)).tanh())
        return outputs


class Bilinear(nn.Linear):
    def forward(self, inputs: Tensor, scale: Tensor | None = None) -> Tensor:
        return super().forward(inputs if scale is None else inputs * scale)


class TwoInputs(Net):
    def __init__(self) -> None:
        super().__init__(head=Bilinear(5, 3))

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.features(inputs), inputs[:, :1])
        return outputs


class NamedInput(TwoInputs):
    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.features(inputs), scale=inputs[:, :1])
        return outputs


class Beside(Net):
    """The head's answer is returned, but the body's is added to what the loss sees."""

    def forward(self, inputs: Tensor) -> Tensor:
        features = self.features(inputs)
        outputs: Tensor = self.head(features) + features[:, :3]
        return outputs


class TiedToTheBody(nn.Module):
    """The head's weights are the body's too; the head is registered first, so that they are called the head's."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 4)
        self.body = nn.Linear(4, 4)
        self.body.weight = self.head.weight
        self.groups = {"head": "head.*"}

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.body(inputs).tanh())
        return outputs


class UsesTheHeadsWeights(nn.Module):
    """The body looks into the head without calling it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.head = nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(F.linear(self.body(inputs), self.head.weight).tanh())
        return outputs


class Centred(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs - inputs.mean(0)


class FunctionalDropout(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return F.dropout(inputs, 0.4, self.training)


class Noisy(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + 0.1 * torch.randn_like(inputs) if self.training else inputs


class Counting(nn.Module):
    """Counts its calls, and answers by the number."""

    calls: Tensor

    def __init__(self, weight: float, in_place: bool) -> None:
        super().__init__()
        self.weight, self.in_place = weight, in_place
        self.register_buffer("calls", torch.zeros((), dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        if self.in_place:
            self.calls += 1
        else:
            self.calls.copy_(self.calls + 1)
        return inputs * (1 + self.weight * self.calls)


INEXACT: dict[str, tuple[Callable[[], nn.Module], dict[str, Any]]] = {
    "norm in training": (lambda: Net(nn.BatchNorm1d(5)), {}),
    "norm of the batch": (lambda: Net(nn.BatchNorm1d(5)), {"buffers": "batch"}),
    "norm of the batch, frozen": (lambda: Net(nn.BatchNorm1d(5)), {"buffers": "batch", "frozen_norm": "eval"}),
    "norm that is built without statistics": (
        lambda: Net(nn.BatchNorm1d(5, track_running_stats=False)),
        {"frozen_norm": "eval"},
    ),
    "dropout": (lambda: Net(nn.Dropout(0.4)), {}),
    "functional dropout": (lambda: Net(FunctionalDropout()), {}),
    "noise": (lambda: Net(Noisy()), {}),
    "answer scaled afterwards": (Rescaled, {}),
    "answer scaled in place": (RescaledInPlace, {}),
    "answer rectified in place": (Rectified, {}),
    "answer beside the body's": (Beside, {}),
    "head used twice": (UsedTwice, {}),
    "head with two inputs": (TwoInputs, {}),
    "head with a second input by name": (NamedInput, {}),
    "head tied to the body": (TiedToTheBody, {}),
    "head used by the body": (UsesTheHeadsWeights, {}),
    "samples that see each other": (lambda: Net(Centred()), {}),
    "calls that are counted": (lambda: Net(Counting(0.01, True)), {}),
    "calls that are counted and do not matter": (lambda: Net(Counting(0.0, True)), {}),
    "calls that are counted anew": (lambda: Net(Counting(0.01, False)), {}),
}


@pytest.mark.parametrize("name", INEXACT)
def test_it_is_not_used_where_it_would_not_be_exact(name: str) -> None:
    make, options = INEXACT[name]
    client, tensors = made(make, **options)
    three_ways(HEAD_EPOCHS, client, tensors)
    with counted(client.task.module, "body") as sizes:
        with_cache(HEAD_EPOCHS, [client], [tensors])
    assert len(sizes) >= len(list(HEAD_EPOCHS.moments(client, client.train)))


def test_samples_that_see_each_other_are_found_though_the_first_ones_are_alike() -> None:
    plain = some((4,))
    inputs = plain.inputs.clone()
    inputs[1] = inputs[0]
    client, tensors = made(lambda: Net(Centred()), Samples(inputs, plain.targets))
    three_ways(HEAD_EPOCHS, client, tensors)


@pytest.mark.parametrize("preparation", [Preparation(crop=1), Preparation(flip=True)], ids=["crop", "flip"])
def test_augmented_images_are_new_each_time(preparation: Preparation) -> None:
    plain = some((2, 4, 4))
    client, tensors = made(
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(12, 3)),
        Samples(plain.inputs, plain.targets, preparation=preparation),
    )
    three_ways(HEAD_EPOCHS, client, tensors)
    assert body_calls(HEAD_EPOCHS, client, tensors, "0") == BODY_STEPS


def test_a_part_in_the_middle_is_no_tail() -> None:
    client, tensors = made(lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 5), nn.Linear(5, 3)))
    phase = replace(HEAD_EPOCHS, train=where("2.*"))
    three_ways(phase, client, tensors)
    assert body_calls(phase, client, tensors, "0") >= BODY_STEPS


def test_too_few_samples_to_try_it_out() -> None:
    client, tensors = made(Net, some((4,), 1))
    three_ways(HEAD_EPOCHS, client, tensors)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_looking_for_a_tail_leaves_no_trace(mode: str) -> None:
    """Neither in statistics, modes and hooks, nor in the random numbers."""
    for make, _ in INEXACT.values():
        module = make().double().train(mode == "train")
        before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
        modes = [part.training for part in module.modules()]
        chance = torch.get_rng_state()
        tail_of(module, {module.get_submodule("head")}, some((4,)))
        assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items()), make
        assert modes == [part.training for part in module.modules()]
        assert torch.equal(chance, torch.get_rng_state())
        assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


def test_a_body_that_fails_leaves_no_hook() -> None:
    module = Net().double()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        tail_of(module, {module.head}, some((7,)))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


# Any network.


class Block(nn.Module):
    """Some layers, perhaps with a skip."""

    def __init__(self, layers: list[nn.Module], skip: bool) -> None:
        super().__init__()
        self.layers, self.skip = nn.Sequential(*layers), skip

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layers(inputs)
        return inputs + outputs if self.skip else outputs


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(4, 4),
    "linear again": lambda: nn.Linear(4, 4, bias=False),
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "layer norm": lambda: nn.LayerNorm(4),
    "batch norm": lambda: nn.BatchNorm1d(4),
    "dropout": lambda: nn.Dropout(0.3),
    "centred": Centred,
}


@given(st.data())
@examples(max_examples=120)
def test_any_network_of_blocks_is_the_same_with_and_without(data: st.DataObject) -> None:
    blocks = data.draw(
        st.lists(
            st.tuples(st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=3), st.booleans()),
            min_size=1,
            max_size=4,
        )
    )
    end = data.draw(st.sampled_from([None, nn.Tanh(), nn.ReLU(), nn.ReLU(inplace=True)]))

    def make() -> nn.Module:
        parts: list[nn.Module] = [Block([LAYERS[name]() for name in names], skip) for names, skip in blocks]
        return nn.Sequential(*parts, nn.Linear(4, 3), *([end] if end else []))

    client, tensors = made(make, frozen_norm=data.draw(st.sampled_from(["train", "eval"])))
    names = client.task.network.parameters
    first = data.draw(st.integers(0, len(names) - 1))
    chosen = Selector("suffix", lambda network, universe: universe & frozenset(names[first:]))
    phase = Phase(chosen, SGD(0.05, momentum=0.5), epochs=2)
    [cached] = with_cache(phase, [client], [tensors])
    [uncached] = without_cache(phase, [client], [tensors])
    assert difference(cached, uncached) <= 1e-12


# Evaluation.


def models(tensors: Tensors, change: str, count: int = 3) -> dict[Variant, Tensors]:
    names: tuple[Variant, ...] = ("before_local", "initial", "after_finetune")
    return {
        model: {name: t * (1 + at) if name.startswith(change) else t for name, t in tensors.items()}
        for at, model in enumerate(names[:count])
    }


def test_models_that_differ_in_the_head_share_the_body() -> None:
    client, tensors = made(lambda: Net(nn.BatchNorm1d(5)), some((4,), 50))
    given = models(tensors, "head")
    each = {model: measure(fedavg(), client, own, client.train, 20) for model, own in given.items()}
    with counted(client.task.module, "body") as sizes:
        together = measure_all(fedavg(), client, given, client.train, 20)
    assert [size for size in sizes if size > 2] == [20, 20, 10]
    assert list(together) == list(given)
    assert len({round(sums["loss"], 6) for sums in together.values()}) == 3
    for model, sums in together.items():
        assert sums["count"] == each[model]["count"]
        assert sums["correct"] == each[model]["correct"]
        assert sums["loss"] == pytest.approx(each[model]["loss"], rel=1e-12)


@pytest.mark.parametrize("name", [name for name in INEXACT if "counted" not in name])
def test_models_are_measured_as_if_alone(name: str) -> None:
    make, options = INEXACT[name]
    client, tensors = made(make, some((4,), 50), **options)
    for changed in ("head", "body", "between.running_mean", "", "none of them"):
        given = models(tensors, changed)
        found = measure_all(fedavg(), client, given, client.train, 16)
        for model, own in given.items():
            alone = measure(fedavg(), client, own, client.train, 16)
            assert found[model].keys() == alone.keys()
            assert found[model] == pytest.approx(alone, rel=1e-12), model


def test_a_model_of_its_own_kind_is_asked_itself() -> None:
    """A method that predicts in its own way has no tail of the network's."""
    client, tensors = made(Net, some((4,), 20))
    doubled = replace(fedavg(), predict=lambda own, inputs, who: -2 * fedavg().outputs(own, inputs, who))
    given = models(tensors, "head")
    found = measure_all(doubled, client, given, client.train, 16)
    for model, own in given.items():
        assert found[model] == measure(doubled, client, own, client.train, 16)


def test_weights_that_are_given_out_are_not_moved_by_measuring() -> None:
    client, tensors = made(lambda: Net(nn.BatchNorm1d(5)), some((4,), 20))
    given = models(tensors, "head")
    before = {(model, name): t.clone() for model, own in given.items() for name, t in own.items()}
    measure_all(fedavg(), client, given, client.train, 8)
    assert all(torch.equal(given[model][name], tensor) for (model, name), tensor in before.items())


def test_everything_is_trained() -> None:
    client, tensors = made(Net)
    assert tail_of(client.task.module, list(client.task.module.modules())[1:], client.train) is None
    assert tail_of(client.task.module, [], client.train) is None
    three_ways(replace(HEAD_EPOCHS, train=NETWORK), client, tensors)
