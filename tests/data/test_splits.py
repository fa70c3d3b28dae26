"""Splits among clients, and the roles of a client's data: nothing is lost and nothing is used twice.

One file, since all splits are held to the same rules on the same made-up data.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from partita.data.federation import Federation, federate
from partita.data.pool import Pool, pool
from partita.data.roles import stratified
from partita.data.sources.digits import digits
from partita.data.split import Assignment, Share, Split, cut
from partita.data.splits.dirichlet import dirichlet
from partita.data.splits.dirichlet_matched import dirichlet_matched
from partita.data.splits.iid import iid
from partita.data.splits.k_classes import k_classes
from partita.data.splits.natural import natural
from partita.data.splits.quantity import quantity
from partita.data.splits.shards import shards
from partita.errors import PartitaError


def toy(
    count: int, classes: int = 5, *, official_test: np.ndarray | None = None, clients: np.ndarray | None = None
) -> Pool:
    """Samples that all differ; their classes take turns."""
    inputs, targets = np.arange(count, dtype=np.float32)[:, None], np.arange(count) % classes
    return pool("toy", inputs, targets, classes=classes, official_test=official_test, clients=clients)


def with_test(count: int, classes: int = 5) -> Pool:
    """Every fourth sample of each class is of the official test set."""
    return toy(count, classes, official_test=np.arange(count) // classes % 4 == 0)


def with_clients(count: int, clients: int) -> Pool:
    return toy(count, clients=np.array([f"writer {at % clients:02}" for at in range(count)]))


MERGED, OFFICIAL, OWNED = toy(400), with_test(400), with_clients(400, 8)
SPLITS: dict[str, tuple[Split, Pool]] = {
    "iid": (iid(clients=8), MERGED),
    "iid with an official test set": (iid(clients=8), OFFICIAL),
    "one client": (iid(clients=1), MERGED),
    "dirichlet": (dirichlet(clients=8), MERGED),
    "dirichlet 0.01": (dirichlet(clients=8, alpha=0.01), MERGED),
    "dirichlet 1e-6": (dirichlet(clients=8, alpha=1e-6), MERGED),
    "dirichlet 100": (dirichlet(clients=8, alpha=100.0), MERGED),
    "dirichlet unbalanced": (dirichlet(clients=8, balanced=False), MERGED),
    "dirichlet of published scripts": (dirichlet(clients=8, legacy_seed=1), MERGED),
    "dirichlet matched": (dirichlet_matched(clients=8), OFFICIAL),
    "dirichlet matched 0.01": (dirichlet_matched(clients=8, alpha=0.01), OFFICIAL),
    "classes": (k_classes(clients=10, classes=2), OFFICIAL),
    "classes at random": (k_classes(clients=10, classes=4, random_assign=True), OFFICIAL),
    "shards": (shards(clients=10, each=2), OFFICIAL),
    "quantity": (quantity(clients=8), MERGED),
    "natural": (natural(), OWNED),
}


def rows_of(shares: Sequence[Share]) -> np.ndarray:
    return np.sort(np.concatenate([rows for share in shares for rows in (share.train, share.test)]))


def equal(left: Assignment, right: Assignment) -> bool:
    return all(
        np.array_equal(a.train, b.train) and np.array_equal(a.test, b.test)
        for a, b in zip(left.shares, right.shares, strict=True)
    )


@pytest.mark.parametrize(("split", "data"), SPLITS.values(), ids=SPLITS)
def test_a_split_is_a_partition(split: Split, data: Pool) -> None:
    for seed in range(5):
        shares = split(data, seed).shares
        assert np.array_equal(rows_of(shares), np.arange(len(data)))
        assert all(len(share.train) and len(share.test) for share in shares)
        assert len(shares) == split.settings["clients"] or split.name == "natural"


@pytest.mark.parametrize(("split", "data"), SPLITS.values(), ids=SPLITS)
def test_the_seed_decides_the_split(split: Split, data: Pool) -> None:
    assert equal(split(data, 1), split(data, 1))
    fixed = split.settings.get("legacy_seed") is not None
    assert equal(split(data, 1), split(data, 2)) == fixed


@pytest.mark.parametrize("name", [name for name, (_, data) in SPLITS.items() if data is OFFICIAL])
def test_the_official_test_set_is_for_testing_alone(name: str) -> None:
    assert OFFICIAL.official_test is not None
    split, tested = SPLITS[name][0], OFFICIAL.official_test.numpy()
    for share in split(OFFICIAL, 0).shares:
        assert tested[share.test].all()
        assert not tested[share.train].any()


def labels_of(share: Share, data: Pool) -> set[int]:
    return set(data.targets[torch.from_numpy(np.concatenate([share.train, share.test]))].tolist())


def test_clients_have_as_many_classes_as_asked_for() -> None:
    for split, most in ((k_classes(clients=10, classes=2), 2), (shards(clients=10, each=1), 1)):
        for share in split(OFFICIAL, 0).shares:
            assert len(labels_of(share, OFFICIAL)) == most
            assert set(OFFICIAL.targets[share.train].tolist()) == set(OFFICIAL.targets[share.test].tolist())


def test_natural_clients_are_those_of_the_data() -> None:
    assert OWNED.clients is not None
    for share in natural()(OWNED, 0).shares:
        owners = {OWNED.client_names[owner] for owner in OWNED.clients[rows_of([share])].tolist()}
        assert owners == {share.name}


def test_iid_shares_are_equal() -> None:
    sizes = [len(rows_of([share])) for share in iid(clients=7)(MERGED, 0).shares]
    assert max(sizes) - min(sizes) <= 1


def test_small_alpha_makes_clients_more_different() -> None:
    def classes_per_client(alpha: float) -> float:
        data = toy(2000, 10)
        return float(np.mean([len(labels_of(share, data)) for share in dirichlet(alpha=alpha)(data, 0).shares]))

    assert classes_per_client(0.05) < classes_per_client(0.5) < classes_per_client(50.0)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 30), st.integers(1, 12), st.floats(1e-3, 1e3), st.integers(0, 40), st.integers(0, 99), st.data())
def test_dirichlet_gives_every_client_the_minimum(
    clients: int, classes: int, alpha: float, smallest: int, seed: int, data: st.DataObject
) -> None:
    """The minimum is what was asked for, or half of an equal share where that is less; two at least."""
    given = toy(data.draw(st.integers(2 * clients, 2 * clients + 200)), classes)
    shares = dirichlet(clients=clients, alpha=alpha, smallest=smallest)(given, seed).shares
    assert np.array_equal(rows_of(shares), np.arange(len(given)))
    assert min(len(rows_of([share])) for share in shares) >= max(int(min(smallest, len(given) / clients / 2)), 2)


def test_dirichlet_ends_also_where_it_is_hard() -> None:
    """Drawing again would never find 500 clients with 10 samples each at alpha = 0.01."""
    data = toy(20_000, 100)
    made = dirichlet(clients=500, alpha=0.01, smallest=10, tries=3)(data, 0)
    shares = made.shares
    assert made.notes[0] == "drawn 3 times, because clients had too few samples"
    assert made.notes[1].endswith("samples moved from the largest to the smallest clients")
    assert min(len(rows_of([share])) for share in shares) >= 10
    assert np.array_equal(rows_of(shares), np.arange(20_000))


def test_what_a_split_had_to_do_is_noted() -> None:
    assert dirichlet(clients=8, alpha=100.0)(MERGED, 0).notes == []
    hard = dirichlet(clients=8, alpha=1e-3, tries=3)(MERGED, 0).notes
    assert hard[0] == "drawn 3 times, because clients had too few samples"
    assert "moved from the largest to the smallest" in hard[1]


@pytest.mark.parametrize(
    ("split", "data", "words"),
    [
        (iid(clients=300), MERGED, r"400 samples of toy cannot give 300 clients at least 2 each\. Take fewer clients"),
        (dirichlet(clients=300), MERGED, r"Take fewer clients"),
        (quantity(clients=300), MERGED, r"Take fewer clients"),
        (dirichlet_matched(clients=300), OFFICIAL, r"Take fewer clients"),
        *((make(clients=count), MERGED, r"client") for make in (iid, dirichlet, quantity) for count in (0, -2)),
        *((make(clients=0), OFFICIAL, r"client") for make in (iid, dirichlet_matched, k_classes, shards)),
        (natural(clients=0), OWNED, r"client"),
        (
            natural(clients=9),
            OWNED,
            r"clients is 9, but must be from 1 to 8, the number of clients with enough samples",
        ),
        (natural(smallest_train=100), OWNED, r"No client of toy has 100 training and 1 test samples"),
        (natural(), MERGED, r"does not name the client of each sample"),
        (shards(clients=7), OFFICIAL, r"14 shards are no multiple of the 5 classes"),
        (shards(clients=10, each=0), OFFICIAL, r"shard"),
        (k_classes(clients=7, classes=2), OFFICIAL, r"7 x 2 is no multiple of 5.*set random_assign"),
        (k_classes(classes=6), OFFICIAL, r"classes is 6, but must be from 1 to 5, the number of classes of toy"),
        (k_classes(clients=10, classes=2), MERGED, r"has no official test set\. Take a split that cuts one"),
        *((dirichlet(alpha=alpha), MERGED, r"but must be above 0 and finite") for alpha in (0.0, -1.0, float("nan"))),
        (dirichlet_matched(alpha=0.0, clients=8), OFFICIAL, r"but must be above 0"),
        (quantity(spread=-1.0), MERGED, r"spread"),
        *((iid(test=test), MERGED, r"test") for test in (-0.1, 1.0, 1.5)),
        *((make(test=-1.0), MERGED, "test is -1.0, but must be") for make in (quantity, dirichlet)),
        (iid(test=9.0), OFFICIAL, r"test is 9\.0, but must be at least 0 and below 1\."),
        (natural(test=2.0), OWNED, r"test is 2\.0"),
        (quantity(spread=float("nan")), MERGED, r"spread is nan, but must be at least 0\."),
        (quantity(spread=float("inf")), MERGED, r"spread is inf, but must be finite\."),
        (quantity(smallest=-3), MERGED, r"smallest is -3, but must be at least 0\."),
        (dirichlet(alpha=float("inf")), MERGED, r"alpha is inf, but must be above 0 and finite"),
        (dirichlet(smallest=-1), MERGED, "smallest is -1, but must be"),
        (dirichlet(tries=0), MERGED, "tries is 0, but must be at least 1"),
        (dirichlet(legacy_seed=-1), MERGED, "legacy_seed is -1, but must be from 0 to 4294967295"),
        (dirichlet(legacy_seed=2**32), MERGED, "legacy_seed is 4294967296, but must be"),
        (dirichlet_matched(tries=0), OFFICIAL, "tries is 0"),
        (dirichlet_matched(smallest_test=-1), OFFICIAL, "smallest_test is -1"),
        (natural(smallest_train=-1), OWNED, "smallest_train is -1"),
        (natural(largest_train=-1), OWNED, "largest_train is -1, but must be at least 1"),
    ],
    ids=lambda value: f"{value.name} {dict(value.settings)}" if isinstance(value, Split) else "",
)
def test_what_cannot_be_split_is_refused(split: Split, data: Pool, words: str) -> None:
    with pytest.raises(PartitaError, match=words):
        split(data, 0)


@settings(deadline=None)
@given(st.integers(2, 50), st.floats(0, 0.95), st.integers(0, 99))
def test_train_and_test_are_cut_from_one_clients_rows(count: int, test: float, seed: int) -> None:
    rows = np.arange(count) * 3 + 1
    share = cut(rows, test, np.random.RandomState(seed))
    assert np.array_equal(rows_of([share]), rows)
    assert len(share.train) == min(int((1 - test) * count + 1e-9), count - 1)
    assert len(share.test) >= 1


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), max_size=60), st.floats(0, 0.99), st.integers(0, 99))
def test_validation_has_of_each_class_its_part(labels: list[int], fraction: float, seed: int) -> None:
    targets = np.array(labels, dtype=np.int64)
    chosen = stratified(targets, fraction, np.random.RandomState(seed))
    asked = min(round(fraction * len(labels)), len(labels) - 1)
    assert chosen.sum() == (max(asked, 0) if len(labels) >= 5 else 0)
    if chosen.any():
        for label in set(labels):
            exact = (targets == label).sum() * asked / len(labels)
            assert abs(chosen[targets == label].sum() - exact) < 1


def all_rows(federation: Federation) -> torch.Tensor:
    return torch.cat([rows for roles in federation.roles for rows in roles.values()]).sort().values


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 6), st.integers(2, 50), st.floats(0, 0.95), st.floats(0.01, 0.45), st.integers(0, 99))
def test_roles_are_disjoint_and_complete(clients: int, each: int, validation: float, test: float, seed: int) -> None:
    data = toy(clients * each)
    federation = federate(data, iid(clients=clients, test=test), validation=validation, seed=seed)
    assert torch.equal(all_rows(federation), torch.arange(len(data)))
    for roles in federation.roles:
        assert len(roles["train"]) >= 1
        assert len(roles["test"]) >= 1
        assert validation or not len(roles["validation"])


@pytest.mark.parametrize(("split", "data"), SPLITS.values(), ids=SPLITS)
def test_every_split_makes_a_federation(split: Split, data: Pool) -> None:
    first, again, other = (federate(data, split, validation=0.25, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(all_rows(first), torch.arange(len(data)))
    assert [roles["train"].tolist() for roles in first.roles] == [roles["train"].tolist() for roles in again.roles]
    assert [roles["train"].tolist() for roles in first.roles] != [roles["train"].tolist() for roles in other.roles]
    assert first.sizes == [len(first[client].train) for client in range(len(first))]


def test_newcomers_never_train() -> None:
    federation = federate(MERGED, iid(clients=8), newcomers=3, seed=1)
    assert len(federation.newcomers) == 3
    held = federation.sample_of_training(1.0, 0)
    trained = sum(size for client, size in enumerate(federation.sizes) if client not in federation.newcomers)
    assert len(held) == trained


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"validation": -0.1}, r"validation is -0\.1, but must be at least 0 and below 1"),
        ({"validation": 1.0}, r"validation is 1\.0"),
        ({"newcomers": 8}, r"newcomers is 8, but must be from 0 to 7: at least one of the 8 clients must train"),
        ({"newcomers": -1}, r"newcomers"),
        ({"crop": -1}, r"^crop is -1, but must be at least 0\.$"),
        ({"crop": 2}, r"^toy holds no images, and crop and flip are settings of images\. Omit them\.$"),
        ({"flip": True}, "toy holds no images"),
        ({"length": 0}, "length is 0, but must be at least 1"),
        ({"vocabulary": 9}, r"^toy holds numbers, and vocabulary and length are settings of texts\. Omit them\.$"),
        ({"most_duplicates": float("nan")}, "most_duplicates is nan, but must be at least 0"),
        ({"fraction": 0.0}, r"^fraction is 0\.0, but must be above 0 and at most 1\.$"),
        ({"fraction": 1.5}, r"^fraction is 1\.5"),
    ],
)
def test_what_cannot_be_federated_is_refused(settings: dict[str, float], words: str) -> None:
    with pytest.raises(PartitaError, match=words):
        federate(MERGED, iid(clients=8), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(("row", "said"), [(-1, "-1"), (400, "400"), (10**9, "1000000000")])
@pytest.mark.parametrize("role", ["train", "test", "validation"])
def test_a_split_that_gives_what_is_not_there_is_refused(row: int, said: str, role: str) -> None:
    """Also numbers from the end, as which others could pass."""
    rows = {"train": np.arange(8), "test": np.arange(9, 12), role: np.array([200, row])}
    share = Share(rows["train"], rows["test"], "anna", validation=rows.get("validation"))
    split = Split("odd", assign=lambda pool, draw: Assignment([share]))
    with pytest.raises(PartitaError, match=rf"^toy: client anna was given row {said}, but there are 400 rows\.$"):
        federate(MERGED, split)


def test_a_split_without_clients_is_refused() -> None:
    with pytest.raises(PartitaError, match="odd on toy: there are no clients"):
        federate(MERGED, Split("odd", assign=lambda pool, draw: Assignment([])))


def test_a_split_that_gives_a_sample_twice_is_refused() -> None:
    share = Share(np.arange(10), np.arange(9, 12))
    with pytest.raises(PartitaError, match="given out twice"):
        federate(MERGED, Split("greedy", assign=lambda data, draw: Assignment([share])), validation=0.0)


@settings(deadline=None)
@given(st.floats(0, 1), st.integers(0, 5))
def test_the_servers_sample_is_of_training_data(fraction: float, seed: int) -> None:
    federation = federate(MERGED, iid(clients=4))
    held = federation.sample_of_training(fraction, seed)
    assert len(held) == int(fraction * sum(federation.sizes) + 1e-9)
    training = torch.cat([roles["train"] for roles in federation.roles]).tolist()
    assert {int(number) for number in held.inputs.flatten()} <= set(training)


def test_digits_are_divided_by_dirichlet_unless_told_otherwise() -> None:
    federation = federate(digits())
    assert (len(federation), federation.classes, federation.shape) == (20, 10, (1, 8, 8))
    assert federation.origin["split"] == {"name": "dirichlet", **dirichlet().settings}
    assert torch.equal(all_rows(federation), torch.arange(1797))
    assert 0 <= federation.samples.inputs.min() <= federation.samples.inputs.max() <= 1
    assert federate(replace(digits(), clients=torch.arange(1797) % 9, client_names=tuple("abcdefghi"))).names[0] == "a"


def test_draws_end() -> None:
    """A huge number of draws is refused, not made."""
    with pytest.raises(PartitaError, match=r"tries is 1000000000, but must be at most 1,000\. Lower smallest"):
        federate(digits(), dirichlet(tries=10**9))
