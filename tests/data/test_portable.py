"""The room of data needs nothing that only some systems have."""

import subprocess
import sys
from pathlib import Path

import partita

PROGRAM = """
import ctypes, importlib, os, sys
import filelock, torch  # These know what each system has.

for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("sched_getaffinity", "fork", "register_at_fork"):
    if hasattr(os, name):
        delattr(os, name)

def refuse(name, *_, **__):
    assert name is not None, "there is no library without a name on Windows"
    raise OSError(name)

ctypes.CDLL = refuse
for name in sys.argv[1:]:
    importlib.import_module(name)
from partita.data.federation import federate
from partita.data.sources.digits import digits
print(len(federate(digits())))
"""


def test_all_modules_can_be_imported_where_there_is_no_unix() -> None:
    root = Path(partita.__file__).parent
    names = [
        ".".join(("partita", *path.relative_to(root).with_suffix("").parts)) for path in (root / "data").rglob("*.py")
    ]
    assert len(names) > 40
    done = subprocess.run([sys.executable, "-c", PROGRAM, *names], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("20\n", "")
