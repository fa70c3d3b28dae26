"""Sites that crash, lie or are silent: the round goes on without them, and nothing that was accepted is lost."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from bits import digest
from deploy.federations import DATA, Federated, experiment, federate, personal, sites_of
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedper import fedper
from partita.algorithms.flayer import flayer
from partita.algorithms.scaffold import scaffold
from partita.core.samples import Samples
from partita.deploy.messages import Order, Reply
from partita.deploy.plan import Plan
from partita.deploy.server import Limits
from partita.errors import PartitaError
from partita.experiment.executors.inline import Inline
from partita.experiment.rounds import Checkpoint
from partita.experiment.simulate import run_stages
from partita.models.mlp import mlp
from partita.tensors import Tensors

EVERYONE: dict[str, Any] = {"participation": "all", "rounds": 3, "evaluate_every": 0}


def test_a_run_goes_on_after_everything_was_killed(tmp_path: Path) -> None:
    """The server was killed after sites had trained the third round: they go back to what it accepted."""
    made = experiment(flayer(on=fedper()), **EVERYONE)
    plan = Plan.of(made)

    class Killed(Exception):
        pass

    def kill(number: int, order: bytes, answer: Callable[[bytes], bytes]) -> bytes:
        reply = answer(order)
        if Order.read(order).round == 2 and number == 0:
            raise Killed
        return reply

    found = Federated()
    with sites_of(plan, DATA, tmp_path) as sites, pytest.raises(Killed):
        federate(plan, sites, change=kill, found=found)
    with sites_of(plan, DATA, tmp_path) as sites:
        # Pending states of round 3 are there, and not used.
        assert personal(plan, sites, {0: {"receipt/round": torch.tensor(3)}})
        federate(plan, sites, found=found, start=Checkpoint(2, found.state))
        kept = personal(plan, sites, found.receipts)
    expected = run_stages(made, Inline())
    assert digest(found.state) == digest(expected.state)
    assert digest(kept) == digest(dict(sorted(expected.own.items())))


def of_round(round: int, site: int, lie: Callable[[Reply], Reply | None]) -> Any:
    """One site's reply in one round is another."""

    def change(number: int, order: bytes, answer: Callable[[bytes], bytes]) -> bytes | None:
        reply, asked = answer(order), Order.read(order)
        if (asked.kind, asked.round, number) != ("train", round, site):
            return reply
        lied = lie(Reply.read(reply))
        return lied.write() if lied else None

    return change


def sent(change: Callable[[Tensors], Mapping[str, torch.Tensor]]) -> Callable[[Reply], Reply]:
    return lambda reply: dataclasses.replace(reply, sent=dict(change(reply.sent)))


