"""What does a site gain by taking part? Its model against local training and global models, and what left the site."""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..algorithms.fedavg import fedavg
from ..algorithms.local import local
from ..core.algorithm import begin, enter, personalize
from ..core.optimizers import SGD
from ..data.federation import Federation
from ..errors import DegenerateWarning, DivergedError, PartitaError
from ..evaluation.gains import Gain, gain
from ..evaluation.metric import Metric
from ..evaluation.outcomes import Outcomes, paired_interval
from ..evaluation.scores import HeldOut, Record, used_variant
from ..experiment.executors.inline import Inline
from ..experiment.experiment import Experiment
from ..experiment.jobs import Evaluate
from ..experiment.rounds import evaluate
from ..experiment.setup import Setup
from ..experiment.simulate import run_stages
from ..runs.baselines import epochs_of
from ..runs.tuning import QUICK, Tried, best, tried_rates
from ..tensors import Tensors, only
from ..threads import one_thread
from .audit import entries_of
from .messages import MASKED
from .personal import Model, PersonalStore
from .plan import Plan
from .site import setup_at


@dataclass(frozen=True)
class Measured:
    """A model on the test samples of the site."""

    record: Record
    outcomes: Outcomes | None


@dataclass(frozen=True)
class Benefit:
    """One plan, seen from one site."""

    plan: str
    label: str
    network: str
    sites: int
    round: int
    rounds: int
    metric: str
    samples: int
    """The number of test samples."""
    score: float
    gains: Sequence[Gain]
    """The gains over local training, and over each global model that the site knows."""
    rate: float
    """The learning rate of local training."""
    rates: Sequence[float]
    """The learning rates that were tried on validation data; empty without validation data."""


def benefit(hash: str, store: PersonalStore, site: str, data: Federation) -> Benefit:
    """The benefit of a plan whose model was evaluated at the site."""
    plan, model = _plan(store, hash), _model(store, hash)
    number, setup = setup_at(plan, site, data)
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateWarning)
        own = _measured(setup, number, model)
        alone, rate, tried = _local(plan.experiment_on(data))
        others = {"local training": alone, **dict(_global_models(store, site, data))}
    metric = Metric(data.metric)
    return Benefit(
        plan=hash,
        label=setup.algorithm.label,
        network=str(plan.experiment.get("model", {}).get("name", "")),
        sites=len(plan.sites),
        round=model.round,
        rounds=setup.stage.rounds,
        metric=data.metric,
        samples=len(data.roles[0]["test"]),
        score=own.record.score,
        gains=[_gain(name, own, other, metric) for name, other in others.items()],
        rate=rate,
        rates=[each.lr for each in tried],
    )


def _model(store: PersonalStore, hash: str) -> Model:
    model = store.model(hash)
    if model is None:
        raise PartitaError(
            f"No model of the plan {hash[:12]} was evaluated at this site yet. A plan is evaluated after its last "
            "round at the latest."
        )
    return model


def _plan(store: PersonalStore, hash: str) -> Plan:
    text = store.plan(hash)
    if text is None:
        raise PartitaError(
            f"The plan {hash[:12]} was not introduced to this site. The server introduces it when its run starts."
        )
    return Plan.read(text)


def _measured(setup: Setup, number: int, model: Model) -> Measured:
    """The sums that the server asks for, and the outcome of each sample."""
    job = Evaluate([number], [model.own], [model.received], setup.moment(model.round), each=True)
    [found] = job.results(setup, job.participants(setup))
    return _on_test(found.records, found.outcomes, setup)


def _on_test(records: Sequence[Record], outcomes: Sequence[Outcomes], setup: Setup) -> Measured:
    return Measured(_record(records, setup, "test"), outcomes[0] if outcomes else None)


def _record(records: Sequence[Record], setup: Setup, role: HeldOut) -> Record:
    used = used_variant(setup.algorithm)
    found = [record for record in records if (record.variant, record.role) == (used, role)]
    if not found:
        raise PartitaError(
            f"The site has no {role} samples, so no model can be measured. Divide its data with a part for them."
        )
    return found[0]


