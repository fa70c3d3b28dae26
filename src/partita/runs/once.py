"""How is an experiment run once and used again? In a folder named after what decides its result."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..experiment.experiment import OnRound
from .database import DATABASE, BusyError
from .run import resume, start
from .store import Store

OnWait = Callable[[Path], None]
DECIDE_NOTHING = ("evaluate_every", "evaluation_batch", "evaluation_clients")
"""Settings that change how a run is looked at, but not its result."""
PAUSE = 0.5
"""Seconds between two looks at a run that another process works on."""


def folder_for(name: str, settings: Mapping[str, Any], place: Path, fingerprint: str = "") -> Path:
    """Where a run of these settings on these data belongs."""
    deciding = {key: value for key, value in settings.items() if key not in DECIDE_NOTHING}
    text = json.dumps([deciding, fingerprint, version("partita")], sort_keys=True)
    return place / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def run_once(
    settings: Mapping[str, Any],
    folder: Path,
    on_round: OnRound | None = None,
    on_wait: OnWait | None = None,
    *,
    baselines: Path | None = None,
) -> None:
    """Start the run, or resume it, or leave it if it is done. Another process that works on it is waited for."""
    waited = False
    while True:
        try:
            _go_on(settings, folder, on_round, baselines)
            return
        except BusyError:
            if on_wait and not waited:
                on_wait(folder)
            waited = True
            time.sleep(PAUSE)


def _go_on(settings: Mapping[str, Any], folder: Path, on_round: OnRound | None, baselines: Path | None) -> None:
    if not (folder / DATABASE).exists():
        start(settings, folder, baselines=baselines, on_round=on_round)
        return
    with Store.open(folder) as store:
        done = store.done
    if not done:
        resume(folder, on_round=on_round)
