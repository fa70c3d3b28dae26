"""The command that estimates costs."""

import json
from typing import TYPE_CHECKING

from . import terminal
from .options import AsJson, ExperimentFile, Overrides, Trust, file_and_changes, use_one_thread

if TYPE_CHECKING:
    from ..experiment.settings.estimate import Estimate


def estimate(
    experiment: ExperimentFile = None, overrides: Overrides = None, trust: Trust = False, as_json: AsJson = False
) -> None:
    """Estimate the time, the bytes and the memory of an experiment, from a few steps of a typical client.

    Examples:

    partita estimate experiment.toml

    partita estimate algorithm=fedrep model=mlp data=digits rounds=50
    """
    from ..experiment.settings.estimate import estimate as look_ahead
    from ..experiment.settings.files import make, read

    use_one_thread()
    found = look_ahead(make(read(*file_and_changes(experiment, overrides), trust=trust)))
    if as_json:
        print(json.dumps(found.as_dict()))
    else:
        _print(found)


def _print(found: "Estimate") -> None:
    """Time, bytes and memory of an experiment that has not been run."""
    facts = {
        "rounds": f"{found.rounds}, {found.clients_per_round} of {found.clients} clients each",
        "training": f"{found.training_seconds:.2f} s per round in one process",
        "server": f"{found.server_seconds:.2f} s per round",
        "evaluation": f"{found.evaluation_seconds:.2f} s each time in one process",
        "time per round": f"{found.round_seconds:.2f} s with {found.workers} processes",
        "all rounds": f"{found.total_seconds:.0f} s",
        "sent down": f"{found.bytes_down:,} bytes per round",
        "sent up": f"{found.bytes_up:,} bytes per round{', at most' if found.masked else ''}",
        "memory": f"{found.memory_bytes / 2**20:,.0f} MB",
    }
    for name, fact in facts.items():
        terminal.say(f"{name + ':':<16}{fact}")
