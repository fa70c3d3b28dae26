"""The demonstration: seven methods, with one network and one budget, on digits that each person labels differently."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from ..experiment.events import OnEvent, under
from ..experiment.experiment import Experiment
from ..experiment.settings.files import make
from ..runs.complete import complete
from ..runs.folders import BESIDE
from ..runs.reuse import folder_for, session_for
from ..runs.session import Session
from ..runs.stored import StoredRun, read_run

RATE = {"name": "sgd", "lr": 0.3}
"""The rate that validation data choose for the baselines of the full demonstration; all methods use it."""
STORY = """\
Thirty people sort digits into ten drawers, each in an order of their own: what a 3 looks like is common to all, and
where it belongs is personal. local trained each person alone, fedavg made one model for all, and the other five methods
are in between. All had {rounds} and the same network."""
METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {"name": "fedavg", "optimizer": RATE},
    "fedper": {"name": "fedper", "epochs": 1, "optimizer": RATE},
    "fedbabu": {"name": "fedbabu", "epochs": 1, "optimizer": RATE, "finetune_optimizer": RATE},
    "fedalt": {"name": "fedalt", "optimizer": RATE},
    "flayer": {"name": "flayer", "on": {"name": "fedavg", "optimizer": RATE}},
}
"""Two more are the baselines of these: local training, and FedAvg with fine-tuning, as validation data choose them."""


def demonstrate(folder: Path, *, rounds: int, seed: int, on_event: OnEvent) -> dict[str, StoredRun]:
    """Run all seven on digits that 30 people label each in their own way. Runs that exist already are reused."""
    protocol = {"model": "mlp", "data": "personal_digits", "rounds": rounds, "seed": seed}
    found: dict[str, StoredRun] = {}
    data = None
    for name, algorithm in METHODS.items():
        experiment = make({**protocol, "algorithm": algorithm}, data)
        data = experiment.data
        found[name] = _kept(experiment, folder, on_event)
    fedavg = found["fedavg"]
    beside = {entry["name"]: fedavg.folder / entry["run"] for entry in fedavg.analyses["baselines"]}
    chosen = []
    for baseline in ("local", "global + fine-tune"):
        with Session.open(beside[baseline], like=experiment, write=False) as session:
            tuned = replace(session.experiment, evaluate_every=experiment.evaluate_every)
        # Baselines are evaluated once; as methods of the demonstration they have learning curves.
        chosen.append(_kept(tuned, folder, on_event))
    local, finetuned = chosen
    ordered = [local, fedavg, finetuned, *(run for name, run in found.items() if name != "fedavg")]
    return {run.record.label: run for run in ordered}


def _kept(experiment: Experiment, folder: Path, on_event: OnEvent) -> StoredRun:
    """A run that is done, with its baselines."""
    place = folder_for(experiment.algorithm.name, experiment, folder)
    with session_for(experiment, place, baselines=BESIDE, on_event=on_event) as session:
        session.run(under(experiment.algorithm.label, on_event))
        complete(session)
    return read_run(place)
