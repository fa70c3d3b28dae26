"""Roles are disjoint, divisions can be written down and rebuilt, newcomers never train, and clients may differ.

One file, since roles, divisions and newcomers are seen in the same federations.
"""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, strategies
from torch import nn

from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedper import fedper
from partita.algorithms.fedrep import fedrep
from partita.algorithms.flayer import flayer
from partita.algorithms.gpfl import gpfl
from partita.algorithms.local import local
from partita.core.algorithm import Algorithm
from partita.core.samples import Preparation, Samples
from partita.data import manifests
from partita.data.distribution import floor, label_counts, picture, shaded
from partita.data.federation import Federation, federate
from partita.data.pool import Pool, pool
from partita.data.roles import stratified
from partita.data.sources.digits import digits
from partita.data.split import ROLES, Role, Split
from partita.data.splits.dirichlet import dirichlet
from partita.data.splits.dirichlet_matched import dirichlet_matched
from partita.data.splits.iid import iid
from partita.data.splits.k_classes import k_classes
from partita.data.splits.manifest import manifest
from partita.data.splits.natural import natural
from partita.data.splits.quantity import quantity
from partita.data.splits.shards import shards
from partita.errors import PartitaError
from partita.experiment.simulate import simulate
from partita.models.mlp import mlp


def toy(count: int = 400, classes: int = 4, *, tested: bool = True, owners: int = 10, seed: int = 0) -> Pool:
    """Distinct rows with labels, owners and an official test set of a quarter."""
    draw = np.random.default_rng(seed)
    return pool(
        "toy",
        draw.standard_normal((count, 3)),
        draw.integers(classes, size=count),
        classes=classes,
        clients=draw.integers(owners, size=count),
        official_test=np.arange(count) % 4 == 0 if tested else None,
    )


SPLITS = [
    iid(clients=7),
    quantity(clients=7),
    dirichlet(clients=7, alpha=0.3, smallest=5),
    dirichlet(clients=7, alpha=0.01, smallest=20, tries=2),
    dirichlet_matched(clients=7, alpha=0.3, smallest_train=5),
    natural(),
    natural(test=0.3, clients=4),
]


def all_rows(federation: Federation) -> list[int]:
    return [row for roles in federation.roles for role in ROLES for row in roles[role].tolist()]


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: f"{split.name}{split.settings}")
def test_no_row_has_two_roles_or_clients(split: Split) -> None:
    rows = all_rows(federate(toy(), split))
    assert max(Counter(rows).values()) == 1
    if "clients" not in split.settings or split.name != "natural":
        assert len(rows) == 400


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: f"{split.name}{split.settings}")
def test_the_same_seed_gives_the_same_division_and_another_another(split: Split) -> None:
    first, again, other = (all_rows(federate(toy(), split, seed=seed)) for seed in (3, 3, 4))
    assert first == again
    assert first != other


@pytest.mark.parametrize("split", [shards(clients=10, each=2), dirichlet_matched(clients=5), natural()])
def test_official_test_rows_stay_for_testing(split: Split) -> None:
    data = toy(4000)
    federation = federate(data, split)
    assert data.official_test is not None
    for roles in federation.roles:
        assert data.official_test[roles["test"]].all()
        assert not data.official_test[roles["train"]].any()
        assert not data.official_test[roles["validation"]].any()


def test_the_minimum_holds_and_splits_end() -> None:
    labels = np.repeat(np.arange(100), 600)
    data = pool("many", np.arange(len(labels), dtype=float)[:, None], labels, classes=100)
    made = dirichlet(clients=500, alpha=0.01)(data, seed=0)
    assert min(len(share.train) + len(share.test) for share in made.shares) >= 40
    assert any("moved" in note for note in made.notes)


@given(strategies.lists(strategies.integers(0, 3), max_size=60), strategies.floats(0, 0.9))
def test_validation_is_stratified_and_leaves_training_rows(labels: list[int], fraction: float) -> None:
    chosen = stratified(np.array(labels, dtype=np.int64), fraction, np.random.RandomState(0))
    assert len(chosen) == len(labels)
    if len(labels) < 5 or fraction == 0:
        assert not chosen.any()
        return
    assert chosen.sum() == min(round(fraction * len(labels)), len(labels) - 1)
    for label in set(labels):
        members = np.array(labels) == label
        assert abs(chosen[members].sum() - members.sum() * chosen.sum() / len(labels)) < 1


