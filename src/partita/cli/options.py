"""What do commands have in common? Arguments, and how they handle interruptions."""

import gc
import inspect
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import PartitaError
from . import terminal
from .interrupts import continued_by, interrupt

if TYPE_CHECKING:
    from ..registry import Kind

ExperimentFile = Annotated[
    str | None, typer.Argument(metavar="[FILE.toml]", help="An experiment file; the settings after it override it.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Settings by dotted key, as in algorithm.optimizer.lr=0.05"),
]
DataSettings = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Settings of the data by dotted key, as in split.alpha=0.5"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Folder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, or of several.")]
OneFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
On = Annotated[
    str | None,
    typer.Option(
        metavar="EXECUTOR",
        help="What carries out jobs: inline, processes[:COUNT] or ray[:ADDRESS]; by default one process for each core. "
        "It does not change results.",
    ),
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Import functions that the file or the run names as MODULE:FUNCTION."),
]
Network = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:CLASS",
        help="The network of exported models, if it is a class of your own. The module is imported.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(help="The same as --on processes:COUNT.", min=1),
]


def help_of(command: Callable[..., object] | None) -> str:
    """Its docstring with each paragraph in one line, so that the terminal alone wraps it."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def installed_version() -> str:
    return version("partita")


def tell_version(asked: bool) -> None:
    if asked:
        print(f"partita {installed_version()}")
        raise typer.Exit


def completing(kind: "Kind") -> Callable[[str], list[str]]:
    """The names of a kind that begin so, for the shell."""

    def complete(incomplete: str) -> list[str]:
        from ..registry import names

        return [name for name in names(kind) if name.startswith(incomplete)]

    return complete


def naming(kind: "Kind", *flags: str, what: str) -> Any:
    """An option that names one of a kind."""
    return typer.Option(
        *flags, metavar="NAME", help=f"{what} See: partita list {kind}", autocompletion=completing(kind)
    )


def file_and_changes(experiment: str | None, overrides: list[str] | None) -> tuple[Path | None, list[str]]:
    """Separate the file from the settings: without a file, the first argument is a setting."""
    if experiment is None or "=" not in experiment:
        return Path(experiment) if experiment else None, overrides or []
    return None, [experiment, *(overrides or [])]


def executor_text(on: str | None, workers: int | None) -> str | None:
    """The executor that `--on` and `--workers` name together; None is the default."""
    if workers is None:
        return on
    if on not in (None, "processes"):
        raise PartitaError(f"--workers {workers} and --on {on} exclude each other. Give one of them.")
    return f"processes:{workers}"


@contextmanager
def loading() -> Iterator[None]:
    """Import what a command needs without collecting garbage, which finds none and takes a sixth of the time.

    Later collections skip what was loaded: it stays for as long as the process.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def use_one_thread() -> None:
    """Small networks are slower with more threads."""
    import torch

    torch.set_num_threads(1)


@contextmanager
def interruptible(command: str, at_last: Callable[[], object] | None = None) -> Iterator[None]:
    """Ctrl-C and SIGTERM drop the round in progress. Earlier rounds are kept, and `command` continues the run.

    `at_last` is called before the exit. Another Ctrl-C during that exits at once; commits are safe.
    """
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        terminal.tell(continued_by(command))
        if at_last:
            at_last()
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)
