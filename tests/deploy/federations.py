"""A federation within one process: sites with stores of their own, and messages that go from hand to hand."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from torch import nn

from partita.core.algorithm import Algorithm
from partita.core.batching import Batching
from partita.core.samples import Samples
from partita.data.federation import Federation
from partita.deploy.audit import AuditLog
from partita.deploy.gate import Gate, Policy
from partita.deploy.personal import PersonalStore
from partita.deploy.plan import Plan
from partita.deploy.secure_sum import executor_of_sites
from partita.deploy.server import Limits, Rejection, Sites, introduced
from partita.deploy.site import Site, one_client
from partita.evaluation.outcomes import Outcomes
from partita.evaluation.scores import Record
from partita.experiment.experiment import Experiment
from partita.experiment.left_out import LeftOut
from partita.experiment.rounds import Checkpoint, rounds
from partita.experiment.setup import Setup
from partita.experiment.traffic import Traffic
from partita.tensors import Tensors
from toys import small_federation

POINT = EntryPoint("normed", "deploy.federations:normed", "partita.models")
"""As a package that is installed at every site would declare its network."""


def normed(*, shape: tuple[int, ...], classes: int) -> nn.Module:
    """A network with batch norm."""
    layers = (("layer1", nn.Linear(shape[0], 6)), ("norm1", nn.BatchNorm1d(6)), ("relu1", nn.ReLU()))
    return nn.Sequential(OrderedDict[str, nn.Module]((*layers, ("head", nn.Linear(6, classes)))))


def installed(*, group: str, name: str | None = None) -> list[EntryPoint]:
    """In the place of `importlib.metadata.entry_points`."""
    return [POINT] if group == POINT.group and name in (None, POINT.name) else []


WIDE = small_federation((8, 7, 6, 11))
# In single precision another order of a sum is another number.
DATA = Federation(
    Samples(WIDE.samples.inputs.float(), WIDE.samples.targets), WIDE.roles, WIDE.classes, names=("a", "b", "c", "d")
)
PATIENT = Limits()
Change = Callable[[int, bytes, Callable[[bytes], bytes]], bytes | None]
"""What a site makes of an order, given its number, the order, and how it would answer; None is nothing."""


def experiment(algorithm: Algorithm, **options: Any) -> Experiment:
    given = {
        "data": DATA,
        "model": normed,
        "rounds": 2,
        "seed": 1,
        "participation": 0.5,
        "batching": Batching(4),
        "evaluate_every": 1,
    }
    return Experiment(algorithm, **{**given, **options})


@dataclass
class Federated:
    """What a federation leaves with the server."""

    state: Tensors = field(default_factory=dict)
    receipts: dict[int, Tensors] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    traffic: list[Traffic] = field(default_factory=list)
    participants: list[int] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    outcomes: list[Outcomes] = field(default_factory=list)
    messages: list[tuple[int, bytes, bytes]] = field(default_factory=list)
    """Site, order and reply, as they travelled."""


def as_it_is(number: int, order: bytes, answer: Callable[[bytes], bytes]) -> bytes:
    return answer(order)


OPEN = Gate(Policy(algorithms=("*",), models=("*",), least_sites=1))
"""Everything may run, and everything shared may leave."""


@contextmanager
def sites_of(
    plan: Plan, data: Federation, folder: Path, *, gates: Mapping[int, Gate] | None = None
) -> Iterator[dict[int, Site]]:
    """The sites of a plan, each with its own data, folder and log."""
    with ExitStack() as stack:
        sites = {}
        for number, name in enumerate(plan.sites):
            store = stack.enter_context(PersonalStore(folder / name))
            log = stack.enter_context(closing(AuditLog(folder / name / "audit.log")))
            sites[number] = Site(name, one_client(data, number), store, (gates or {}).get(number, OPEN), log)
        yield sites


def federate(
    plan: Plan,
    sites: Mapping[int, Site],
    *,
    change: Change = as_it_is,
    limits: Limits = PATIENT,
    found: Federated | None = None,
    start: Checkpoint | None = None,
    until: int | None = None,
) -> Federated:
    """Run a plan with the server in this process, to the end or until a round; `change` stands between it and sites."""
    found = found or Federated()

    def exchange(orders: Mapping[int, bytes], seconds: float) -> Iterator[tuple[int, bytes]]:
        # In another order than they were asked.
        for number in reversed(list(orders)):
            reply = change(number, orders[number], sites[number].answer)
            found.messages.append((number, orders[number], reply or b""))
            if reply is not None:
                yield number, reply

    made = plan.experiment_on(introduced(plan, exchange, limits))
    setup = Setup.of(made, made.stages[-1], {})
    executor = executor_of_sites(Sites(plan, exchange, limits, found.rejections.append))
    for ended in rounds(setup, executor, found.receipts, start):
        found.state = ended.state
        found.records += ended.records
        found.traffic += ended.traffic
        found.participants.append(ended.participants)
        found.left_out += ended.left_out
        found.outcomes += ended.outcomes
        if ended.round == until:
            break
    return found


def personal(plan: Plan, sites: Mapping[int, Site], receipts: Mapping[int, Tensors]) -> dict[int, Tensors]:
    """What each site keeps, after the round that the server has a receipt of."""
    return {
        number: sites[number]._store.own(plan.hash, int(receipt["receipt/round"]))
        for number, receipt in sorted(receipts.items())
    }
