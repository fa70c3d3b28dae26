"""The benchmarks measure what they say: the floors do the right arithmetic, and ratios are those of pairs."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks import floor_cnn4, floor_convnet4, floor_network
from benchmarks.__main__ import bench as command
from benchmarks.contenders import arrays, contender, parse
from benchmarks.floor_network import Training
from benchmarks.history import last_like, worsened
from benchmarks.measuring import bench, names, summarize
from benchmarks.processes import _shares, in_processes
from benchmarks.processor import processor_seconds
from benchmarks.workload import Goal, Measured, Workload, measured_round
from benchmarks.workloads.million_clients import Rows
from torch.nn import functional as F

from partita.algorithms.fedavg import fedavg
from partita.core.batching import Batching
from partita.data.federation import federate
from partita.data.sources.digits import digits
from partita.engine.reference import run_phase
from partita.errors import PartitaError
from partita.models.cnn4 import cnn4
from partita.models.convnet4 import convnet4
from partita.models.har_convnet import har_convnet
from partita.models.mlp import mlp


def test_workloads_are_found_by_name() -> None:
    assert {"cnn4_cifar10", "overhead", "small_mlp", "word_transformer_fedalt"} <= set(names())
    assert {"cnn4_cifar10", "mobilenet_fedbabu"} <= set(names(quick=True)) < set(names())


def _found(date: str, **ratios: float) -> dict[str, Any]:
    goals: dict[str, dict[str, Any]] = {
        "floor": {"slow": "partita", "fast": "floor", "at_least": None, "at_most": 1.15, "processor_ratio": None},
        "peer": {"slow": "peer", "fast": "partita", "at_least": 2.0, "at_most": None, "processor_ratio": None},
    }
    kept = [goals[name] | {"ratio": ratio} for name, ratio in ratios.items()]
    return {"date": date, "processor": "some", "workloads": {"one": {"goals": kept}}}


def test_a_ratio_that_worsens_is_told(tmp_path: Path) -> None:
    before = _found("2026-01-01", floor=1.0, peer=3.0)
    assert worsened(_found("2026-01-02", floor=1.14, peer=2.7), before) == []
    [line] = worsened(_found("2026-01-02", floor=1.16, peer=9.0), before)
    assert line == "one: partita / floor was 1.00 and is 1.16."
    assert len(worsened(_found("2026-01-02", floor=0.5, peer=2.6), before)) == 1
    assert worsened(_found("2026-01-02", floor=9.0), {"workloads": {}}) == [], "there is nothing to compare with"
    newest = _found("2026-01-03", floor=2.0)
    for number, each in enumerate([before, newest, _found("2026-01-09", floor=7.0) | {"processor": "other"}]):
        (tmp_path / f"{number}.json").write_text(json.dumps(each))
    assert last_like(_found("2026-01-10"), tmp_path) == newest


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not tell")
def test_processor_seconds_count_the_children() -> None:
    before = processor_seconds()
    child = subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"], check=True)
    after = processor_seconds()
    assert child.returncode == 0
    assert before is not None
    assert after is not None
    assert after - before > 0.2


def test_the_floor_of_cnn4_takes_the_step_of_autograd() -> None:
    torch.manual_seed(0)
    model = cnn4(shape=(3, 32, 32), classes=10)
    images, labels = torch.randn(7, 3, 32, 32), torch.randint(10, (7,))
    own = floor_cnn4.prepared({name: tensor.detach() for name, tensor in model.named_parameters()})
    floor_cnn4.step(own, images.contiguous(memory_format=torch.channels_last), labels, 0.05)
    loss = F.cross_entropy(model(images), labels)
    slopes = torch.autograd.grad(loss, list(model.parameters()))
    for (name, before), slope in zip(model.named_parameters(), slopes, strict=True):
        torch.testing.assert_close(own[name], before.detach() - 0.05 * slope, rtol=1e-4, atol=1e-6)
    answers = model(images).argmax(1)
    start = floor_cnn4.prepared({name: tensor.detach() for name, tensor in model.named_parameters()})
    assert floor_cnn4.right_answers(start, images, answers, batch=3) == 7


def test_the_floor_of_4convnet_has_the_gradients_of_autograd() -> None:
    model = convnet4(shape=(3, 32, 32), classes=10)
    images, labels = torch.randn(6, 3, 32, 32), torch.randint(10, (6,))
    *body, weight, bias = model.parameters()
    wanted = torch.autograd.grad(F.cross_entropy(model(images), labels), body)
    last = images.contiguous(memory_format=torch.channels_last)
    found = floor_convnet4.gradients([each.detach() for each in body], (weight, bias), last, labels)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_the_floor_of_a_chain_has_the_gradients_of_autograd() -> None:
    network = har_convnet(shape=(6, 128), classes=4)
    windows, labels = torch.randn(5, 6, 128), torch.randint(4, (5,))
    weights = list(network.parameters())
    wanted = torch.autograd.grad(F.cross_entropy(network(windows), labels), weights)
    by_hand, by_autograd = (
        floor_network.gradients(network, loss, weights, windows.dim()) for loss in (F.cross_entropy, _cross_entropy)
    )
    for function in (by_hand, by_autograd):
        for one, other in zip(function(windows, labels), wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    assert by_hand.__name__ != by_autograd.__name__


def _cross_entropy(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """One that is not known to be what chains are run backwards from."""
    return F.cross_entropy(scores, labels)


def test_operations_of_a_floor_by_hand() -> None:
    network, inputs = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)), torch.randn(3, 4)
    forward, last = 2 * 3 * (4 * 8 + 8 * 2), 2 * 3 * 8 * 2
    trainings = [Training(0.1, epochs=2), Training(0.1, trained=lambda name: name.startswith("1."))]
    assert floor_network.operations(network, inputs, [], 5) == 5 * forward
    assert floor_network.operations(network, inputs, trainings, 0) == 2 * 3 * forward + 2 * forward + last


def test_processes_share_clients_by_size() -> None:
    assert _shares([5, 1, 4, 2], 2) == [[0, 1], [2, 3]]


def test_processes_do_every_client_once_and_once_before(tmp_path: Path) -> None:
    def prepare(clients: Sequence[int]) -> Callable[[], None]:
        def work() -> None:
            for client in clients:
                with (tmp_path / str(client)).open("a") as file:
                    file.write("x")

        return work

    found = in_processes(prepare, [3, 1, 2])
    assert found.seconds > 0
    assert found.processor is not None
    # Once to fetch memory, and once more, which is timed.
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"0": "xx", "1": "xx", "2": "xx"}


def test_ratios_are_those_of_pairs_and_not_of_medians() -> None:
    workload = Workload("", {}, [Goal("a", "b", at_least=2.0)], most_megabytes={"a": 1.0})
    values = {
        "a": [Measured(2, 1.0), Measured(9, 2.0), Measured(40, 3.0)],
        "b": [Measured(1), Measured(9), Measured(10)],
    }
    found = summarize(workload, values)
    # The pairs' ratios are 2, 1 and 4; the medians' would be 1.
    assert found["goals"][0]["ratio"] == 2.0
    assert found["goals"][0]["met"]
    assert found["contenders"]["a"]["seconds"] == 9
    assert found["limits"] == [{"contender": "a", "unit": "megabytes", "at_most": 1.0, "met": False}]


def test_a_goal_has_two_sides() -> None:
    assert not Goal("a", "b", at_most=1.15).met(1.16)
    assert Goal("a", "b", at_most=1.15).met(1.15)
    assert not Goal("a", "b", at_least=3.0).met(2.9)


def test_seconds_are_those_of_rounds_without_the_evaluation_at_the_end() -> None:
    found = measured_round(fedavg(), mlp, federate(digits()), batching=Batching(50), evaluated=False, on="inline")
    assert 0 < found.seconds < 60


def test_any_engine_can_be_measured() -> None:
    called: list[int] = []

    def counting(*given: Any) -> Any:
        called.append(1)
        return run_phase(*given)

    found = measured_round(fedavg(), mlp, federate(digits()), evaluated=False, on="inline", run_phase=counting)
    assert 0 < found.seconds < 60
    assert called


def test_rows_of_a_population_are_worked_out() -> None:
    rows = Rows(1_000_000, 100)
    assert rows[7]["train"].tolist() == list(range(40, 56))
    assert rows[999_999]["test"].tolist() == [98, 99]
    assert [each["test"].tolist() for each in rows[:2]] == [[18, 19], [38, 39]]
    with pytest.raises(IndexError):
        rows[1_000_000]


def test_a_peer_gets_the_same_rows() -> None:
    data = federate(digits())
    held = arrays(data)
    assert held["train_sizes"].tolist() == data.sizes
    begin = sum(data.sizes[:3])
    np.testing.assert_array_equal(held["train_inputs"][begin : begin + data.sizes[3]], data[3].train.inputs.numpy())
    assert held["train_sizes"].sum() + held["test_sizes"].sum() == 1797


def test_a_driver_is_started_with_place_workload_and_file(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drivers = own_folder / "benchmarks" / "peers"
    drivers.mkdir(parents=True)
    text = "import sys, os, json; assert 'OMP_NUM_THREADS' not in os.environ; assert sys.argv[2] == 'mine'; "
    (drivers / "other.py").write_text(text + "print('noise'); print(json.dumps({'seconds': float(sys.argv[3])}))")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    places = parse([f"other={own_folder}"])
    assert contender("other", places["other"], "mine", Path("1.5"))() == Measured(1.5)
    with pytest.raises(PartitaError, match="failed"):
        contender("other", places["other"], "another", Path("1.5"))()
    with pytest.raises(PartitaError, match="other"):
        parse(["unknown=here"])


def test_unknown_workloads_and_no_repetitions_are_refused() -> None:
    with pytest.raises(PartitaError, match="small_mlp"):
        bench(["large_mlp"])
    with pytest.raises(PartitaError, match="at least 1"):
        bench([], repeat=0)


def test_history_can_be_read() -> None:
    for file in (Path(__file__).parents[2] / "benchmarks" / "history").glob("*.json"):
        assert {"date", "environment", "workloads"} <= json.loads(file.read_text()).keys()


def test_the_folder_of_the_output_is_made_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "new" / "found.json"
    found: dict[str, Any] = {"workloads": {}}

    def measure(*_: object, **__: object) -> dict[str, Any]:
        assert output.parent.is_dir()
        return found

    monkeypatch.setattr("benchmarks.__main__.measure", measure)
    command([], output=output, as_json=True)
    assert json.loads(output.read_text(encoding="utf-8")) == found
