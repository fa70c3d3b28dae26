"""What Ctrl-C does to the command, also while it imports modules."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROGRAM = """
import os, signal
from partita.cli.interrupts import handle_interrupts
signal.signal(signal.SIGINT, signal.{before})
handle_interrupts()
{then}
print("went on")
"""
SWALLOWS = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(10): pass
except BaseException:
    pass
"""
"""A module that is imported and lets no exception out, as compiled modules do."""
PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
MODULE, FUNCTION = PROJECT["project"]["scripts"]["partita"].split(":")
"""What the installed command calls."""


def ended(folder: Path, then: str, before: str = "default_int_handler") -> "subprocess.CompletedProcess[str]":
    (folder / "swallows.py").write_text(SWALLOWS)
    program = PROGRAM.format(before=before, then=then)
    return subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=300)


def test_an_import_does_not_swallow_it(tmp_path: Path) -> None:
    command = ended(tmp_path, "import swallows")
    assert (command.returncode, command.stdout, command.stderr) == (130, "", "Interrupted.\n")


def test_elsewhere_it_is_an_exception(tmp_path: Path) -> None:
    command = ended(tmp_path, "try: os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt: print('caught')")
    assert (command.returncode, command.stdout) == (0, "caught\nwent on\n")


def test_a_command_in_the_background_ignores_it(tmp_path: Path) -> None:
    command = ended(tmp_path, "import swallows", before="SIG_IGN")
    assert (command.returncode, command.stdout, command.stderr) == (0, "went on\n", "")


def test_a_finalizer_does_not_lose_it(tmp_path: Path) -> None:
    """Python drops what a finalizer raises, and prints a traceback."""
    finalizer = "class Held:\n    def __del__(self): os.kill(os.getpid(), signal.SIGINT); list(range(10))\n"
    command = ended(tmp_path, finalizer + "held = Held()\ndel held")
    assert (command.returncode, command.stdout, command.stderr) == (130, "", "Interrupted.\n")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no pseudo-terminals here")
def test_the_terminal_has_its_cursor_again(tmp_path: Path) -> None:
    """Bars of progress hide the cursor, and nothing of theirs runs when the process ends inside an import."""
    (tmp_path / "swallows.py").write_text(SWALLOWS)
    bars = (
        "from rich.console import Console\nfrom rich.progress import Progress\n"
        "with Progress(console=Console(stderr=True)) as shown: shown.add_task('a', total=1); import swallows"
    )
    program = PROGRAM.format(before="default_int_handler", then=bars)
    here, there = os.openpty()
    try:
        command = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env={**os.environ, "TERM": "xterm"},
            stderr=there,
            timeout=300,
        )
        text = os.read(here, 100_000).decode()
    finally:
        os.close(here)
        os.close(there)
    assert command.returncode == 130
    assert "\x1b[?25l" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_the_command_handles_it(tmp_path: Path) -> None:
    """A network of one's own is imported by the command, and its module swallows the exception."""
    (tmp_path / "swallows.py").write_text(SWALLOWS)
    arguments = ["run", "-a", "fedper", "-d", "digits", "-m", "swallows:Network", "--output", "run"]
    for program in (["-m", "partita"], ["-c", f"from {MODULE} import {FUNCTION}; {FUNCTION}()"]):
        told = subprocess.run(
            [sys.executable, *program, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        assert (told.returncode, told.stderr) == (130, "Interrupted.\n")


ENDING = """
from partita.cli.interrupts import interrupted_once
from partita.cli.options import interruptible
with interruptible("partita resume run"), interrupted_once("partita resume run"):
    try:
        {first}
    finally:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        print("ended what was started")
"""
KEPT = "Interrupted. Finished rounds are kept. Continue with: partita resume run\n"


def test_the_first_is_heeded_and_others_do_not_disturb_the_end(tmp_path: Path) -> None:
    command = ended(tmp_path, ENDING.format(first="os.kill(os.getpid(), signal.SIGINT); list(range(10))"))
    assert command.stdout == "ended what was started\n"
    assert command.stderr.startswith(KEPT)


def test_within_an_import_it_is_told_how_to_go_on(tmp_path: Path) -> None:
    command = ended(tmp_path, ENDING.format(first="import swallows"))
    assert (command.returncode, command.stdout, command.stderr) == (130, "", KEPT)


def test_afterwards_it_does_what_it_did_before(tmp_path: Path) -> None:
    block = "with interrupted_once('again'): pass\nassert signal.getsignal(signal.SIGINT) is "
    imported = "from partita.cli.interrupts import interrupt, interrupted_once\n"
    for before, then in (("default_int_handler", "interrupt"), ("SIG_IGN", "signal.SIG_IGN")):
        command = ended(tmp_path, imported + block + then, before)
        assert (command.stdout, command.stderr) == ("went on\n", "")
