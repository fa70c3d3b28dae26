"""How many samples does a client need that was not there? Its score by their number, beside other models.

Only for clients that never trained (`data.newcomers`). See docs/models.md.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import torch

from ...core.samples import Samples
from ...formatting import amount
from ...randomness import generator
from ..analysis import Analysis, Findings, Result
from ..figures import Figure, Line, Lines, Table
from ..metric import Metric
from ..onboarding import Donors, Onboarding, Start, answers, donors_of, onboard, sums, trained_alone
from ..population import ClientModels, Population
from ..scores import record_of
from ..seeds import Numbers
from .guard import received_network, shares_everything

COUNTS = (1, 2, 5, 10, 20)
ALL = "all"
MODELS = {"onboarded": "personal part trained", "local": "trained alone", "global": "global model"}


def onboarding(*, start: Start = "mean", epochs: int = 20, clients: int = 50) -> Analysis:
    """The score of clients that never trained by the number of their samples, beside local and global models.

    Each gets the personal part from its first 1, 2, 5, 10, 20 and all training samples, in an order drawn once; the
    rest of the network stays as it is. `clients` limits how many are analysed.
    """
    return Analysis(
        name="onboarding",
        title="New clients by the number of their samples",
        compute=lambda population: _curves(population, Onboarding(start=start, epochs=epochs), clients),
        obstacle=_obstacle,
        of_newcomers=True,
        tables=_tables,
        figures=_figures,
        numbers=_numbers,
        place=60,
    )


def _obstacle(population: Population) -> str | None:
    return None if population.data.newcomers else "All clients trained: there are no newcomers. Set data.newcomers."


def _curves(population: Population, settings: Onboarding, most: int) -> Result:
    common = _common(population)
    donors = donors_of(population, settings)
    columns = [*map(str, COUNTS), ALL]
    found: dict[str, list[list[float]]] = {name: [[] for _ in columns] for name in MODELS}
    new = sorted(population.data.newcomers)[:most]
    numbers = []
    for number in new:
        models = population.build(number)
        if not len(models.test) or not len(models.client.train):
            continue
        numbers.append(number)
        shared = None if common is None else _score(common[number], received_network(common[number]), plain=True)
        for place, count in enumerate((*COUNTS, len(models.client.train))):
            few = _with_few(models, count)
            found["onboarded"][place].append(_onboarded(few, donors, settings))
            found["local"][place].append(_score(few, trained_alone(few, settings), plain=True))
            if shared is not None:
                found["global"][place].append(shared)
    return {
        "clients": numbers,
        "counts": columns,
        "start": settings.start,
        "epochs": settings.epochs,
        "samples": [len(population.data.roles[number]["train"]) for number in numbers],
        "scores": {name: [fmean(each) if each else None for each in columns] for name, columns in found.items()},
        "by_client": found,
    }


def _common(population: Population) -> Population | None:
    if shares_everything(population):
        return population
    return population.open(population.baselines["global"]) if "global" in population.baselines else None


def _with_few(models: ClientModels, count: int) -> ClientModels:
    """The client with its first samples alone, in an order of its own; what there are fewer of is all."""
    client = models.client
    order = torch.randperm(len(client.train), generator=generator(0, "onboarding", client.id))[:count]
    chosen: Samples = client.train.take(order)
    return replace(models, client=replace(client, train=chosen, validation=client.validation.take(slice(0))))


def _onboarded(models: ClientModels, donors: Donors, settings: Onboarding) -> float:
    return _score(models, onboard(models, donors, settings))


def _score(models: ClientModels, tensors: dict[str, torch.Tensor], *, plain: bool = False) -> float:
    asked = replace(models, algorithm=replace(models.algorithm, predict=None)) if plain else models
    measured = sums(models, models.test, lambda inputs: answers(asked, tensors, inputs))
    return record_of(measured, 0, models.client.id).score


def _tables(result: Result, metric: Metric) -> list[Table]:
    rows = [
        [MODELS[name], *("-" if value is None else metric.text(value) for value in values)]
        for name, values in result["scores"].items()
    ]
    note = (
        f"Mean over {len(result['clients']):,} clients that never trained; start: {result['start']}, "
        f"{result['epochs']} epochs."
    )
    return [Table([f"test {metric.name} with samples", *result["counts"]], rows, note=note)]


def _numbers(result: Result) -> Numbers:
    counts = ["all samples" if count == ALL else amount(int(count), "sample") for count in result["counts"]]
    return Numbers(
        {MODELS[name]: dict(zip(counts, values, strict=True)) for name, values in result["scores"].items()},
    )


def _figures(findings: Sequence[Findings], metric: Metric) -> list[Figure]:
    made: list[Figure] = []
    for each in findings:
        result = each.results[0]
        means = {
            name: [
                fmean(known)
                if (known := [r["scores"][name][at] for r in each.results if _known(r, name, at)])
                else None
                for at in range(len(result["counts"]))
            ]
            for name in MODELS
        }
        lines = [
            Line(MODELS[name], [(at, value) for at, value in enumerate(values) if value is not None], number)
            for number, (name, values) in enumerate(means.items())
            if any(value is not None for value in values)
        ]
        rows = [
            [MODELS[name], count, metric.text(value)]
            for name, values in means.items()
            for count, value in zip(result["counts"], values, strict=True)
            if value is not None
        ]
        made.append(
            Lines(
                title=each.method,
                lines=lines,
                x="samples of the new client",
                table=Table(["model", "samples", metric.name], rows),
                categories=result["counts"],
                note=f"Mean over {len(result['clients']):,} clients that never trained.",
            )
        )
    return made


def _known(result: Result, name: str, at: int) -> bool:
    values = result["scores"][name]
    return at < len(values) and values[at] is not None
