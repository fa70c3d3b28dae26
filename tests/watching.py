"""Which processes are there, and what did they leave? For tests that start, interrupt and kill them."""

import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import partita

MARK = "PARTITA_TEST_MARK"


def children(pid: int | None = None) -> list[int]:
    """Processes that a process has, by their ids."""
    try:
        text = "".join(path.read_text() for path in Path(f"/proc/{pid or os.getpid()}/task").glob("*/children"))
    except OSError:
        return []
    # Python's own helper stays, once anything was spawned.
    return [int(number) for number in text.split() if "resource_tracker" not in _command(int(number))]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def works_in(pid: int, folder: Path) -> bool:
    """Whether a process works in a folder. One that is ending has none."""
    try:
        return os.readlink(f"/proc/{pid}/cwd") == str(folder.resolve())
    except OSError:
        return False


def alive(pid: int) -> bool:
    """Whether a process is more than an entry in a list."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def marked(mark: Path) -> list[int]:
    """Processes that were started by `script` with this folder, and their children."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            environment = path.joinpath("environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"{MARK}={mark}".encode() in environment and alive(int(path.name)):
            found.append(int(path.name))
    return found


def wait_for(condition: Callable[[], object], seconds: float = 120) -> bool:
    """Whether it becomes true in time. The time only ends a test that hangs."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@contextmanager
def nothing_left() -> Iterator[None]:
    """No process and no open file is left by what is done within."""
    # Files of earlier tests that nobody can reach any more are closed now, and not meanwhile.
    gc.collect()
    before, opened = set(children()), open_files()
    yield
    assert wait_for(lambda: set(children()) <= before, 30)
    assert open_files() == opened


def open_files() -> list[str]:
    """Those of this process, without the pipes that Python keeps once anything was spawned."""
    found = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    return sorted(target for target in found if "pipe:" not in target)


def named_memory(pid: int) -> list[str]:
    """Files that a process has mapped to exchange data and that have a name, so that they could be left behind."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return []
    places = "/dev/shm/", tempfile.gettempdir() + "/"
    names = [line.split(maxsplit=5)[-1] for line in lines if line.count(" ") > 4]
    return [name for name in names if name.startswith(places) and not name.endswith("(deleted)")]


@contextmanager
def script(
    folder: Path, text: str, *, workers: int = 2, how: str = "file", environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A program in a session of its own that works in a folder: a file, what is read from stdin, or an argument.

    Whatever is left of it in the end is killed.
    """
    path = folder / "script.py"
    path.write_text(text, encoding="utf-8")
    arguments = {"file": [str(path)], "stdin": ["-"], "argument": ["-c", text]}[how]
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PARTITA_WORKERS": str(workers),
            MARK: str(folder),
            "PYTHONPATH": os.pathsep.join(map(str, [Path(partita.__file__).parents[1], Path(__file__).parent])),
            **(environment or {}),
        },
        stdin=subprocess.PIPE if how == "stdin" else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # Tests may run in the background, where Ctrl-C is ignored from the start.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    with process:
        try:
            if process.stdin:
                process.stdin.write(text)
                process.stdin.close()
                process.stdin = None
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def output(process: subprocess.Popen[str], seconds: float = 300) -> str:
    """What a program prints until it ends by itself, without an error."""
    said, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, said
    return said
