"""A law of all methods: a kept run has the same bytes under any hash seed and number of workers, interrupted or not."""

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from laws.methods import ALGORITHMS
from partita.core.batching import Batching
from partita.core.samples import Samples
from partita.experiment.events import Event, RoundEnded
from partita.experiment.experiment import Experiment
from partita.runs.database import DATABASE
from partita.runs.reuse import session_for
from repetition import repeated
from toys import small_federation, small_network

DOUBLE = small_federation((6, 5, 7))
# In single precision another order of a sum is another number.
DATA = replace(DOUBLE, samples=Samples(DOUBLE.samples.inputs.float(), DOUBLE.samples.targets))
SOME = ["apple", "flayer official", "fedper", "scaffold", "server_update(fedbabu)"]
STORED = (
    "SELECT stage, client, part, bytes, checksum FROM parts ORDER BY stage, client, part",
    "SELECT * FROM states ORDER BY stage, client",
    "SELECT * FROM metrics ORDER BY rowid",
    "SELECT * FROM traffic ORDER BY rowid",
    "SELECT * FROM outcomes ORDER BY rowid",
    "SELECT * FROM division",
    "SELECT stage, round, participants FROM rounds ORDER BY stage, round",
)
"""All that is stored but what differs from run to run: times, and the record, which names the machine."""


class StoppedError(Exception):
    pass


def keep(folder: Path, names: list[str], on: str, stop: bool) -> None:
    """Run each method in a folder of its own, or resume it; `stop` interrupts it after its first round."""

    def listen(event: Event) -> None:
        if stop and isinstance(event, RoundEnded):
            raise StoppedError

    for name in names:
        experiment = Experiment(
            ALGORITHMS[name], small_network().float(), DATA, rounds=2, participation=0.67, batching=Batching(3)
        )
        try:
            with session_for(experiment, folder / name, on=on, commit_every=1, on_event=listen) as session:
                session.run()
        except StoppedError:
            continue


def stored(folder: Path) -> str:
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        rows = [connection.execute(query).fetchall() for query in STORED]
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def started(seed: int, folder: Path, *arguments: object) -> subprocess.Popen[bytes]:
    root = Path(__file__).resolve().parents[2]
    program = (
        "import json, sys, warnings; warnings.simplefilter('ignore'); from pathlib import Path\n"
        "from laws.test_stored_bytes import keep\n"
        "keep(Path(sys.argv[1]), *json.loads(sys.argv[2]))"
    )
    path = os.pathsep.join([str(root / "src"), str(root / "tests")])
    return subprocess.Popen(
        [sys.executable, "-c", program, str(folder), json.dumps(arguments)],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": str(seed), "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize("names", repeated([SOME, sorted(ALGORITHMS)]), ids=["some", "all"])
def test_stored_bytes_depend_on_the_experiment_alone(names: list[str], tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    at_once, interrupted = started(1, one, names, "inline", False), started(2, other, names, "processes:2", True)
    assert (interrupted.wait(300), at_once.wait(300)) == (0, 0)
    assert [name for name in names if stored(one / name) == stored(other / name)] == [], "none has ended"
    assert started(3, other, names, "processes:3", False).wait(300) == 0
    assert [name for name in names if stored(one / name) != stored(other / name)] == []