@pytest.mark.parametrize(
    ("split", "words"),
    [
        (iid(clients=0), "clients is 0, but must be at least 1"),
        (iid(clients=500), "Take fewer clients"),
        (dirichlet(clients=300), "Take fewer clients"),
        (dirichlet(alpha=0.0), "but must be above 0 and finite"),
        (k_classes(clients=3, classes=3), "random_assign"),
        (k_classes(clients=3, classes=9), "classes is 9, but must be from 1 to 4"),
        (shards(clients=3, each=3), "no multiple of the 4 classes"),
        (natural(smallest_train=1000), "Lower these numbers"),
        (natural(clients=50), "clients is 50, but must be from 1 to 10"),
    ],
)
def test_splits_that_cannot_be_say_so(split: Split, words: str) -> None:
    with pytest.raises(PartitaError, match=words):
        federate(toy(), split)


def test_what_data_lack_is_named() -> None:
    bare = pool("bare", np.random.default_rng(0).standard_normal((40, 2)), np.arange(40) % 2)
    with pytest.raises(PartitaError, match="no official test set"):
        federate(bare, shards(clients=4, each=1))
    with pytest.raises(PartitaError, match="the client of each sample"):
        federate(bare, natural())
    with pytest.raises(PartitaError, match="validation is 1"):
        federate(bare, iid(clients=2), validation=1.0)


def test_a_client_without_test_rows_is_refused() -> None:
    data = toy(40, owners=20)
    with pytest.raises(PartitaError, match="without test samples"):
        federate(data, natural(smallest_test=0))


def test_the_test_file_as_training_file_is_noticed() -> None:
    rows = np.random.default_rng(0).standard_normal((50, 3))
    labels = np.arange(50) % 2
    data = pool(
        "twice", np.concatenate([rows, rows]), np.concatenate([labels, labels]), official_test=np.arange(100) >= 50
    )
    with pytest.raises(PartitaError, match="Was the test file given as training file"):
        federate(data, iid(clients=2))
    few = pool(
        "few", np.concatenate([rows, rows[:1] + 0, rows[1:] + 9]), np.concatenate([labels, labels]),
        official_test=np.arange(100) >= 50,
    )  # fmt: skip
    counted = federate(few, iid(clients=2), most_duplicates=0.05)
    assert "1 of 50 test rows equal a training row" in str(counted.origin["notes"])


def test_a_fraction_keeps_a_part_of_each_class_of_each_client() -> None:
    """The same clients and roles, a quarter of each role's rows; parts of fewer than five rows stay whole."""
    labels = np.tile(np.repeat(np.arange(3), [20, 12, 8]), 4)
    data = pool("mine", np.random.default_rng(0).standard_normal((160, 2)), labels, clients=np.repeat(np.arange(4), 40))
    whole = federate(data, natural(test=0.1), validation=0.0, seed=3)
    quarter = federate(data, natural(test=0.1), validation=0.0, fraction=0.25, seed=3)
    for all_of, some in zip(whole.roles, quarter.roles, strict=True):
        assert (len(all_of["train"]), len(some["train"])) == (36, 9)
        assert set(some["train"].tolist()) < set(all_of["train"].tolist())
        assert torch.equal(some["test"], all_of["test"])  # Four rows.
        kept, had = (np.bincount(labels[rows["train"].numpy()], minlength=3) for rows in (some, all_of))
        assert (np.abs(kept - had / 4) < 1).all()


def test_a_manifest_rebuilds_the_division(tmp_path: Path) -> None:
    data = toy()
    made = federate(data, dirichlet(clients=6, smallest=5), newcomers=2, seed=5)
    digest = manifests.write(made, tmp_path / "division.json")
    again = federate(data, manifest(path=str(tmp_path / "division.json")), seed=99)
    assert all_rows(again) == all_rows(made)
    assert again.newcomers == made.newcomers
    assert manifests.write(made, tmp_path / "twice.json") == digest
    with pytest.raises(PartitaError, match="other data"):
        federate(toy(seed=1), manifest(path=str(tmp_path / "division.json")))
    body = json.loads((tmp_path / "division.json").read_text())
    body["clients"][0]["train"].pop()
    (tmp_path / "changed.json").write_text(json.dumps(body))
    with pytest.raises(PartitaError, match="was changed"):
        federate(data, manifest(path=str(tmp_path / "changed.json")))
    (tmp_path / "cut.json").write_text((tmp_path / "division.json").read_text()[:100])
    with pytest.raises(PartitaError, match="damaged"):
        federate(data, manifest(path=str(tmp_path / "cut.json")))
    with pytest.raises(PartitaError, match="Cannot read"):
        federate(data, manifest(path=str(tmp_path / "nowhere.json")))


