"""MLflow: a run of the experiment `partita`, at the address given or MLflow's own default."""

import os
import time
from collections.abc import Mapping

from ...extras import optional
from .tracker import About, Tracker, flat

EXPERIMENT = "partita"
LONGEST = 500
"""Characters of a setting, which older servers do not exceed."""
PARAMETERS = 100
"""The largest number of settings in one request."""
ENDS = {"done": "FINISHED", "interrupted": "KILLED"}


def mlflow(about: About) -> Tracker:
    """A run on an MLflow server, in a folder or a database; a resumed run is continued under its id."""
    # By itself MLflow tries for minutes to reach a server that is not there; it takes this from the environment alone.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    library = optional("mlflow", "partita[track]")
    entities = optional("mlflow.entities", "partita[track]")
    client = library.MlflowClient(tracking_uri=about.place)
    if about.before:
        run = about.before
        client.update_run(run, status="RUNNING")
    else:
        known = client.get_experiment_by_name(EXPERIMENT)
        experiment = known.experiment_id if known else client.create_experiment(EXPERIMENT)
        run = client.create_run(experiment, run_name=about.name).info.run_id
        given = [entities.Param(key, str(value)[:LONGEST]) for key, value in flat(about.settings).items()]
        for at in range(0, len(given), PARAMETERS):
            client.log_batch(run, params=given[at : at + PARAMETERS])

    def log(numbers: Mapping[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        client.log_batch(run, metrics=[entities.Metric(name, value, now, step) for name, value in numbers.items()])

    def close(status: str) -> None:
        client.set_tag(run, "status", status)
        client.set_terminated(run, ENDS.get(status, "FAILED"))

    return Tracker(run, log, close)
