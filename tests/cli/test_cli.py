"""The command line as a person and as a machine see it.

One file, since all commands are asked in the same way, about the same runs.
"""

import inspect
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from partita import registry
from partita.cli import demonstration
from partita.cli.data import data_show, data_split
from partita.cli.inform import describe, list_
from partita.cli.main import app, main
from partita.cli.run import run

SPLIT = ("data.split=iid", "data.split.clients=3")
SMALL = (*SPLIT, "rounds=1")
COMMAND = (sys.executable, "-c", "from partita.cli.main import main; main()")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "TTY_COMPATIBLE")}

pytestmark = pytest.mark.usefixtures("own_folder")


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


Ask = Callable[..., Answer]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Ask:
    """The entry point in this process, as if called with these arguments."""

    def answer(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["partita", *arguments])
        capfd.readouterr()
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            with pytest.raises(SystemExit) as ended:
                main()
        out, err = capfd.readouterr()
        return Answer(int(ended.value.code or 0), out, err)

    return answer


@pytest.mark.parametrize("command", [[], ["run"], ["list"], ["describe"], ["demo"]])
def test_help(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output
    if command in (["run"], ["list"], ["describe"]):
        assert f"partita {command[0]}" in result.output, "an example"


def examples() -> list[str]:
    """Command lines in the help that need no file of one's own."""
    texts = [inspect.getdoc(command) or "" for command in (run, list_, describe, data_show, data_split)]
    lines = [line.removeprefix("Example: ") for text in texts for line in text.splitlines()]
    return [line for line in lines if line.startswith("partita ") and not re.search(r"experiment\.toml|mine\.", line)]


@pytest.mark.parametrize("line", examples())
def test_examples_of_the_help_work(ask: Ask, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, *arguments = shlex.split(line)
    answer = ask(*arguments, *(["rounds=1"] if arguments[0] == "run" else []))
    assert answer.code == 0, answer.err


def test_help_is_quick_because_torch_stays_away() -> None:
    program = """
import sys
sys.argv = ["partita", "--help"]
from partita.cli.main import main
try:
    main()
except SystemExit as ended:
    assert not ended.code
assert "torch" not in sys.modules and "sklearn" not in sys.modules and "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=300)


def test_a_run_with_options(ask: Ask) -> None:
    answer = ask("run", "--algorithm", "fedavg", "-m", "logistic", "-d", "digits", "-r", "2", "-s", "3", *SPLIT)
    assert answer.code == 0
    assert answer.out.startswith("fedavg, 3 clients of digits: done\n2 of 2 rounds, ")
    assert "before local *" in answer.out
    note, plan, first, *_ = answer.err.splitlines()
    assert note == "Note: digits does not name the client of each sample: iid made 3 clients"
    assert plan == "fedavg on digits: 3 clients, 2 rounds, and 10 of baselines"
    assert first.startswith("run: round 1/2, test accuracy ")


def test_a_run_for_machines(ask: Ask) -> None:
    answer = ask("run", *SMALL, "algorithm.epochs=1", "--no-save", "--json")
    assert (answer.code, answer.err) == (0, "")
    result = json.loads(answer.out)
    described = result["experiment"]["algorithm"]
    assert (described["name"], described["epochs"]) == ("fedper", 1)
    assert (result["label"], result["rounds"], result["variant"]) == ("fedper", 1, "before_local")
    assert {record["client"] for record in result["records"]} == {0, 1, 2}
    assert {record["variant"] for record in result["records"]} == {"initial", "before_local", "after_local"}
    assert {record["role"] for record in result["records"]} == {"validation", "test"}
    assert all(0 <= record["correct"] <= record["count"] for record in result["records"])
    again, other = (
        json.loads(ask("run", *SMALL, "algorithm.epochs=1", "--no-save", "--json", "--seed", seed).out)
        for seed in ("0", "1")
    )
    # Of what is told of a run, only where it was and when may differ.
    differing = {key for key in result if result[key] != again[key]}
    assert differing <= {"folder", "started", "ended", "seconds_per_round"}, "the same again"
    assert other["records"] != result["records"]
    assert not Path("runs").exists()
    assert not Path(result["folder"]).exists()


def test_a_run_of_a_file_with_changes(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(
        """
        rounds = 7
        seed = 1
        algorithm = {name = "fedbabu", epochs = 3, finetune_epochs = 1}
        data = {name = "digits", split = {name = "iid", clients = 4}}
        """,
        encoding="utf-8",
    )
    answer = ask("run", str(path), "--seed", "2", "rounds=1", "algorithm.epochs=1", "--json", "--no-baselines")
    assert answer.code == 0
    result = json.loads(answer.out)
    described = result["experiment"]["algorithm"]
    assert [described[key] for key in ("name", "epochs", "finetune_epochs")] == ["fedbabu", 1, 1]
    assert (result["rounds"], result["seed"], result["variant"]) == (1, 2, "after_finetune")
    assert {record["client"] for record in result["records"]} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "-a", "fedavgg"], "Unknown algorithm 'fedavgg'. Did you mean 'fedavg'?"),
        (["run", "-m", "mpl"], "Did you mean 'mlp'?"),
        (["run", "algorithm.lr=0.1"], "Did you mean 'optimizer.lr'?"),
        (["run", "lr=0.1"], "Did you mean 'algorithm.optimizer.lr'?"),
        (["run", "split.alpha=0.1"], "Did you mean 'data.split'?"),
        (["run", "-a", "ditto", "strength=2"], "Did you mean 'algorithm.strength'?"),
        (["run", "rounds=ten"], "rounds: 'ten' is not a whole number."),
        (["run", "rounds=[red]"], "rounds: '[red]' is not a whole number."),
        (["run", "rounds=0"], "rounds is 0, but must be at least 1."),
        (["run", "participation=2"], "participation is 2"),
        (["run", "missing.toml"], "Cannot read missing.toml"),
        (["run", "seed=1", "rounds"], "'rounds' is not of the form key=value"),
        (["run", "rounds=1", "rounds.more=1"], "rounds"),
        (["run", "-a", "fedbn"], "'norm' matches no tensor"),
        (["run", "-a", "fedsim", "algorithm.personal=type:functional"], "functional"),
        (["run", "-a", "nowhere:thing"], "Is the package installed"),
        (["run", "batching.size=0"], "batching"),
        (["run", "batching.size=500", "batching.drop_last=true"], "Set drop_last to false"),
        (["run", "data.split.clients=0"], "client"),
        (["run", "data.split.clients=1000"], "Take fewer clients"),
        (["run", "evaluation_batch=0", *SMALL], "evaluation_batch is 0, but must be at least 1."),
        (["run", "algorithm.optimizer.name=adam"], "lr"),
        (["run", "algorithm.optimizer.lr=1e30", *SMALL], "lr is 1e+30, but must be from 0 to 1,000"),
        (["run", "-m", "cnn4", *SMALL], "cnn4"),
        (["describe", "fedper", "--shape", "large"], "The shape 'large' is not a list of whole numbers"),
        (["describe", "fedper", "--model", "cnn4", "--shape", "1,8,8"], "cnn4"),
        (["describe", "fedper", "--model", "cnn4", "--shape", "64"], "cnn4"),
        (["describe", "fedbn"], "'norm' matches no tensor"),
        (["describe", "fedper", "algorithm.blocks=9"], "the network has 4 blocks"),
        (["demo", "--rounds", "0"], "rounds is 0, but must be at least 1."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_error_is_one_line(ask: Ask, arguments: list[str], words: str) -> None:
    answer = ask(*arguments)
    assert (answer.code, answer.out) == (2, "")
    *told, line = answer.err.splitlines()
    assert line.startswith("Error: ")
    assert words in line
    # What the first round shows comes after what is told at the start.
    assert not [each for each in told if not each.startswith(("Note: ", "fedper on digits: "))]


@pytest.mark.parametrize(
    "arguments", [["list", "everything"], ["nothing"], ["run", "--round", "3"], ["demo", "-r", "x"]]
)
def test_wrong_usage_is_an_error_too(ask: Ask, arguments: list[str]) -> None:
    answer = ask(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert "Traceback" not in answer.err


def test_what_is_degenerate_is_noted_without_lines_of_source(ask: Ask) -> None:
    answer = ask("run", "-a", "fedprox", "algorithm.mu=0", *SMALL, "--no-baselines")
    assert answer.code == 0
    assert "Note: FedProx with mu = 0 is fedavg. Set mu > 0.\n" in answer.err
    assert ".py" not in answer.err


def test_a_note_of_the_plan_is_told_once(ask: Ask) -> None:
    answer = ask("run", "data.split=iid", "data.split.clients=1", "rounds=1", "--no-baselines")
    assert answer.code == 0
    assert answer.err.count("Note: Only one client trains") == 1


@pytest.mark.parametrize("kind", registry.KINDS)
def test_lists(ask: Ask, kind: registry.Kind) -> None:
    found = json.loads(ask("list", kind, "--json").out)
    assert list(found) == registry.names(kind)
    assert all(found.values()), "everything has a line that describes it"
    shown = ask("list", kind)
    assert shown.code == 0
    for name, summary in found.items():
        assert re.search(rf"^{name} +{re.escape(summary)}$", shown.out, re.MULTILINE)
    assert f"partita.{kind}" in shown.out


def test_describe(ask: Ask) -> None:
    answer = ask("describe", "fedper", "--model", "cnn4")
    assert (answer.code, answer.err) == (0, "")
    assert "878,538 parameters; shared 873,408, personal 5,130, never trained in a round 0." in answer.out
    assert "3,493,632 bytes down" in answer.out
    assert "train network; 4 epochs; SGD with rate 0.01" in answer.out


def test_describe_for_machines(ask: Ask) -> None:
    answer = ask("describe", "fedbabu", "algorithm.blocks=1", "--model", "mlp", "--shape", "1,8,8", "--json")
    assert (answer.code, answer.err) == (0, "")
    result = json.loads(answer.out)
    rows = {row["name"]: row for row in result["rows"]}
    assert set(rows) == {"layer1.weight", "layer1.bias", "head.weight", "head.bias"}
    assert (rows["layer1.weight"]["shared"], rows["head.weight"]["shared"]) == (True, False)
    assert (rows["layer1.weight"]["trained_in"], rows["head.weight"]["trained_in"]) == ([1], [])
    assert (result["parameters"], result["shared"], result["frozen"]) == (4810, 4160, 650)
    assert result["bytes_down"] == 4 * 4160


@pytest.mark.parametrize("name", [name for name in registry.names("algorithms") if name != "fedbn"])
def test_every_algorithm_that_needs_no_norm_layer_can_be_described(ask: Ask, name: str) -> None:
    answer = ask("describe", name)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(name)
    assert "In a round:\n  1. " in answer.out


def test_describe_ignores_no_setting(ask: Ask) -> None:
    """`blocks=2` for `algorithm.blocks=2` is an error or is understood, but never passed over in silence."""
    answer = ask("describe", "fedper", "blocks=2")
    assert answer.code == 2 or "personal 5,130" not in answer.out


def test_data_are_shown(ask: Ask) -> None:
    facts = json.loads(ask("data", "show", "digits", "--json").out)
    assert (facts["samples"], facts["classes"], facts["input"]) == (1797, 10, "1 x 8 x 8")
    assert "1 x 8 x 8" in ask("data", "show", "digits").out


def test_a_division_is_written_and_used_again(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "division.json"
    split = ("data", "split", "digits", "--json")
    first = json.loads(ask(*split, "split=iid", "split.clients=4", "--manifest", str(file)).out)
    again = json.loads(ask(*split, "split=manifest", f"split.path={file}").out)
    assert first["clients"] == 4
    assert again["by client"] == first["by client"]
    assert again["labels"] == first["labels"]


def test_demo_for_machines(ask: Ask) -> None:
    answer = ask("demo", "--rounds", "1", "--json")
    assert (answer.code, answer.err) == (0, "")
    results = json.loads(answer.out)
    assert list(results) == ["local", "fedavg", "finetune on fedavg", "fedper", "fedbabu", "fedalt", "flayer on fedavg"]
    itself = {"local": "local", "fedavg": "global", "finetune on fedavg": "global + fine-tune"}
    for name, result in results.items():
        assert (result["rounds"], result["data"], result["clients"], result["status"]) == (
            1,
            "personal_digits",
            30,
            "done",
        )
        assert result["scores"]["1"][result["variant"]]["clients"] == 30
        assert result["experiment"]["evaluate_every"] is None, "about ten times, so that there are learning curves"
        others = [each for each in itself.values() if each != itself.get(name)]
        over = [gain["over"] for gain in result["gains"]]
        # FedAvg is its own baseline only where its rate is the one that validation data choose.
        assert over in ([["floor", *others], ["floor", *itself.values()]] if name == "fedavg" else [["floor", *others]])


def test_demo(ask: Ask, monkeypatch: pytest.MonkeyPatch, own_folder: Path) -> None:
    monkeypatch.setattr(demonstration, "METHODS", {"fedavg": demonstration.METHODS["fedavg"]})
    answer = ask("demo", "--rounds", "1", "-o", "mine")
    assert answer.code == 0
    assert answer.err.splitlines()[0].startswith("fedavg: round 1/1, test accuracy ")
    story, _, table = answer.out.partition("\n\n")
    assert story.startswith("Thirty people sort digits into ten drawers, each in an order of their own")
    assert story.endswith("All had 1 round and the same network.")
    title, *lines = table.splitlines()
    assert title.split() == (
        [
            "method",
            "test",
            "accuracy",
            "worst",
            "decile",
            "floor",
            "over",
            "local",
            "hurt",
            "over",
            "global",
            "hurt",
            "MB/round",
        ]
    )
    local, fedavg, tuned = (re.split("  +", line.strip()) for line in lines[:3])
    assert (local[0], local[4:6], local[-1]) == ("local", ["-", "-"], "0.00"), "not measured against itself"
    assert (fedavg[0], tuned[0]) == ("fedavg", "finetune on fedavg")
    last = answer.err.splitlines()[-1]
    assert last.startswith("Try the models: ")
    told = shlex.split(last.removeprefix("Try the models: "))
    assert told[-2:] == ["serve", "mine"]
    assert subprocess.run([*told, "--help"], capture_output=True, timeout=300).returncode == 0, "as it is told"
    again = ask("demo", "--rounds", "1", "-o", "mine")
    assert (again.out, "round" in again.err) == (answer.out, False), "nothing is run twice"


def test_plain_lines_where_there_is_no_terminal() -> None:
    done = subprocess.run([*COMMAND, "run", *SMALL], capture_output=True, text=True, env=ENVIRONMENT, timeout=300)
    assert done.returncode == 0
    accuracy = r"test accuracy [\d.]+ ± [\d.]+ %\n"
    reached = f"round 1/1, {accuracy}"
    lines = (
        r"Note: digits does not name .*\nfedper on digits: 3 clients, 1 round, and 6 of baselines\n"
        rf"run: {reached}(baselines: (local|fedavg), rate [\d.]+, {accuracy}){{6,}}guard: 3 clients\n"
        r"Report: .*\nKept in runs.fedper.*\n"
    )
    assert re.fullmatch(lines, done.stderr)
    assert not CONTROL.search(done.stdout + done.stderr)


def read_all(terminal: int) -> str:
    """What was written to a terminal, until its last writer has gone."""
    shown = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # how Linux says that there is no more
            part = b""
        if not part:
            return shown.decode()
        shown += part


def test_a_bar_on_a_terminal() -> None:
    reader, writer = pty.openpty()
    environment = {**ENVIRONMENT, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        [*COMMAND, "run", *SMALL, "--baselines", "quick"],
        stdout=subprocess.PIPE,
        stderr=writer,
        env=environment,
        text=True,
    ) as running:
        os.close(writer)
        shown = read_all(reader)
        os.close(reader)
        out, _ = running.communicate(timeout=300)
    assert running.returncode == 0
    assert "1/1" in shown
    assert "\x1b[" in shown
    assert "1 of 1 round," in out
    assert not CONTROL.search(out), "the result itself goes elsewhere"


def test_interruption_ends_quietly() -> None:
    forever = (*COMMAND, "run", *SPLIT, "rounds=1000000", "evaluate_every=1")
    with subprocess.Popen(forever, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr
        note, plan, first = (running.stderr.readline() for _ in range(3))
        assert note.startswith("Note: digits does not name")
        assert plan == "fedper on digits: 3 clients, 1,000,000 rounds, and 6,000,000 of baselines\n"
        assert first.startswith("run: round 1/")
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=300)
    assert running.returncode == 130
    assert out == ""
    assert "Traceback" not in err


def test_a_reader_that_goes_away_is_no_error() -> None:
    with subprocess.Popen(
        [*COMMAND, "list", "algorithms"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout
        assert running.stderr
        running.stdout.close()
        assert running.stderr.read() == ""


def test_a_run_is_kept_and_shown(ask: Ask, own_folder: Path) -> None:
    made = ask("run", *SMALL, "-o", "mine", "--baselines", "quick")
    assert made.code == 0
    assert "partita show mine" in made.err
    shown = ask("show", "mine")
    assert "fedper, 3 clients of digits: done" in shown.out
    assert "1 of 1 round," in shown.out
    told = json.loads(ask("show", "mine", "--json").out)
    assert (told["done"], told["status"], told["label"]) == (1, "done", "fedper")
    assert told["environment"]["packages"]["torch"]
    assert "mine" in ask("runs", ".").out
    assert ask("run", *SMALL, "-o", "mine").code == 2, "a run is not overwritten"
    exported = ask("export", "mine", "--csv", "tables")
    assert exported.code == 0
    rows = (own_folder / "tables" / "metrics.csv").read_text().splitlines()
    assert rows[0] == "round,client,variant,role,count,correct,loss,name"
    assert len(rows) == 1 + len(told["records"])


def test_the_division_of_a_run_is_used_again(ask: Ask) -> None:
    assert ask("run", "data.split.clients=4", "rounds=1", "-s", "3", "-o", "first", "--no-baselines").code == 0
    assert "give --csv FOLDER, --manifest FILE or --models FOLDER" in ask("export", "first").err
    assert ask("export", "first", "--manifest", "division.json").code == 0
    again = ask(
        "run",
        *("data.split=manifest", "data.split.path=division.json", "rounds=1", "-s", "3", "-o", "second"),
        "--no-baselines",
    )
    assert again.code == 0
    one, other = (json.loads(ask("show", name, "--json").out) for name in ("first", "second"))
    assert one["fingerprint"] == other["fingerprint"]
    assert one["records"] == other["records"]


def test_what_is_no_run_is_named(ask: Ask) -> None:
    for command in ("show", "resume"):
        answer = ask(command, "nowhere")
        assert answer.code == 2
        assert "holds no run" in answer.err
    assert "No runs in" in ask("runs").err


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_resumed_to_the_same_result(ask: Ask, sent: signal.Signals) -> None:
    long = ("rounds=60", "evaluate_every=5", "algorithm.epochs=2", "data.split=iid", "data.split.clients=3")
    command = [*COMMAND, "run", *long, "-o", "cut", "--no-baselines"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as running:
        assert running.stderr is not None
        running.stderr.readline()
        running.send_signal(sent)
        rest = running.stderr.read()
    assert running.returncode == 130, "it takes longer than to read a line and send a signal"
    assert "partita resume cut" in rest
    assert "Traceback" not in rest
    assert "Continue with: partita resume cut" in ask("show", "cut").out
    resumed = json.loads(ask("resume", "cut", "--json").out)
    whole = json.loads(ask("run", *long, "--no-save", "--json").out)
    assert resumed["records"] == whole["records"]
    assert resumed["bytes_per_round"] == whole["bytes_per_round"]


def test_replicas_are_compared(ask: Ask) -> None:
    for method in ("fedavg", "fedper"):
        assert ask("run", "-a", method, *SMALL, "--seeds", "2", "-o", f"all/{method}", "--baselines", "quick").code == 0
    told = ask("compare", "all", "--baseline", "fedavg", "--form", "markdown")
    assert told.code == 0
    assert "| fedper |" in told.out
    assert ask("compare", "all/fedper", "--baseline", "nobody").code == 2
    assert ask("compare", "nowhere").code == 2
    again = ask("run", "-a", "fedper", *SMALL, "--seeds", "3", "-o", "all/fedper", "--baselines", "quick")
    assert again.code == 0, "only the missing seed is run"
    assert "seed-2" in again.out


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[Path], Path]]:
    """A writer of reports that notes what it is asked for, and fails for the folder `bad`."""
    asked: list[tuple[list[Path], Path]] = []

    def write_report(folders: list[Path], path: Path) -> Path:
        asked.append((list(folders), path))
        if path.parent.name == "bad":
            raise OSError("no room")
        path.write_text("report")
        return path

    for name in ("partita.report", "partita.report.report"):
        fake = ModuleType(name)
        fake.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, fake)
    vars(sys.modules["partita.report.report"])["write_report"] = write_report
    return asked


def test_a_report_is_written_after_a_run(ask: Ask, reports: list[tuple[list[Path], Path]], own_folder: Path) -> None:
    made = ask("run", *SMALL, "-o", "mine", "--no-baselines")
    assert made.code == 0
    assert "Report: mine/report.html" in made.err
    assert reports == [([Path("mine")], Path("mine/report.html"))]
    bad = ask("run", *SMALL, "-o", "bad", "--no-baselines", "--json")
    assert bad.code == 0
    assert json.loads(bad.out)["folder"] == "bad"
    assert "could not be written: no room" in bad.err
    assert ask("show", "bad").code == 0


def test_what_was_interrupted_has_a_report_too(
    ask: Ask, reports: list[tuple[list[Path], Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*given: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("partita.runs.complete.add_baselines", interrupt)
    made = ask("run", *SMALL, "-o", "mine", "--baselines", "quick")
    assert made.code == 130
    assert reports == [([Path("mine")], Path("mine/report.html"))]
    assert made.err.index("partita resume mine") < made.err.index("Report: mine/report.html")
