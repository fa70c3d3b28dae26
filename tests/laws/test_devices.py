"""Every tensor is where it must be, wherever clients work: checked with torch's fake tensors, which know their device.

A fake tensor has a shape, a type and a device, but no values, and operations refuse tensors of two devices. The device
is `meta`, which every build of torch has. What asks for a value is told 1.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from laws.methods import brief
from partita import registry
from partita.algorithms.fedalt import fedalt
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedbabu import fedbabu
from partita.algorithms.fedper import fedper
from partita.algorithms.fedrep import fedrep
from partita.algorithms.finetune import finetune
from partita.algorithms.flayer import flayer
from partita.core.algorithm import Algorithm
from partita.core.batching import Batching
from partita.core.optimizers import SGD
from partita.core.samples import Preparation, Samples
from partita.data.federation import Federation
from partita.engine import eligibility, fast
from partita.errors import PartitaError
from partita.evaluation import outcomes
from partita.evaluation.analyses.finetuning import finetuning
from partita.evaluation.analyses.guard import guard
from partita.evaluation.analyses.similarity import similarity
from partita.evaluation.analyses.without_head import without_head
from partita.evaluation.analysis import Analysis
from partita.experiment import experiment, setup
from partita.experiment.population import population_at
from partita.experiment.result import Result
from partita.experiment.simulate import simulate
from partita.randomness import derive, seeded
from toys import small_federation, small_network

ATEN = torch.ops.aten
DATA = small_federation((6, 5))
SHORT = {"pfedme": {"inner_steps": 1}}
ALGORITHMS = {
    name: brief(registry.get("algorithms", name)(**SHORT.get(name, {}))) for name in registry.names("algorithms")
}


class Pretended(FakeTensorMode):  # type: ignore[no-untyped-call]
    """Fake tensors, and answers to what has none without values."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is ATEN._local_scalar_dense.default:
            return 1 if not args[0].dtype.is_floating_point else 1.0
        if func in (ATEN.equal.default, ATEN.allclose.default):
            assert args[0].device == args[1].device
            return True
        if func is ATEN.bincount.default:
            return args[0].new_ones(args[2])
        if func is ATEN.nonzero.default:
            return torch.zeros(args[0].numel(), args[0].dim(), dtype=torch.int64, device=args[0].device)
        if func is ATEN._unique2.default:
            return args[0].new_zeros(1), torch.zeros_like(args[0]), torch.ones_like(args[0])[:1]
        if func is ATEN._fused_sgd_.default:
            assert len({tensor.device for tensors in args[:3] for tensor in tensors}) == 1
            return None
        # The generator of the processor is not one of fake tensors.
        known = {name: None if name == "generator" else value for name, value in (kwargs or {}).items()}
        return super().__torch_dispatch__(func, types, args, known)


