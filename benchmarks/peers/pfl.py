"""Times rounds of pfl-research on PyTorch: python pfl.py ENVIRONMENT WORKLOAD DIVISION.npz

FederatedAveraging on its simulated backend, in one process as it comes, rounds after the first two; no evaluation.
"""

import sys

# This file has the name of the package that it imports.
sys.path.pop(0)

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn import functional as F

BATCH, RATE = 10, 0.05


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.layers(inputs)
        return answer

    def loss(self, inputs: Tensor, targets: Tensor, eval: bool = False) -> Tensor:
        return F.cross_entropy(self(inputs), targets)

    def metrics(self, inputs: Tensor, targets: Tensor, eval: bool = True) -> dict[str, float]:
        return {}


class Clock(TrainingProcessCallback):  # type: ignore[misc]
    def __init__(self) -> None:
        self.times: list[float] = []

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):  # type: ignore[no-untyped-def]
        self.times.append(time.perf_counter())
        return False, Metrics()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environment", type=Path)
    parser.add_argument("workload", choices=["small_mlp"])
    parser.add_argument("division", type=Path)
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    with np.load(options.division) as held:
        sizes = held["train_sizes"]
        inputs, targets = torch.from_numpy(held["train_inputs"]), torch.from_numpy(held["train_targets"])
    # Networks this small are slower with more threads: the peer is given its best.
    torch.set_num_threads(1)
    begins = np.concatenate([[0], np.cumsum(sizes)])

    def dataset(user: int) -> Dataset:
        rows = slice(int(begins[user]), int(begins[user + 1]))
        return Dataset(raw_data=[inputs[rows], targets[rows]])

    users = FederatedDataset(dataset, get_user_sampler("random", list(range(len(sizes)))))
    network = Network()
    clock = Clock()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=options.rounds,
            evaluation_frequency=10**6,
            train_cohort_size=100,
            val_cohort_size=None,
        ),
        SimulatedBackend(training_data=users, val_data=users),
        PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), 1.0)),
        model_train_params=NNTrainHyperParams(local_num_epochs=1, local_learning_rate=RATE, local_batch_size=BATCH),
        model_eval_params=NNEvalHyperParams(local_batch_size=100),
        callbacks=[clock],
        send_metrics_to_platform=False,
    )
    rounds = np.diff(clock.times)[1:].tolist()
    print(json.dumps({"seconds": statistics.median(rounds), "all": rounds, "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
