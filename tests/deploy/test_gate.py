"""The site decides which plans run, what leaves and what its data look like; its log shows changes."""

import dataclasses
import json
import os
import stat
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from bits import digest
from deploy.federations import DATA, OPEN, experiment, federate, personal, sites_of
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedper import fedper
from partita.algorithms.flayer import flayer
from partita.core.samples import Samples
from partita.deploy.audit import AuditLog, entries_of, verify
from partita.deploy.gate import Contract, Gate, Leaving, Policy, write_approvals
from partita.deploy.messages import Order, Reply
from partita.deploy.plan import Plan
from partita.deploy.site import one_client
from partita.errors import PartitaError

PLAN_OPTIONS: dict[str, Any] = {"participation": "all", "rounds": 2, "evaluate_every": 0}


def introduced(plan: Plan, gate: Gate, folder: Path) -> Reply:
    with sites_of(plan, DATA, folder, gates={0: gate}) as sites:
        return Reply.read(sites[0].answer(Order("introduce", plan.text).write()))


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (Policy(), "is not approved"),
        (Policy(algorithms=("flayer", "fedper")), "is not approved"),
        (Policy(algorithms=("flayer",), models=("*",)), "is not approved"),
        (Policy(algorithms=("flayer", "fedper"), models=("norm*",)), ""),
        (Policy(algorithms=("*",), models=("*",), least_sites=5), "at least 5 sites; the plan has 4"),
    ],
)
def test_a_policy_allows_plans_by_all_their_names(policy: Policy, reason: str, tmp_path: Path) -> None:
    reply = introduced(Plan.of(experiment(flayer(on=fedper()), **PLAN_OPTIONS)), Gate(policy), tmp_path)
    assert reason in reply.refused
    assert bool(reply.facts) == (not reason)


def test_an_approval_is_of_one_plan_and_can_be_taken_back(tmp_path: Path) -> None:
    plan = Plan.of(experiment(fedper(), **PLAN_OPTIONS))
    other = Plan.of(experiment(fedper(epochs=5), **PLAN_OPTIONS))
    assert plan.hash != other.hash
    approvals = tmp_path / "approvals.json"
    gate = Gate(approvals=approvals)
    with sites_of(plan, DATA, tmp_path, gates={0: gate}) as sites:
        order = Order("introduce", plan.text).write()
        assert "not approved" in Reply.read(sites[0].answer(order)).refused
        write_approvals(approvals, {plan.hash: "today"})
        assert stat.S_IMODE(approvals.stat().st_mode) == 0o600
        assert Reply.read(sites[0].answer(order)).facts == {"train": 8, "validation": 4, "test": 6, "classes": 3}
        assert "not approved" in Reply.read(sites[0].answer(Order("introduce", other.text).write())).refused
        write_approvals(approvals, {})
        work = Order("train", plan.hash, taking_part=4).write()
        assert "not approved" in Reply.read(sites[0].answer(work)).refused
        approvals.write_text("[]")
        assert "Cannot read the approvals" in Reply.read(sites[0].answer(order)).refused


@pytest.mark.parametrize(
    ("leaving", "reason"),
    [
        (Leaving(tensors=("layer*",)), "does not let norm1.weight leave: it allows layer*"),
        (Leaving(most_bytes=100), "at most 100 bytes leave in a round, and this would be 216"),
        (Leaving(most_norm=1e-6), "norm up to 1e-06"),
        (Leaving(tensors=("layer*", "norm*"), most_bytes=216, most_norm=100.0), ""),
    ],
)
def test_what_may_leave(leaving: Leaving, reason: str, tmp_path: Path) -> None:
    """The site that refuses is left out, its state stays as it was, and the others go on."""
    plan = Plan.of(experiment(fedper(), **PLAN_OPTIONS))
    with sites_of(plan, DATA, tmp_path, gates={2: dataclasses.replace(OPEN, leaving=leaving)}) as sites:
        found = federate(plan, sites)
    assert found.participants == ([3, 3] if reason else [4, 4])
    assert all(each.site == "c" and reason in each.reason for each in found.rejections)
    assert (2 in found.receipts) == (not reason)
    if reason:
        sent = [Reply.read(reply).sent for number, _, reply in found.messages if number == 2]
        assert not any(sent)


