"""Python objects are first class: kept, resumed to the same bits, refused if changed, and read again."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import partita.data.sources.digits as digits_source
from partita import (
    NETWORK,
    SGD,
    Algorithm,
    Event,
    Federation,
    PartitaError,
    Phase,
    RoundEnded,
    Run,
    compare,
    digits,
    fedavg,
    federate,
    fedper,
    from_clients,
    iid,
    load_exported,
    mlp,
    npz,
    open as open_run,
    run,
    where,
)
from partita.api.run import keep
from partita.data.split import Split
from partita.experiment.settings.files import make
from partita.randomness import Moment

NAMES = ("anna", "ben", "cleo", "dora")


class Net(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body, self.out = nn.Sequential(nn.Linear(4, 5), nn.ReLU()), nn.Linear(5, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        found: Tensor = self.out(self.body(inputs))
        return found


def smooth(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, targets, label_smoothing=0.1)


def measure(outputs: Tensor, targets: Tensor) -> dict[str, float]:
    right = int((outputs.argmax(1) == targets).sum())
    return {"count": len(targets), "correct": right, "loss": float(smooth(outputs, targets)) * len(targets)}


def mine() -> Algorithm:
    phases = (Phase(NETWORK, SGD(0.1)),)
    return Algorithm(name="mine", shared=where("body.*"), personal=where("out.*"), phases=phases)


def data() -> Federation:
    draw = torch.Generator().manual_seed(0)
    rows = {name: (torch.randn(20, 4, generator=draw), torch.randint(3, (20,), generator=draw)) for name in NAMES}
    return from_clients(rows, newcomers=1, classes=3)


def made(folder: Path, **more: Any) -> Run:
    options: dict[str, Any] = {"rounds": 3, "loss": smooth, "measure": measure, "groups": {"tail": "out.*"}, **more}
    found: Run = run(mine(), Net, data(), folder=folder, on="inline", **options)
    return found


def states(found: Run) -> list[dict[str, Tensor]]:
    return [found.server_state(), *(found.client_state(name) for name in NAMES)]


def interrupt(event: Event) -> None:
    if isinstance(event, RoundEnded) and event.round == 2:
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return made(tmp_path_factory.mktemp("runs") / "whole")


def test_an_interrupted_run_of_objects_ends_with_the_same_bits(whole: Run, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path / "cut", on_event=interrupt)
    assert open_run(tmp_path / "cut").stored.done in (1, 2)
    again = made(tmp_path / "cut")
    for one, other in zip(states(whole), states(again), strict=True):
        assert list(one) == list(other)
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert whole.scores() == again.scores()


def test_a_run_of_objects_cannot_be_resumed_without_them(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path / "cut", on_event=interrupt)
    with pytest.raises(PartitaError, match=r"objects that settings cannot describe: .*Call partita\.run with the same"):
        open_run(tmp_path / "cut").resume()


def test_data_of_a_named_source_need_no_objects(tmp_path: Path) -> None:
    """Made in Python with plain arguments, they are recorded by name, as the command line does."""
    options: dict[str, Any] = {"rounds": 3, "baselines": False, "on": "inline"}
    divided = federate(digits(), iid(clients=4), validation=0.1, seed=3)
    with pytest.raises(KeyboardInterrupt):
        run(fedper(), mlp, divided, folder=tmp_path / "cut", on_event=interrupt, **options)
    told = open_run(tmp_path / "cut").stored.record.experiment["data"]
    assert (told["name"], told["validation"], told["seed"]) == ("digits", 0.1, 3)
    assert (told["split"]["name"], told["split"]["clients"]) == ("iid", 4)
    again = open_run(tmp_path / "cut").resume()
    assert again.stored.finished
    whole = run(fedper(), mlp, divided, folder=tmp_path / "whole", **options)
    for number in range(4):
        one, other = whole.client_state(number), again.client_state(number)
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_what_no_source_makes_again_is_an_object(tmp_path: Path) -> None:
    """A changed pool, a split of one's own, and arguments that no file can hold."""
    assert federate(digits()).settings == {"name": "digits", "seed": 0, "split": federate(digits()).origin["split"]}
    assert federate(replace(digits(), name="mine")).settings is None
    assert federate(digits().normalized([0.5], [0.5])).settings is None
    own = Split("iid", {"clients": 2}, assign=lambda pool, draw: iid(clients=2).assign(pool, draw))
    assert federate(digits(), own).settings is None
    np.savez(tmp_path / "mine.npz", x=np.random.default_rng(0).normal(size=(60, 3)), y=np.arange(60) % 3)
    named = federate(npz(path=str(tmp_path / "mine.npz")), iid(clients=2))
    assert named.settings
    assert named.settings["path"] == str(tmp_path / "mine.npz")
    assert federate(npz(path=tmp_path / "mine.npz"), iid(clients=2)).settings is None  # type: ignore[arg-type]


def other_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs, targets, label_smoothing=0.2)


