"""What if Flower's SuperLink or the server dies in the middle of a federation? It goes on."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

from partita.errors import PartitaError
from partita.experiment.executors.inline import Inline
from partita.experiment.settings.files import make, read
from partita.experiment.simulate import run_stages
from partita.runs.store import Store
from partita.tensors import Tensors

from .houses import need_equal
from .tally import Tally

ROUNDS = 4
SETTINGS = ["algorithm=fedper", f"rounds={ROUNDS}", "participation=all", "data.split.clients=3", "algorithm.epochs=1"]
PATIENCE = 300.0
SUPERLINK = b"\0federate\0superlink\0"
"""In the command line of a SuperLink, and of all that it starts."""


def superlink(place: Path, trials: int, seed: int) -> Tally:
    """A whole federation over loopback, with TLS; `kill -9` of the SuperLink, of the server's process, or of both.

    Where the SuperLink alone is killed, the same process goes on; else the same command does.
    """
    tally, draw = Tally(), random.Random(seed)
    expected = run_stages(make(read(None, SETTINGS)), Inline())
    kinds = ("the SuperLink and the server", "the server", "the SuperLink")
    for trial in range(trials):
        kind, folder = kinds[trial % len(kinds)], place / str(trial)
        command = [
            sys.executable,
            "-m",
            "partita",
            "federate",
            "up",
            *SETTINGS,
            "--output",
            str(folder),
            "--seconds",
            "60",
        ]
        try:
            _kill(kind, command, folder, draw.randrange(1, ROUNDS))
            if "server" in kind:
                done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
                if done.returncode:
                    raise AssertionError(done.stderr[-300:])
            if _server(folder)[0] != ROUNDS:
                raise AssertionError(f"it ended after round {_server(folder)[0]}")
            need_equal(_server(folder)[1], expected.state, "the server's state")
        except Exception as problem:
            tally.broken.append(f"{kind}, trial {trial}: {problem!r}")
        else:
            tally.held[f"{kind}: went on to the same bits"] += 1
        shutil.rmtree(folder, ignore_errors=True)
    return tally


def _kill(kind: str, command: list[str], folder: Path, round: int) -> None:
    """Start a federation, and kill a part of it when a round is over; what is left ends or is ended."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        end = time.monotonic() + PATIENCE
        while _server(folder)[0] < round:
            if process.poll() is not None or time.monotonic() > end:
                raise AssertionError("the federation ended before it could be killed")
            time.sleep(0.1)
        family = _family(process.pid)
        links = [each for each in family if SUPERLINK in _command(each)]
        if not links:
            raise AssertionError("no SuperLink was found")
        for each in [*(links if "SuperLink" in kind else []), *([process.pid] if "server" in kind else [])]:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        if "server" not in kind and process.wait(PATIENCE):
            raise AssertionError("the server's process ended with an error")
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
    end = time.monotonic() + 60
    while any(_command(each) for each in family) and time.monotonic() < end:
        time.sleep(0.1)


def _server(folder: Path) -> tuple[int, Tensors]:
    """The last round that is kept, and the server's state after it."""
    try:
        with closing(Store.open(folder / "run", write=False)) as store:
            return store.server("run") or (0, {})
    except PartitaError:
        return 0, {}


def _family(process: int) -> list[int]:
    """All that a process started, and what that started."""
    parents: dict[int, int] = {}
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(each.name)] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
    found = [process]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


def _command(process: int) -> bytes:
    try:
        return (Path("/proc") / str(process) / "cmdline").read_bytes()
    except OSError:
        return b""
