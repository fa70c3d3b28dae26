"""The authors' code gets our rows, participants and rates; a made-up checkout in its place tells what it got."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from benchmarks.authors import authors_run

from partita.errors import PartitaError
from partita.experiment.settings.files import make
from partita.recipes.result import RunResult

CHECKOUT = {
    "models/__init__.py": "",
    "models/Nets.py": """
import torch
class CNNCifar(torch.nn.Module):
    def __init__(self, args):
        super().__init__()
        self.features = torch.nn.Parameter(torch.zeros(()))
        self.linear = torch.nn.Parameter(torch.zeros(()))
class MobileNetCifar: ...
""",
    # Training adds the rate of each part, times the epochs that were asked for, and the mean label of the client.
    "models/Update.py": """
import torch
class LocalUpdate:
    def __init__(self, args, dataset, idxs):
        self.labels = [dataset[row][1] for row in idxs]
        assert dataset[idxs[0]][0].shape == (1, 8, 8) and args.local_bs == 7 and args.local_ep == 2
    def train(self, net, body_lr, head_lr, local_eps=1):
        with torch.no_grad():
            net.features += body_lr * local_eps + sum(self.labels) / len(self.labels)
            net.linear += head_lr * local_eps
        return net.state_dict(), 0.0
""",
    "models/test.py": """
def test_img_local(net, dataset, args, user_idx, idxs):
    return (100 * net.linear if len(idxs) else 0.0).item() + 1000 * user_idx, 0.0
""",
}


THEIRS = {"lr": 0.1, "momentum": 0.9, "schedule": "decay:0.1,0.5,0.75"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in CHECKOUT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "theirs"], check=True)
    return tmp_path


def settings(algorithm: dict[str, Any]) -> dict[str, Any]:
    return {
        "algorithm": algorithm,
        "model": "mlp",
        "data": {"name": "digits", "split": {"name": "iid", "clients": 4}},
        "rounds": 4,
        "participation": 0.5,
        "batching": {"size": 7},
    }


def ours(fingerprint: str) -> RunResult:
    scores = {"before_local": {"0": [0.5, 0.5]}, "after_finetune": {"0": [0.5, 0.5]}}
    return RunResult({}, 4, "accuracy", "after_finetune", fingerprint, 1.0, ["1", "3"], [9, 9], [9, 9], scores)


def test_rates_of_the_head_and_clients_are_those_of_the_run(checkout: Path) -> None:
    fedavg = settings({"name": "finetune", "on": {"name": "fedavg", "epochs": 2, "optimizer": THEIRS}})
    made = authors_run(ours(make(fedavg).data.fingerprint), fedavg, checkout, seeds=2)
    # Two rounds at 0.1, one at 0.01 and one at 0.001; five epochs at 0.001 before use.
    trained = 0.1 + 0.1 + 0.01 + 0.001
    assert made.scores["before_local"]["0"] == pytest.approx([10 + trained, 30 + trained])
    assert made.scores["after_finetune"]["1"] == pytest.approx([10 + trained + 0.005, 30 + trained + 0.005])
    assert "authors" in made.settings["code"]
    fedbabu = settings({"name": "fedbabu", "epochs": 2})
    made = authors_run(ours(make(fedbabu).data.fingerprint), fedbabu, checkout, seeds=1)
    assert made.scores["before_local"]["0"] == pytest.approx([10, 30])


def test_other_rows_are_refused(checkout: Path) -> None:
    with pytest.raises(PartitaError, match="not those of the stored run"):
        authors_run(ours("another"), settings({"name": "fedbabu", "epochs": 2}), checkout, seeds=1)


def test_other_rates_are_refused(checkout: Path) -> None:
    fedbabu = settings({"name": "fedbabu", "epochs": 2, "optimizer": {"lr": 0.2}})
    with pytest.raises(PartitaError, match="must train with SGD at a rate of"):
        authors_run(ours(make(fedbabu).data.fingerprint), fedbabu, checkout, seeds=1)
