"""Does the authors' own code find what we find, on the same rows? Its scores become runs of a recipe's stored result.

    python -m benchmarks.authors CHECKOUT [--recipe fedbabu_tables12_13] [--size small] [--only RUNS] [--seeds 1]

CHECKOUT is https://github.com/jhoon-oh/FedBABU. Rows, participants, rounds, epochs, batches and rates are those of our
run; initial weights, order of samples, crops and flips are drawn by their code. It runs in one process of one thread.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import arrays
from partita.core.optimizers import SGD
from partita.core.phases import Phase
from partita.core.schedules import DECAY
from partita.core.selectors import BODY
from partita.errors import PartitaError
from partita.experiment.experiment import Experiment
from partita.experiment.settings.files import make
from partita.randomness import Moment
from partita.recipes.places import recipe_named, results_folder
from partita.recipes.result import DIGITS, RunResult, read_result, write_result

DRIVER = Path(__file__).parent / "peers" / "fedbabu_scores.py"
THEIRS, FINETUNING = SGD(0.1, momentum=0.9, schedule=DECAY), SGD(0.001, momentum=0.9)


def authors_run(ours: RunResult, settings: dict[str, Any], checkout: Path, seeds: int) -> RunResult:
    """What their code scores where our run was made, client by client."""
    experiment = make(settings)
    if experiment.data.fingerprint != ours.fingerprint:
        raise PartitaError("The data are not those of the stored run. Set PARTITA_DATA to the same files.")
    tested = [experiment.data.client(name) for name in ours.clients]
    found = [_scores(experiment, tested, checkout, seed) for seed in range(seeds)]
    return replace(
        ours,
        settings={**ours.settings, "code": f"FedBABU's authors', commit {_commit(checkout)[:10]}"},
        seconds=round(sum(each["seconds"] for each in found), 1),
        scores={
            name: {
                str(seed): [round(score / 100, DIGITS) for score in each["scores"][name]]
                for seed, each in enumerate(found)
            }
            for name in found[0]["scores"]
        },
        course=None,
        validated=None,
        date=str(datetime.date.today()),
        commit=_commit(Path()),
    )


def _scores(experiment: Experiment, tested: list[int], checkout: Path, seed: int) -> dict[str, Any]:
    [phase], [tuning] = experiment.algorithm.phases, experiment.algorithm.finetune
    if not (isinstance(phase, Phase) and isinstance(tuning, Phase)):
        raise PartitaError("The run must train in one phase and fine-tune in one, as the authors' code does.")
    if (*map(str, (phase.optimizer, tuning.optimizer)), tuning.epochs) != (str(THEIRS), str(FINETUNING), 5):
        raise PartitaError(
            "The run must train with SGD at a rate of 0.1, momentum 0.9 and decay, and fine-tune for 5 epochs at 0.001 "
            "with momentum 0.9: the authors' code does."
        )
    told = {
        "seed": seed,
        "body_alone": phase.train == BODY,
        "participants": [
            experiment.sampler(len(experiment.data), Moment(seed=experiment.seed, round=at))
            for at in range(experiment.rounds)
        ],
        "tested": tested,
        "batch": experiment.batching.size,
        "epochs": phase.epochs,
        "rate": THEIRS.lr,
        "momentum": THEIRS.momentum,
        "classes": experiment.data.classes,
    }
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "task.npz"
        np.savez(task, allow_pickle=False, settings=np.array(json.dumps(told)), **arrays(experiment.data))
        done = subprocess.run(
            [sys.executable, str(DRIVER), str(checkout), str(task)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    if done.returncode:
        raise PartitaError(f"{DRIVER} failed; its error is above.")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _commit(folder: Path) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--recipe", default="fedbabu_tables12_13")
    parser.add_argument("--size", choices=["small", "full"], default="small")
    parser.add_argument("--only", help="names of the authors' runs, separated by commas; by default all")
    parser.add_argument("--seeds", type=int, default=1, help="of their weights and orders; rows stay the same")
    options = parser.parse_args()
    recipe, size = recipe_named(options.recipe), options.size
    for name in options.only.split(",") if options.only else recipe.authors:
        result = read_result(results_folder(), recipe.name, size)
        of = recipe.authors[name]
        if result is None or of not in result.runs:
            raise PartitaError(f"There is no result of {of} yet: partita recipe run {recipe.name}")
        made = authors_run(result.runs[of], recipe.settings_of(of, size), options.checkout, options.seeds)
        print(write_result(results_folder(), replace(result, runs={**result.runs, name: made})))


if __name__ == "__main__":
    main()
