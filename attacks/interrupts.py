"""What is left of a run that Ctrl-C ends? No traceback, and a run that goes on with the same bits."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from partita.runs.database import DATABASE

from .tally import Tally
from .victim import digest, verified

RUN = (
    "run",
    "-a",
    "fedper",
    "-d",
    "digits",
    "-m",
    "mlp",
    "--rounds",
    "30",
    "--on",
    "processes:2",
    "--baselines",
    "none",
)
PROGRAM = """
import os
from partita.cli.interrupts import handle_interrupts
handle_interrupts()
os.write(1, b".")
from partita.__main__ import main
main()
"""
"""The command `partita`, which tells when it runs: until then, Ctrl-C ends a starting interpreter, not the command."""
PATIENCE = 120
"""Seconds after which a command counts as hanging."""
STARTING = 0.6
"""About the part of a command's time in which it imports what it needs, before its database exists."""


def interrupts(place: Path, trials: int, seed: int) -> Tally:
    """SIGINT to a command and its workers at random moments, as a terminal sends it: of a run, for 7 of 8 after its
    database exists, and of a done run."""
    tally, draw = Tally(), random.Random(seed)
    # The first run compiles what it imports, and so takes longer than others.
    for name in ("first", "whole"):
        began = time.perf_counter()
        _, problem = partita(*RUN, "--output", str(place / name))
        seconds = time.perf_counter() - began
        if problem:
            tally.broken.append(problem)
    expected = digest(place / "whole")
    for trial in range(trials):
        folder = place / str(trial)
        moment = seconds * draw.random()
        if trial % 8:
            code, problem = partita(
                *RUN, "--output", str(folder), after=moment * (1 - STARTING), there=folder / DATABASE
            )
        else:
            code, problem = partita(*RUN, "--output", str(folder), after=moment)
        there = (folder / DATABASE).exists()
        if not problem:
            again = ("resume", str(folder)) if there else (*RUN, "--output", str(folder))
            _, problem = partita(*again)
        if not problem:
            # A run that is done needs no workers, and a signal finds none.
            _, problem = partita("resume", str(folder), after=seconds * draw.random())
        if not problem:
            verified(folder)
            problem = "other bits than without Ctrl-C" if digest(folder) != expected else None
        if problem:
            tally.broken.append(f"trial {trial}: {problem}")
        else:
            ended = "over before Ctrl-C" if code == 0 else "resumed" if there else "started again"
            tally.held[f"{ended}, the same bits"] += 1
    return tally


def partita(*arguments: str, after: float | None = None, there: Path | None = None) -> tuple[int, str | None]:
    """The exit code of a command, and what is wrong with how it ended.

    It is interrupted after some seconds, which count from when a file exists, if one is given.
    """
    command = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Started in the background, this process may ignore SIGINT, and a child would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert command.stdout is not None
    os.read(command.stdout.fileno(), 1)
    while there and not there.exists() and command.poll() is None:
        time.sleep(0.002)
    try:
        if after is None:
            _, told = command.communicate(timeout=PATIENCE)
        else:
            try:
                _, told = command.communicate(timeout=after)
            except subprocess.TimeoutExpired:
                os.killpg(command.pid, signal.SIGINT)
                _, told = command.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(command.pid, signal.SIGKILL)
        command.communicate()
        return -signal.SIGKILL, f"{' '.join(arguments)} hangs"
    if "Traceback" in told:
        return command.returncode, f"{' '.join(arguments)}: {told[-1000:]}"
    if after is None and command.returncode:
        return command.returncode, f"{' '.join(arguments)} ended with {command.returncode}: {told[-1000:]}"
    return command.returncode, None
