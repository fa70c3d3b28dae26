"""Times a round of the FedAlt authors' code: python partial_personalization.py CHECKOUT WORKLOAD DIVISION.npz

Their networks, their FedAlt (`run_one_round`, both phases) and `test_all_clients` for one model, on as many threads as
it takes by itself. TensorFlow, which reads their data, and torchinfo, pandas and statsmodels, which summarise, are
stubs where they are missing: a loader of ours hands out the same rows, shuffled, and a weighted mean stands for their
table of quantiles. Both cost less than theirs. Their server's step is told an argument that torch added since.
"""

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from _stubs import stub
from torch.nn import functional as F
from torch.optim import _functional as functional

BATCHES = {"resnet18_gn_fedalt": 32, "word_transformer_fedalt": 64}
RATES = {"resnet18_gn_fedalt": 0.01, "word_transformer_fedalt": 0.1}


class Loader:
    """Batches of one client, in another order each time; the words of a text are a column, as their network wants."""

    def __init__(self, inputs: torch.Tensor, targets: torch.Tensor, batch: int) -> None:
        self.inputs, self.targets, self.batch = inputs, targets, batch

    def __len__(self) -> int:
        return -(-len(self.targets) // self.batch)

    def __iter__(self) -> Any:
        for rows in torch.split(torch.randperm(len(self.targets)), self.batch):
            x, y = self.inputs[rows], self.targets[rows]
            yield (x.t().contiguous(), y.t().contiguous()) if x.dim() == 2 else (x, y)


class Clients:
    def __init__(self, inputs: np.ndarray, targets: np.ndarray, sizes: np.ndarray, batch: int) -> None:
        ends = np.cumsum(sizes)[:-1]
        x, y = (np.split(values, ends) for values in (inputs, targets))
        self.loaders = [Loader(torch.from_numpy(a), torch.from_numpy(b), batch) for a, b in zip(x, y, strict=True)]
        self.available_clients = list(range(len(sizes)))

    def __len__(self) -> int:
        return len(self.loaders)

    def get_client_dataloader(self, client: int) -> Loader:
        return self.loaders[client]

    def get_loss_and_metrics_fn(self) -> Any:
        def loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            if targets.dim() == 1:
                return F.cross_entropy(scores, targets)
            return F.cross_entropy(scores.view(-1, scores.shape[-1]), targets.view(-1), ignore_index=0)

        def metrics(scores: torch.Tensor, targets: torch.Tensor) -> tuple[int, dict[str, float]]:
            right = (scores.argmax(-1) == targets).float().mean().item()
            return targets.numel(), {"loss": loss(scores, targets).item(), "accuracy": right}

        return loss, metrics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("workload", choices=BATCHES)
    parser.add_argument("division", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    stub(
        "torchvision",
        "torchvision.models",
        "torchinfo",
        "pandas",
        "statsmodels",
        "statsmodels.stats",
        "statsmodels.stats.weightstats",
    )
    sys.path.insert(0, str(options.checkout.resolve()))
    # Their loaders need TensorFlow Federated.
    stub("pfl.data")
    import pfl.metrics
    from pfl.models.emnist_resnet import EmnistResNetGN
    from pfl.models.wordlm_transformer import WordLMTransformer
    from pfl.optim import server_optimizers
    from pfl.optim.fedalt import FedAlt

    def summary(sizes: list[int], found: dict[str, list[float]]) -> dict[str, float]:
        return {name: float(np.average(values, weights=sizes)) for name, values in found.items()}

    pfl.metrics.summarize_client_metrics = summary
    server_optimizers.F = SimpleNamespace(sgd=partial(functional.sgd, maximize=False))
    batch = BATCHES[options.workload]
    with np.load(options.division) as held:
        train, test = (
            Clients(held[f"{role}_inputs"], held[f"{role}_targets"], held[f"{role}_sizes"], size)
            for role, size in (("train", batch), ("test", 256))
        )
        length = held["train_inputs"].shape[1]
    texts = options.workload.startswith("word")
    model = WordLMTransformer(length, 10_004, 256, 64, 1024, 4, 4, tied_weights=True) if texts else EmnistResNetGN()
    model.split_server_and_client_params("adapter", None, 16)
    method = FedAlt(
        train_fed_loader=train,
        available_clients=train.available_clients,
        clients_to_cache=None,
        server_model=model,
        server_optimizer="sgd",
        server_lr=1.0,
        server_momentum=0.0,
        max_grad_norm=0.25,
        clip_grad_norm=texts,
        save_dir="",
        seed=0,
    )
    arguments = SimpleNamespace(client_lr=RATES[options.workload], client_momentum=0.0, scheduler="const")
    times = []
    for _ in range(options.rounds):
        began, working = time.perf_counter(), time.process_time()
        method.run_one_round(len(train), 1, "sgd", arguments)
        method.test_all_clients(test)
        times.append(time.perf_counter() - began)
    told = {"seconds": times[-1], "all": times, "threads": torch.get_num_threads()}
    print(json.dumps(told | {"processor": time.process_time() - working}))


if __name__ == "__main__":
    main()