def _local(experiment: Experiment) -> tuple[Measured, float, list[Tried]]:
    """Training on the site's data alone, for the same rounds and epochs, at the best rate on validation data."""
    found: dict[float, tuple[Sequence[Record], Sequence[Outcomes], Setup]] = {}
    metric = Metric(experiment.data.metric)

    def trained(rate: float) -> tuple[Sequence[Record], Sequence[Outcomes], Setup]:
        if rate not in found:
            method = local(epochs=epochs_of(experiment.algorithm), optimizer=SGD(rate))
            made = replace(
                experiment,
                algorithm=method,
                server=None,
                participation="all",
                evaluate_every=0,
                evaluation_clients=1,
                on_sick_client="stop",
            )
            result = run_stages(made, Inline())
            setup = Setup.of(made, made.stages[-1], made.weights)
            found[rate] = *evaluate(setup, Inline(), result.own, result.state, made.rounds), setup
        return found[rate]

    def score(rate: float) -> float | None:
        try:
            records, _, setup = trained(rate)
        except DivergedError:
            return None
        return _record(records, setup, "validation").score

    tried = tried_rates(score, metric.gain) if len(experiment.data.roles[0]["validation"]) else []
    rate = best(tried, metric.gain).lr if tried else QUICK
    return _on_test(*trained(rate)), rate, tried


def _global_models(store: PersonalStore, site: str, data: Federation) -> Iterator[tuple[str, Measured]]:
    """The network received under each plan whose shared part is a whole network."""
    for hash in store.evaluated:
        model = _model(store, hash)
        number, setup = setup_at(_plan(store, hash), site, data)
        network = setup.tasks[number].network
        weights = only(model.received, network.owners)
        if setup.algorithm.predict or not set(network.parameters) - network.frozen <= weights.keys():
            continue
        plain = replace(setup.experiment, algorithm=fedavg(), server=None)
        yield (
            f"global model of {setup.algorithm.label} ({hash[:12]})",
            _measured(Setup.of(plain, plain.stages[-1], {}), number, Model(model.round, {}, weights)),
        )


def _gain(over: str, own: Measured, other: Measured, metric: Metric) -> Gain:
    """The site is the only client."""
    interval = paired_interval(own.outcomes, other.outcomes) if own.outcomes and other.outcomes else None
    return gain(
        over,
        {0: own.record.score},
        {0: other.record.score},
        metric,
        {0: own.record.count},
        {0: interval} if interval else None,
    )


@dataclass(frozen=True)
class Left:
    """The data that left a site for one plan, according to its log."""

    updates: int = 0
    bytes: int = 0
    tensors: tuple[str, ...] = ()
    masked: bool = False
    """Whether updates left with masks, so that the server learned their sum alone."""
    metrics: int = 0
    """Scores of models on held-out samples."""
    facts: Mapping[str, int] | None = None
    """Numbers of samples and classes."""
    refused: Mapping[str, int] | None = None
    """The reasons why nothing left, and how often."""


def left(log: Path, plan: str) -> Left:
    """Read what left from the log; a log that was changed is an error."""
    about = [entry for entry in entries_of(log) if entry.get("plan") == plan]
    gone = [entry for entry in about if entry["event"] == "left"]
    refused = Counter(str(entry["reason"]) for entry in about if entry["event"] == "refused")
    sent = [name for entry in gone if entry.get("kind") == "train" for name in entry.get("tensors", ())]
    facts = [entry["facts"] for entry in gone if entry.get("facts")]
    return Left(
        updates=sum(bool(entry.get("tensors")) for entry in gone if entry.get("kind") == "train"),
        bytes=sum(int(entry["bytes"]) for entry in gone),
        tensors=tuple(sorted({str(name).partition("/")[2] for name in sent})),
        masked=any(str(name).startswith(MASKED) for name in sent),
        metrics=sum(len(entry.get("metrics", ())) for entry in gone),
        facts=facts[-1] if facts else None,
        refused=dict(refused.most_common()),
    )


def network_weights(hash: str, store: PersonalStore, site: str, data: Federation) -> Tensors:
    """The weights of the site's own network, as it is used, for an ordinary module."""
    model = _model(store, hash)
    number, setup = setup_at(_plan(store, hash), site, data)
    algorithm = setup.algorithm
    if algorithm.predict:
        raise PartitaError(
            f"{algorithm.label} predicts by more than a network, so that weights alone do not make its model. Omit "
            "--model."
        )
    with one_thread():
        client = enter(algorithm, setup.with_state(number, model.own, model.received, setup.moment(model.round)))
        [tensors] = (
            personalize(algorithm, [client], setup.run_phase) if algorithm.finetune else [begin(algorithm, client)]
        )
    weights = algorithm.view.weights(tensors, client.task.network)
    return {name: weights[name] for name in client.task.weights}
