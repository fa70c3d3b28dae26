"""Clients that are left out: which, for how long, how the run says so, and that nothing else changes."""

import csv
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import partita
from bits import bits, digest
from partita import DivergedError, Event, PartitaError, RoundEnded, fedavg, fedper
from partita.core.algorithm import Algorithm
from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.samples import Samples
from partita.data.federation import Federation
from partita.experiment.left_out import LeftOut, in_a_row, left_out_text
from partita.experiment.simulate import simulate
from partita.tensors import Tensors
from toys import exploding, small_federation, small_network

SICK = 1


def clients(value: float = math.nan) -> Federation:
    data = small_federation((6, 5, 7, 8))
    inputs = data.samples.inputs.clone()
    inputs[data.roles[SICK]["train"]] *= value
    return replace(data, samples=Samples(inputs, data.samples.targets), names=("anna", "ben", "cleo", "dora"))


DATA = clients()
OPTIONS: dict[str, Any] = {"rounds": 5, "seed": 1, "batching": Batching(3), "on_sick_client": "leave_out"}
EVERY_SECOND = [[0, 1, 2], [0, 2, 3]]


def keep(folder: Path, **options: Any) -> partita.Run:
    given = {**OPTIONS, "baselines": False, "on": "inline", **options}
    made: partita.Run = partita.run(fedper(epochs=1), small_network(), DATA, folder=folder, **given)
    return made


def uploading(value: float, who: int = SICK) -> Algorithm:
    """FedAvg, of which one client sends the same number everywhere."""

    def upload(before: Tensors, after: Tensors, client: Client) -> tuple[Tensors, Tensors | None]:
        if client.id == who:
            after = {name: torch.full_like(tensor, value) for name, tensor in after.items()}
        return after, None

    return replace(fedavg(), upload=upload)


def in_single_precision() -> tuple[torch.nn.Module, Federation]:
    sound = small_federation((6, 5, 7))
    samples = Samples(sound.samples.inputs.float(), sound.samples.targets)
    return small_network(norm=False).float(), replace(sound, samples=samples)


@pytest.mark.parametrize("value", [-3e38, math.inf, math.nan, 1e20])
def test_an_update_that_overflows_never_enters_the_mean(value: float) -> None:
    model, data = in_single_precision()
    options: dict[str, Any] = {"rounds": 1, "on": "inline", "batching": Batching(3)}
    with pytest.raises(DivergedError, match=r"The update of client 1 in round 1 has a norm of .*; it must be finite"):
        simulate(uploading(value), model, data, **options)
    found = simulate(uploading(value), model, data, on_sick_client="leave_out", **options)
    without = simulate(fedavg(), model, data, participation=[[0, 2]], **options)
    assert digest(found.state) == digest(without.state)
    assert [each.client for each in found.left_out] == [1]


def test_a_bound_on_the_norm() -> None:
    model, data = in_single_precision()
    options: dict[str, Any] = {"rounds": 1, "on": "inline", "batching": Batching(3), "on_sick_client": "leave_out"}
    count = sum(tensor.numel() for tensor in model.parameters())
    # The network's weights are below 1, so that the norm is that of 50 - w over all of them.
    norm = math.sqrt(sum(float((50 - tensor.detach().double()).square().sum()) for tensor in model.parameters()))
    assert 49 * math.sqrt(count) < norm < 51 * math.sqrt(count)
    below, above = (
        simulate(uploading(50.0), model, data, max_update_norm=bound, **options) for bound in (norm * 0.99, norm * 1.01)
    )
    assert [each.problem.partition(". ")[0] for each in below.left_out] == [
        f"The update of client 1 in round 1 has a norm of {norm:.3g}; at most {norm * 0.99:g} is allowed "
        "(max_update_norm)"
    ]
    assert above.left_out == []


def test_any_number_of_workers_gives_the_same_bits() -> None:
    found = [
        simulate(fedper(epochs=1), small_network(), DATA, **{**OPTIONS, "rounds": 2, "on": on})
        for on in ("inline", "processes:1", "processes:2")
    ]
    assert len({bits(each) for each in found}) == 1
    assert found[0].left_out == found[1].left_out == found[2].left_out != []


