"""What do commands have in common? Their arguments."""

from pathlib import Path
from typing import Annotated

import typer

Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Settings by dotted key, as in algorithm.optimizer.lr=0.05"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Folder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]


def use_one_thread() -> None:
    """Small networks are slower with more threads."""
    import torch

    torch.set_num_threads(1)
