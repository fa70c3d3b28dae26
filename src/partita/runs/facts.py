"""What is known of a run before its first round? Its clients' labels, the parts of its network, and the floor."""

import warnings
from dataclasses import asdict

import torch

from ..data.distribution import floor, label_counts
from ..data.split import ROLES
from ..errors import DegenerateWarning
from ..experiment.describe import describe
from ..experiment.experiment import Experiment
from ..randomness import generator

MOST_CLIENTS = 1000
"""Of more clients, labels are those of a sample, which is the same for every run."""


def facts_of(experiment: Experiment) -> dict[str, object]:
    """The analyses `network`, `floor`, and for classification `labels`."""
    data = experiment.data
    found: dict[str, object] = {
        "network": _network(experiment),
        "floor": asdict(floor(data, sorted(set(range(len(data))) - data.newcomers))),
    }
    if data.kind == "classification":
        clients = sample_of_clients(len(data))
        found["labels"] = {
            "classes": data.classes,
            "clients": clients,
            **{str(role): label_counts(data, (role,), clients).tolist() for role in ROLES},
        }
    return found


def sample_of_clients(count: int) -> list[int]:
    """All, or of many a fixed sample."""
    order = torch.randperm(count, generator=generator(0, "clients shown"))
    return sorted(order[:MOST_CLIENTS].tolist())


def _network(experiment: Experiment) -> dict[str, object]:
    stage = experiment.stages[-1]
    task = experiment.workshop(stage, {}).tasks[0]
    with warnings.catch_warnings():
        # What is degenerate is told when the experiment runs.
        warnings.simplefilter("ignore", DegenerateWarning)
        return describe(stage.algorithm, task).as_dict()
