"""On which samples are clients' models compared? On the same ones for all, drawn from everybody's test data."""

import torch

from ...core.samples import Samples
from ...data.federation import Federation
from ...randomness import generator


def common_test(data: Federation, most: int) -> Samples:
    """About `most` test samples of those who train, in a mixed order that depends on the data alone.

    Of every class alike, as far as there are enough (at least one of each); without classes simply at random.
    """
    rows = torch.cat([roles["test"] for at, roles in enumerate(data.roles) if at not in data.newcomers])
    rows = rows[torch.randperm(len(rows), generator=generator(0, "common samples"))]
    if data.kind != "classification":
        return data.samples.take(rows[:most])
    each = max(most // data.classes, 1)
    targets = data.samples.targets[rows]
    chosen = torch.cat([(targets == label).nonzero().flatten()[:each] for label in range(data.classes)])
    return data.samples.take(rows[chosen.sort().values])