def applied(module: nn.Module, change: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
    """As torch's, which cannot exchange fake parameters."""
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            part.register_parameter(name, nn.Parameter(change(parameter.detach()), parameter.requires_grad))
        for name, buffer in part.named_buffers(recurse=False):
            part._buffers[name] = change(buffer)
    return module


def copied(tensor: Tensor, memo: dict[int, object]) -> Tensor:
    new = tensor.detach().clone()
    if isinstance(tensor, nn.Parameter):
        new = nn.Parameter(new, tensor.requires_grad)
    memo[id(tensor)] = new
    return new


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The test is about fake tensors, and `meta` is a device like any other."""
    monkeypatch.setattr(nn.Module, "_apply", applied)
    monkeypatch.setattr(FakeTensor, "__deepcopy__", copied, raising=False)
    monkeypatch.setattr(eligibility, "PARAMETERS", (nn.Parameter, FakeTensor))
    monkeypatch.setattr(fast, "verified", lambda phase, case, wanted, run: wanted)
    monkeypatch.setattr(experiment, "need_device", lambda name: None)
    # Fake tensors have no values to look at.
    monkeypatch.setattr(outcomes, "_listed", lambda batches: [1.0 for batch in batches for _ in batch])
    monkeypatch.setattr(setup, "unanswerable", lambda data, tested: [])
    # Torch also logs what it raises.
    logging.disable(logging.CRITICAL)
    try:
        with Pretended(allow_non_fake_inputs=True):
            yield
    finally:
        logging.disable(logging.NOTSET)


def run(algorithm: Algorithm, network: nn.Module, data: Federation = DATA, **options: Any) -> Result:
    """On the device, with the server and all that is kept in main memory."""
    result = simulate(algorithm, network, data, rounds=1, batching=Batching(3), device="meta", on="inline", **options)
    assert {tensor.device.type for tensor in result.task.weights.values()} == {"meta"}
    assert {tensor.device.type for own in (result.state, *result.own.values()) for tensor in own.values()} == {"cpu"}
    return result


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_method(name: str) -> None:
    run(ALGORITHMS[name], small_network())


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize(
    "algorithm",
    [
        fedavg(optimizer=SGD(0.1, momentum=0.9, clip=1.0, weight_decay=0.1)),
        fedbabu(head_init="orthogonal"),
        fedalt(personal_init="independent"),
        flayer(on=fedper(), variant="official"),
    ],
    ids=lambda algorithm: str(algorithm.label),
)
def test_settings_with_ways_of_their_own(algorithm: Algorithm) -> None:
    run(brief(algorithm), small_network())


def images() -> Federation:
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randint(256, (len(DATA.samples), 2, 6, 6), generator=draw).to(torch.uint8)
    mean, std = torch.full((2, 1, 1), 0.5), torch.full((2, 1, 1), 0.2)
    return replace(
        DATA, samples=Samples(inputs, DATA.samples.targets, preparation=Preparation(mean, std, crop=1, flip=True))
    )


def texts() -> Federation:
    words = torch.randint(9, (len(DATA.samples), 5), generator=torch.Generator().manual_seed(0))
    return replace(DATA, samples=Samples(words, DATA.samples.targets))


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(9, 4, padding_idx=0), nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.head(self.table(inputs).mean(1))
        return scores


def of_images() -> nn.Module:
    layers = (nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    return nn.Sequential(*layers, nn.Dropout(0.2), nn.Linear(36, 3))


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize("engine", ["fast", "reference"])
@pytest.mark.parametrize(("make", "data"), [(of_images, images()), (Words, texts())], ids=["images", "texts"])
@pytest.mark.parametrize("algorithm", [fedavg(), fedrep()], ids=["fedavg", "fedrep"])
def test_images_and_texts(
    algorithm: Algorithm, make: Callable[[], nn.Module], data: Federation, engine: Literal["fast", "reference"]
) -> None:
    run(brief(algorithm), make(), data, engine=engine)


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize("make", [guard, finetuning, without_head, similarity], ids=lambda make: str(make.__name__))
def test_analyses_of_stored_models(make: Callable[[], Analysis]) -> None:
    result = run(finetune(on=fedavg()), small_network(norm=False))
    setup = result.setup
    # It is of bytes.
    object.__setattr__(result.data, "fingerprint", "the same")
    population = population_at(setup, setup.moment(1), lambda: result.state, result.own)
    assert make().compute(population)


@pytest.mark.parametrize("name", ["bogus", "", "meta", "mps", "cuda:x"])
def test_another_device_is_refused(name: str) -> None:
    with pytest.raises(PartitaError, match=f"^device is '{name}', but must be 'cpu', 'cuda', or 'cuda:1'"):
        simulate(fedavg(), small_network(), DATA, rounds=1, device=name)


@pytest.mark.parametrize(("found", "words"), [(0, "finds no such device"), (1, "finds 1 such device on")])
def test_a_device_that_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch, found: int, words: str) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: found)
    with pytest.raises(PartitaError, match=words):
        simulate(fedavg(), small_network(), DATA, rounds=1, device="cuda:1")


def test_a_device_has_the_seed_too_and_gets_its_own_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropout on a device draws from the device's generator. Here a stand-in for it."""
    states = {"cuda:1": 7}
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: states[str(device)])
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: states.update({str(device): state}))
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "manual_seed", lambda seed: states.update({"cuda:1": seed}))
    with seeded(3, "noise", 1, device=torch.device("cuda:1")):
        assert states == {"cuda:1": derive(3, "noise", 1)}
    assert states == {"cuda:1": 7}