WEIGHT = "values/layer1.weight"
LIES: dict[str, tuple[Callable[[Reply], Reply | None], str]] = {
    "nothing": (lambda reply: None, "no reply within"),
    "not a number": (
        sent(lambda s: {**s, WEIGHT: s[WEIGHT] * torch.nan}),
        "layer1.weight holds values that are not finite",
    ),
    "infinity": (sent(lambda s: {**s, WEIGHT: s[WEIGHT] / 0}), "not finite"),
    "shape": (
        sent(lambda s: {**s, WEIGHT: s[WEIGHT][:2]}),
        r"layer1.weight has the shape \[2, 4\], and must have \[6, 4\]",
    ),
    "type": (sent(lambda s: {**s, WEIGHT: s[WEIGHT].double()}), "type torch.float64, and must be torch.float32"),
    "personal": (sent(lambda s: {**s, "values/head.bias": torch.ones(3)}), "holds head.bias, which is not shared"),
    "other": (sent(lambda s: {**s, "more": torch.ones(3)}), "other than values and their masks"),
    "mask": (
        sent(lambda s: {**s, "mask/layer1.weight": torch.ones(9, dtype=torch.uint8)}),
        "mask of layer1.weight does not",
    ),
    "far": (sent(lambda s: {**s, WEIGHT: s[WEIGHT] + 100}), "its change has the norm 489.*at most 50 is accepted"),
    "samples": (lambda r: dataclasses.replace(r, samples=10**6), "1000000 samples .* introduced itself with 7"),
    "batches": (lambda r: dataclasses.replace(r, batches=10**6), "1000000 batches"),
    "weight": (lambda r: dataclasses.replace(r, weight=-1.0), "weight"),
    "round": (lambda r: dataclasses.replace(r, round=0), "an order that was not sent: train in round 1"),
    "plan": (
        lambda r: dataclasses.replace(r, plan="x" * 64),
        "an order that was not sent: train in round 2",
    ),
    "metrics": (lambda r: dataclasses.replace(r, records=(("before_local", "test", 1, 2, 0.0),)), "its metrics hold"),
    "refusal": (lambda r: Reply("train", r.plan, r.round, refused="no disk"), "the site refused: no disk"),
    "size": (sent(lambda s: {**s, "values/more": torch.ones(1 << 20)}), "bytes, and at most"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_reply_that_cannot_be_used_is_left_out(lie: str, tmp_path: Path) -> None:
    """Nothing of it touches the model; the site is told, and goes on from what was accepted."""
    made = experiment(fedper(epochs=1), **EVERYONE)
    plan, (change, words) = Plan.of(made), LIES[lie]
    with sites_of(plan, DATA, tmp_path) as sites:
        found = federate(plan, sites, change=of_round(1, 1, change), limits=Limits(norm=50.0))
        kept = personal(plan, sites, found.receipts)
    [rejection] = found.rejections
    assert (rejection.site, rejection.round) == ("b", 2)
    with pytest.raises(PartitaError, match=words):
        raise PartitaError(rejection.reason)
    assert found.participants == [4, 3, 4]
    assert [(each.round, each.name, each.in_a_row, each.problem) for each in found.left_out] == [
        (2, "b", 1, rejection.reason)
    ]
    orders = {asked.round: asked for number, order, _ in found.messages if number == 1 for asked in [Order.read(order)]}
    assert orders[2].kept == 1, "it goes back to the round before"
    assert orders[2].rejected == ("" if lie == "nothing" else rejection.reason)
    assert (digest(found.state), digest(kept)) == without_one_round()


def test_a_sick_site_is_left_out_unless_the_plan_says_otherwise(tmp_path: Path) -> None:
    """By default, in a federation; its reason is told, and nothing of single samples leaves any site."""
    inputs = DATA.samples.inputs.clone()
    inputs[DATA.roles[1]["train"]] *= 1e30
    sick = dataclasses.replace(DATA, samples=Samples(inputs, DATA.samples.targets))
    made = experiment(fedavg(), **{**EVERYONE, "data": sick, "model": mlp})
    plan = Plan.of(made)
    assert (made.on_sick_client, plan.experiment["on_sick_client"]) == (None, "leave_out")
    with sites_of(plan, sick, tmp_path / "left out") as sites:
        found = federate(plan, sites)
    assert found.participants == [3, 3, 3]
    assert [(each.name, each.in_a_row) for each in found.left_out if "refused" in each.problem] == [
        ("b", 1),
        ("b", 2),
        ("b", 3),
    ]
    assert "of client b became" in found.left_out[0].problem
    assert (found.outcomes, bool(found.records)) == ([], True)
    strict = Plan.of(dataclasses.replace(made, on_sick_client="stop"))
    words = r"Round 1: the reply of site b cannot be used: .* make the plan with on_sick_client=leave_out\.$"
    with sites_of(strict, sick, tmp_path / "stop") as sites, pytest.raises(PartitaError, match=words):
        federate(strict, sites)


@cache
def without_one_round() -> tuple[str, str]:
    """A simulation in which client 1 does not take part in round 2."""
    everyone = [0, 1, 2, 3]
    schedule = {"participation": [everyone, [0, 2, 3], everyone]}
    expected = run_stages(experiment(fedper(epochs=1), **{**EVERYONE, **schedule}), Inline())
    return digest(expected.state), digest(dict(sorted(expected.own.items())))


def test_garbage_is_left_out(tmp_path: Path) -> None:
    plan = Plan.of(experiment(fedper(epochs=1), **EVERYONE))

    def change(number: int, order: bytes, answer: Callable[[bytes], bytes]) -> bytes:
        garbage = number == 2 and Order.read(order).kind == "train"
        return b"\x08garbage that is no message" if garbage else answer(order)

    with sites_of(plan, DATA, tmp_path) as sites:
        found = federate(plan, sites, change=change)
    assert [each.site for each in found.rejections] == ["c"] * 3
    assert "cannot be read" in found.rejections[0].reason


def test_a_round_needs_enough_replies(tmp_path: Path) -> None:
    plan = Plan.of(experiment(fedper(epochs=1), **EVERYONE))
    silent = of_round(1, 3, lambda reply: None)
    with (
        sites_of(plan, DATA, tmp_path) as sites,
        pytest.raises(PartitaError, match=r"Round 2: 3 of 4 sites sent an update .* at least 4 must"),
    ):
        federate(plan, sites, change=silent, limits=Limits(replies=4))


@pytest.mark.parametrize("algorithm", [fedavg(), scaffold()])
def test_all_sites_must_introduce_themselves(algorithm: Any, tmp_path: Path) -> None:
    plan = Plan.of(experiment(algorithm, **EVERYONE))

    def asleep(number: int, order: bytes, answer: Callable[[bytes], bytes]) -> bytes | None:
        return None if number == 2 else answer(order)

    with sites_of(plan, DATA, tmp_path) as sites, pytest.raises(PartitaError, match=r"1 of 4 sites .*themselves: c"):
        federate(plan, sites, change=asleep)


def test_a_site_refuses_what_does_not_fit(tmp_path: Path) -> None:
    plan = Plan.of(experiment(fedper(epochs=1), **EVERYONE))
    other = dataclasses.replace(plan, data=dataclasses.replace(plan.data, classes=4))
    older = dataclasses.replace(plan, partita="0.0.1")
    stranger = dataclasses.replace(plan, sites=("w", "x", "y", "z"))
    code = dataclasses.replace(plan, experiment={**plan.experiment, "model": {"name": "os:system"}})
    with sites_of(plan, DATA, tmp_path) as sites:
        for wrong, words in (
            (other, "classes is 3, and the plan says 4"),
            (older, "by partita 0.0.1 .* Install the same version"),
            (stranger, "no site called 'a'"),
            (code, "imports and runs Python code"),
        ):
            reply = Reply.read(sites[0].answer(Order("introduce", wrong.text).write()))
            with pytest.raises(PartitaError, match=words):
                raise PartitaError(reply.refused)
        unknown = Reply.read(sites[0].answer(Order("train", "f" * 64).write()))
        assert "was not introduced" in unknown.refused
