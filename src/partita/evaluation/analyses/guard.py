"""Which clients are better off with the global model? Each takes the mixture that is best on its validation data.

The choice sees validation data alone; all scores are on test data. See docs/guard.md.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ...errors import PartitaError
from ...formatting import amount
from ..analysis import Analysis, Result
from ..figures import Table
from ..gains import gain, hurt_text
from ..guard import PERSONAL_WEIGHTS, PRIOR, choose, mixture
from ..intervals import Interval, half_width
from ..metric import Metric
from ..outcomes import Outcomes, outcomes_of, paired_interval
from ..scores import record_of

if TYPE_CHECKING:
    from torch import Tensor

    from ...core.objectives import Measures, Outcome, Problem
    from ...core.samples import Samples
    from ...core.task import Task
    from ...tensors import Tensors
    from ..population import ClientModels, Population


def guard(*, global_run: Path | None = None, prior: float = PRIOR) -> Analysis:
    """For each client its personal model, the global model or a mixture, chosen on validation data.

    The personal model is the one that the method is meant to be used with. The global one is the model of `global_run`,
    by default of the run's global baseline, which its gains are measured against too; without that baseline it is what
    the method itself shares, if that is a whole network. Clients that never train are left out; of more clients than
    the run evaluates, the same sample is guarded.
    """

    def obstacle(population: "Population") -> str | None:
        if global_run or shares_everything(population) or "global" in population.baselines:
            return None
        return (
            f"{population.algorithm.label} shares only a part of its network, and there is no global baseline to fall "
            "back to. Name a run of a whole network on the same data: --global RUN"
        )

    return Analysis(
        name="guard",
        title="The guard",
        compute=lambda population: _guarded(population, global_run, prior),
        obstacle=obstacle,
        tables=_tables,
        when="end",
        section="guard",
    )


@dataclass(frozen=True)
class GuardSums:
    """Sums over the samples of one client, for each weight of its personal model."""

    validation: "list[Measures]"
    test: "list[Measures]"
    outcomes: Sequence[Outcomes] = ()
    """The outcomes of the test samples, one entry for each weight; empty if they cannot be known."""

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> "GuardSums":
        return cls(found["validation"], found["test"], [Outcomes(**each) for each in found["outcomes"]])


def shares_everything(population: "Population") -> bool:
    """Whether a client receives a whole network, which can be used as it is."""
    from ...core.algorithm import shared_names
    from ..partition import client_without_data

    algorithm, task = population.algorithm, population.task
    held = algorithm.expand(client_without_data(task))
    parameters = set(task.network.parameters) - task.network.frozen
    return algorithm.predict is None and parameters <= shared_names(algorithm, task, held)


def _guarded(population: "Population", global_run: Path | None, prior: float) -> Result:
    own = global_run is None and "global" not in population.baselines
    other = population if own else population.open(global_run or population.baselines["global"])
    if other.data.fingerprint != population.data.fingerprint:
        raise PartitaError(f"{other.folder} has other clients than {population.folder}: data or division differ.")
    folder = os.path.relpath(other.folder, population.folder)
    measure = partial(_measured, kind=population.data.kind, metric=population.data.metric)
    if own or other.network is population.network:
        theirs = None if own else lambda number: received_network(other[number])
        found = population.measured(population.evaluation_clients, f"guard against {folder}", measure, theirs)
    else:
        # Workers have the network of this run alone.
        pairs = ((each, other[each.client.id]) for each in population.models(population.evaluation_clients))
        found = {mine.client.id: measure(mine, received_network(each), each.client.task) for mine, each in pairs}
    measured = {number: GuardSums.read(each) for number, each in found.items()}
    return {
        **outcome(measured, prior, Metric(population.data.metric)),
        "global_run": folder,
        "against": str(global_run) if global_run else "its own shared network" if own else "global",
    }


def _measured(
    personal: "ClientModels", theirs: "Tensors | None", task: "Task | None" = None, *, kind: "Problem", metric: str
) -> dict[str, Any]:
    """Sums for every weight, as JSON holds them. The global network is `theirs`, or what the client itself received."""
    assert personal.validation is not None
    batches: list[list[Outcome]] = [[] for _ in PERSONAL_WEIGHTS]
    common = received_network(personal) if theirs is None else theirs
    validation, test = (
        _by_weight(personal, common, task or personal.client.task, samples, kind, into)
        for samples, into in ((personal.validation, None), (personal.test, batches))
    )
    outcomes = _outcomes(batches, personal.client.id, metric)
    return {"validation": validation, "test": test, "outcomes": [asdict(each) for each in outcomes]}


def _outcomes(batches: "Sequence[Sequence[Outcome]]", client: int, metric: str) -> Sequence[Outcomes]:
    found = [outcomes_of(each, 0, client, "before_local", metric) for each in batches if each]
    return [each for each in found if each] if all(found) else ()


def _by_weight(
    personal: "ClientModels",
    common: "Tensors",
    task: "Task",
    samples: "Samples",
    kind: "Problem",
    outcomes: "list[list[Outcome]] | None",
) -> "list[Measures]":
    """Sums for each weight; the outcome of each sample is added to `outcomes`."""
    from ...core.objectives import outcome_of

    measure = personal.client.task.measure
    sums: list[Measures] = [{} for _ in PERSONAL_WEIGHTS]
    for part in _parts(samples, personal.batch):
        mine = _outputs(personal, part)
        theirs = _network_outputs(personal, task, common, part)
        for place, (total, weight) in enumerate(zip(sums, PERSONAL_WEIGHTS, strict=True)):
            mixed = mixture(mine, theirs, weight, kind)
            for name, value in measure(mixed, part.targets).items():
                total[name] = total.get(name, 0) + value
            if outcomes is not None:
                outcomes[place].append(outcome_of(measure, mixed, part.targets))
    return sums


def received_network(models: "ClientModels") -> "Tensors":
    """The network that the client received; tensors that never travel are the client's own."""
    return {name: models.client.received.get(name, models.before[name]) for name in models.client.task.weights}


