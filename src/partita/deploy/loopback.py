"""How is a federation tried on one machine? With all its processes, over loopback, with TLS and a key for each site.

A folder holds what elsewhere is on several machines: `superlink` and `sites/NUMBER`, with the log of each process.
Sites that are started again in the same folder still have their personal parts.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from ..errors import PartitaError
from ..extras import optional
from .gate import write_approvals
from .node import APPROVALS, SOCKET
from .plan import Plan
from .services import AUTHORITY, DATABASE, HOST, free_port, is_free, need_free
from .superlink import SuperLink, environment

LOG = "process.log"
PATIENCE = 120.0
"""Seconds in which a process must be ready."""
LOOK = 0.5
"""Seconds between two looks whether the SuperLink is still there, and before it is started again."""
Tell = Callable[[str], None]
"""Called with what the user should know at once."""


@contextmanager
def loopback(
    plan: Plan, data: Mapping[str, object], folder: Path, port: int = 0, tell: Tell = lambda text: None
) -> Iterator[SuperLink]:
    """A SuperLink and all sites of a plan, each with its client of the data; they end with the block.

    A SuperLink that dies is started again, as systemd does elsewhere.
    """
    certificates = optional("partita.deploy.certificates", "partita[flower]")
    optional("partita.deploy.flower", "partita[flower]")
    # Processes work in folders of their own.
    folder = folder.absolute()
    home = folder / "superlink"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    port = port or free_port()
    address = f"{HOST}:{port}"
    need_free(HOST, port)
    certificates.make_certificates(home)
    # All that must last is in the run and at the sites.
    for old in home.glob(f"{DATABASE}*"):
        old.unlink()
    with ExitStack() as stack:
        command = ["federate", "superlink", str(home), "--port", str(port)]
        link = stack.enter_context(_process(command, home))
        sites = [_site(plan, number, data, folder) for number in range(len(plan.sites))]
        running = [stack.enter_context(_process(["node", "run", "node.toml"], site)) for site in sites]
        _wait(link, home, lambda: not is_free(HOST, port))
        stack.enter_context(_started_again(link, command, home, tell))
        superlink = SuperLink(address, home / AUTHORITY)

        def register(number: int) -> None:
            superlink.register(certificates.make_key(sites[number] / "key"), plan.sites[number])

        with ThreadPoolExecutor() as pool:
            list(pool.map(register, range(len(sites))))
        for site, process in zip(sites, running, strict=True):
            _wait(process, site, (site / SOCKET).exists)
            arguments = [
                *("--superlink", address, "--certificate", str(superlink.certificate)),
                *("--key", str(site / "key"), "--socket", str(site / SOCKET)),
            ]
            (site / "flower").mkdir(exist_ok=True, mode=0o700)
            stack.enter_context(_process(["node", "connect", *arguments], site / "flower"))
        yield superlink


def _site(plan: Plan, number: int, data: Mapping[str, object], folder: Path) -> Path:
    """The folder of a site, with its file and its approval of the plan."""
    site = folder / "sites" / str(number)
    site.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = {"name": plan.sites[number], "client": plan.sites[number], "data": data}
    (site / "node.toml").write_text("".join(f"{key} = {_toml(value)}\n" for key, value in file.items()), "utf-8")
    write_approvals(site / APPROVALS, {plan.hash: "by partita federate up"})
    return site


def _toml(value: object) -> str:
    """A value as TOML has it in one line."""
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items() if each is not None)
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


@contextmanager
def _process(arguments: Sequence[str], folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A command of ours with all that it starts, in a folder that has its log. It does not outlive this process."""
    with open(folder / LOG, "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "partita", *arguments],
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    # Its input ends when this process does, even if it is killed.
    watchdog = subprocess.Popen(
        ["sh", "-c", 'read -r line; kill -TERM "-$0"', str(process.pid)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        watchdog.kill()
        watchdog.communicate()
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a process with all that it started, which may be there when it is not."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(5)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def _started_again(link: "subprocess.Popen[bytes]", command: Sequence[str], home: Path, tell: Tell) -> Iterator[None]:
    """Restart the SuperLink whenever it ends within the block. Its app dies with it, and so is noticed at once."""
    over = Event()

    def watch() -> None:
        process = link
        with ExitStack() as stack:
            while not over.wait(LOOK):
                if process.poll() is not None:
                    ended = f"The SuperLink has ended ({_how(process.returncode)}; see {home / LOG})"
                    tell(f"{ended} and is started again. The round continues.")
                    _end(process)
                    process = stack.enter_context(_process(command, home))

    watching = Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


def _how(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"code {code}"


def _wait(process: "subprocess.Popen[bytes]", folder: Path, ready: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not ready():
        if process.poll() is not None or time.monotonic() > end:
            lines = (folder / LOG).read_text("utf-8", "replace").strip().splitlines()
            raise PartitaError(f"A process of the federation did not start: {lines[-1] if lines else 'no word'}")
        time.sleep(0.1)