def test_newcomers_never_train_and_are_told_apart() -> None:
    data = federate(toy(), iid(clients=6), newcomers=2, seed=1)
    result = simulate(fedper(epochs=1), mlp, data, rounds=3, evaluate_every=0)
    assert len(data.newcomers) == 2
    assert not result.own.keys() & data.newcomers
    assert {record.client for record in result.select(newcomers=True)} == set(data.newcomers)
    assert {record.client for record in result.select()} == set(range(6)) - set(data.newcomers)
    with pytest.raises(PartitaError, match="at least one of the 6 clients must train"):
        federate(toy(), iid(clients=6), newcomers=6)


def test_counts_floor_and_picture() -> None:
    federation = federate(toy(), dirichlet(clients=5, smallest=5))
    counts = label_counts(federation)
    assert counts.sum() == 400
    train, test = label_counts(federation, ("train",)), label_counts(federation, ("test",))
    right = sum(test[client, train[client].argmax()] for client in range(5))
    assert floor(federation).micro == pytest.approx(right / test.sum())
    assert [len(line) for line in shaded(counts)] == [4] * 5
    drawn = picture(federation)
    assert drawn.count("<circle") == np.count_nonzero(counts)
    assert drawn.startswith("<svg")


def test_the_floor_by_client() -> None:
    """Client 0 trains on 1, 1, 2 and is tested on 1, 2; client 1 trains on 2 and is tested on 2."""
    roles: list[dict[Role, torch.Tensor]] = [
        {
            "train": torch.tensor([0, 1, 2]),
            "validation": torch.tensor([], dtype=torch.int64),
            "test": torch.tensor([3, 4]),
        },
        {"train": torch.tensor([5]), "validation": torch.tensor([], dtype=torch.int64), "test": torch.tensor([6])},
    ]
    values = torch.tensor([1.0, 1.0, 4.0, 1.0, 5.0, 3.0, 5.0])
    labels = torch.tensor([1, 1, 2, 1, 2, 2, 2])
    inputs = torch.zeros(7, 1)
    found = floor(Federation(Samples(inputs, labels), roles, classes=3))
    assert (found.clients, found.score, found.macro) == ((0, 1), (0.5, 1.0), 0.75)
    assert found.micro == pytest.approx(2 / 3)
    assert floor(Federation(Samples(inputs, labels), roles, classes=3), [1]).score == (1.0,)
    # The means are 2 and 3: squared errors of 1 + 9 and of 4.
    errors = floor(Federation(Samples(inputs, values), roles, classes=1, kind="regression"))
    assert errors.score == pytest.approx((5**0.5, 2.0))
    assert errors.micro == pytest.approx((14 / 3) ** 0.5)
    # Of words, those below 4 are no words: client 0 knows 5, 5 and 6 and is asked 5 and 6; client 1 nothing real.
    words = torch.tensor([[5, 0], [5, 3], [6, 0], [0, 5], [6, 1], [4, 4], [3, 0]])
    spoken = floor(Federation(Samples(inputs, words), roles, classes=9, kind="next_word"))
    assert (spoken.clients, spoken.score, spoken.micro) == ((0,), (0.5,), 0.5)


def test_augmentation_is_random_by_seed_round_and_client_only() -> None:
    from partita.core.batching import Batching

    images = torch.arange(6 * 3 * 8 * 8, dtype=torch.uint8).reshape(6, 3, 8, 8)
    samples = Samples(images, torch.arange(6), preparation=Preparation(crop=2, flip=True))

    def epoch(client: int) -> torch.Tensor:
        batches = Batching(size=3).epoch(samples, False, 0, "train", 1, client, 0)
        return torch.cat([batch.inputs for batch in batches])

    assert torch.equal(epoch(0), epoch(0))
    assert not torch.equal(epoch(0), epoch(1))
    assert torch.equal(samples.inputs, images / 255)
    padded = nn.functional.pad(images, (2, 2, 2, 2)) / 255
    windows = [padded[..., top : top + 8, left : left + 8] for top in range(5) for left in range(5)]
    every = torch.stack([*windows, *(window.flip(-1) for window in windows)])
    for picture_seen in epoch(0):
        assert (every == picture_seen).flatten(2).all(2).any()


