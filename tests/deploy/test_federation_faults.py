"""The attacks on a federation, in a short form; `make federation-faults` makes them all."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMES = ("node_kills", "server_kills", "node_room", "node_truncation", "approvals", "clocks")


def test_nothing_breaks() -> None:
    command = [sys.executable, "-m", "attacks", *NAMES, "--share", "0.03"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines() if not line.startswith(" ")] == list(NAMES)
    assert "same bits" in done.stdout
