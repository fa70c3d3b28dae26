"""Scores of the FedBABU authors' code: python fedbabu_scores.py CHECKOUT TASK.npz

Their network (CNNCifar), training (LocalUpdate), round (main_fed.py: copies, averaging, broadcast, decay of the rate)
and test (test_img_local), on rows and with participants that are given. torchvision is missing here: crop, flip and
normalisation are done by a data set of ours, in torch. The last model is tested, before and after fine-tuning.
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
from fedbabu import Augmented, Plain

FINETUNING_RATE, FINETUNING_EPOCHS = 1e-3, 5
"""As in their analysis.ipynb."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("task", type=Path)
    options = parser.parse_args()
    stub("torchvision", "torchvision.models", "torchvision.transforms", "tqdm")
    sys.path.insert(0, str(options.checkout.resolve()))
    from models.Nets import CNNCifar
    from models.test import test_img_local
    from models.Update import LocalUpdate

    with np.load(options.task) as held:
        task = {name: held[name] for name in held.files}
    settings = json.loads(str(task["settings"]))
    torch.manual_seed(settings["seed"])
    train = Augmented(task["train_inputs"], task["train_targets"])
    test = Plain(task["test_inputs"], task["test_targets"])
    users, tested = (_rows(task[f"{part}_sizes"]) for part in ("train", "test"))
    arguments = SimpleNamespace(
        device="cpu", gpu=-1, local_bs=settings["batch"], bs=128, momentum=settings["momentum"], wd=0.0,
        local_ep=settings["epochs"], num_classes=settings["classes"], verbose=False,
    )  # fmt: skip
    body_alone, rate = settings["body_alone"], settings["rate"]
    # Clients keep nothing of their own, so one network stands for the copies that their script gives to all.
    network = CNNCifar(arguments)
    began = time.perf_counter()
    for at, chosen in enumerate(settings["participants"], start=1):
        total: dict[str, torch.Tensor] = {}
        for user in chosen:
            local = LocalUpdate(args=arguments, dataset=train, idxs=users[user])
            head_rate = 0.0 if body_alone else rate
            weights, _ = local.train(net=copy.deepcopy(network), body_lr=rate, head_lr=head_rate)
            total = {name: total[name] + value if total else value for name, value in weights.items()}
        shared = {name: value / len(chosen) for name, value in total.items() if not (body_alone and "linear" in name)}
        network.load_state_dict(shared, strict=False)
        if at in (len(settings["participants"]) // 2, len(settings["participants"]) * 3 // 4):
            rate *= 0.1
        print(f"round {at}", file=sys.stderr, flush=True)
    scores: dict[str, list[float]] = {"before_local": [], "after_finetune": []}
    for user in settings["tested"]:
        own = copy.deepcopy(network)
        scores["before_local"].append(test_img_local(own, test, arguments, user_idx=user, idxs=tested[user])[0])
        local = LocalUpdate(args=arguments, dataset=train, idxs=users[user])
        local.train(own, body_lr=FINETUNING_RATE, head_lr=FINETUNING_RATE, local_eps=FINETUNING_EPOCHS)
        scores["after_finetune"].append(test_img_local(own, test, arguments, user_idx=user, idxs=tested[user])[0])
    print(json.dumps({"seconds": time.perf_counter() - began, "scores": scores}))


def _rows(sizes: np.ndarray) -> list[np.ndarray]:
    ends = np.cumsum(sizes)
    return [np.arange(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


if __name__ == "__main__":
    main()
