"""Resident sites as processes of their own, over their sockets: the bits of a simulation, also if one is killed."""

import grp
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import partita
from bits import digest
from partita.algorithms.fedper import fedper
from partita.algorithms.flayer import flayer
from partita.data.federation import Federation
from partita.deploy.audit import verify
from partita.deploy.gate import write_approvals
from partita.deploy.node import Node
from partita.deploy.personal import DATABASE, PersonalStore
from partita.deploy.plan import Plan
from partita.deploy.server import RECEIPT, Limits, Sites, introduced
from partita.deploy.wire import ask, listening, serve
from partita.errors import PartitaError
from partita.experiment.executors.inline import Inline
from partita.experiment.experiment import Experiment
from partita.experiment.rounds import rounds
from partita.experiment.settings.settings import federation_of
from partita.experiment.setup import Setup
from partita.experiment.simulate import run_stages
from partita.models.mlp import mlp
from partita.tensors import Tensors
from watching import wait_for

DATA = {"name": "digits", "split": {"name": "dirichlet", "clients": 3, "alpha": 0.5}}
FILE = """
name = "{name}"
folder = "{name}"
client = "{name}"

[data]
name = "digits"
split = {{ name = "dirichlet", clients = 3, alpha = 0.5 }}

[leaving]
tensors = ["layer1.*", "head.*"]
most_bytes = 30000

[contract]
shape = [1, 8, 8]
least_samples = 50
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short path, as sockets need one."""
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


@pytest.fixture(scope="module")
def data() -> Federation:
    return federation_of(DATA, "data")


