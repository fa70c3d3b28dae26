"""Secure sums: the model of a plain federation, from updates that nobody saw."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from deploy.federations import DATA, OPEN, Federated, experiment, federate, personal, sites_of
from deploy.test_contract import METHODS
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedper import fedper
from partita.deploy.audit import entries_of
from partita.deploy.gate import Gate, Leaving, Policy
from partita.deploy.messages import Order, Reply
from partita.deploy.plan import Plan
from partita.deploy.privacy import Privacy
from partita.deploy.server import Limits
from partita.deploy.summable import weights_of_sum
from partita.errors import PartitaError
from partita.servers.averaging import averaging
from partita.servers.median import median
from partita.tensors import under

pytest.importorskip("flwr", reason="flwr is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::partita.DegenerateWarning")
EVERYONE: dict[str, Any] = {"participation": "all", "rounds": 2, "evaluate_every": 1}


def summable(name: str) -> bool:
    try:
        weights_of_sum(METHODS[name])
    except PartitaError:
        return False
    return True


def both(made: Any, folder: Path) -> tuple[Federated, Federated]:
    """The same experiment with plain updates and with secure sums."""
    found = []
    for secure in (False, True):
        plan = Plan.of(made, secure=secure)
        with sites_of(plan, made.data, folder / str(secure)) as sites:
            found.append(federate(Plan.read(plan.text), sites))
    return found[0], found[1]


def assert_near(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=1e-5, atol=1e-6)


QUICK = ("fedper", "ditto", "flayer")
EACH = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in METHODS if summable(name)]


@pytest.mark.parametrize("name", EACH)
def test_a_sum_gives_the_same_model(name: str, tmp_path: Path) -> None:
    """For every method whose server needs a sum; one that masks entries is refused by the sites."""
    made = experiment(METHODS[name], **EVERYONE)
    try:
        plain, secure = both(made, tmp_path)
    except PartitaError as problem:
        assert "sends a part of its entries cannot be summed securely" in str(problem)  # noqa: PT017
        return
    assert not secure.rejections
    assert_near(plain.state, secure.state)
    assert [(each.client, each.variant, each.count) for each in plain.records] == [
        (each.client, each.variant, each.count) for each in secure.records
    ]
    updates = [under("values/", Reply.read(reply).sent) for _, _, reply in plain.messages]
    held = b"".join(reply for _, _, reply in secure.messages)
    seen = [tensor for update in updates for tensor in update.values() if tensor.numel() > 2]
    assert not any(tensor.numpy().tobytes() in held for tensor in seen)


def test_what_can_be_summed_is_found_by_what_its_server_needs() -> None:
    found = {name for name in METHODS if summable(name)}
    assert {"fedavg", "fedper", "fedrep", "fedbabu", "ditto", "fedprox"} <= found
    assert not {"apple", "fedamp", "scaffold"} & found
    for made in (experiment(fedavg(), server=median(), **EVERYONE), experiment(METHODS["fedamp"], **EVERYONE)):
        with pytest.raises(PartitaError, match="needs more than the sum of updates"):
            Plan.of(made, secure=True)
    with pytest.raises(PartitaError, match="weighs updates by what sites send"):
        weights_of_sum(replace(fedavg(), server=averaging(weights="uploaded")))


@pytest.mark.parametrize("weights", ["uniform", pytest.param("batches", marks=pytest.mark.slow)])
def test_weights_are_those_of_the_server(weights: Any, tmp_path: Path) -> None:
    plain, secure = both(experiment(fedper(), server=averaging(weights=weights), **EVERYONE), tmp_path)
    assert_near(plain.state, secure.state)


Lie = Callable[[int, Order, Callable[[], bytes]], bytes | None]


def run(lie: Lie, folder: Path, limits: Limits | None = None) -> tuple[Plan, Federated, dict[int, Any]]:
    plan = Plan.of(experiment(fedper(), **EVERYONE), secure=True)

    def change(number: int, order: bytes, answer: Callable[[bytes], bytes]) -> bytes | None:
        return lie(number, Order.read(order), lambda: answer(order))

    with sites_of(plan, DATA, folder) as sites:
        found = federate(plan, sites, change=change, limits=limits or Limits())
        return plan, found, personal(plan, sites, found.receipts)


@pytest.mark.parametrize("step", ["keys", "shares", "train"])
def test_a_site_that_is_lost_on_the_way_is_left_out(step: str, tmp_path: Path) -> None:
    """In round 1, at any step before its update is there; the model is that of the others."""

    def silent(number: int, order: Order, answer: Callable[[], bytes]) -> bytes | None:
        reply = answer()
        return None if (number, order.kind, order.round) == (1, step, 0) else reply

    _, found, kept = run(silent, tmp_path / "secure")
    assert [(each.site, each.round) for each in found.rejections] == [("b", 1)]
    assert found.participants == [3, 4]
    made = experiment(fedper(), **{**EVERYONE, "participation": [[0, 2, 3], [0, 1, 2, 3]]})
    plan = Plan.of(made)
    with sites_of(plan, DATA, tmp_path / "plain") as sites:
        expected = federate(plan, sites)
        theirs = personal(plan, sites, expected.receipts)
    assert_near(expected.state, found.state)
    for number, own in kept.items():
        assert_near(theirs[number], own)


def test_a_site_that_is_lost_after_its_update_counts(tmp_path: Path) -> None:
    def silent(number: int, order: Order, answer: Callable[[], bytes]) -> bytes | None:
        return None if (number, order.kind) == (1, "unmask") else answer()

    _, found, _ = run(silent, tmp_path / "some")
    assert found.participants == [4, 4]
    plan = Plan.of(experiment(fedper(), **EVERYONE))
    with sites_of(plan, DATA, tmp_path / "plain") as sites:
        assert_near(federate(plan, sites).state, found.state)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("keys", "2 of 4 sites gave keys, and a secure sum needs 3"),
        ("shares", "2 of 4 sites gave envelopes"),
        ("train", "2 of 4 sites sent an update that could be used"),
        ("unmask", "2 of 4 sites opened the sum"),
    ],
)
def test_of_too_few_nothing_is_learned(step: str, words: str, tmp_path: Path) -> None:
    def silent(number: int, order: Order, answer: Callable[[], bytes]) -> bytes | None:
        return None if number < 2 and order.kind == step else answer()

    with pytest.raises(PartitaError, match=rf"Round 1: {words}.*a: no reply within .* Nothing is lost"):
        run(silent, tmp_path)


def test_a_masked_update_of_another_form_is_left_out(tmp_path: Path) -> None:
    def wrong(number: int, order: Order, answer: Callable[[], bytes]) -> bytes:
        reply = Reply.read(answer())
        if (number, order.kind, order.round) == (2, "train", 1):
            reply = replace(reply, sent={**reply.sent, "masked/head.bias": torch.ones(3, dtype=torch.int64)})
        return reply.write()

    _, found, _ = run(wrong, tmp_path)
    [rejection] = found.rejections
    assert (rejection.site, rejection.reason) == ("c", "its masked update has other tensors than what is shared")


def test_a_site_insists(tmp_path: Path) -> None:
    """On secure plans, on enough others, and that nothing of a secure plan leaves without masks."""
    plain, secure = (Plan.of(experiment(fedper(), **EVERYONE), secure=each) for each in (False, True))
    assert plain.hash != secure.hash
    strict = replace(OPEN, policy=replace(OPEN.policy, secure=True))
    with sites_of(plain, DATA, tmp_path, gates={0: strict}) as sites:

        def told(order: Order) -> str:
            return Reply.read(sites[0].answer(order.write())).refused

        assert "takes part only in secure sums" in told(Order("introduce", plain.text))
        assert not told(Order("introduce", secure.text))
        assert "gave no keys for round 1" in told(Order("train", secure.hash, taking_part=4))
        assert "gave no keys" in told(Order("unmask", secure.hash, taking_part=4))
        Reply.read(sites[1].answer(Order("introduce", plain.text).write()))
        other = Reply.read(sites[1].answer(Order("keys", plain.hash, taking_part=4).write()))
        assert "the plan is not secure" in other.refused
    most = Gate(Policy(("*",), ("*",), least_sites=4))
    with (
        sites_of(secure, DATA, tmp_path / "many", gates={0: most}) as sites,
        pytest.raises(
            PartitaError, match=r"This site takes part in sums that at least 4 sites open, and 3 could open this one"
        ),
    ):
        federate(secure, sites, limits=Limits(replies=4))


def test_with_noise_besides(tmp_path: Path) -> None:
    """The budget is counted as ever; the log tells of masked tensors."""
    plan = Plan.of(experiment(fedper(), buffers="local", **EVERYONE), secure=True)
    private = replace(OPEN, leaving=Leaving(privacy=Privacy(1.0, 10.0, 100.0)))
    with sites_of(plan, DATA, tmp_path, gates={0: private}) as sites:
        found = federate(plan, sites)
        assert sites[0]._store.releases == 2
    assert found.participants == [4, 4]
    told = [entry for entry in entries_of(tmp_path / "a" / "audit.log") if entry["event"] == "left"]
    assert ["masked/layer1.weight" in entry["tensors"] for entry in told if entry["kind"] == "train"] == [True, True]
