"""How many samples does a new client need? Scores by their number, against training alone and the global model.

    python benchmarks/onboarding.py mnist_writers [--seeds 1] [--output runs/onboarding] [--json]

Some clients never train; each then gets the personal part from 1, 2, 5, 10, 20 and all of its training samples. Runs
are kept in the output folder and used again. All scores are on test data.
"""

import argparse
import datetime
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from partita.evaluation.analyses.onboarding import MODELS, onboarding
from partita.experiment.settings.files import make
from partita.runs.baselines import add_baselines
from partita.runs.environment import environment
from partita.runs.evaluate import analyse
from partita.runs.folders import BESIDE
from partita.runs.reuse import folder_for, session_for

EXPERIMENTS: dict[str, dict[str, Any]] = {
    "mnist_writers": {
        "algorithm": {"name": "fedper", "epochs": 2, "optimizer": {"name": "sgd", "lr": 0.1}},
        "model": {"name": "mlp", "hidden": 64},
        "data": {"name": "mnist_writers", "newcomers": 30, "split": {"name": "natural", "test": 0.25, "clients": 150}},
        "rounds": 20,
        "batching": {"size": 16},
    },
    "hapt": {
        "algorithm": {"name": "fedper", "epochs": 1, "optimizer": {"name": "sgd", "lr": 0.05}},
        "model": "har_convnet",
        "data": {"name": "hapt", "newcomers": 6, "split": {"name": "natural", "test": 0.25}},
        "rounds": 20,
        "batching": {"size": 32},
    },
}


def measured(settings: Mapping[str, Any], seed: int, start: str, place: Path) -> Mapping[str, Any]:
    """The curves under one seed; all seeds have the same division."""
    experiment = replace(make(settings), seed=seed, evaluate_every=0)
    folder = folder_for("fedper", experiment, place)
    with session_for(experiment, folder, baselines=BESIDE) as session:
        session.run()
        add_baselines(session)
        return analyse(session, onboarding(start=start))  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--starts", nargs="+", default=["initial", "mean", "nearest"])
    parser.add_argument("--output", type=Path, default=Path("runs/onboarding"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    settings, place = EXPERIMENTS[options.experiment], options.output / options.experiment
    found = {
        start: [measured(settings, seed, start, place) for seed in range(options.seeds)] for start in options.starts
    }
    if options.json:
        made = {
            "command": f"python benchmarks/onboarding.py {options.experiment} --seeds {options.seeds} --json",
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "environment": environment(),
            "experiment": options.experiment,
            "settings": settings,
            "found": found,
        }
        print(json.dumps(made, indent=1))
        return
    for start, outcomes in found.items():
        print(f"start {start}: {' '.join(f'{count:>6}' for count in outcomes[0]['counts'])}")
        for name, text in MODELS.items():
            known = [each["scores"][name] for each in outcomes]
            means = [
                "     -" if None in column else f"{100 * fmean(column):6.1f}" for column in zip(*known, strict=True)
            ]
            print(f"  {text:24} {' '.join(means)}")


if __name__ == "__main__":
    main()
