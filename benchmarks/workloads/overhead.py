"""What does `partita run` add to the time of the rounds themselves?"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.workload import Measured, Workload
from partita.runs.stored import read_run

SETTINGS = ("algorithm=fedper", "model=mlp", "data=digits", "rounds=20", "evaluate_every=10")
# Python keeps what it has compiled, unless it is told not to.
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def workload() -> Workload:
    """Seconds that `partita run` takes beyond the seconds of its 20 rounds, from start to prompt: digits, MLP."""

    def partita() -> Measured:
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            command = [
                sys.executable,
                "-m",
                "partita",
                "run",
                *SETTINGS,
                "--output",
                str(run),
                "--json",
                "--no-baselines",
            ]
            began = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
            whole = time.perf_counter() - began
            return Measured(whole - sum(seconds for _, seconds, _ in read_run(run).rounds))

    return Workload(about=workload.__doc__ or "", contenders={"partita": partita}, most_seconds={"partita": 2.0})