@contextmanager
def node(folder: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A site that answers."""
    file = folder / f"{name}.toml"
    file.write_text(FILE.format(name=name))
    program = "from partita.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "node", "run", str(file)],
        env={**os.environ, "PYTHONPATH": str(Path(partita.__file__).parents[1])},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ready(folder: Path, process: "subprocess.Popen[bytes]", name: str) -> None:
    def answers() -> bool:
        assert process.poll() is None, "the site ended"
        with suppress(PartitaError):
            return bool(ask(folder / name / "socket", b"hello"))
        return False

    assert wait_for(answers)


def run_over_sockets(plan: Plan, folder: Path, after: Callable[[int], None]) -> tuple[Tensors, dict[int, Tensors]]:
    """The server's state and receipts in the end; `after` is called with the number of each round."""

    def exchange(orders: Mapping[int, bytes], seconds: float) -> Iterator[tuple[int, bytes]]:
        for number, order in orders.items():
            with suppress(PartitaError):
                yield number, ask(folder / plan.sites[number] / "socket", order)

    receipts: dict[int, Tensors] = {}
    state: Tensors = {}
    made = plan.experiment_on(introduced(plan, exchange, Limits()))
    setup = Setup.of(made, made.stages[-1], {})
    for ended in rounds(setup, Sites(plan, exchange, Limits(replies=3)), receipts):
        state = ended.state
        after(ended.round)
    return state, receipts


def test_three_sites_have_the_bits_of_a_simulation(folder: Path, data: Federation) -> None:
    """FedPer, and FLAYER on it, for 3 rounds. In the first, a site is killed after round 2 and started again."""
    options: dict[str, Any] = {"rounds": 3, "seed": 3, "participation": "all", "evaluate_every": 0}
    experiments = [
        Experiment(method, mlp, data, **options) for method in (fedper(epochs=1), flayer(on=fedper(epochs=1)))
    ]
    plans = [Plan.of(made) for made in experiments]
    names = plans[0].sites
    for name in names:
        (folder / name).mkdir(mode=0o700)
        write_approvals(folder / name / "approvals.json", {plan.hash: "now" for plan in plans})
    with ExitStack() as stack:

        def start(name: str) -> "subprocess.Popen[bytes]":
            return stack.enter_context(node(folder, name))

        first, second, third = map(start, names)
        for process, name in zip((first, second, third), names, strict=True):
            ready(folder, process, name)

        def kill(round: int) -> None:
            if round == 2 and second.poll() is None:
                second.kill()
                second.wait()
                ready(folder, start(names[1]), names[1])

        found = [run_over_sockets(plan, folder, kill) for plan in plans]
        with pytest.raises(PartitaError, match="Another process listens"), listening(folder / names[0] / "socket"):
            pass
        assert stat.S_IMODE((folder / names[0] / "socket").stat().st_mode) == 0o600
        first.terminate()
        assert first.wait(300) == 130
        assert not (folder / names[0] / "socket").exists()
    for made, plan, (state, receipts) in zip(experiments, plans, found, strict=True):
        expected = run_stages(made, Inline())
        assert digest(state) == digest(expected.state)
        assert {number: int(receipt[RECEIPT]) for number, receipt in receipts.items()} == {0: 3, 1: 3, 2: 3}
        for number, name in enumerate(names):
            with PersonalStore(folder / name) as store:
                assert digest(store.own(plan.hash, 3)) == digest(expected.own[number])
    for name in names:
        assert verify(Node.read(folder / f"{name}.toml").log)[0] >= 2 * (1 + 3 + 1) * 2
        assert (folder / name / DATABASE).exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('name = "a"', r"does not name the site.s data"),
        ('name = "a"\n[data', "is not valid TOML"),
        ('[data]\nname = "digits"', "needs a value for name"),
        ('name = "a"\n[data]\nname = "digits"', "has 20 clients. Name the client"),
        ('name = "a"\npolice = 1\n[data]\nname = "digits"', "Did you mean 'policy'"),
        ('name = "a"\nclient = "0"\n[data]\nname = "digits"\n[contract]\nclasses = 7', "classes is 10, and must be 7"),
        ('name = "a"\nclient = "0"\nkey = "missing"\n[data]\nname = "digits"', "Cannot read the key"),
    ],
)
def test_a_file_that_is_wrong_is_told_in_one_line(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text(text)
    with pytest.raises(PartitaError, match=words), Node.read(tmp_path / "node.toml").open():
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_the_group_of_a_socket_may_hand_over_messages_and_read_nothing(folder: Path) -> None:
    """A site of one user, and a SuperNode of another: the folder is closed to it, and the socket is not."""
    folder.chmod(0o711)
    (folder / "site").mkdir(mode=0o700)
    (folder / "site" / "personal").write_text("secret")
    os.mkdir(folder / "run", mode=0o711)
    (folder / "run").chmod(0o711)
    path, group = folder / "run" / "socket", "nogroup"
    with listening(path, group) as listener:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        program = f"""
import os, sys
from pathlib import Path
from partita.deploy.wire import ask
from partita.errors import PartitaError
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(65533)
try:
    print(ask(Path({str(path)!r}), b"hello").decode())
except PartitaError as problem:
    print("refused" if "Permission denied" in str(problem) else problem)
try:
    Path({str(folder / "site" / "personal")!r}).read_text()
except PermissionError:
    print("closed")
"""

        def answer() -> None:
            with suppress(OSError):
                serve(listener, lambda message: message[::-1])

        thread = Thread(target=answer)
        thread.start()
        for gid, words in ((grp.getgrnam(group).gr_gid, "olleh\nclosed\n"), (65531, "refused\nclosed\n")):
            done = subprocess.run(
                [sys.executable, "-c", program, str(gid)], capture_output=True, text=True, timeout=300
            )
            assert done.stdout == words, done.stderr
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(300)
    with (
        pytest.raises(PartitaError, match=r"Cannot open .* to the group 'nobody-has-this'"),
        listening(path, "nobody-has-this"),
    ):
        pass


def test_nobody_is_there(tmp_path: Path) -> None:
    with pytest.raises(PartitaError, match=r"No site answers .*partita node run"):
        ask(tmp_path / "socket", b"hello")


def test_who_brings_a_message_needs_no_torch() -> None:
    program = "import sys, partita.deploy.wire; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_commands(told: Callable[..., str], own_folder: Path) -> None:
    sizes = ("data.split.clients=3", "data.split.alpha=0.5", "rounds=2")
    told("federate", "plan", *sizes, "--sites", "anna,ben,cleo", "--output", "plan.json")
    plan = Plan.read(Path("plan.json").read_text())
    assert plan.sites == ("anna", "ben", "cleo")
    Path("node.toml").write_text(FILE.format(name="ben"))
    shown = told("node", "approve", "node.toml", "plan.json", "--yes")
    assert json.loads(shown)["hash"] == plan.hash
    assert set(Node.read(Path("node.toml")).gate.approved) == {plan.hash}
    told("node", "approve", "node.toml", "plan.json", "--yes", "--revoke")
    assert not Node.read(Path("node.toml")).gate.approved
