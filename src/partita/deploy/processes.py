"""How are the processes of a federation on one machine kept running? One that dies is started again, a few times.

None outlives the process that started it, even where that one is killed.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

from ..errors import PartitaError
from .superlink import environment

LOG = "process.log"
TRIES = 5
"""How often a process is started again."""
PATIENCE = 120.0
"""Seconds in which a process must be ready."""
GRACE = 5
"""Seconds in which a process must end when it is asked to."""
LOOK = 0.5
"""Seconds between two looks whether all processes are still there."""
WATCHDOG = f'read -r line; kill -TERM "-$0" && sleep {GRACE} && kill -KILL "-$0"'
Tell = Callable[[str], None]
"""Called with what the user should know at once."""


@dataclass
class Part:
    """One of our commands with all that it starts, in a folder that has its log."""

    name: str
    """The name of the process, as a sentence begins with it."""
    folder: Path
    command: Sequence[str]
    prepare: Callable[[], None] = lambda: None
    """Called before each start."""
    possible: Callable[[], bool] = lambda: True
    """Whether the process, when it has died, can be started again now."""
    tries: int = TRIES
    """How often it is still started again."""
    _process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)
    _watchdog: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    def start(self) -> None:
        """Start it, also when it has died; what it had started then may still be there, and ends."""
        self.prepare()
        self.end()
        self.folder.mkdir(exist_ok=True, mode=0o700)
        with open(self.folder / LOG, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "partita", *self.command],
                cwd=self.folder,
                env=environment(self.folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        # Its input ends when this process does, even if it is killed.
        self._watchdog = subprocess.Popen(
            ["sh", "-c", WATCHDOG, str(self._process.pid)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def wait(self, ready: Callable[[], bool]) -> None:
        """Wait until it is ready; it is an error if it ends before."""
        end = time.monotonic() + PATIENCE
        while not ready():
            if self._ended is not None or time.monotonic() > end:
                lines = (self.folder / LOG).read_text("utf-8", "replace").strip().splitlines()
                raise PartitaError(f"{self.name} did not start: {lines[-1] if lines else 'no word'}")
            time.sleep(0.1)

    def look(self, tell: Tell) -> None:
        """Start it again if it has died."""
        if self._ended is None or not self.possible():
            return
        ended = f"{self.name} has ended ({_how(self._ended)}; see {self.folder / LOG})"
        if self.tries == 0:
            tell(f"{ended} and is not started again: that was tried {TRIES} times.")
            self.end()
            return
        tell(f"{ended} and is started again. The round continues.")
        self.tries -= 1
        try:
            self.start()
        except PartitaError as problem:
            tell(f"{self.name} could not be started again: {problem}")

    def ask_to_end(self) -> None:
        """Ask it to end, with all that it started, which may be there when it is not."""
        if self._process:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)

    def end(self) -> None:
        """End it with all that it started."""
        self.ask_to_end()
        if self._process:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE)
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        if self._watchdog:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None

    @property
    def _ended(self) -> int | None:
        """How it has ended, if it has."""
        return self._process.poll() if self._process else None


@contextmanager
def ending(parts: Sequence[Part]) -> Iterator[None]:
    """All parts end with the block, at once."""
    try:
        yield
    finally:
        for part in parts:
            part.ask_to_end()
        for part in parts:
            part.end()


@contextmanager
def started_again(parts: Sequence[Part], tell: Tell) -> Iterator[None]:
    """Start each part again that dies within the block."""
    over = Event()

    def watch() -> None:
        while not over.wait(LOOK):
            for part in parts:
                part.look(tell)

    watching = Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


def _how(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"code {code}"
