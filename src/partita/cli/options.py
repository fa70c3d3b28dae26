"""What do commands have in common? Their arguments, and how they are interrupted."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ..errors import PartitaError
from . import terminal

ExperimentFile = Annotated[
    str | None, typer.Argument(metavar="[FILE.toml]", help="An experiment file; settings after it change it.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Settings by dotted key, as in algorithm.optimizer.lr=0.05"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Folder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, or of several.")]
OneFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
On = Annotated[
    str | None,
    typer.Option(
        help="Who does the work: inline, processes or processes:COUNT; by default one process for each core. Results "
        "do not depend on it.",
    ),
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Import functions that the file or the run names as package.module:function."),
]
Workers = Annotated[
    int | None,
    typer.Option(help="The same as --on processes:COUNT.", min=1),
]


def file_and_changes(experiment: str | None, overrides: list[str] | None) -> tuple[Path | None, list[str]]:
    """Without a file, the first setting stands in its place."""
    if experiment is None or "=" not in experiment:
        return Path(experiment) if experiment else None, overrides or []
    return None, [experiment, *(overrides or [])]


def executor_text(on: str | None, workers: int | None) -> str | None:
    """What `--on` and `--workers` say together; None is the default."""
    if workers is None:
        return on
    if on not in (None, "processes"):
        raise PartitaError(f"--workers {workers} does not go with --on {on}. Give one of them.")
    return f"processes:{workers}"


def use_one_thread() -> None:
    """Small networks are slower with more threads."""
    import torch

    torch.set_num_threads(1)


@contextmanager
def interruptible(command: str, at_last: Callable[[], object] | None = None) -> Iterator[None]:
    """Ctrl-C and SIGTERM drop the round in progress; what came before is kept, and the command continues it.

    `at_last` is done before the end; another Ctrl-C during it ends at once, and loses nothing that was committed.
    """

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        terminal.tell(f"Interrupted. Nothing that was done is lost; continue with: {command}")
        if at_last:
            at_last()
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)
