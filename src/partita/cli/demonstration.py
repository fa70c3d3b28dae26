"""The demonstration: seven methods on digits, with the same network, split, local work and rounds."""

import os
from pathlib import Path
from typing import Any

from ..experiment.experiment import OnRound
from ..runs.baselines import add_baselines
from ..runs.completion import complete
from ..runs.once import OnWait, folder_for, run_once
from ..runs.run import BASELINES
from ..runs.view import View, view

RATE = {"name": "sgd", "lr": 0.1}
METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {"name": "fedavg", "optimizer": RATE},
    "fedper": {"name": "fedper", "epochs": 1, "optimizer": RATE},
    "fedbabu": {"name": "fedbabu", "epochs": 1, "optimizer": RATE, "finetune_optimizer": RATE},
    "fedalt": {"name": "fedalt", "optimizer": RATE},
    "flayer": {"name": "flayer", "on": {"name": "fedavg", "optimizer": RATE}},
}
"""Two more come of themselves, as the baselines of these: local training, and FedAvg with fine-tuning."""


def demonstrate(
    folder: Path, *, rounds: int, seed: int, on_round: OnRound | None = None, on_wait: OnWait | None = None
) -> dict[str, View]:
    """All seven on digits, divided by Dirichlet(0.1) among 20 clients; runs that are in the folder are used again."""
    place = folder / BASELINES
    found: dict[str, Path] = {}
    for name, algorithm in METHODS.items():
        settings = {
            "algorithm": algorithm,
            "model": "mlp",
            "data": "digits",
            "rounds": rounds,
            "seed": seed,
            "evaluate_every": 0,
        }
        found[name] = folder_for(name, settings, folder)
        run_once(settings, found[name], _named(name, on_round), on_wait, baselines=place)
        complete(found[name], on_round, on_wait)
    beside = {entry["name"]: found["fedavg"] / entry["run"] for entry in view(found["fedavg"]).analyses["baselines"]}
    for each in (beside["local"], beside["global + fine-tune"]):
        add_baselines(each, place=place, on_wait=on_wait)
    ordered = {
        "local": beside["local"],
        "fedavg": found["fedavg"],
        "fedavg + fine-tune": beside["global + fine-tune"],
        **found,
    }
    return {name: view(Path(os.path.normpath(each))) for name, each in ordered.items()}


def _named(name: str, on_round: OnRound | None) -> OnRound | None:
    return (lambda stage, progress: on_round(name, progress)) if on_round else None
