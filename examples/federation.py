"""A federation on one machine: a SuperLink of Flower and three sites, each a process with its own data and policy.

It needs the extras flower and deploy. The same without Python: partita federate up, as below.
"""

import subprocess
import sys

import partita

COMMAND = (sys.executable, "-m", "partita", "federate", "up", "--nodes", "3", "--output", "federation")
SETTINGS = ("algorithm=fedper", "algorithm.epochs=1", "data.split=iid", "rounds=2")


def main() -> None:
    subprocess.run([*COMMAND, *SETTINGS], check=True)
    kept = partita.open("federation/run")
    print(f"test accuracy over sites {100 * kept.score().macro:.1f} %; each site kept its own head")


if __name__ == "__main__":
    main()
