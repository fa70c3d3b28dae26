"""The partitioners of Flower's `flwr-datasets`, https://flower.ai/docs/datasets"""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import PartitaError, unknown
from ...extras import optional
from ..pool import Pool
from ..split import Assign, Assignment, Rows, Share, check_part, cut, splitting


@splitting
def flwr(*, partitioner: str = "DirichletPartitioner", options: object = None, test: float = 0.25) -> Assign:
    """Any partitioner of flwr-datasets, by the name of its class and its options; then cut into train and test.

    It sees the columns label and client, and divides all rows. Where it takes a seed, it gets one unless it is given.
    """
    given = {} if options is None else options

    def assign(pool: Pool, draw: np.random.RandomState) -> Assignment:
        if not isinstance(given, Mapping):
            raise PartitaError(f"The options of a partitioner must be names with values, not {options!r}.")
        check_part("test", test)
        made = _make(partitioner, given, draw)
        # In a random order, as Flower's own data sets are: some partitioners cut what they get from front to back.
        made.dataset = _table(pool, draw.permutation(len(pool)))
        parts = [np.array(made.load_partition(at)["row"], dtype=np.int64) for at in range(made.num_partitions)]
        shares = [
            replace(cut(part, test, draw) if len(part) > 1 else Share(np.sort(part), part[:0]), name=name)
            for part, name in zip(parts, _names(parts, pool), strict=True)
        ]
        left = len(pool) - sum(map(len, parts))
        return Assignment(shares, [f"{left} samples belong to no client"] if left else [])

    return assign


def _names(parts: list[Rows], pool: Pool) -> list[str]:
    """The names of clients, if every part is the data of another client."""
    if pool.clients is not None:
        owners = [np.unique(pool.clients.numpy()[part]).tolist() for part in parts]
        if all(len(each) == 1 for each in owners) and len({each[0] for each in owners}) == len(parts):
            return [pool.client_names[each[0]] for each in owners]
    return [""] * len(parts)


def _make(name: str, options: Mapping[str, Any], draw: np.random.RandomState) -> Any:
    library = optional("flwr_datasets.partitioner", "partita[hf]")
    known = [each for each in dir(library) if each.endswith("Partitioner")]
    if name not in known:
        raise PartitaError(unknown("partitioner", name, known))
    kind = getattr(library, name)
    settings = dict(options)
    if "seed" in inspect.signature(kind).parameters:
        settings.setdefault("seed", int(draw.randint(2**31)))
    try:
        return kind(**settings)
    except (TypeError, ValueError) as problem:
        raise PartitaError(f"{name}: {problem}. It takes {inspect.signature(kind)}.") from problem


def _table(pool: Pool, order: Rows) -> Any:
    columns = {"row": order, "label": pool.targets.numpy()[order]}
    if pool.clients is not None:
        columns["client"] = pool.clients.numpy()[order]
    return optional("datasets", "partita[hf]").Dataset.from_dict(columns)
