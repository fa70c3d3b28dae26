"""A federation over Flower: real processes, TLS, a key for each site, and the bits of a simulation."""

import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from bits import Noting, digest
from partita import extras
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedper import fedper
from partita.algorithms.flayer import flayer
from partita.api.run import keep
from partita.core.algorithm import Algorithm
from partita.core.server import Update
from partita.deploy.audit import entries_of
from partita.deploy.federated import federated
from partita.deploy.gate import write_approvals
from partita.deploy.loopback import loopback
from partita.deploy.messages import packed_update
from partita.deploy.node import APPROVALS, LOG
from partita.deploy.personal import PersonalStore
from partita.deploy.plan import Plan
from partita.deploy.server import Exchange, Limits
from partita.deploy.services import DATABASE
from partita.deploy.superlink import SuperLink, environment
from partita.deploy.warm import POLLING
from partita.errors import PartitaError
from partita.experiment.executors.inline import Inline
from partita.experiment.experiment import Experiment
from partita.experiment.settings.settings import federation_of
from partita.experiment.simulate import run_stages
from partita.models.mlp import mlp
from partita.runs.store import Store
from partita.tensors import Tensors
from watching import children, works_in

DATA = {"name": "digits", "split": {"name": "dirichlet", "clients": 3, "alpha": 0.5}}
METHODS = {"fedper": fedper(epochs=1), "flayer": flayer(on=fedper(epochs=1))}
DISTURBED = fedavg(epochs=1)
"""The method in whose first round processes are killed."""
ROUNDS = 3
WINDOW = 32
"""Bytes that are looked for: a database keeps what is longer in several places."""


def made(algorithm: Algorithm) -> Experiment:
    data = federation_of(DATA, "data")
    return Experiment(algorithm, mlp, data, rounds=ROUNDS, seed=3, participation="all", evaluate_every=0)


@dataclass(frozen=True)
class Federated:
    """What is left of a federation of real processes."""

    folder: Path
    replies: Mapping[str, Mapping[int, list[bytes]]]
    """By plan and site, all that the server got in rounds."""
    told: list[str]
    """What the user was told."""


@pytest.fixture(scope="module")
def over_flower() -> Iterator[Federated]:
    """All methods one after another, with the same processes."""
    replies: dict[str, dict[int, list[bytes]]] = {}
    told = list[str]()
    # With a short path, as sockets need one.
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        plans = [Plan.of(made(method)) for method in (*METHODS.values(), DISTURBED)]
        with loopback(plans[0], DATA, folder, tell=told.append) as superlink:
            for plan in plans:
                for number in range(len(plan.sites)):
                    write_approvals(folder / "sites" / str(number) / APPROVALS, {plan.hash: ""})
                noted = replies.setdefault(plan.hash, defaultdict(list))
                with federated(plan, superlink, Limits(seconds=120, replies=3), folder / plan.hash) as (remote, sites):
                    exchange = sites.exchange if plan is not plans[-1] else disturbed(sites.exchange, folder)
                    on = replace(sites, exchange=captured(exchange, noted))
                    assert keep(remote, folder / plan.hash, baselines=None, on=on).stored.record.done
        yield Federated(folder, replies, told)


def captured(exchange: Exchange, noted: dict[int, list[bytes]]) -> Exchange:
    def exchanged(orders: Mapping[int, bytes], seconds: float) -> Iterator[tuple[int, bytes | PartitaError]]:
        for number, reply in exchange(orders, seconds):
            if isinstance(reply, bytes):
                noted[number].append(reply)
            yield number, reply

    return exchanged


def disturbed(exchange: Exchange, folder: Path) -> Exchange:
    """After the first reply, the SuperNode of one other site is killed, and the process of another one."""
    alive = {0, 1, 2}

    def exchanged(orders: Mapping[int, bytes], seconds: float) -> Iterator[tuple[int, bytes | PartitaError]]:
        for number, reply in exchange(orders, seconds):
            if alive:
                alive.remove(number)
                kill(folder / "sites" / str(alive.pop()) / "flower")
                kill(folder / "sites" / str(alive.pop()))
            yield number, reply

    return exchanged


def kill(folder: Path) -> None:
    """The process of the federation that works in a folder."""
    [process] = [each for each in children() if works_in(each, folder)]
    os.kill(process, signal.SIGKILL)


def test_what_dies_in_a_round_is_started_again(over_flower: Federated) -> None:
    """The round goes on with the same orders, and nobody is left out."""
    experiment = made(DISTURBED)
    with Store.open(over_flower.folder / Plan.of(experiment).hash, write=False) as store:
        found, left_out = store.server("run"), store.left_out("run")
    assert found is not None
    assert digest(found[1]) == digest(run_stages(experiment, Inline()).state)
    assert not left_out
    names = sorted(" ".join(each.split()[:3]) for each in over_flower.told if "killed by SIGKILL" in each)
    assert len(over_flower.told) == len(names) == 2
    assert names[0].startswith("The SuperNode of")
    assert names[1].startswith("The site")


