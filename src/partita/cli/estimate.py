"""The command that estimates costs."""

import json

from . import terminal
from .options import AsJson, ExperimentFile, Overrides, Trust, file_and_changes, use_one_thread


def estimate(
    experiment: ExperimentFile = None, overrides: Overrides = None, trust: Trust = False, as_json: AsJson = False
) -> None:
    """Estimate the time, the bytes and the memory of an experiment, from a few steps of a typical client.

    Examples:

    partita estimate experiment.toml

    partita estimate algorithm=fedrep model=mlp data=digits rounds=50
    """
    from ..experiment.estimate import estimate as look_ahead
    from ..experiment.files import make, read

    use_one_thread()
    found = look_ahead(make(read(*file_and_changes(experiment, overrides), trust=trust)))
    if as_json:
        print(json.dumps(found.as_dict()))
    else:
        terminal.print_estimate(found)