def test_a_run_that_goes_on_counts_on(tmp_path: Path) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, RoundEnded) and event.round == 2:
            raise KeyboardInterrupt

    whole = keep(tmp_path / "whole", participation=EVERY_SECOND, rounds=7)
    with pytest.raises(KeyboardInterrupt):
        keep(tmp_path / "parts", participation=EVERY_SECOND, rounds=7, on_event=stop)
    parts = keep(tmp_path / "parts", participation=EVERY_SECOND, rounds=7)
    assert parts.stored.left_out == whole.stored.left_out
    assert [(each.round, each.in_a_row) for each in whole.stored.left_out] == [(1, 1), (3, 2), (5, 3), (7, 4)]
    assert digest(parts.server_state()) == digest(whole.server_state())
    assert parts.client_state("ben") == {}, "it never finished a round"


def test_a_sound_round_between_begins_anew() -> None:
    last = LeftOut(round=4, client=SICK, name="ben", in_a_row=2, problem="")
    assert in_a_row(SICK, 7, last, lambda at: [0]) == 3, "it did not take part in rounds 5 and 6"
    assert in_a_row(SICK, 7, last, lambda at: [0, SICK] if at == 5 else [0]) == 1
    assert in_a_row(SICK, 7, None, lambda at: [SICK]) == 1


def test_everyone_left_out_is_no_run() -> None:
    rate = fedper(epochs=2, optimizer=exploding(1e200))
    words = r"All clients that took part in (the last 3 rounds|1 round) were left out, so nothing is learned\. The loss"
    for rounds in (1, 5):
        with pytest.raises(PartitaError, match=words):
            simulate(rate, small_network(), small_federation((6, 5)), **{**OPTIONS, "rounds": rounds, "on": "inline"})


def test_the_run_says_so_everywhere(tmp_path: Path, told: Callable[..., str]) -> None:
    made = keep(tmp_path / "run", rounds=3)
    line = left_out_text(made.stored.left_out)
    problem = made.stored.left_out[-1].problem
    assert line == (
        "Left out: 1 client in 3 rounds. The models are without their updates of these rounds. The last reason: "
        f"{problem} At least 3 rounds in a row: ben."
    )
    assert f"{line}\n" in told("show", str(tmp_path / "run"))
    rows = json.loads(told("show", str(tmp_path / "run"), "--json"))["left_out"]
    assert [(row["round"], row["name"], row["in_a_row"]) for row in rows] == [
        (1, "ben", 1),
        (2, "ben", 2),
        (3, "ben", 3),
    ]
    assert all(row["problem"].startswith("The loss of client ben became nan in round") for row in rows)
    assert line in made.report().read_text(encoding="utf-8")
    told("export", str(tmp_path / "run"), "--csv", str(tmp_path / "tables"))
    with (tmp_path / "tables" / "left_out.csv").open() as file:
        assert [row["client"] for row in csv.DictReader(file)] == ["1", "1", "1"]
    told("verify", str(tmp_path / "run"))


def test_the_terminal_counts_and_then_names(capfd: pytest.CaptureFixture[str]) -> None:
    from partita.cli.events import show_events

    with show_events(True) as on_event:
        simulate(fedper(epochs=1), small_network(), DATA, on_event=on_event, **{**OPTIONS, "rounds": 3, "on": "inline"})
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if "left out" in line and "in a row" not in line] == [
        f"Note: run: round {number}: 1 client left out" for number in (1, 2, 3)
    ]
    assert [line.partition(". ")[0] for line in lines if "in a row" in line] == [
        "Note: ben was left out of 3 rounds in a row"
    ]


def test_a_feature_that_is_far_too_large_ends_nothing() -> None:
    found = simulate(fedavg(), small_network(norm=False), clients(1e200), **{**OPTIONS, "rounds": 2, "on": "inline"})
    assert {each.client for each in found.left_out} == {SICK}
    assert all(map(math.isfinite, (record.loss for record in found.records)))
