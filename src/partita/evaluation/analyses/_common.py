"""What do analyses have in common? The samples on which models are compared, and how scores are summarized."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import torch

from ...core.samples import Samples
from ...data.federation import Federation
from ...formatting import NONE
from ...randomness import generator
from ..analysis import Result
from ..figures import Table
from ..metric import Metric
from ..scores import Record, summarize
from ..seeds import Numbers

CLIENTS = 100
"""The default number of clients that are looked at; of more clients, it is a fixed sample."""
OverClients = Mapping[str, float] | None
"""Mean, spread, score of all samples and number of clients; None where no client has samples."""


def common_test(data: Federation, most: int) -> Samples:
    """About `most` test samples of the clients that train, in a mixed order that depends on the data alone.

    Each class has equally many, as far as there are enough (at least one of each); without classes they are drawn at
    random.
    """
    rows = torch.cat([roles["test"] for at, roles in enumerate(data.roles) if at not in data.newcomers])
    rows = rows[torch.randperm(len(rows), generator=generator(0, "common samples"))]
    if data.kind != "classification":
        return data.samples.take(rows[:most])
    each = max(most // data.classes, 1)
    targets = data.samples.targets[rows]
    chosen = torch.cat([(targets == label).nonzero().flatten()[:each] for label in range(data.classes)])
    return data.samples.take(rows[chosen.sort().values])


def over_clients(records: Iterable[Record]) -> OverClients:
    """Mean and spread over clients, and the score of all samples together; None where no client has samples."""
    chosen = [record for record in records if record.count]
    if not chosen:
        return None
    summary = summarize(chosen)
    return {"macro": summary.macro, "std": summary.std, "micro": summary.micro, "clients": summary.clients}


def scores_table(metric: Metric, named: Mapping[str, OverClients], on: str = "test") -> Table:
    """A table for the terminal: a row for each name that has scores on these samples."""
    rows = [
        [name, metric.spread(each["macro"], each["std"]), metric.text(each["micro"]), f"{each['clients']}"]
        for name, each in named.items()
        if each
    ]
    return Table([f"{on} {metric.name}", "mean ± spread", "all samples", "clients"], rows)


def scores_numbers(named: Mapping[str, OverClients], on: str = "test") -> Numbers:
    """The numbers of that table, whose means over seeds can be shown."""
    return Numbers(
        {name: {"mean": each["macro"], "all samples": each["micro"]} for name, each in named.items() if each}, on=on
    )


def mean_spread(metric: Metric, results: Sequence[Result], key: str) -> str:
    """The text of a cell of the report: means over runs of the mean and the spread over clients."""
    known = [result[key] for result in results if result.get(key)]
    if not known:
        return NONE
    return metric.spread(fmean(each["macro"] for each in known), fmean(each["std"] for each in known))