def test_changed_objects_are_refused_with_what_differs(whole: Run) -> None:
    with pytest.raises(PartitaError, match=r"holds another experiment: loss .*Give the same objects"):
        made(whole.folder, loss=other_loss)
    with pytest.raises(PartitaError, match=r"holds another experiment: rounds is 4, and was 3"):
        made(whole.folder, rounds=4)
    with pytest.raises(PartitaError, match=r"holds another experiment: .*algorithm \(mine\) has other values"):
        run(replace(mine(), phases=(Phase(NETWORK, SGD(0.2)),)), Net, data(), folder=whole.folder, rounds=3)


def test_a_run_has_baselines_guard_newcomers_and_a_report(whole: Run) -> None:
    assert [gain.over for gain in whole.gains()] == ["floor", "local", "global", "global + fine-tune"]
    assert not whole.lost
    assert "guard" in whole.stored.analyses
    [newcomer] = whole.stored.record.newcomers
    assert set(whole.scores()) == set(NAMES) - {NAMES[newcomer]}
    page = whole.report()
    assert page.parent == whole.folder
    assert all(name in page.read_text(encoding="utf-8") for name in whole.scores())


def test_records_are_a_table_with_names(whole: Run) -> None:
    table = whole.table()
    rows = table.to_dict("records") if find_spec("pandas") else table
    assert {row["name"] for row in rows} == set(NAMES)
    assert {"round", "client", "variant", "role", "count", "correct", "loss", "score"} <= rows[0].keys()


def test_a_run_is_opened_and_compared(whole: Run, tmp_path: Path) -> None:
    opened = open_run(whole.folder)
    assert opened.scores() == whole.scores()
    other = run(fedavg(), Net, data(), folder=tmp_path / "fedavg", rounds=3, baselines=False, on="inline")
    found = compare(opened, other, baseline="fedavg")
    assert [each.method for each in found.differences] == ["mine"]
    with pytest.raises(PartitaError, match=r"has no client called 'ana'\. Did you mean 'anna'"):
        opened.client_state("ana")


def test_a_new_client_joins_a_run_of_objects(whole: Run, tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(7)
    inputs = torch.randn(60, 4, generator=draw)
    labels = (inputs[:, 0] > 0).long() + (inputs[:, 1] > 0).long()
    few = (inputs[:40], labels[:40])
    before = whole.onboard("eve", *few, test=(inputs[40:], labels[40:].tolist()), epochs=0)
    after = whole.onboard(
        "eve", *few, test=(inputs[40:].numpy(), labels[40:]), optimizer=SGD(0.5), folder=tmp_path / "eve"
    )
    assert after.samples == 40
    assert after.scores["personal"] > before.scores["personal"] + 0.1, "the head learns the labels of its own"
    own, others = after.exported.own.tensors, whole.model("anna", guarded=False).network.state_dict()
    assert {name for name in own if not torch.equal(own[name], others[name])} == {"out.weight", "out.bias"}
    exported = load_exported(tmp_path / "eve", network=Net)
    assert exported.model("eve").predict(inputs).labels == after.model.predict(inputs).labels
    with pytest.raises(PartitaError, match=r"test data of fay: 2 inputs, but 1 labels"):
        whole.onboard("fay", *few, test=(inputs[:2], [0]))
    with pytest.raises(PartitaError, match="The data of fay has no labels"):
        whole.onboard("fay", inputs)
    with pytest.raises(PartitaError, match="has a client called 'anna' already"):
        whole.onboard("anna", *few)
    with pytest.raises(PartitaError, match="is there already"):
        whole.onboard("eve", *few, folder=tmp_path / "eve")


def test_a_function_chooses_who_takes_part(tmp_path: Path) -> None:
    def turns(clients: int, moment: Moment) -> list[int]:
        return [client for client in range(clients) if client % 2 == moment.round % 2]

    found = run(
        mine(), Net, data(), folder=tmp_path / "turns", rounds=2, participation=turns, baselines=False, on="inline"
    )
    assert [{each.client for each in found.stored.traffic if each.round == at} for at in (1, 2)] == [{0, 2}, {1}]
    assert "clients that turns chooses take part" in found.report().read_text()


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], list[object]]:
    """Counts the calls of a function."""

    def counting(owner: Any, name: str) -> list[object]:
        calls: list[object] = []
        real = getattr(owner, name)

        @wraps(real)
        def called(*given: Any, **more: Any) -> Any:
            calls.append(given)
            return real(*given, **more)

        monkeypatch.setattr(owner, name, called)
        return calls

    return counting


def test_a_session_loads_everything_once(tmp_path: Path, count: Callable[[Any, str], list[object]]) -> None:
    """For a run and its quick baselines: one source, of each run one network, few connections to each database."""
    sources, opened = count(digits_source, "digits"), count(sqlite3, "connect")
    built = count(nn.Linear, "__init__")
    settings = {"rounds": 1, "model": "logistic", "data": {"name": "digits", "split": {"clients": 3}}}
    kept = keep(make({"algorithm": "fedavg", **settings}), tmp_path / "run", baseline_tuning=False, on="inline")
    kept.report()
    assert (len(sources), len(built)) == (1, 3), (
        "FedAvg is its own global model: local training and fine-tuning are beside it"
    )
    assert len(opened) <= 19, (
        "three runs; the report asks the database for each of its sums, and for none of them twice"
    )
