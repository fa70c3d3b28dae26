"""Times rounds of PFLlib: python pfllib.py CHECKOUT WORKLOAD DIVISION.npz

Its own main program, server, client, network and evaluation; its own number of threads. torchvision and others that it
imports but does not use here are stubs where they are missing; torchvision's ResNet-18 is then ours, which is the same
network. The last line printed is {"seconds": ...}.
"""

import argparse
import contextlib
import io
import json
import os
import runpy
import statistics
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from _stubs import stub

SETTINGS = {
    "cnn4_cifar10": ["-data", "Cifar10", "-m", "CNN", "-ncl", "10", "-lr", "0.005"],
    "resnet18_fedper": ["-data", "Cifar100", "-m", "ResNet18", "-ncl", "100", "-lr", "0.005"],
    "fasttext_ag_news": [
        *("-data", "AGNews", "-m", "fastText", "-ncl", "4", "-lr", "0.1"),
        *("-fd", "32", "-vs", "98635"),
    ],
}


def write(division: Path, folder: Path, text: bool) -> int:
    """One file for each client and role, as PFLlib reads them; returns the number of clients."""
    with np.load(division) as held:
        arrays = dict(held)
    for role in ("train", "test"):
        (folder / role).mkdir(parents=True)
        ends = np.cumsum(arrays[f"{role}_sizes"])[:-1]
        inputs = np.split(arrays[f"{role}_inputs"], ends)
        for client, (x, y) in enumerate(zip(inputs, np.split(arrays[f"{role}_targets"], ends), strict=True)):
            # Texts come with their lengths, which the network does not use.
            stored = [(words.tolist(), int((words != 0).sum())) for words in x] if text else x
            np.savez_compressed(folder / role / f"{client}.npz", data={"x": stored, "y": y})
    return len(arrays["train_sizes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("workload", choices=SETTINGS)
    parser.add_argument("division", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    stub(
        "torchvision", "torchvision.transforms", "h5py", "cvxpy", "matplotlib", "matplotlib.pyplot", "calmsize", "ujson"
    )
    if options.workload == "resnet18_fedper":
        import torchvision

        from partita.models.resnet18 import resnet18

        def network(pretrained: bool, num_classes: int) -> object:
            return resnet18(shape=(3, 32, 32), classes=num_classes, stem="imagenet")

        torchvision.models = SimpleNamespace(resnet18=network)
    settings = SETTINGS[options.workload]
    name = settings[1]
    system = options.checkout.resolve() / "system"
    with tempfile.TemporaryDirectory() as place:
        clients = write(options.division.resolve(), Path(place) / "dataset" / name, options.workload.startswith("fast"))
        work = Path(place) / "system"
        work.mkdir()
        # It reads ../dataset from where it is started.
        os.chdir(work)
        sys.path.insert(0, str(system))
        from flcore.servers.serverper import FedPer

        budgets: list[list[float]] = []
        worked: list[float] = []
        train = FedPer.train

        def timed(self: FedPer) -> None:
            budgets.append(self.Budget)
            working = time.process_time()
            # After one round its summary divides by the number of later rounds; the time is known by then.
            with contextlib.suppress(ZeroDivisionError):
                train(self)
            worked.append(time.process_time() - working)
            # What comes after training, averaging over repetitions, needs a file that h5py would have written.
            raise SystemExit

        FedPer.train = timed
        sys.argv = ["main.py", "-dev", "cpu", "-algo", "FedPer", "-nc", str(clients), "-gr", str(options.rounds - 1)]
        sys.argv += settings
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            runpy.run_path(str(system / "main.py"), run_name="__main__")
    [times] = budgets
    print(json.dumps({"seconds": statistics.median(times), "all": times, "processor": worked[0] / options.rounds}))


if __name__ == "__main__":
    main()
