"""A small run that is served: eight clients of digits, with baselines and the guard, and its models exported."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from partita.experiment.settings.files import make
from partita.runs.complete import complete
from partita.runs.session import Session
from studies import SETTINGS

COMMAND = (sys.executable, "-c", "from partita.cli.main import main; main()")


def make_served(folder: Path) -> Path:
    """A folder with a run that is done, and one that is not."""
    experiment = make({**SETTINGS, "rounds": 2, "evaluate_every": 0, "algorithm": "fedper"})
    with Session.start(experiment, folder / "digits", baselines="../baselines", on="inline") as session:
        session.run()
        complete(session)
    Session.start(experiment, folder / "half", on="inline").close()
    return folder


@contextmanager
def serving(*arguments: str, ended: list[int] | None = None) -> Iterator[str]:
    """The command as a process of its own; gives the address, and stops it as a terminal would."""
    process = subprocess.Popen(
        [*COMMAND, "serve", *arguments, "--port", "0"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert process.stderr
    try:
        told = ""
        while not (found := re.search(r"Serving at (http://\S+/)", told)):
            line = process.stderr.readline()
            assert line, f"the server ended: {told}"
            told += line
        yield found[1]
    finally:
        process.terminate()
        rest = process.communicate(timeout=300)[1]
        if ended is not None:
            ended.append(process.returncode)
            assert "Stopped." in rest, rest
