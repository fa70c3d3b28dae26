"""An estimate agrees with the run: to the byte where nothing is masked."""

import json

import pytest
from typer.testing import CliRunner

from laws.methods import ALGORITHMS
from partita.cli.main import app
from partita.core.batching import Batching
from partita.experiment.executor import executor_of
from partita.experiment.experiment import Experiment
from partita.experiment.settings.estimate import estimate
from partita.experiment.settings.files import make, read
from partita.experiment.simulate import run_stages
from toys import small_federation, small_network


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_method_can_be_estimated(name: str) -> None:
    experiment = Experiment(
        ALGORITHMS[name], lambda **_: small_network(), small_federation(), rounds=2, batching=Batching(2)
    )
    found = estimate(experiment, workers=2)
    assert found.training_seconds > 0
    assert found.evaluation_seconds > 0
    assert found.round_seconds > found.server_seconds >= 0


@pytest.mark.parametrize("algorithm", ["fedper", "fedavg", "fedrep", "lg_fedavg", "scaffold", "fedbabu", "local"])
def test_bytes_are_those_of_the_run(algorithm: str) -> None:
    experiment = make(read(None, [f"algorithm={algorithm}", "rounds=2", "evaluate_every=0", "data.split.clients=4"]))
    found = estimate(experiment, workers=1)
    result = run_stages(experiment, executor_of("inline"))
    assert not found.masked
    assert found.bytes_down * 2 == sum(row.down for row in result.traffic)
    assert found.bytes_up * 2 == sum(row.up for row in result.traffic)


def test_counts_of_clients_rounds_and_evaluations() -> None:
    found = estimate(make(read(None, ["rounds=25", "participation=0.3", "evaluate_every=10"])), workers=2)
    assert (found.rounds, found.clients, found.clients_per_round, found.evaluations) == (25, 20, 6, 3)
    assert found.round_seconds > 0
    assert found.memory_bytes > 3 * 250 * 2**20


def test_the_command_says_all_of_it() -> None:
    done = CliRunner().invoke(app, ["estimate", "algorithm=fedavg", "rounds=3", "--json"])
    assert done.exit_code == 0, done.output
    # Batches of 10, everything shared: 4,810 numbers of 4 bytes for 20 clients.
    assert json.loads(done.stdout)["bytes_up"] == 4810 * 4 * 20
    assert "bytes per round" in CliRunner().invoke(app, ["estimate", "algorithm=fedavg", "rounds=3"]).output
