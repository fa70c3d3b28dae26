"""Whether a client is hurt is decided in pairs of stored answers, the same wherever it is said."""

import csv
import json
import sqlite3
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import partita
from partita import SGD, digits, fedavg, fedbabu, federate, fedper, from_clients, iid, mlp, without_head
from partita.core.batching import Batching
from partita.data.federation import Federation
from partita.evaluation.intervals import paired_shares
from partita.experiment.simulate import simulate
from partita.report.study import study
from partita.runs.database import DATABASE
from partita.runs.stored import read_run
from toys import small_federation, small_network

OPTIONS: dict[str, Any] = {"rounds": 3, "batching": Batching(4), "baselines": "quick", "on": "inline"}
DATA = small_federation((40, 50, 60))


def regression() -> Federation:
    draw = torch.Generator().manual_seed(0)
    samples = {}
    for name, slope in (("anna", 1.0), ("ben", -1.0), ("cleo", 0.5)):
        inputs = torch.randn(40, 2, generator=draw)
        samples[name] = (inputs, slope * inputs[:, 0] + 0.3 * torch.randn(40, generator=draw))
    return from_clients(samples, kind="regression")


class Line(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = torch.nn.Linear(2, 3), torch.nn.Linear(3, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.head(torch.tanh(self.body(inputs)))
        return outputs


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> partita.Run:
    place = tmp_path_factory.mktemp("kept")
    made: partita.Run = partita.run(fedbabu(epochs=1), small_network(), DATA, folder=place / "run", **OPTIONS)
    return made


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> partita.Runs:
    place = tmp_path_factory.mktemp("errors")
    rate = SGD(0.05)
    made: partita.Runs = partita.run(
        fedper(epochs=1, optimizer=rate), Line, regression(), folder=place / "run", seeds=2, **OPTIONS
    )
    return made


def test_answers_are_those_that_the_score_counts(kept: partita.Run) -> None:
    """Of the last round, the model in use and the test data alone; also of every baseline, the derived one too."""
    runs = [kept.stored, *(each.run for each in kept.baselines.found.values())]
    assert len(runs) == 4
    for run in runs:
        assert {(each.round, each.variant) for each in run.outcomes} == {(3, run.record.variant)}
        for client, record in run.tested().items():
            counts, right = run.outcomes_by_client()[client].numbers
            assert (sum(counts), sum(right)) == (record.count, record.correct)


def test_intervals_are_of_the_models_answers(kept: partita.Run) -> None:
    """Asked anew, sample by sample, of the personal model and of the global baseline's."""
    [found] = [each for each in kept.gains() if each.over == "global"]
    beside = partita.Run(kept.baselines.found["global"].run.folder, None)
    result = simulate(
        fedavg(epochs=1, optimizer=SGD(0.1)), small_network(), DATA, rounds=3, batching=Batching(4), on="inline"
    )
    assert [each.score for each in result.select()] == list(beside.stored.scores().values())
    for client, interval in zip(found.clients, found.intervals, strict=True):
        test = DATA[client].test
        mine, theirs = (
            model(test.inputs).argmax(1) == test.targets
            for model in (kept.model(client, guarded=False), result.model(client))
        )
        better, worse = int((mine & ~theirs).sum()), int((theirs & ~mine).sum())
        assert interval == paired_shares(better, worse, len(test))
    assert found.paired
    assert all(each.paired for each in kept.gains() if each.over != "floor")


def test_the_guard_counts_as_the_gains_do(kept: partita.Run) -> None:
    """Hurt and surely hurt against the global model are one number each, whoever says it."""
    [found] = [each for each in kept.gains() if each.over == "global"]
    guarded = kept.guard()
    assert (guarded["hurt_before"], guarded["surely_before"]) == (len(found.hurt), len(found.surely))


def test_errors_have_intervals_too(errors: partita.Runs, tmp_path: Path, told: Callable[..., str]) -> None:
    for run in errors:
        for gain in run.gains():
            assert gain.has_intervals == gain.paired == (gain.over != "floor")
            if gain.paired:
                for change, interval in zip(gain.gains, gain.intervals, strict=True):
                    assert interval
                    assert interval[0] <= change <= interval[1]
    told("export", str(errors.folder), "--csv", str(tmp_path))
    with (tmp_path / "gains.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["over"] == "global"]
    assert len(rows) == 6
    assert all(float(row["low"]) <= float(row["gain"]) <= float(row["high"]) for row in rows)
    surely = sum(row["hurt"] == "surely" for row in rows)
    [method] = json.loads(told("show", str(errors.folder), "--json"))["methods"]
    assert method["hurt"]["global"] == {
        "count": sum(row["hurt"] != "not" for row in rows),
        "surely": surely,
        "of": 6,
    }
    assert {each["name"] for each in method["clients"]["global"]} == {"anna", "ben", "cleo"}
    [shown] = study([errors.folder]).methods
    assert shown.surely_count("global") == surely


def test_seeds_have_means_and_a_guard_in_python_as_on_the_command_line(
    tmp_path: Path, told: Callable[..., str]
) -> None:
    data, network = federate(digits(), iid(clients=3)), partial(mlp, hidden=4)
    made = partita.run(fedper(epochs=1), network, data, folder=tmp_path / "run", seeds=2, **{**OPTIONS, "rounds": 1})
    found = made.evaluate(without_head(clients=2))
    assert [list(each.found) for each in found.runs] == [["without_head"]] * 2
    command = json.loads(told("evaluate", str(made.folder), "--json", "--what", "without_head", "--clients", "2"))
    for row, cells in command["groups"]["fedper"]["means"]["without_head"].items():
        for column, mean in cells.items():
            assert asdict(found.means["without_head"][row][column]) == pytest.approx(mean)
    guarded = made.guard()
    assert guarded["clients"] == 6
    command = json.loads(told("guard", str(made.folder), "--json"))["groups"]["fedper"]
    assert {key: command[key] for key in guarded} == pytest.approx(guarded)


def test_what_is_stored_grows_with_test_samples_alone(kept: partita.Run) -> None:
    """A bit for each, however many rounds and models there were; and the database is whole."""
    connection = sqlite3.connect(kept.folder / DATABASE)
    rows = connection.execute('SELECT stage, round, client, variant, form, samples, "values" FROM outcomes').fetchall()
    connection.close()
    assert [(stage, client, form) for stage, _, client, _, form, _, _ in rows] == [
        ("run", client, "answers") for client in range(3)
    ]
    assert all(len(values) <= 4 * -(-samples // 24) for *_, samples, values in rows)


def test_a_run_that_is_not_done_has_no_answers_yet(tmp_path: Path) -> None:
    """Its gains fall back to totals, and say so."""

    def stop(event: partita.Event) -> None:
        if isinstance(event, partita.RoundEnded) and event.round == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        partita.run(
            fedper(epochs=1), small_network(), DATA, folder=tmp_path, **{**OPTIONS, "baselines": False}, on_event=stop
        )
    stored = read_run(tmp_path)
    assert stored.last == 2
    assert stored.outcomes_by_client() == {}