def _parts(samples: "Samples", size: int) -> "Iterator[Samples]":
    return (samples.take(slice(at, at + size)) for at in range(0, len(samples), size))


def _outputs(models: "ClientModels", samples: "Samples") -> "Tensor":
    """The outputs of the method."""
    import torch

    client = models.client
    client.task.evaluate_()
    with torch.no_grad(), client.seeded("evaluation"):
        return models.algorithm.outputs(models.used, samples.inputs, client)


def _network_outputs(models: "ClientModels", task: "Task", weights: "Tensors", samples: "Samples") -> "Tensor":
    """The outputs of a plain network."""
    import torch

    task.evaluate_()
    with torch.no_grad(), models.client.seeded("evaluation"):
        return task.outputs(weights, samples.inputs)


def outcome(measured: Mapping[int, GuardSums], prior: float, metric: Metric) -> Result:
    """The choice of every client by its validation data, and what it means on test data."""
    from ..comparison import compare

    known = {client: each for client, each in measured.items() if each.test[0].get("count")}
    places = choose(
        [[sums.get("loss", 0.0) for sums in each.validation] for each in known.values()],
        [int(each.validation[0].get("count", 0)) for each in known.values()],
        prior,
    )
    taken = {"global": [0] * len(known), "personal": [-1] * len(known), "guarded": places}
    scores = {
        name: {
            client: record_of(each.test[place], 0, client).score
            for (client, each), place in zip(known.items(), of_clients, strict=True)
        }
        for name, of_clients in taken.items()
    }
    counts = {client: int(each.test[0]["count"]) for client, each in known.items()}
    before, after = (
        gain("global", scores[name], scores["global"], metric, counts, _paired(known, taken[name]))
        for name in ("personal", "guarded")
    )
    pairs = {name: {(0, client): value for client, value in each.items()} for name, each in scores.items()}
    [*_, difference] = compare(pairs, baseline="personal").differences
    low, high = difference.interval or (difference.mean, difference.mean)
    return {
        "weights": list(PERSONAL_WEIGHTS),
        "prior": prior,
        "clients": list(known),
        "chosen": [PERSONAL_WEIGHTS[place] for place in places],
        **{name: list(each.values()) for name, each in scores.items()},
        "hurt_before": len(before.hurt),
        "hurt_after": len(after.hurt),
        **({"surely_before": len(before.surely), "surely_after": len(after.surely)} if before.has_intervals else {}),
        "macro_personal": sum(scores["personal"].values()) / len(known),
        "macro_guarded": sum(scores["guarded"].values()) / len(known),
        "difference": difference.mean,
        "low": low,
        "high": high,
    }


