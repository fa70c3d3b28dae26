"""How long does a round take over loopback, and how much travels? Against Flower as it comes.

    python -m benchmarks.federation --output benchmarks/results/federation.json

Two sites, TLS, a key for each site, a database: once as `partita federate up` does it, once with Flower's own commands
and an app of the usual form, which loads torch, trains the same network on the same data and sends the same part. Bytes
are counted between each SuperNode and the SuperLink, on a connection that passes them on: with TLS, HTTP and polls.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from partita.algorithms.fedper import fedper
from partita.api.run import keep
from partita.deploy.certificates import make_certificates, make_key
from partita.deploy.federated import federated
from partita.deploy.loopback import loopback
from partita.deploy.plan import Plan
from partita.deploy.processes import Part
from partita.deploy.server import Limits
from partita.deploy.services import AUTHORITY, CERTIFICATE, DATABASE, HOST, KEY, free_port
from partita.deploy.superlink import SuperLink, environment
from partita.experiment.experiment import Experiment
from partita.experiment.settings.settings import federation_of
from partita.models.mlp import mlp
from partita.runs.environment import environment as machine
from partita.runs.stored import read_run

SITES = 2
DATA = {"name": "digits", "split": {"name": "dirichlet", "clients": SITES, "alpha": 0.5}}
PROJECT = """
[project]
name = "usual"
version = "1.0.0"
[tool.flwr.app]
publisher = "benchmark"
[tool.flwr.app.components]
serverapp = "usual:server"
clientapp = "usual:client"
[tool.flwr.app.config]
rounds = 3
hidden = 64
times = ""
"""
APP = '''
"""FedAvg of the body as an app of Flower usually does it."""
import time
from flwr.app import ArrayRecord, MetricRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

client = ClientApp()
server = ServerApp()

def network(hidden):
    from torch import nn
    return nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))

@client.train()
def train(message, context):
    import torch
    from sklearn.datasets import load_digits
    model = network(context.run_config["hidden"])
    model[1].load_state_dict(message.content["arrays"].to_torch_state_dict())
    inputs, targets = load_digits(return_X_y=True)
    rows = slice(context.node_config["site"], None, 2)
    inputs, targets = torch.tensor(inputs[rows], dtype=torch.float32) / 16, torch.tensor(targets[rows])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in torch.randperm(len(inputs)).split(10):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs[batch]), targets[batch]).backward()
        optimizer.step()
    content = {"arrays": ArrayRecord(model[1].state_dict()), "metrics": MetricRecord({"num-examples": len(inputs)})}
    return Message(RecordDict(content), reply_to=message)

@server.main()
def main(grid, context):
    def note(round, arrays):
        with open(context.run_config["times"], "a") as file:
            file.write(f"{time.time()}\\n")
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=2, min_available_nodes=2)
    arrays = ArrayRecord(network(context.run_config["hidden"])[1].state_dict())
    strategy.start(grid, arrays, num_rounds=context.run_config["rounds"], evaluate_fn=note)
'''


@dataclass
class Counting:
    """Passes connections on to a port of this machine, and counts their bytes."""

    to: int
    up: int = 0
    down: int = 0
    port: int = 0
    _listener: socket.socket = field(default_factory=socket.socket)

    def __enter__(self) -> "Counting":
        self._listener.bind((HOST, 0))
        self._listener.listen()
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection((HOST, self.to))
                threading.Thread(target=self._pass, args=(near, far, "up"), daemon=True).start()
                threading.Thread(target=self._pass, args=(far, near, "down"), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, name: str) -> None:
        with suppress(OSError):
            while part := source.recv(1 << 16):
                setattr(self, name, getattr(self, name) + len(part))
                target.sendall(part)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True)
class Measured:
    """Of one way, all rounds but the first, which waits for sites, and the last, in which models are evaluated."""

    seconds: list[float]
    median: float
    wire: int | None = None
    """Bytes between SuperNodes and SuperLink, with introductions, polls and evaluations."""
    messages: int | None = None
    shared: int | None = None
    """Bytes of shared tensors that a simulation would count, with the download for the evaluation."""

    @classmethod
    def of(cls, seconds: list[float], **more: int) -> "Measured":
        return cls([round(each, 2) for each in seconds], round(statistics.median(seconds), 2), **more)


def ours(rounds: int, hidden: int) -> Measured:
    """As `partita federate up` does it."""
    data = federation_of(DATA, "data")
    made = Experiment(
        fedper(epochs=1), partial(mlp, hidden=hidden), data, rounds=rounds, participation="all", evaluate_every=0
    )
    plan, port = Plan.of(made), free_port()
    with tempfile.TemporaryDirectory() as place, Counting(port) as counting:
        folder, start = Path(place), Part.start

        def through(part: Part) -> None:
            if part.command[:2] == ["node", "connect"]:
                part.command = [each.replace(f":{port}", f":{counting.port}") for each in part.command]
            start(part)

        Part.start = through  # type: ignore[method-assign, assignment]
        try:
            with (
                loopback(plan, DATA, folder, port) as superlink,
                federated(plan, superlink, Limits(seconds=120, replies=SITES), folder / "run") as (remote, sites),
            ):
                keep(remote, folder / "run", baselines=None, on=sites)
        finally:
            Part.start = start  # type: ignore[method-assign]
        run = read_run(folder / "run")
        entries = [json.loads(line) for line in (folder / "run" / "federation.log").read_text().splitlines()]
        asked = sum(sum(each["sites"].values()) for each in entries if each["event"] == "asked")
        answered = sum(each["bytes"] for each in entries if each["event"] == "answered")
        trained = sum(each.down + each.up for each in run.traffic)
        evaluated = sum(each.down for each in run.traffic if each.round == rounds)
        seconds = [each for _, each, _ in run.rounds][1:-1]
        return Measured.of(
            seconds, wire=counting.up + counting.down, messages=asked + answered, shared=trained + evaluated
        )


def as_it_comes(rounds: int, hidden: int) -> Measured:
    """With Flower's own commands, as their documentation starts them."""
    port = free_port()
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        make_certificates(folder)
        tls = ["--ssl-certfile", CERTIFICATE, "--ssl-keyfile", KEY, "--ssl-ca-certfile", AUTHORITY]
        link = ["flower-superlink", "--host", HOST, "--port", str(port), *tls, "--enable-supernode-auth"]
        stack.enter_context(
            flower([*link, "--database", DATABASE, "--disable-runtime-dependency-installation"], folder)
        )
        while not _listens(port):
            time.sleep(0.2)
        superlink = SuperLink(f"{HOST}:{port}", folder / AUTHORITY)
        for site in range(SITES):
            superlink.register(make_key(folder / f"key{site}"), str(site))
            options = ["--root-certificates", AUTHORITY, "--auth-supernode-private-key", f"key{site}"]
            runtime = ["--host", HOST, "--port", str(free_port()), "--node-config", f"site={site}"]
            stack.enter_context(
                flower(["flower-supernode", "--superlink", f"{HOST}:{port}", *options, *runtime], folder)
            )
        app, times = folder / "app", folder / "times"
        app.mkdir()
        (app / "pyproject.toml").write_text(PROJECT)
        (app / "usual.py").write_text(APP)
        superlink._ask("run", str(app), "partita", "-c", f"rounds={rounds} hidden={hidden} times='{times}'")
        while not times.exists() or len(found := times.read_text().split()) < rounds + 1:
            time.sleep(0.5)
        moments = [float(each) for each in found]
        seconds = [after - before for before, after in pairwise(moments)]
        return Measured.of(seconds[1:-1])


@contextmanager
def flower(command: list[str], folder: Path) -> Iterator[None]:
    """One of Flower's commands, with nothing of ours but where its files are."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    left_out = ("FLWR_SUPEREXEC_TASK_POLL_INTERVAL",)
    env = {key: each for key, each in environment(folder).items() if key not in left_out}
    found = shutil.which(command[0], path=path)
    assert found
    with open(folder / "log", "ab") as log:
        process = subprocess.Popen(
            [found, *command[1:]], cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        for end in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, end)
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)


def _listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex((HOST, port)) == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 512, 8192])
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    found: dict[str, Any] = {"machine": machine(), "rounds": given.rounds}
    ways = [(ours, hidden) for hidden in given.hidden] + [(as_it_comes, given.hidden[0])]
    for way, hidden in ways:
        measured = asdict(way(given.rounds, hidden))
        found[f"{way.__name__}, hidden {hidden}"] = measured
        print(way.__name__, hidden, measured, flush=True)
    if given.output:
        given.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
