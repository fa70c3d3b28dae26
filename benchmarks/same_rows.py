"""Does a peer's code find what ours finds? Its own training and evaluation, on the rows and for the rounds of a recipe.

    python -m benchmarks.same_rows PFLLIB_CHECKOUT --output benchmarks/results/same_rows.json [--method FedPer ...]

The rows are those of `flayer_table2_cifar10 --small`, whose stored result stands beside. PFLlib draws its own weights
and order of samples, so that the two differ by chance too. Test accuracies are of all samples, after the last round.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from partita.data.federation import Federation
from partita.experiment.settings.files import make
from partita.recipes.measure import Found
from partita.recipes.places import recipe_named, results_folder
from partita.recipes.result import read_result
from partita.runs.environment import environment

RECIPE = "flayer_table2_cifar10"
METHODS = {
    "FedPer": ("fedper", "FedPer, last round"),
    "FedRep": ("fedrep", "FedRep, last round"),
    "FedAvg": ("fedavg", "FedAvg, last round"),
    "Local": ("local", "local training, last round"),
}
"""Of each of PFLlib's methods our run, and its number."""


def rows(data: Federation, path: Path) -> None:
    """What is trained on and what is tested on, client after client; what is held out for validation is left out."""
    arrays = {}
    for role in ("train", "test"):
        parts = [getattr(data[client], role) for client in range(len(data))]
        arrays[f"{role}_inputs"] = np.concatenate([each.inputs.numpy() for each in parts])
        arrays[f"{role}_targets"] = np.concatenate([each.targets.numpy() for each in parts])
        arrays[f"{role}_sizes"] = np.array([len(each) for each in parts])
    np.savez(path, allow_pickle=False, **arrays)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--method", nargs="+", choices=METHODS, default=["FedPer"])
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    recipe = recipe_named(RECIPE)
    stored = read_result(results_folder(), RECIPE, "small")
    assert stored is not None
    found = json.loads(options.output.read_text())["methods"] if options.output.exists() else {}
    at = subprocess.run(
        ["git", "-C", options.checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    )
    with tempfile.TemporaryDirectory() as folder:
        division = Path(folder) / "rows.npz"
        experiment = make(recipe.settings_of("fedper", "small"))
        rows(experiment.data, division)
        for method in options.method:
            run, number = METHODS[method]
            if stored.runs[run].fingerprint != experiment.data.fingerprint:
                raise SystemExit(f"The stored run {run} is of other rows.")
            driver = Path(__file__).parent / "peers" / "pfllib.py"
            asked = ["cnn4_cifar10", str(division), "--method", method, "--accuracy", str(experiment.rounds)]
            done = subprocess.run(
                [sys.executable, str(driver), str(options.checkout), *asked], capture_output=True, text=True
            )
            if done.returncode:
                raise SystemExit(done.stderr[-2000:])
            theirs = json.loads(done.stdout.splitlines()[-1])["accuracy"][-1]
            ours = Found(recipe, stored).scores(recipe.number(number))
            assert ours is not None
            found[method] = {
                "theirs": round(100 * theirs, 2),
                "ours": round(ours.value, 2),
                "our interval": [round(end, 2) for end in ours.interval or ()],
                "rounds": experiment.rounds,
            }
    versions = {name: value for name, value in environment().items() if name != "commit"}
    told: dict[str, Any] = {
        "command": " ".join(["python -m benchmarks.same_rows PFLLIB_CHECKOUT --method", *found]),
        "rows": RECIPE,
    }
    told |= {"peer": "PFLlib", "peer commit": at.stdout.strip(), "environment": versions, "methods": found}
    options.output.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
