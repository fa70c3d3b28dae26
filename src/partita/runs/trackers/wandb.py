"""Weights & Biases: a run of the project given, or of `partita`."""

from collections.abc import Mapping

from ...extras import optional
from .tracker import About, Tracker


def wandb(about: About) -> Tracker:
    """A run of a project, on the server or offline as WANDB_MODE says; a resumed run is continued under its id."""
    library = optional("wandb", "partita[track]")
    run = library.init(
        project=about.place or "partita",
        name=about.name,
        config=dict(about.settings),
        id=about.before,
        resume="allow" if about.before else None,
    )

    def log(numbers: Mapping[str, float], step: int) -> None:
        run.log(dict(numbers), step=step)

    def close(status: str) -> None:
        run.summary["status"] = status
        run.finish(exit_code=0 if status == "done" else 1)

    return Tracker(str(run.id), log, close)
