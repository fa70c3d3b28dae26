"""Can Partita run on this machine? Packages, extras, the data folder, cores, memory and disk, and a trial run."""

import importlib.metadata
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from ..data.download import cache_folder, data_folders
from ..errors import in_one_line
from ..experiment.executors.processes import workers_of_machine

State = Literal["ok", "note", "problem"]
OLDEST = (3, 10)
GIGABYTE = 1e9
LITTLE_MEMORY = 4 * GIGABYTE
LITTLE_DISK = 2 * GIGABYTE
USES = {
    "deploy": "keys and certificates of a real federation",
    "flower": "a federation over Flower",
    "hf": "models and data of Hugging Face, LoRA",
    "images": "pictures in folders",
    "onnx": "export to ONNX",
    "ray": "several machines",
    "serve": "models over HTTP",
    "track": "TensorBoard, MLflow, Weights & Biases",
}


@dataclass(frozen=True)
class Finding:
    """The result of one check; `advice` says what to do, if anything."""

    subject: str
    state: State
    text: str
    advice: str = ""


def findings() -> Iterator[Finding]:
    """The results of all checks, in the order in which a run needs them."""
    yield _python()
    yield from _packages()
    yield _device()
    yield _cores()
    yield _memory()
    yield _writable("temporary files", Path(tempfile.gettempdir()), "Set TMPDIR to a folder with more room.")
    yield _writable("this folder", Path.cwd(), "Runs are kept in runs/ here. Give another folder with --output.")
    yield from _data()
    yield from _extras()


def trial() -> Finding:
    """Run one round of FedPer on two clients in worker processes, as any run does."""
    from ..experiment.executor import executor_of
    from ..experiment.settings.files import make, read
    from ..experiment.simulate import run_stages

    try:
        experiment = make(read(None, ["rounds=1", "data.split=iid", "data.split.clients=2"]))
        score = run_stages(experiment, executor_of("processes:2")).score().macro
    except Exception as problem:
        # Whatever it is, it would end every run.
        text = in_one_line(problem)
        return Finding("trial run", "problem", text, "Try again with --on inline, which needs no other processes.")
    return Finding("trial run", "ok", f"one round of FedPer by two workers, test accuracy {100 * score:.0f} %")


def _python() -> Finding:
    text = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < OLDEST:
        return Finding("Python", "problem", text, "Install Python 3.10 or newer.")
    return Finding("Python", "ok", text)


def _packages() -> Iterator[Finding]:
    yield Finding("partita", "ok", f"{importlib.metadata.version('partita')} at {Path(__file__).parents[1]}")
    for name in _required():
        version = _version(name)
        if version is None:
            yield Finding(name, "problem", "missing", f"{_pip()} {name}")
        elif name == "torch":
            yield Finding(name, "ok", version)


def _device() -> Finding:
    import torch

    count = torch.cuda.device_count()
    if not count:
        return Finding("device", "ok", "cpu; torch finds no CUDA device")
    return Finding("device", "ok", f"cpu, and {count} by CUDA: take one with device=cuda")


def _cores() -> Finding:
    found, there = workers_of_machine(), os.cpu_count() or 1
    limited = f" of {there}: this process may use no more" if found < there else ""
    return Finding("cores", "ok", f"{found}{limited}; a run starts one worker for each")


def _memory() -> Finding:
    free = _free_memory()
    if free is None:
        return Finding("memory", "note", "how much is free is not known on this system")
    text = f"{free / GIGABYTE:.1f} GB free"
    if free < LITTLE_MEMORY:
        return Finding("memory", "note", text, "Take fewer workers (--workers 1), and see: partita estimate")
    return Finding("memory", "ok", text)


def _free_memory() -> int | None:
    with suppress(OSError, ValueError, AttributeError):
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
        return int(found[1]) * 1024 if found else os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _writable(subject: str, folder: Path, advice: str) -> Finding:
    there = next((each for each in (folder, *folder.parents) if each.exists()), folder)
    try:
        with tempfile.TemporaryFile(dir=there):
            free = shutil.disk_usage(there).free
    except OSError as problem:
        return Finding(subject, "problem", f"{folder}: {problem.strerror or problem}", advice)
    text = f"{folder}, {free / GIGABYTE:.1f} GB free"
    return Finding(subject, "note", text, advice) if free < LITTLE_DISK else Finding(subject, "ok", text)


def _data() -> Iterator[Finding]:
    yield _writable("downloads", cache_folder(), "Set XDG_CACHE_HOME to a folder with room.")
    for folder in data_folders()[:-1]:
        if not folder.is_dir():
            yield Finding("PARTITA_DATA", "problem", f"{folder} is not a folder", "Correct or unset PARTITA_DATA.")
        else:
            names = sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))
            yield Finding("PARTITA_DATA", "ok", f"{folder}: {', '.join(names) or 'empty'}")


def _extras() -> Iterator[Finding]:
    """Optional packages; a missing one is no problem."""
    for extra, packages in sorted(_optional().items()):
        missing = [name for name in packages if _version(name) is None]
        use = USES.get(extra, "")
        if missing:
            yield Finding(f"extra {extra}", "note", f"not installed ({use})", f"{_pip()} 'partita[{extra}]'")
        else:
            yield Finding(f"extra {extra}", "ok", use)


def _required() -> list[str]:
    return [name for name, extra in _requirements() if not extra]


def _optional() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, extra in _requirements():
        if extra:
            found.setdefault(extra, []).append(name)
    return found


def _requirements() -> Iterator[tuple[str, str]]:
    """The name of each package that this one asks for, and the extra that asks; '' for one that is always needed."""
    for line in importlib.metadata.requires("partita") or ():
        requirement, _, marker = line.partition(";")
        if (older := re.search(r"python_version < ['\"]3\.(\d+)", marker)) and sys.version_info >= (3, int(older[1])):
            continue
        if (newer := re.search(r"python_version >= ['\"]3\.(\d+)", marker)) and sys.version_info < (3, int(newer[1])):
            continue
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", marker)
        yield re.split(r"[^\w.-]", requirement.strip())[0], extra[1] if extra else ""


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _pip() -> str:
    """The command that installs packages for this interpreter; environments of uv have no pip."""
    return f"{sys.executable} -m pip install" if find_spec("pip") else "uv pip install"
