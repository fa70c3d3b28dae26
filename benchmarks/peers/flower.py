"""Times rounds of Flower's simulation on Ray: python flower.py ENVIRONMENT WORKLOAD DIVISION.npz

FedAvg with its message interface, one core for each client, rounds after the first two; no evaluation.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn
from torch.nn import functional as F

sys.path.append(str(Path(__file__).resolve().parents[2]))
from benchmarks.processor import processor_seconds

BATCH, RATE = 10, 0.05


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environment", type=Path)
    parser.add_argument("workload", choices=["small_mlp", "ray_cluster"])
    parser.add_argument("division", type=Path)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    # A mapped file each, so that a client reads its own rows and no others.
    folder = options.division.resolve().parent
    with np.load(options.division) as held:
        sizes = held["train_sizes"]
        for name in ("train_inputs", "train_targets"):
            np.save(folder / f"{name}.npy", held[name])
    client_app, server_app = ClientApp(), ServerApp()
    times: list[float] = []
    worked: list[float] = []

    @client_app.train()
    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        client = int(context.node_config["partition-id"])
        begin = int(sizes[:client].sum())
        rows = slice(begin, begin + int(sizes[client]))
        inputs, targets = (
            torch.from_numpy(np.load(folder / f"{name}.npy", mmap_mode="r")[rows].copy())
            for name in ("train_inputs", "train_targets")
        )
        model = network()
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        for chosen in torch.split(torch.randperm(len(targets)), BATCH):
            optimizer.zero_grad()
            F.cross_entropy(model(inputs[chosen]), targets[chosen]).backward()
            optimizer.step()
        content = RecordDict(
            {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": len(targets)})}
        )
        return Message(content=content, reply_to=message)

    class Timed(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):  # type: ignore[no-untyped-def]
            times.append(time.perf_counter())
            worked.append(processor_seconds() or 0.0)
            return super().configure_train(server_round, arrays, config, grid)

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy = Timed(fraction_train=100 / len(sizes), fraction_evaluate=0.0, min_available_nodes=len(sizes))
        strategy.start(grid=grid, initial_arrays=ArrayRecord(network().state_dict()), num_rounds=options.rounds)

    run_simulation(
        server_app=server_app,
        client_app=client_app,
        num_supernodes=len(sizes),
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    rounds = np.diff(times)[1:].tolist()
    processor = statistics.median(np.diff(worked)[1:].tolist())
    print(json.dumps({"seconds": statistics.median(rounds), "processor": processor, "all": rounds}))


if __name__ == "__main__":
    main()
