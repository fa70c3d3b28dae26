"""TensorBoard: event files in a folder, by default `tensorboard` in that of the run."""

import json
from collections.abc import Mapping
from pathlib import Path

from ...extras import optional
from .tracker import About, Tracker


def tensorboard(about: About) -> Tracker:
    """Event files in the folder given, or in the run's own; a resumed run continues in the same folder."""
    library = optional("torch.utils.tensorboard", "partita[track]")
    inside = about.folder / "tensorboard" if about.folder and not about.place else None
    # The run's record does not decide this: its author would choose where files are written.
    folder = str(inside or Path(about.place or "tensorboard") / about.name)
    # What an interrupted run wrote of rounds that are now run again is hidden.
    writer = library.SummaryWriter(folder, purge_step=about.first if about.before else None)
    if not about.before:
        writer.add_text("settings", f"    {json.dumps(about.settings, indent=1, default=str)}".replace("\n", "\n    "))

    def log(numbers: Mapping[str, float], step: int) -> None:
        for name, value in numbers.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    def close(status: str) -> None:
        writer.add_text("status", status)
        writer.close()

    return Tracker(folder, log, close)
