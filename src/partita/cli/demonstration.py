"""The demonstration: seven methods on digits that everybody labels in their own way, with the same network and work."""

import os
from pathlib import Path
from typing import Any

from ..experiment.files import make
from ..runs.baselines import add_baselines
from ..runs.complete import complete
from ..runs.folders import BASELINES, BESIDE
from ..runs.reuse import folder_for, session_for
from ..runs.session import Session
from ..runs.stored import StoredRun, read_run
from ..simulation.events import OnEvent, under

RATE = {"name": "sgd", "lr": 0.3}
"""The rate that validation data choose for the baselines of the full demonstration; all methods use it."""
METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {"name": "fedavg", "optimizer": RATE},
    "fedper": {"name": "fedper", "epochs": 1, "optimizer": RATE},
    "fedbabu": {"name": "fedbabu", "epochs": 1, "optimizer": RATE, "finetune_optimizer": RATE},
    "fedalt": {"name": "fedalt", "optimizer": RATE},
    "flayer": {"name": "flayer", "on": {"name": "fedavg", "optimizer": RATE}},
}
"""The baselines of these add two more: local training, and FedAvg with fine-tuning."""


def demonstrate(folder: Path, *, rounds: int, seed: int, on_event: OnEvent) -> dict[str, StoredRun]:
    """Run all seven on digits that 30 people label each in their own way. Runs that exist already are reused."""
    place = folder / BASELINES
    found: dict[str, Path] = {}
    protocol = {"model": "mlp", "data": "personal_digits", "rounds": rounds, "seed": seed, "evaluate_every": 0}
    data = None
    for name, algorithm in METHODS.items():
        experiment = make({**protocol, "algorithm": algorithm}, data)
        data = experiment.data
        found[name] = folder_for(name, experiment, folder)
        with session_for(experiment, found[name], baselines=BESIDE, on_event=on_event) as session:
            session.run(under(name, on_event))
            complete(session)
    entries = read_run(found["fedavg"]).analyses["baselines"]
    beside = {entry["name"]: Path(os.path.normpath(found["fedavg"] / entry["run"])) for entry in entries}
    for each in (beside["local"], beside["global + fine-tune"]):
        with Session.open(each, like=experiment, on_event=on_event) as session:
            add_baselines(session, place)
    ordered = {
        "local": beside["local"],
        "fedavg": found["fedavg"],
        "fedavg + fine-tune": beside["global + fine-tune"],
        **found,
    }
    return {name: read_run(each) for name, each in ordered.items()}
