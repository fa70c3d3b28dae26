"""Golden facts of the data: how the papers' splits come out, from class counts alone."""

import numpy as np
import pytest

from partita.data.distribution import floor, label_counts
from partita.data.federation import federate
from partita.data.pool import Pool, pool
from partita.data.split import Assignment
from partita.data.splits.dirichlet import dirichlet
from partita.data.splits.k_classes import k_classes
from partita.data.splits.shards import shards


def merged(classes: int, each: int) -> Pool:
    """So many rows of each class, one pool."""
    labels = np.repeat(np.arange(classes), each)
    return pool("counts", np.arange(len(labels), dtype=np.float64)[:, None], labels, classes=classes)


def official(classes: int, train: int, test: int) -> Pool:
    """So many rows of each class in the official train and test sets."""
    labels = np.concatenate([np.repeat(np.arange(classes), train), np.repeat(np.arange(classes), test)])
    tested = np.arange(len(labels)) >= classes * train
    rows = np.arange(len(labels), dtype=np.float64)[:, None]
    return pool("counts", rows, labels, classes=classes, official_test=tested)


def sizes(assignment: Assignment) -> list[int]:
    return [len(share.train) + len(share.test) for share in assignment.shares]


def classes_per_client(data: Pool, assignment: Assignment) -> float:
    labels = data.targets.numpy()
    return float(
        np.mean([len(np.unique(labels[np.concatenate([share.train, share.test])])) for share in assignment.shares])
    )


@pytest.mark.parametrize(
    ("classes", "clients", "each", "train", "test"),
    [
        (10, 100, 2, 250, 50),
        (10, 100, 5, 100, 20),
        (10, 100, 10, 50, 10),
        (100, 100, 10, 50, 10),
        (100, 100, 50, 10, 2),
        (100, 100, 100, 5, 1),
    ],
)
def test_g32_shards(classes: int, clients: int, each: int, train: int, test: int) -> None:
    """Every client has 500 training and 100 test samples, of the same classes, in whole shards."""
    data = official(classes, 50_000 // classes, 10_000 // classes)
    shares = shards(clients=clients, each=each)(data, seed=3).shares
    labels = data.targets.numpy()
    assert [(len(share.train), len(share.test)) for share in shares] == [(500, 100)] * clients
    for share in shares:
        in_train, in_test = (np.bincount(labels[rows], minlength=classes) for rows in (share.train, share.test))
        assert np.count_nonzero(in_train) <= each
        assert not (in_train % train).any()
        np.testing.assert_array_equal(in_train // train, in_test // test)
    every = np.concatenate([rows for share in shares for rows in (share.train, share.test)])
    np.testing.assert_array_equal(np.sort(every), np.arange(60_000))


@pytest.mark.parametrize(("classes", "k", "train", "test"), [(10, 4, 1250, 250), (10, 8, 625, 125), (10, 10, 500, 100)])
def test_g33_k_classes(classes: int, k: int, train: int, test: int) -> None:
    """FedPer: ten clients with k classes each, every class with the same number of clients."""
    data = official(classes, 5000, 1000)
    shares = k_classes(clients=10, classes=k)(data, seed=1).shares
    labels = data.targets.numpy()
    for share in shares:
        counts = np.bincount(labels[share.train], minlength=classes)
        assert sorted(counts[counts > 0].tolist()) == [train] * k
        np.testing.assert_array_equal(np.bincount(labels[share.test], minlength=classes), counts // train * test)
    assert len({tuple(np.unique(labels[share.train])) for share in shares}) > 1 or k == classes


def test_g33_k_classes_of_cifar100() -> None:
    data = official(100, 500, 100)
    shares = k_classes(clients=10, classes=40)(data, seed=1).shares
    counts = np.bincount(data.targets.numpy()[shares[0].train], minlength=100)
    assert sorted(counts[counts > 0].tolist()) == [125] * 40


def test_g40_dirichlet_of_cifar10() -> None:
    data = merged(10, 6000)
    made = dirichlet(legacy_seed=1)(data, seed=0)
    assert sizes(made) == [
        1621, 1814, 1211, 2080, 5128, 4264, 1440, 2622, 2974, 3236,
        1164, 1964, 5994, 1527, 3100, 4325, 4252, 3175, 5449, 2660,
    ]  # fmt: skip
    first = np.concatenate([made.shares[0].train, made.shares[0].test])
    assert np.bincount(data.targets.numpy()[first]).tolist() == [0, 9, 0, 668, 476, 287, 5, 167, 0, 9]
    assert classes_per_client(data, made) == pytest.approx(5.10)
    assert sum(len(share.train) for share in made.shares) == 44_995
    assert sum(len(share.train) // 10 * 10 for share in made.shares) == 44_910
    assert made.notes == []


def test_g41_dirichlet_of_cifar100() -> None:
    data = merged(100, 600)
    made = dirichlet(legacy_seed=1)(data, seed=0)
    assert sizes(made) == [
        3020, 3053, 2753, 3029, 2640, 2877, 3120, 3047, 2807, 3211,
        2761, 3359, 3290, 2971, 3301, 3132, 3345, 2642, 3035, 2607,
    ]  # fmt: skip
    assert classes_per_client(data, made) == pytest.approx(46.05)
    extreme = dirichlet(alpha=0.01, legacy_seed=1)(data, seed=0)
    assert sizes(extreme) == [
        3282, 3385, 3141, 3396, 1900, 2599, 3106, 2596, 3511, 3492,
        1812, 3248, 3564, 1380, 3137, 3589, 3380, 2698, 3264, 3520,
    ]  # fmt: skip
    assert classes_per_client(data, extreme) == pytest.approx(12.45)
    for clients, smallest, largest in ((50, 660, 1469), (100, 275, 817)):
        many = sizes(dirichlet(clients=clients, legacy_seed=1)(data, seed=0))
        assert (min(many), max(many)) == (smallest, largest)


def test_g42_dirichlet_of_ag_news() -> None:
    data = merged(4, 31_900)
    made = dirichlet(legacy_seed=1)(data, seed=0)
    assert sizes(made) == [
        410, 1679, 4416, 772, 158, 670, 132, 4090, 375, 11583,
        127, 9025, 7932, 15574, 6956, 11243, 26692, 7558, 6293, 11915,
    ]  # fmt: skip
    assert classes_per_client(data, made) == pytest.approx(2.25)
    assert sum(len(share.train) for share in made.shares) == 95_694
    assert made.notes == ["drawn 12 times, because clients had too few samples"]


@pytest.mark.parametrize(("classes", "each", "share"), [(10, 6000, 0.7421), (100, 600, 0.14445), (4, 31_900, 0.87747)])
def test_g43_majority_class(classes: int, each: int, share: float) -> None:
    """The commonest class of each client, counted over all its samples."""
    federation = federate(merged(classes, each), dirichlet(legacy_seed=1))
    counts = label_counts(federation)
    assert counts.max(1).sum() / counts.sum() == pytest.approx(share, abs=5e-5)
    assert floor(federation).micro == pytest.approx(share, abs=0.02)