def test_a_round_of_too_few_sites_is_refused(tmp_path: Path) -> None:
    plan = Plan.of(experiment(fedavg(), **{**PLAN_OPTIONS, "participation": [[0, 1], [0, 1, 2]]}))
    strict = Gate(Policy(("*",), ("*",), least_sites=3))
    with sites_of(plan, DATA, tmp_path, gates={1: strict}) as sites:
        found = federate(plan, sites)
    assert [(each.site, each.round) for each in found.rejections] == [("b", 1)]
    assert "at least 3 sites; in this one are 2" in found.rejections[0].reason


@pytest.mark.parametrize(
    ("contract", "words"),
    [
        (Contract(shape=(5,)), r"shape is \(4,\), and must be \(5,\)"),
        (Contract(classes=4), "classes is 3, and must be 4"),
        (Contract(least_samples=9), "8 training samples, and at least 9"),
        (Contract(labels=(0, 1)), r"there are labels \[2\]"),
        (Contract(most_overlap=0.0), r"33.3 % of the test samples are training samples too, and at most 0 % may be"),
    ],
)
def test_data_must_fit_their_contract(contract: Contract, words: str) -> None:
    data = one_client(DATA, 0)
    Contract((4,), 3, (0, 1, 2), 8, most_overlap=0.0).need(data)
    # Two of six test samples are training samples, with other labels perhaps.
    inputs = data.samples.inputs.clone()
    inputs[data.roles[0]["test"][:2]] = inputs[data.roles[0]["train"][3]].clone()
    data = dataclasses.replace(data, samples=Samples(inputs, data.samples.targets))
    Contract(most_overlap=0.34).need(data)
    with pytest.raises(PartitaError, match=words):
        contract.need(data)


@pytest.mark.parametrize(("asked", "held"), [("2", "1"), ("", "1"), ("1", "")])
def test_a_plan_for_data_of_another_schema_is_refused(asked: str, held: str, tmp_path: Path) -> None:
    plan = Plan.of(experiment(fedper(), **PLAN_OPTIONS), schema=asked)
    assert Plan.read(plan.text) == plan
    assert (plan.hash == Plan.of(experiment(fedper(), **PLAN_OPTIONS), schema=held).hash) == (asked == held)
    reply = introduced(plan, dataclasses.replace(OPEN, contract=Contract(schema=held)), tmp_path)
    assert "is for data of the schema" in reply.refused
    assert not introduced(plan, dataclasses.replace(OPEN, contract=Contract(schema=asked)), tmp_path).refused


def test_without_metrics_nothing_but_the_update_leaves(tmp_path: Path) -> None:
    plan = Plan.of(experiment(fedper(), **{**PLAN_OPTIONS, "evaluate_every": 1}))
    quiet = dataclasses.replace(OPEN, leaving=Leaving(metrics=False))
    with sites_of(plan, DATA, tmp_path, gates={0: quiet}) as sites:
        found = federate(plan, sites)
    assert found.participants == [4, 4]
    assert {record.client for record in found.records} == {1, 2, 3}


@pytest.mark.parametrize(
    ("received", "words"),
    [
        ({"head.bias": torch.ones(3)}, "sends head.bias, which is personal at this site"),
        ({"layer1.weight": torch.full((6, 4), torch.nan)}, "layer1.weight with values that are not finite"),
        ({"layer1.weight": torch.ones(6, 5)}, r"as torch.float32 of the shape \[6, 5\], and it is .* of \[6, 4\]"),
        ({"layer1.weight": torch.ones(6, 4).double()}, "as torch.float64 of the shape"),
    ],
    ids=["personal", "not finite", "shape", "type"],
)
@pytest.mark.parametrize("kind", ["train", "evaluate"])
def test_a_server_cannot_replace_what_is_personal(
    kind: Any, received: dict[str, torch.Tensor], words: str, tmp_path: Path
) -> None:
    plan = Plan.of(experiment(fedper(), **PLAN_OPTIONS))
    with sites_of(plan, DATA, tmp_path) as sites:
        first = federate(plan, sites, until=1)
        before = personal(plan, sites, first.receipts)[0]
        whole = next(Order.read(order).received for number, order, _ in reversed(first.messages) if number == 0)
        order = Order(kind, plan.hash, 1, kept=1, taking_part=4, received={**whole, **received})
        reply = Reply.read(sites[0].answer(order.write()))
        assert digest(personal(plan, sites, first.receipts)[0]) == digest(before)
    with pytest.raises(PartitaError, match=words):
        raise PartitaError(reply.refused)


