"""Does a federation hold against what its members send? Plans, orders, replies, files of sites and their logs."""

import copy
import json
import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

from partita.core.algorithm import initial_state
from partita.deploy.audit import AuditLog, verify
from partita.deploy.gate import Gate, Policy
from partita.deploy.messages import LENGTH, Order, Reply
from partita.deploy.node import Node
from partita.deploy.personal import PersonalStore
from partita.deploy.plan import Plan
from partita.deploy.server import Limits, SingleOrder, introduced
from partita.deploy.site import Site, one_client
from partita.errors import PartitaError
from partita.experiment.jobs import Train
from partita.experiment.setup import Setup

from .mutation import ODD, count, damaged, set_somewhere_, toml_file
from .tally import Tally
from .victim import data, experiment

OPEN = Gate(Policy(algorithms=("*",), models=("*",), least_sites=1))
DEEP = "[" * 100_000


def plans(place: Path, trials: int, seed: int) -> Tally:
    """Plans with odd values at random places; what is accepted can be hashed, approved and built."""
    tally, draw = Tally(), random.Random(seed)
    valid = Plan.of(experiment("fedper")).text
    at_a_site = one_client(data(), 0)

    def used(text: str) -> None:
        plan = Plan.read(text)
        OPEN.need_plan(plan)
        _ = plan.hash, plan.number_of("0")
        plan.experiment_on(at_a_site)

    used(valid)
    for trial in range(trials):
        body = json.loads(valid)
        set_somewhere_(body, draw)
        text = json.dumps(body) if trial % 4 else damaged(valid.encode(), draw).decode("utf-8", "surrogateescape")
        count(tally, f"plan {text[:2000]}", used, text)
    for text in ("", "null", "[]", DEEP, '{"a":' * 5000, "9" * 10_000):
        count(tally, f"plan {text[:20]}", used, text)
    return tally


def messages(place: Path, trials: int, seed: int) -> Tally:
    """Orders to a site and replies to the server, with odd headers, odd tensors or damaged bytes."""
    tally, draw = Tally(), random.Random(seed)
    plan = Plan.of(experiment("fedper"))
    with _sites(plan, place) as sites:
        made = plan.experiment_on(introduced(plan, _exchange(sites), Limits()))
        setup = Setup.of(made, made.stages[-1], {})
        moment = setup.moment(0)
        state = initial_state(setup.algorithm, setup.server_client(), setup.data.sizes)
        job = Train([0], [{}], [setup.download(state, 0, moment)], moment, evaluated=True)
        asked = SingleOrder(0, job, job.received[0], 0)
        order = asked.message(plan.hash, len(plan.sites)).write()
        reply = sites[0].answer(order)
        asked.result(setup, reply, plan.hash, None)
        introduction = sites[1].answer(Order("introduce", plan.text).write())
        log = place / "0" / "audit.log"
        failures = _failures(log)
        for _ in range(trials):
            message = _odd_message(order, draw)
            count(tally, f"order {message[:400]!r}", _answered, sites[0], message, kind="order")
            if _failures(log) != failures:
                tally.broken.append(f"order {message[:400]!r}: an error of the site")
                failures = _failures(log)
            message = _odd_message(reply, draw)
            count(
                tally,
                f"reply {message[:400]!r}",
                asked.result,
                setup,
                message,
                plan.hash,
                None,
                kind="reply",
            )
            message = _odd_message(introduction, draw)
            count(
                tally,
                f"introduction {message[:400]!r}",
                introduced,
                plan,
                _exchange(sites, {1: message}),
                Limits(),
                kind="introduction",
            )
        if sites[0].answer(order) != reply:
            tally.broken.append("the site does not answer as before")
    return tally


def nodes(place: Path, trials: int, seed: int) -> Tally:
    """Files of sites and approvals with odd values."""
    tally, draw = Tally(), random.Random(seed)
    valid = {
        "name": "0",
        "folder": "kept",
        "client": "0",
        "data": {"name": "digits", "split": {"name": "iid", "clients": 3}},
        "policy": {"algorithms": ["fed*"], "models": ["mlp"], "least_sites": 2},
        "leaving": {"tensors": ["*"], "most_bytes": 1000, "most_norm": 5.0},
        "contract": {"shape": [64], "classes": 10, "labels": [0, 1], "least_samples": 1},
    }
    file, approvals = place / "node.toml", place / "approvals.json"
    plan = Plan.of(experiment("fedper"))
    approved = {plan.hash: "2026-01-01"}

    def read() -> None:
        node = Node.read(file)
        _ = node.folder, node.gate.policy.allows(plan), node.log

    for trial in range(trials):
        body = copy.deepcopy(valid)
        set_somewhere_(body, draw)
        text = toml_file(body).encode()
        file.write_bytes(text if trial % 4 else damaged(text, draw))
        count(tally, f"file {file.read_bytes()!r}", read, kind="file")
        odd = json.dumps(draw.choice(ODD)).encode() if trial % 2 else damaged(json.dumps(approved).encode(), draw)
        approvals.write_bytes(odd)
        gate = Gate(approvals=approvals)
        count(tally, f"approvals {odd!r}", gate.need_plan, plan, kind="approvals")
    for long in ("x = " + DEEP, "x = " + "{a=" * 3000, "name = " + "9" * 10_000):
        file.write_text(long, encoding="utf-8")
        count(tally, f"file {long[:20]}", read, kind="file")
    return tally


