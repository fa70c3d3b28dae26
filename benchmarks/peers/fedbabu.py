"""Times rounds of the FedBABU authors' code: python fedbabu.py CHECKOUT WORKLOAD DIVISION.npz

Their training loop (LocalUpdate, copies of networks, averaging, broadcast) in their settings of 4convNet and MobileNet,
on as many threads as it takes by itself. torchvision is missing here: crop, flip and normalisation are done by a data
set of ours, in torch, which costs less than theirs. Testing, which their script does each round, is left out.
"""

import argparse
import copy
import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from _stubs import stub


class Plain(torch.utils.data.Dataset):
    """Each image as it is."""

    def __init__(self, inputs: np.ndarray, targets: np.ndarray) -> None:
        self.inputs, self.targets = torch.from_numpy(inputs), targets

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        return self.inputs[row], int(self.targets[row])


class Augmented(Plain):
    """Each image padded by 4, cut at random and mirrored at random, as in their transforms."""

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        size = self.inputs.shape[-1]
        padded = torch.nn.functional.pad(self.inputs[row], (4, 4, 4, 4))
        top, left = torch.randint(9, (2,)).tolist()
        image = padded[:, top : top + size, left : left + size]
        return (image.flip(-1) if torch.rand(()) < 0.5 else image), int(self.targets[row])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("workload", choices=["convnet_fedbabu", "mobilenet_fedbabu"])
    parser.add_argument("division", type=Path)
    options = parser.parse_args()
    stub("torchvision", "torchvision.models", "torchvision.transforms", "tqdm")
    sys.path.insert(0, str(options.checkout.resolve()))
    from models.Nets import CNNCifar, MobileNetCifar
    from models.Update import LocalUpdate

    with np.load(options.division) as held:
        small = options.workload == "convnet_fedbabu"
        data = (Augmented if small else Plain)(held["train_inputs"], held["train_targets"])
        ends = np.cumsum(held["train_sizes"])
    users = [np.arange(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    arguments = SimpleNamespace(
        device="cpu", local_bs=50, local_ep=10 if small else 1, momentum=0.9, wd=0.0, num_classes=10, lr=0.1
    )
    network = CNNCifar(arguments) if small else MobileNetCifar(num_classes=100)
    locals_ = [copy.deepcopy(network) for _ in users]
    # As in their main_fed.py: train, add up, divide, give the body to all.
    began, working = time.perf_counter(), time.process_time()
    total: dict[str, torch.Tensor] | None = None
    chosen = np.random.RandomState(1).choice(len(users), len(users) // 10 if small else len(users), replace=False)
    for user in chosen:
        update = LocalUpdate(args=arguments, dataset=data, idxs=users[user])
        weights, _ = update.train(net=copy.deepcopy(locals_[user]), body_lr=0.1, head_lr=0.0)
        if total is None:
            total = copy.deepcopy(weights)
        else:
            for name in total:
                total[name] += weights[name]
    assert total is not None
    body = {name: torch.div(value, len(chosen)) for name, value in total.items() if "linear" not in name}
    for each in locals_:
        each.load_state_dict(body, strict=False)
    told = {"seconds": time.perf_counter() - began, "processor": time.process_time() - working}
    print(json.dumps(told | {"threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
