"""How the command ends: with its exit code, after all exit handlers, and with all that it printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import atexit, sys
import partita.cli.main
from partita.__main__ import main

class Loaded:
    def __del__(self):
        print("taken apart", flush=True)

def command():
    atexit.register(print, "an exit handler")
    print("said")
    {ends}

loaded = Loaded()
partita.cli.main.main = command
main()
"""


def ended(ends: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(ends=ends)], capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize(("ends", "code"), [("sys.exit(0)", 0), ("sys.exit(2)", 2), ("raise KeyboardInterrupt", 130)])
def test_nothing_is_taken_apart_after_the_exit_handlers(ends: str, code: int) -> None:
    command = ended(ends)
    assert (command.returncode, command.stdout, command.stderr) == (code, "said\nan exit handler\n", "")


@pytest.mark.parametrize(
    ("ends", "told"), [("raise ValueError('odd')", "ValueError: odd"), ("sys.exit('a reason')", "a reason")]
)
def test_what_nobody_expected_ends_as_usual(ends: str, told: str) -> None:
    command = ended(ends)
    assert command.returncode == 1
    assert command.stdout == "said\nan exit handler\ntaken apart\n"
    assert command.stderr.splitlines()[-1] == told


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="No file that is always full.")
def test_output_that_cannot_be_written_is_an_error() -> None:
    with open("/dev/full", "w") as full:
        program = "from partita.cli.ending import Ending; Ending().code = 0; print('said')"
        # So that the error comes when the output is flushed.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
        command = subprocess.run(
            [sys.executable, "-c", program],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
            env=environment,
        )
    assert command.returncode == 120
    assert "No space left on device" in command.stderr