def logs(place: Path, trials: int, seed: int) -> Tally:
    """A site's log is damaged or rewritten: its chain does not hold then, or it says the same."""
    tally, draw = Tally(), random.Random(seed)
    path = place / "audit.log"
    with closing(AuditLog(path)) as log:
        for at in range(20):
            log.add("left", round=at, bytes=100 * at)
    whole = path.read_bytes()
    entries = whole.splitlines()
    _, last = verify(path)
    for trial in range(trials):
        changed = list(entries)
        match trial % 4:
            case 0:
                del changed[draw.randrange(len(changed))]
            case 1:
                changed.insert(draw.randrange(len(changed)), draw.choice(changed))
            case 2:
                at = draw.randrange(len(changed))
                body = json.loads(changed[at])
                set_somewhere_(body, draw)
                changed[at] = json.dumps(body).encode()
            case _:
                changed = damaged(whole, draw).splitlines()
        path.write_bytes(b"\n".join(changed) + b"\n")
        try:
            verify(path, last)
        except PartitaError:
            tally.held["noticed"] += 1
        except Exception as problem:
            tally.broken.append(f"log of trial {trial}: {problem!r}")
        else:
            said = [json.loads(line) for line in path.read_bytes().splitlines() if line]
            if said == [json.loads(line) for line in entries]:
                tally.held["harmless: it says the same"] += 1
            else:
                tally.broken.append(f"log of trial {trial}: changed, and not noticed")
    return tally


@contextmanager
def _sites(plan: Plan, folder: Path) -> Iterator[dict[int, Site]]:
    with ExitStack() as stack:
        sites = {}
        for number, name in enumerate(plan.sites):
            store = stack.enter_context(PersonalStore(folder / name))
            log = stack.enter_context(closing(AuditLog(folder / name / "audit.log")))
            sites[number] = Site(name, one_client(data(), number), store, OPEN, log)
        yield sites


def _exchange(sites: Mapping[int, Site], instead: Mapping[int, bytes] | None = None) -> Any:
    def exchange(orders: Mapping[int, bytes], seconds: float) -> Iterator[tuple[int, bytes]]:
        for number, order in orders.items():
            yield number, (instead or {}).get(number) or sites[number].answer(order)

    return exchange


def _answered(site: Site, message: bytes) -> None:
    reply = Reply.read(site.answer(message))
    if reply.refused:
        raise PartitaError(reply.refused)


def _failures(log: Path) -> int:
    return log.read_bytes().count(b'"event": "failed"')


def _odd_message(valid: bytes, draw: random.Random) -> bytes:
    """A message that is damaged, or whose header or tensors are odd."""
    end = LENGTH + int.from_bytes(valid[:LENGTH], "little")
    header, blob = json.loads(valid[LENGTH:end]), valid[end:]
    match draw.randrange(6):
        case 0:
            return damaged(valid, draw)
        case 1:
            return _message(draw.choice((DEEP, '{"a":' * 2000, "9" * 10_000, "null", "\ud800")), blob)
        case 2:
            return draw.randrange(1 << 64).to_bytes(LENGTH, "little") + valid[LENGTH:]
        case 3 if len(load(blob)):
            return _message(json.dumps(header), _odd_tensors(blob, draw))
        case _:
            set_somewhere_(header, draw)
            return _message(json.dumps(header), blob)


def _message(header: str, blob: bytes) -> bytes:
    text = header.encode("utf-8", "surrogatepass")
    return len(text).to_bytes(LENGTH, "little") + text + blob


def _odd_tensors(blob: bytes, draw: random.Random) -> bytes:
    """Other types, shapes, names, numbers or orders; or a header that lies about them."""
    tensors = load(blob)
    length = int.from_bytes(blob[:8], "little")
    head = json.loads(blob[8 : 8 + length])
    name = draw.choice(list(tensors))
    match draw.randrange(5):
        case 0:
            kinds = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.uint8)
            tensors[name] = tensors[name].to(draw.choice(kinds))
        case 1:
            tensors[name] = tensors[name] * draw.choice((float("nan"), float("inf"), 1e38))
        case 2:
            tensors[name] = draw.choice(
                (torch.zeros(0), torch.tensor(1.0), torch.ones(3, 3, 3), tensors[name].flatten())
            )
        case 3:
            tensors[draw.choice(("", "../x", "values/", "mask/" + name, "decided/x", "\x1b[31m"))] = tensors[name]
        case _:
            set_somewhere_(head, draw)
            text = json.dumps(head).encode()
            return len(text).to_bytes(8, "little") + text + blob[8 + length :]
    order = head["__metadata__"]["order"] if draw.random() < 0.3 else json.dumps(list(tensors))
    return save({key: each.contiguous().clone() for key, each in tensors.items()}, {"order": order})
