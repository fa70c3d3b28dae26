"""What is known of a run before its first round? Its clients' labels, the parts of its network, and the floor."""

import warnings
from dataclasses import asdict

from ..data.distribution import floor, label_counts
from ..data.split import ROLES
from ..errors import DegenerateWarning
from ..experiment.describe import describe
from ..simulation.setup import Setup, fixed_sample

MOST_CLIENTS = 1000
"""Of more clients, labels are those of a sample, which is the same for every run."""


def facts_of(setup: Setup) -> dict[str, object]:
    """The analyses `network`, `floor`, and for classification `labels`."""
    data = setup.data
    found: dict[str, object] = {
        "network": _network(setup),
        "floor": asdict(floor(data, sorted(set(range(len(data))) - data.newcomers))),
    }
    if data.kind == "classification":
        clients = list(fixed_sample(range(len(data)), MOST_CLIENTS))
        found["labels"] = {
            "classes": data.classes,
            "clients": clients,
            **{str(role): label_counts(data, (role,), clients).tolist() for role in ROLES},
        }
    return found


def _network(setup: Setup) -> dict[str, object]:
    with warnings.catch_warnings():
        # What is degenerate is told when the experiment runs.
        warnings.simplefilter("ignore", DegenerateWarning)
        return describe(setup.algorithm, setup.tasks[0]).as_dict()