@pytest.mark.parametrize("name", METHODS)
def test_the_bits_of_a_simulation_and_no_personal_byte_elsewhere(name: str, over_flower: Federated) -> None:
    """Real processes, TLS and keys: server and sites have the simulator's states, and personal bytes stay."""
    experiment, folder, noting = made(METHODS[name]), over_flower.folder, Noting(Inline())
    plan, expected = Plan.of(experiment), run_stages(experiment, noting)
    with Store.open(folder / plan.hash, write=False) as store:
        found = store.server("run")
    assert found is not None
    assert digest(found[1]) == digest(expected.state)
    stored = b"".join(path.read_bytes() for path in (folder / "superlink").glob(f"{DATABASE}*"))
    public = b"".join(told([*noting.states, *(packed_update(each) for each in updates(noting))]))
    secret: set[bytes] = set()
    for number in range(len(plan.sites)):
        with PersonalStore(folder / "sites" / str(number)) as store_of_site:
            personal = store_of_site.own(plan.hash, ROUNDS)
        assert digest(personal) == digest(expected.own[number])
        whole = [personal, *(each.values for each in updates(noting) if each.client == number)]
        secret |= windows(told(whole))
    secret -= occurring(secret, public)
    assert len(secret) > 200
    shared, replies = windows(told([expected.state])), over_flower.replies[plan.hash]
    elsewhere = b"".join([stored, *(reply for each in replies.values() for reply in each)])
    found_there = occurring(shared | secret, elsewhere)
    assert found_there & shared, "the search finds what is shared"
    assert not found_there & secret
    for number in range(len(plan.sites)):
        left = [
            entry["sha256"]
            for entry in entries_of(folder / "sites" / str(number) / LOG)
            if entry["event"] == "left" and entry["plan"] == plan.hash and entry["kind"] != "introduce"
        ]
        assert left == [hashlib.sha256(reply).hexdigest() for reply in replies[number]], (
            "the server got all that left the site"
        )


def updates(noting: Noting) -> list[Update]:
    return [each.update for results in noting.noted for each in results if each.update]


def told(tensors: Iterable[Tensors]) -> list[bytes]:
    return [tensor.numpy().tobytes() for each in tensors for tensor in each.values()]


def windows(whole: Iterable[bytes]) -> set[bytes]:
    """Pieces, each of which would tell that a tensor is there; what is all zeros tells nothing."""
    found = (each[at : at + WINDOW] for each in whole for at in range(0, len(each) - WINDOW + 1, WINDOW))
    return {each for each in found if any(each)}


def occurring(pieces: set[bytes], text: bytes) -> set[bytes]:
    """Those that are somewhere in a text; looked for by their first bytes, since there are many."""
    starts = np.ndarray(len(text) - 7, np.uint64, text, strides=(1,))
    first = np.unique(np.frombuffer(b"".join(each[:8] for each in pieces), np.uint64))
    found = {each.tobytes() for each in first[np.isin(first, starts)]}
    return {each for each in pieces if each[:8] in found and each in text}


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with (
            pytest.raises(PartitaError, match=f"Another process listens at 127.0.0.1:{port}"),
            loopback(Plan.of(made(fedper())), DATA, tmp_path, port),
        ):
            pass


def test_no_certificate(tmp_path: Path) -> None:
    with pytest.raises(PartitaError, match=r"There is no certificate .*missing.crt"):
        SuperLink("127.0.0.1:1", tmp_path / "missing.crt")


SENDING = """
import urllib.request
def sent(*_, **__): raise SystemExit("it would have been sent")
urllib.request.urlopen = sent
from flwr.supercore.telemetry import EventType, create_event
print(create_event(EventType.RUN_SUPERLINK_ENTER, None))
"""


def test_flower_sends_nothing_and_installs_nothing(tmp_path: Path) -> None:
    """The settings have the names that Flower reads; one that another version renames is noticed here."""
    told = environment(tmp_path)
    assert told[import_module("flwr.supercore.constant").FLWR_DISABLE_UPDATE_CHECK] == "1"
    assert told[import_module("flwr.common.constant").FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION] == "1"
    done = subprocess.run([sys.executable, "-c", SENDING], env=told, capture_output=True, text=True, timeout=300)
    assert done.stdout == "disabled\n", done.stderr
    assert hasattr(import_module(POLLING), "time"), "a SuperNode would look for messages every three seconds"


def test_one_file_imports_flower() -> None:
    """Another one, `masks.py`, loads Flower's secret sharing by its name."""
    room = Path(extras.__file__).parent
    assert [
        path.name
        for path in room.rglob("*.py")
        if re.search(r"^\s*(from|import) flwr\b", path.read_text("utf-8"), re.M)
    ] == ["flower.py"]


def test_flower_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError("No module named 'flwr'")

    monkeypatch.setattr(extras, "import_module", missing)
    (tmp_path / "authority.crt").touch()
    with pytest.raises(PartitaError, match=r"pip install 'partita\[flower\]'"):
        SuperLink("127.0.0.1:1", tmp_path / "authority.crt").start_app(tmp_path / "socket")
