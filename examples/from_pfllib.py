"""A data set that PFLlib generated, with its clients and its test rows.

This example writes a folder in PFLlib's layout; yours is dataset/NAME of its checkout.
"""

import json
from pathlib import Path

import numpy as np

from partita import SGD, fedala, federate, fedper, mlp, pfllib, simulate


def make_folder(folder: Path) -> None:
    draw = np.random.default_rng(0)
    centres = 2 * draw.normal(size=(4, 16))
    for role, count in (("train", 40), ("test", 12)):
        (folder / role).mkdir(parents=True, exist_ok=True)
        for client in range(4):
            labels = draw.choice(4, size=count, p=np.roll([0.6, 0.2, 0.1, 0.1], client))
            inputs = (centres[labels] + draw.normal(size=(count, 16))).astype("float32")
            np.savez_compressed(folder / role / f"{client}.npz", data=np.array({"x": inputs, "y": labels}))
    (folder / "config.json").write_text(json.dumps({"num_clients": 4, "num_classes": 4}))


def main() -> None:
    folder = Path("dataset/Mine")
    make_folder(folder)
    data = federate(pfllib(path=str(folder)))
    for method in (fedper(epochs=1, optimizer=SGD(0.05)), fedala(optimizer=SGD(0.05))):
        result = simulate(method, mlp, data, rounds=5)
        print(f"{method.name}: {100 * result.score().macro:.1f} % on PFLlib's own test rows")


if __name__ == "__main__":
    main()
