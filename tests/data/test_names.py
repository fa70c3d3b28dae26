"""Clients have names: those of the data wherever there are some, each its own, and found again by them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from partita.core.samples import Samples
from partita.data.distribution import picture, summary_of
from partita.data.federation import Federation, federate
from partita.data.manifests import manifest_of
from partita.data.pool import Pool, pool
from partita.data.split import Assignment, Share, Split
from partita.data.splits.flwr import flwr
from partita.data.splits.iid import iid
from partita.data.splits.natural import natural
from partita.errors import PartitaError

WRITERS = ("anna", "ben", "carla")


def written(count: int = 60) -> Pool:
    draw = np.random.default_rng(0)
    return pool(
        "letters",
        draw.standard_normal((count, 2)),
        np.arange(count) % 3,
        clients=np.array([WRITERS[row % 7 % 3] for row in range(count)]),
    )


def named(names: Sequence[str]) -> Federation:
    rows = torch.arange(3 * 3).reshape(3, 3)
    roles = [{"train": each[:1], "validation": each[1:2], "test": each[2:]} for each in rows]
    return Federation(Samples(torch.zeros(9, 1), torch.zeros(9)), roles, classes=1, names=names)  # type: ignore[arg-type]


def test_clients_are_called_as_in_the_data() -> None:
    made = federate(written(), natural())
    assert tuple(made.names) == WRITERS
    assert [made.name_of(client) for client in range(3)] == list(WRITERS)
    assert [made.client(name) for name in WRITERS] == [0, 1, 2]
    assert [made.client(number) for number in range(3)] == [0, 1, 2]


def test_clients_that_a_split_makes_are_called_by_their_numbers() -> None:
    made = federate(written(), iid(clients=4))
    assert list(made.names) == ["0", "1", "2", "3"]
    assert made.client("3") == made.client(3) == 3


def test_without_names_numbers_are_names() -> None:
    made = named(())
    assert ([made.name_of(client) for client in range(3)], made.client("2")) == (["0", "1", "2"], 2)
    assert [each["name"] for each in manifest_of(made)["clients"]] == ["0", "1", "2"]
    by_client = summary_of(replace(made, kind="regression"))["by client"]
    assert isinstance(by_client, list)
    assert [each["name"] for each in by_client] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            "anne",
            r"^letters has no client called 'anne'\. Did you mean 'anna'\? It has 3 clients, from 'anna' to 'carla'\.$",
        ),
        ("0", r"^letters has no client called '0'\. It has 3 clients, from 'anna' to 'carla'\.$"),
        (3, r"^letters has no client with the number 3: its 3 clients are numbered from 0 to 2\.$"),
        (-1, r"no client with the number -1"),
    ],
)
def test_a_client_that_is_not_there_is_asked_back(asked: str | int, message: str) -> None:
    with pytest.raises(PartitaError, match=message):
        federate(written(), natural()).client(asked)


def test_of_many_names_the_nearest_are_said() -> None:
    """And not all of them."""
    names = [f"f{number:04d}_00" for number in range(3000)]
    roles = [{"train": torch.tensor([0]), "validation": torch.tensor([1]), "test": torch.tensor([2])}] * len(names)
    made = Federation(Samples(torch.zeros(3, 1), torch.zeros(3)), roles, classes=1, names=names)  # type: ignore[arg-type]
    with pytest.raises(PartitaError, match=r"Did you mean '\S+' or '\S+' or '\S+'\? It has 3000 clients") as caught:
        made.client("f12_00")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a", "b"), "data: 2 names for 3 clients"),
        (("a", "b", "a"), r"data: two clients are called 'a'\. Give each a name of its own\."),
        (("a", "", "b"), r"data: a client is called ''\. Names must be text, and not empty\."),
        (("a", 1, "b"), r"data: a client is called 1\. Names must be text"),
    ],
)
def test_names_are_text_and_differ(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(PartitaError, match=message):
        named(names)


def test_a_name_that_is_another_ones_number_is_refused() -> None:
    shares = [Share(np.arange(8), np.arange(8, 10), "1"), Share(np.arange(10, 18), np.arange(18, 20))]
    with pytest.raises(PartitaError, match="letters: two clients are called '1'"):
        federate(written(), Split("odd", assign=lambda pool, draw: Assignment(shares)))


def test_errors_name_clients() -> None:
    shares = [Share(np.arange(9), np.arange(0), "ann"), Share(np.arange(9, 18), np.arange(0), "bob")]
    split = Split("odd", assign=lambda pool, draw: Assignment(shares))
    with pytest.raises(PartitaError, match=r"2 clients without test samples \(ann, bob\)"):
        federate(written(), split)


def test_names_are_drawn_and_kept() -> None:
    made = federate(written(), natural())
    assert "client carla, class" in picture(made)
    assert replace(made, settings={"name": "letters", "seed": 3}).settings == {"name": "letters", "seed": 3}
    kept = replace(replace(made, settings={"name": "letters"}), name="other")
    assert (kept.settings, kept.names) == ({"name": "letters"}, made.names)
    assert made.settings is None


def test_partitioners_of_flower_keep_the_names_of_clients() -> None:
    pytest.importorskip("flwr_datasets", reason="flwr-datasets is not installed")
    options = {"partition_by": "client"}
    assert tuple(federate(written(), flwr(partitioner="NaturalIdPartitioner", options=options)).names) == WRITERS
    by_label = flwr(partitioner="NaturalIdPartitioner", options={"partition_by": "label"})
    assert list(federate(written(), by_label).names) == ["0", "1", "2"]