def _paired(known: Mapping[int, GuardSums], places: Sequence[int]) -> dict[int, Interval]:
    """The intervals of clients' gains over the global model, with the weight at each client's place."""
    found = {
        client: paired_interval(each.outcomes[place], each.outcomes[0])
        for (client, each), place in zip(known.items(), places, strict=True)
        if each.outcomes
    }
    return {client: interval for client, interval in found.items() if interval}


def hurt_said(*results: Result, when: str) -> str:
    """How many clients are hurt `before` or `after`, over one run or several, as it is said everywhere."""
    hurt, surely = (sum(each.get(f"{key}_{when}", 0) for each in results) for key in ("hurt", "surely"))
    total = sum(len(each["clients"]) for each in results)
    return hurt_text(hurt, surely, total, known=all(f"surely_{when}" in each for each in results))


OVER_SEEDS = ("hurt without the guard", "hurt with it", "personal", "guarded", "difference", "95 % interval")
COUNTED = ("hurt_before", "hurt_after", "surely_before", "surely_after")
OVER_SEEDS_NOTE = (
    "Hurt: worse off than with the global model, clients of all seeds together. Scores are means over clients and "
    "seeds; the interval is that of the difference."
)


def over_seeds(results: Sequence[Result]) -> dict[str, Any]:
    """Means over the seeds of a method. The interval is over seeds; for one seed, it is the run's own over clients."""
    difference = fmean(each["difference"] for each in results)
    half = half_width([each["difference"] for each in results])
    counts = {key: [each[key] for each in results if key in each] for key in COUNTED}
    return {
        "clients": sum(len(each["clients"]) for each in results),
        **{key: sum(several) for key, several in counts.items() if len(several) == len(results)},
        "personal": fmean(each["macro_personal"] for each in results),
        "guarded": fmean(each["macro_guarded"] for each in results),
        "difference": difference,
        "low": results[0]["low"] if half is None else difference - half,
        "high": results[0]["high"] if half is None else difference + half,
    }


def over_seeds_cells(results: Sequence[Result], metric: Metric) -> list[str]:
    """The same as text, one for each of `OVER_SEEDS`."""
    found = over_seeds(results)
    low, high = metric.change(found["low"]), metric.change(found["high"])
    return [
        hurt_said(*results, when="before"),
        hurt_said(*results, when="after"),
        metric.text(found["personal"]),
        metric.text(found["guarded"]),
        metric.change(found["difference"]),
        f"{low} to {high}, over {amount(len(results), 'seed') if len(results) > 1 else 'clients'}",
    ]


def _tables(result: Result, metric: Metric) -> list[Table]:
    rows = [
        [name, hurt_said(result, when=when), metric.text(result[macro])]
        for name, when, macro in (
            ("Without the guard", "before", "macro_personal"),
            ("With the guard", "after", "macro_guarded"),
        )
    ]
    change, low, high = (metric.change(result[key]) for key in ("difference", "low", "high"))
    counts = [(result["chosen"].count(weight), weight) for weight in result["weights"]]
    chosen = ", ".join(f"{weight:g} for {amount(count, 'client')}" for count, weight in counts if count)
    note = (
        f"Hurt: worse off than with the global model ({result.get('against', 'global')}). The guard changes the mean "
        f"by {change} (95 % interval {low} to "
        f"{high}).\nWeight of the personal model, chosen on validation data: {chosen}."
    )
    return [Table(["", "clients hurt", f"mean test {metric.name}"], rows, note=note)]
