"""How is this program started again? With a line that works in the same shell, whether or not it is on its path."""

import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

SERVER = ("fastapi", "uvicorn", "prometheus_client")
"""The packages that the extra `serve` installs."""


def serve_command(folder: Path) -> str:
    """The line that serves a folder; where the extra is missing, it is installed first, for this interpreter."""
    serve = f"{_program()} serve {shlex.quote(str(folder))}"
    if all(find_spec(name) for name in SERVER):
        return serve
    return f"{shlex.quote(sys.executable)} -m pip install 'partita[serve]' && {serve}"


def _program() -> str:
    """`partita` where the shell finds this one by its name, else its path, else its interpreter's way to start it."""
    given, found = Path(sys.argv[0]), shutil.which("partita")
    if given.name != "partita" or not given.is_file():
        return f"{shlex.quote(sys.executable)} -m partita"
    return "partita" if found and given.samefile(found) else shlex.quote(str(given))
