"""Differential privacy that a site insists on: noise in what leaves, no metrics, and a budget that ends."""

import dataclasses
import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
import torch

from deploy.federations import DATA, OPEN, experiment, federate, sites_of
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedper import fedper
from partita.algorithms.flayer import flayer
from partita.core.algorithm import Algorithm
from partita.core.server import Update
from partita.deploy.audit import entries_of
from partita.deploy.gate import Leaving
from partita.deploy.messages import Reply
from partita.deploy.node import Node
from partita.deploy.plan import Plan
from partita.deploy.privacy import Privacy
from partita.errors import PartitaError

EVERYONE: dict[str, Any] = {"participation": "all", "rounds": 3, "evaluate_every": 1}
STATISTICS = ["running_mean"]


def exact_delta(epsilon: float, shift: float) -> float:
    """Of the Gaussian mechanism, with a shift in units of its standard deviation (Balle and Wang, 2018)."""
    below = NormalDist().cdf
    return below(shift / 2 - epsilon / shift) - math.exp(epsilon) * below(-shift / 2 - epsilon / shift)


@pytest.mark.parametrize(("noise", "releases"), [(2.0, 1), (2.0, 7), (0.5, 1), (20.0, 100)])
def test_the_budget_bounds_what_is_exact(noise: float, releases: int) -> None:
    """Updates differ by 2 clip at most, so k releases are one of a shift of 2 sqrt(k) / noise."""
    made = Privacy(clip=1.0, noise=noise, epsilon=1.0, delta=1e-5)
    assert exact_delta(made.spent(releases), 2 * math.sqrt(releases) / noise) <= 1e-5


def test_what_is_spent_by_hand() -> None:
    made = Privacy(clip=3.0, noise=2.0, epsilon=6.0, delta=math.exp(-8))
    assert made.spent(1) == pytest.approx(0.5 + 2 * math.sqrt(0.5 * 8)), "rho = 2 / 4"
    made.need_budget(0)
    with pytest.raises(
        PartitaError, match=r"spent: after 1 releases one more would make epsilon 6.657, and it allows 6"
    ):
        made.need_budget(1)


def test_a_change_is_scaled_and_has_noise() -> None:
    before = {"a": torch.ones(3), "b": torch.zeros(4)}
    update = Update(0, {"a": torch.tensor([4.0, 1, 1]), "b": torch.tensor([0.0, 4, 0, 0])}, 5, 1)
    found = Privacy(clip=1.0, noise=1e-9, epsilon=1.0).released(update, before, STATISTICS).values
    torch.testing.assert_close(found["a"], torch.tensor([1.6, 1, 1]))
    torch.testing.assert_close(found["b"], torch.tensor([0.0, 0.8, 0, 0]))
    near = Privacy(clip=9.0, noise=1e-9, epsilon=1.0).released(update, before, STATISTICS).values
    torch.testing.assert_close(near["a"], update.values["a"])
    wide = Update(0, {"a": torch.zeros(200_000)}, 5, 1)
    first, second = (
        Privacy(clip=3.0, noise=2.0, epsilon=1.0).released(wide, {"a": torch.zeros(200_000)}, STATISTICS).values["a"]
        for _ in range(2)
    )
    assert 5.8 < float(first.std()) < 6.2
    assert abs(float(first.mean())) < 0.2
    assert abs(float((first * second).mean())) < 1, "drawn anew each time"


@pytest.mark.parametrize(
    ("update", "words"),
    [
        (Update(0, {"a": torch.ones(2)}, 5, 1, mask={"a": torch.ones(2)}), "a mask made from its data"),
        (Update(0, {"a": torch.ones(2)}, 5, 1, weight=2.0), "a weight made from its data"),
        (Update(0, {"running_mean": torch.ones(2)}, 5, 1), "buffers = 'local'"),
    ],
)
def test_what_cannot_have_noise_does_not_leave(update: Update, words: str) -> None:
    with pytest.raises(PartitaError, match=words):
        Privacy(1.0, 1.0, 1.0).released(update, {"a": torch.zeros(2), "running_mean": torch.zeros(2)}, STATISTICS)


def private(algorithm: Algorithm, folder: Path, privacy: Privacy) -> Any:
    plan = Plan.of(experiment(algorithm, buffers="local", **EVERYONE))
    with sites_of(plan, DATA, folder, gates={2: dataclasses.replace(OPEN, leaving=Leaving(privacy=privacy))}) as sites:
        found = federate(plan, sites)
        return found, sites[2]._store.releases


def test_a_site_stops_when_its_budget_is_spent(tmp_path: Path) -> None:
    """It released two updates; the others go on. No metric of it leaves, and it has its personal part."""
    made = Privacy(clip=0.5, noise=10.0, epsilon=1.6)
    assert made.spent(2) < made.epsilon < made.spent(3)
    found, releases = private(fedper(), tmp_path, made)
    assert (found.participants, releases) == ([4, 4, 3], 2)
    [rejection] = found.rejections
    assert "The privacy budget of this site is spent: after 2 releases" in rejection.reason
    assert {record.client for record in found.records} == {0, 1, 3}
    replies = [Reply.read(reply) for number, _, reply in found.messages if number == 2]
    assert not any(reply.records for reply in replies)
    sent = [reply.sent for reply in replies if reply.sent]
    assert [sorted(each) for each in sent] == [
        [f"values/{n}" for n in ("layer1.bias", "layer1.weight", "norm1.bias", "norm1.weight")]
    ] * 2
    assert not any(entry.get("metrics") for entry in entries_of(tmp_path / "c" / "audit.log"))
    # A plan that begins again has no budget either.
    again, releases = private(fedavg(), tmp_path, made)
    assert (again.participants, releases) == ([3, 3, 3], 2)


def test_masks_of_a_method_are_refused(tmp_path: Path) -> None:
    found, releases = private(flayer(on=fedper()), tmp_path, Privacy(1.0, 10.0, 100.0))
    assert releases == 0
    assert {each.site for each in found.rejections} == {"c"}


def test_it_is_said_in_the_site_s_own_file(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    text = 'name = "a"\n[data]\nname = "digits"\n[leaving.privacy]\nclip = 1.0\nnoise = {noise}\nepsilon = 8.0\n'
    file.write_text(text.format(noise=4))
    assert Node.read(file).gate.leaving.privacy == Privacy(1.0, 4.0, 8.0)
    file.write_text(text.format(noise=0))
    with pytest.raises(PartitaError, match="noise"):
        Node.read(file)
