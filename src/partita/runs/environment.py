"""Where did an experiment run? Versions, machine and commit."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("partita", "torch", "numpy", "scikit-learn", "safetensors")


def environment() -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "system": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "commit": _commit(),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The git commit of the folder in which the run was started, if it is a repository."""
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
