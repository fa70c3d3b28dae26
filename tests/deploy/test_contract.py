"""A law of all methods: a federation has the same bits as a simulation, and only what is shared leaves a site."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from bits import Noting, digest
from deploy.federations import DATA, experiment, federate, personal, sites_of
from laws.methods import AS_MADE, SERVER_OPTIMIZERS
from partita import registry
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedper import fedper
from partita.algorithms.flayer import flayer
from partita.algorithms.server_update import server_update
from partita.core.algorithm import Algorithm
from partita.deploy.messages import LENGTH, Order
from partita.deploy.plan import Plan
from partita.errors import PartitaError
from partita.experiment.executors.inline import Inline
from partita.experiment.experiment import Experiment, Pretraining
from partita.experiment.simulate import run_stages
from partita.models.mlp import mlp
from partita.servers.averaging import averaging
from partita.servers.median import median

pytestmark = pytest.mark.filterwarnings("ignore::partita.DegenerateWarning")
LENGTHS = ("epochs", "head_epochs", "final_head_epochs", "finetune_epochs", "max_start_epochs", "inner_steps", "steps")


def short(made: Algorithm) -> Algorithm:
    """The same method, made with the shortest training that its settings allow, so that it can still be named."""
    make = registry.get("algorithms", made.name)
    known = {name for name in LENGTHS if isinstance(made.settings.get(name), int)}
    shorter = {key: short(value) for key, value in made.settings.items() if isinstance(value, Algorithm)}
    again: Algorithm = make(**{**made.settings, **dict.fromkeys(known, 1), **shorter})
    return again


METHODS = {name: short(made) for name, made in AS_MADE.items() if " server " not in name and not made.refinement}


def assert_same_bits(made: Experiment, folder: Path) -> None:
    plan = Plan.of(made)
    with sites_of(plan, made.data, folder) as sites:
        found = federate(Plan.read(plan.text), sites)
        kept = personal(plan, sites, found.receipts)
    assert not found.rejections
    expected = run_stages(made, Inline())
    assert digest(found.state) == digest(expected.state)
    assert digest(kept) == digest(dict(sorted(expected.own.items())))
    assert digest(found.records) == digest(expected.records)
    assert digest(found.traffic) == digest(expected.traffic)


@pytest.mark.parametrize("name", METHODS)
def test_a_federation_has_the_bits_of_a_simulation(name: str, tmp_path: Path) -> None:
    """Server's state, personal parts, metrics and traffic, with half of the sites in each round."""
    assert_same_bits(experiment(METHODS[name]), tmp_path)


@pytest.mark.parametrize("kind", SERVER_OPTIMIZERS)
def test_with_an_optimizer_of_the_server(kind: str, tmp_path: Path) -> None:
    assert_same_bits(experiment(fedper(), server=averaging(optimizer=SERVER_OPTIMIZERS[kind])), tmp_path)


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        (flayer(variant="official", on=fedper(), everyone=True), {}),
        (fedavg(), {"server": median()}),
        (fedper(), {"participation": "all", "evaluate_every": 0}),
        (fedper(), {"participation": "poisson:0.4", "rounds": 4}),
        (fedper(), {"buffers": "local"}),
        (fedper(), {"model": partial(mlp, hidden=5)}),
    ],
    ids=["absent", "median", "everyone", "poisson", "local buffers", "mlp"],
)
def test_other_protocols(algorithm: Algorithm, options: dict[str, Any], tmp_path: Path) -> None:
    assert_same_bits(experiment(algorithm, **options), tmp_path)


def test_every_method_is_there() -> None:
    """The laws are over what is found by name; what is left out is left out by what it does."""
    assert set(registry.names("algorithms")) - set(METHODS) == {"server_update"}


def test_a_server_that_trains_is_refused() -> None:
    with pytest.raises(PartitaError, match=r"server_update on fedper trains on the server .* holds none"):
        Plan.of(experiment(server_update(on=fedper())))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pretrain": Pretraining(fedavg(), 1)}, "leave out pretrain"),
        ({"data": replace(DATA, newcomers=frozenset({1}))}, "no newcomers"),
        ({"oracle_validation": True}, "does not hand out test data"),
        ({"loss": lambda outputs, targets: outputs.sum()}, "objects that settings cannot name: loss"),
    ],
)
def test_what_cannot_be_a_plan(options: dict[str, Any], words: str) -> None:
    with pytest.raises(PartitaError, match=words):
        Plan.of(experiment(fedper(), **options))


@pytest.mark.parametrize("name", ["fedper", "fedrep", "fedbn", "flayer", "flayer(fedper)"])
def test_only_what_is_shared_is_in_a_message(name: str, tmp_path: Path) -> None:
    """No byte of the personal part, nor of entries that a mask holds back, in what travels either way."""
    made = experiment(METHODS[name], rounds=3)
    plan, noting = Plan.of(made), Noting(Inline())
    with sites_of(plan, made.data, tmp_path) as sites:
        found = federate(plan, sites)
        kept = personal(plan, sites, found.receipts)
    run_stages(made, noting)
    updates = [each.update for results in noting.noted for each in results if each.update]
    shared = {name for update in updates for name in update.values}
    own = [each[name] for each in kept.values() for name in each.keys() - shared if each[name].is_floating_point()]
    held_back = [update.values[name][~mask] for update in updates for name, mask in (update.mask or {}).items()]
    replies = b"".join(reply for _, _, reply in found.messages)
    orders = b"".join(order for _, order, _ in found.messages)
    assert told(own) or told(held_back)
    assert not [each for each in told(own) if each in orders + replies]
    # What is held back may be as it was received.
    assert not [each for each in told(held_back) if each in replies]
    assert found.state["layer1.weight"].numpy().tobytes() in orders, "the search finds what does travel"


def told(tensors: list[Tensor]) -> list[bytes]:
    """As they would travel; a single number may occur anywhere."""
    return [tensor.numpy().tobytes() for tensor in tensors if tensor.numel() > 2 and tensor.any()]


def test_a_site_whose_classes_have_other_names_is_refused() -> None:
    """Texts that every site numbers for itself would otherwise be other classes at each."""
    named = replace(DATA, class_names=tuple("xyz"[: DATA.classes]))
    plan = Plan.read(Plan.of(experiment(fedavg(), data=named)).text)
    assert plan.data.class_names == named.class_names
    plan.data.need(named)
    plan.data.need(DATA)
    with pytest.raises(PartitaError, match=r"class_names is .*, and the plan says"):
        plan.data.need(replace(named, class_names=named.class_names[::-1]))


@pytest.mark.parametrize("changes", [{"round": [1]}, {"kept": "1"}, {"kind": "x"}, {"plan": 3}, {"taking_part": -1}])
def test_a_header_of_another_form_is_refused(changes: dict[str, object]) -> None:
    """A round that was a list ended the process of a site."""
    whole = Order("train", "hash").write()
    end = LENGTH + int.from_bytes(whole[:LENGTH], "little")
    header = json.dumps({**json.loads(whole[LENGTH:end]), **changes}).encode()
    with pytest.raises(PartitaError):
        Order.read(len(header).to_bytes(LENGTH, "little") + header + whole[end:])