def test_a_site_holds_its_own_samples_alone() -> None:
    data = one_client(DATA, 1)
    assert len(data.samples) == 17 < len(DATA.samples)
    for role in ("train", "validation", "test"):
        mine, theirs = getattr(data[0], role), getattr(DATA[1], role)
        assert torch.equal(mine.inputs, theirs.inputs)
        assert torch.equal(mine.targets, theirs.targets)


# The log.


def test_nothing_is_done_that_cannot_be_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for half a line: the site answers with a refusal, and goes on when there is room again."""
    plan = Plan.of(experiment(fedper(), **PLAN_OPTIONS))
    order, write = Order("introduce", plan.text).write(), os.write
    with sites_of(plan, DATA, tmp_path) as sites:
        for whole in (0, 1):
            lines = count()

            def cut(file: int, line: bytes, whole: int = whole, lines: Iterator[int] = lines) -> int:
                return write(file, line if next(lines) < whole else line[: len(line) // 2])

            monkeypatch.setattr(os, "write", cut)
            reply = Reply.read(sites[0].answer(order))
            monkeypatch.setattr(os, "write", write)
            assert reply.refused == "the site cannot write its audit log, so nothing leaves it"
            assert not reply.facts
            assert verify(tmp_path / "a" / "audit.log")[0] == whole
        assert Reply.read(sites[0].answer(order)).facts
    assert [entry["event"] for entry in entries_of(tmp_path / "a" / "audit.log")] == ["arrived", "arrived", "left"]


def test_everything_that_arrives_and_leaves_is_in_the_log(tmp_path: Path) -> None:
    plan = Plan.of(experiment(fedper(), **PLAN_OPTIONS))
    with sites_of(plan, DATA, tmp_path, gates={0: dataclasses.replace(OPEN, leaving=Leaving(most_bytes=1))}) as sites:
        federate(plan, sites)
    entries = list(entries_of(tmp_path / "b" / "audit.log"))
    assert [entry["event"] for entry in entries] == ["arrived", "left"] * 4
    assert entries[3]["tensors"] == [f"values/{name}" for name in ("layer1.bias", "layer1.weight")] + [
        f"values/norm1.{name}" for name in ("bias", "running_mean", "running_var", "weight")
    ]
    refused = [entry for entry in entries_of(tmp_path / "a" / "audit.log") if entry["event"] == "refused"]
    assert ["at most 1 bytes" in entry["reason"] for entry in refused] == [True, True]
    assert stat.S_IMODE((tmp_path / "a" / "audit.log").stat().st_mode) == 0o600


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "audit.log"
    for part in range(2):
        with closing(AuditLog(path)) as opened:
            for number in range(3):
                opened.add("left", bytes=10 * part + number)
    return path


def test_a_log_goes_on_and_holds(log: Path) -> None:
    count, last = verify(log)
    assert count == 6
    assert verify(log, last) == (6, last)


@pytest.mark.parametrize("damage", ["change", "remove", "insert", "swap", "forge", "nonsense"])
def test_a_log_that_was_changed_is_noticed(damage: str, log: Path) -> None:
    lines = log.read_text().splitlines(keepends=True)
    if damage == "change":
        lines[2] = lines[2].replace('"bytes": 2', '"bytes": 3')
    elif damage == "remove":
        del lines[2]
    elif damage == "insert":
        lines.insert(2, lines[2])
    elif damage == "swap":
        lines[2], lines[3] = lines[3], lines[2]
    elif damage == "forge":
        lines[2] = json.dumps({**json.loads(lines[2]), "hash": "f" * 64}) + "\n"
    else:
        lines[2] = "nonsense\n"
    log.write_text("".join(lines))
    with pytest.raises(PartitaError, match=r"line [34] .*The log was changed"):
        verify(log)


def test_entries_that_were_cut_off_are_noticed_by_who_knows_the_last(log: Path) -> None:
    _, last = verify(log)
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:4]))
    assert verify(log)[0] == 4
    with pytest.raises(PartitaError, match="cut off or replaced"):
        verify(log, last)


@pytest.mark.parametrize("end", [-40, -1])
def test_a_line_cut_off_by_a_crash_is_told(end: int, log: Path) -> None:
    log.write_bytes(log.read_bytes()[:end])
    assert verify(log)[0] == (5 if end < -1 else 6)
    with closing(AuditLog(log)) as opened:
        opened.add("left", bytes=7)
    events = [entry["event"] for entry in entries_of(log)]
    assert events[-2:] == ["recovered", "left"]