def test_inputs_are_standardized_by_the_training_rows_alone() -> None:
    images = np.random.default_rng(0).integers(256, size=(60, 4, 4), dtype=np.uint8)
    images[:, 0, 0] = 7
    federation = federate(pool("images", images, np.arange(60) % 2), iid(clients=3), standardize=True)
    training = torch.cat([roles["train"] for roles in federation.roles])
    seen = federation.samples.take(training).inputs.double()
    raw = torch.from_numpy(images)[training].double().unsqueeze(1) / 255
    expected = (raw - raw.mean(0)) / (raw.std(0, correction=0) + 1e-6)
    torch.testing.assert_close(seen, expected, rtol=0, atol=2e-4)
    assert seen[:, 0, 0, 0].abs().max() < 0.1, "a constant entry stays small"
    with pytest.raises(PartitaError, match="indices or words"):
        federate(
            pool("films", np.arange(60) % 9, np.arange(60) % 2, rows_identify=False), iid(clients=3), standardize=True
        )


def test_a_selection_shares_the_storage() -> None:
    inputs = torch.randn(10, 3)
    part = Samples(inputs, torch.arange(10)).take(torch.tensor([2, 3, 5])).take(slice(1, 3))
    assert part.targets.tolist() == [3, 5]
    inputs[3] = 7.0
    assert torch.equal(part.inputs[0], torch.full((3,), 7.0))


def change_first_value(federation: Federation) -> None:
    """What another process does to the data it was given."""
    torch.set_num_threads(1)
    federation.samples.stored[0] = 99.0
    assert len(federation[150].train)


def test_processes_share_the_data_without_a_copy() -> None:
    federation = federate(toy(4000, tested=False), iid(clients=200))
    child = torch.multiprocessing.get_context("spawn").Process(target=change_first_value, args=(federation,))
    child.start()
    child.join(300)
    assert child.exitcode == 0
    assert torch.equal(federation.samples.stored[0], torch.full((3,), 99.0))


# Clients that differ in their personal part


def own_label_sets() -> Federation:
    return federate(digits(), dirichlet(clients=6, alpha=0.2), own_labels=True)


def test_heads_for_each_clients_own_labels() -> None:
    data = own_label_sets()
    heads = {data.classes_of(client) for client in range(6)}
    assert len(heads) > 1
    for client in range(6):
        targets = data[client].train.targets
        assert int(targets.min()) >= 0
        assert int(targets.max()) < data.classes_of(client)
    result = simulate(fedper(epochs=2), mlp, data, rounds=3, evaluate_every=0)
    for client, own in result.own.items():
        assert own["head.weight"].shape[0] == data.classes_of(client)
    assert result.score().macro > 0.2


@pytest.mark.parametrize("method", [local(), fedrep(head_epochs=1)], ids=lambda method: method.name)
def test_methods_that_keep_the_head_work_with_different_heads(method: Algorithm) -> None:
    simulate(method, mlp, own_label_sets(), rounds=1)


@pytest.mark.parametrize("method", [fedavg(), flayer(), gpfl()], ids=lambda method: method.name)
def test_methods_that_share_the_head_say_why_not(method: Algorithm) -> None:
    with pytest.raises(PartitaError, match=r"shares \S+, but it is .* at client 0 and .* at client \d+.*keeps it"):
        simulate(method, mlp, own_label_sets(), rounds=1)


def wider_for_some(*, shape: tuple[int, ...], classes: int, client: int) -> nn.Module:
    """Odd clients have a deeper head."""
    body = nn.Linear(3, 5)
    deep = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, classes))
    module = nn.Sequential()
    module.add_module("body", body)
    module.add_module("head", deep if client % 2 else nn.Linear(5, classes))
    module.groups = {"head": "head"}  # type: ignore[assignment]
    return module


def test_another_architecture_for_some_clients() -> None:
    data = federate(toy(), iid(clients=4))
    result = simulate(fedrep(head_epochs=1), wider_for_some, data, rounds=2)
    assert set(result.own[0]) == {"head.weight", "head.bias"}
    assert set(result.own[1]) == {"head.0.weight", "head.0.bias", "head.2.weight", "head.2.bias"}
    with pytest.raises(PartitaError, match=r"shares head\.0\.bias, but it is missing at client 0"):
        simulate(fedavg(), wider_for_some, data, rounds=1)
