"""Whom does the guard save? FedPer with and without it, over several seeds, by the prior.

    python benchmarks/guard.py mnist_writers [--seeds 5] [--priors 1 10] [--output runs/guard] [--json]

Runs are kept in the output folder and used again. All scores are on test data, which the guard never sees.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from partita.evaluation.analyses.guard import guard
from partita.evaluation.comparison import compare
from partita.evaluation.gains import gain
from partita.evaluation.guard import PRIOR
from partita.evaluation.metric import Metric
from partita.experiment.settings.files import make
from partita.runs.baselines import add_baselines
from partita.runs.evaluate import analyse
from partita.runs.folders import BESIDE
from partita.runs.reuse import folder_for, session_for

RATE = {"name": "sgd", "lr": 0.1}
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "mnist_writers": {
        "algorithm": {"name": "fedper", "epochs": 2, "optimizer": RATE},
        "model": {"name": "mlp", "hidden": 64},
        "data": {"name": "mnist_writers", "split": {"name": "natural", "test": 0.25, "clients": 200}},
        "rounds": 20,
        "batching": {"size": 16},
    },
    "hapt": {
        "algorithm": {"name": "fedper", "epochs": 1, "optimizer": {"name": "sgd", "lr": 0.05}},
        "model": "har_convnet",
        "data": {"name": "hapt", "split": {"name": "natural", "test": 0.25}},
        "rounds": 20,
        "batching": {"size": 32},
    },
    **{
        f"digits_{alpha}": {
            "algorithm": {"name": "fedper", "epochs": 1, "optimizer": RATE},
            "model": "mlp",
            "data": {"name": "digits", "split": {"name": "dirichlet", "clients": 20, "alpha": alpha}},
            "rounds": 30,
        }
        for alpha in (0.1, 0.5, 5.0)
    },
}


def guarded(settings: Mapping[str, Any], number: int, prior: float, place: Path) -> Mapping[str, Any]:
    """The guard's outcome under one seed; all seeds have the same division, so that clients can be paired."""
    experiment = replace(make(settings), seed=number, evaluate_every=0)
    folder = folder_for("fedper", experiment, place)
    with session_for(experiment, folder, baselines=BESIDE) as session:
        session.run()
        add_baselines(session)
        return analyse(session, guard(prior=prior))


def summary(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Over seeds: clients hurt before and after, means, and the paired difference with its interval."""
    scores = {
        name: {
            (seed, client): score
            for seed, each in enumerate(outcomes)
            for client, score in zip(each["clients"], each[name], strict=True)
        }
        for name in ("personal", "global", "guarded")
    }
    [_, difference] = compare(scores, baseline="personal").differences
    gains = {
        name: gain(name, dict(enumerate(scores[name].values())), _plain(scores["global"]), Metric("accuracy"))
        for name in scores
    }
    return {
        "prior": outcomes[0]["prior"],
        "seeds": len(outcomes),
        "clients": len(outcomes[0]["clients"]),
        "hurt_before": [each["hurt_before"] for each in outcomes],
        "hurt_after": [each["hurt_after"] for each in outcomes],
        "worst_decile_of_gains_before": gains["personal"].worst_decile,
        "worst_decile_of_gains_after": gains["guarded"].worst_decile,
        "mean": {name: sum(each.values()) / len(each) for name, each in scores.items()},
        "difference": difference.mean,
        "interval": difference.interval,
        "weights": {
            str(weight): sum(each["chosen"].count(weight) for each in outcomes) / len(outcomes)
            for weight in outcomes[0]["weights"]
        },
        "by_seed": [[each["difference"], each["low"], each["high"]] for each in outcomes],
    }


def _plain(scores: Mapping[tuple[int, int], float]) -> dict[int, float]:
    return dict(enumerate(scores.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--priors", type=float, nargs="+", default=[PRIOR])
    parser.add_argument("--output", type=Path, default=Path("runs/guard"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    settings = EXPERIMENTS[options.experiment]
    place = options.output / options.experiment
    found = [
        summary([guarded(settings, number, prior, place) for number in range(options.seeds)])
        for prior in options.priors
    ]
    if options.json:
        print(json.dumps(found, indent=1))
        return
    for each in found:
        mean = ", ".join(f"{name} {100 * value:.2f}" for name, value in each["mean"].items())
        low, high = each["interval"]
        print(
            f"prior {each['prior']:g}: hurt {sum(each['hurt_before'])} -> {sum(each['hurt_after'])} of "
            f"{each['seeds'] * each['clients']}; {mean}; guarded - personal {100 * each['difference']:+.2f} "
            f"[{100 * low:+.2f}, {100 * high:+.2f}]; worst decile of gains "
            f"{100 * each['worst_decile_of_gains_before']:+.1f} -> {100 * each['worst_decile_of_gains_after']:+.1f}; "
            f"weights {each['weights']}"
        )


if __name__ == "__main__":
    main()
