"""export --models, predict and onboard, as a person meets them."""

import csv
import io
import json
import re
import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from cli.test_cli import Ask, ask  # noqa: F401  (a fixture)
from partita import load, load_exported
from partita.data.sources.digits import digits
from partita.runs.stored import read_run

MINE = ("data.split=iid", "data.split.clients=3", "rounds=2", "evaluate_every=0")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, models and questions."""
    from partita.api.run import keep
    from partita.experiment.settings.files import make, read
    from partita.serving.export import export_models
    from partita.serving.loaded import load

    folder = tmp_path_factory.mktemp("place")
    keep(make(read(None, [*MINE, "algorithm=fedper"])), folder / "mine", on="inline")
    export_models(load(folder / "mine"), folder / "models")
    pool = digits()
    assert not isinstance(pool.inputs, tuple)
    inputs, labels = np.asarray(pool.inputs)[:40], pool.targets[:40].numpy()
    np.savez(folder / "rows.npz", x=inputs, y=labels)
    np.save(folder / "rows.npy", inputs)
    with (folder / "rows.csv").open("w") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"pixel{at}" for at in range(64)), "label"])
        writer.writerows(
            [*row, label] for row, label in zip(inputs.reshape(40, -1).tolist(), labels.tolist(), strict=True)
        )
    return folder


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(place)
    return place


@pytest.mark.usefixtures("here")
def test_a_run_and_its_models_answer_alike(ask: Ask) -> None:  # noqa: F811
    found = {
        (models, rows): ask("predict", models, "--client", "1", rows)
        for models in ("mine", "models")
        for rows in ("rows.npz", "rows.npy", "rows.csv")
    }
    assert all(each.code == 0 for each in found.values()), found
    tables = {key: list(csv.DictReader(io.StringIO(each.out))) for key, each in found.items()}
    first = tables["mine", "rows.npz"]
    assert len(first) == 40
    assert [row["label"] for row in first] == [
        max("0123456789", key=lambda name: float(row[f"p({name})"])) for row in first
    ]
    for key, table in tables.items():
        assert [row["label"] for row in table] == [row["label"] for row in first], key
    right = sum(int(row["label"]) == label for row, label in zip(first, np.load("rows.npz")["y"], strict=True)) / 40
    assert f"accuracy {100 * right:.1f} % of 40 rows" in found["models", "rows.csv"].err
    assert "accuracy" not in found["models", "rows.npy"].err
    told = json.loads(ask("predict", "models", "--client", "1", "rows.npz", "--json").out)
    assert told["score"] == right
    assert len(told["answers"][0]["probabilities"]) == 10
    assert ask("predict", "models", "--global", "rows.npz", "-o", "answers.csv").code == 0
    assert len(Path("answers.csv").read_text().splitlines()) == 41


@pytest.mark.usefixtures("here")
def test_label_counts_are_told_if_asked_for(ask: Ask) -> None:  # noqa: F811
    """By hand from the data; without the option, the card has none."""
    assert ask("export", "mine", "--models", "counted", "--client", "1", "--label-counts").code == 0
    train = load("mine").experiment.data[1].train.targets.tolist()
    assert load_exported("counted").entry("1")["label_counts"] == [train.count(label) for label in range(10)]
    assert not any("label_counts" in load_exported("models").entry(client) for client in ("0", "1", "2"))


def test_pictures(here: Path, ask: Ask) -> None:  # noqa: F811
    image = pytest.importorskip("PIL.Image", reason="needs the extra images")
    for label in "37":
        (here / "pictures" / label).mkdir(parents=True)
        image.new("RGB", (16, 16), (200, 30, 30)).save(here / "pictures" / label / "one.png")
    told = json.loads(ask("predict", "models", "--client", "1", "pictures", "--json").out)
    assert [each["input"] for each in told["answers"]] == ["3/one.png", "7/one.png"]
    assert told["score"] in (0.0, 0.5)
    (here / "pictures" / "7" / "two.png").write_text("no picture")
    broken = ask("predict", "models", "--client", "1", "pictures")
    assert (broken.code, "two.png cannot be read as a picture" in broken.err) == (2, True)


@pytest.mark.usefixtures("here")
def test_a_new_client(ask: Ask) -> None:  # noqa: F811
    given = ("onboard", "mine", "--data", "rows.npz", "--name", "dora", "--models", "dora", "--test", "rows.csv")
    told = json.loads(ask(*given, "--epochs", "2", "--start", "nearest", "--json").out)
    assert told["samples"] == 40
    models = load_exported("dora")
    assert models.clients == ["dora"]
    assert models.personal_names <= {"head.weight", "head.bias"}
    shared = load_exported("models").shared
    assert all((models.shared[name] == tensor).all() for name, tensor in shared.items()), "the shared part is frozen"
    again = json.loads(ask("predict", "dora", "--client", "dora", "rows.npz", "--json").out)
    assert again["score"] == told["score"]
    alone = json.loads(ask("predict", "dora", "--client", "dora", "--unguarded", "rows.npz", "--json").out)
    everyone = json.loads(ask("predict", "dora", "--global", "rows.npz", "--json").out)
    assert told["scores"] == {"personal": alone["score"], "guarded": told["score"], "global": everyone["score"]}
    assert models.entry("dora")["onboarded"] == {"samples": 40, "start": "nearest", "epochs": 2}
    assert "is there already" in ask(*given).err
    assert ask(*given, "--epochs", "0", "--force").code == 0
    taken = ask("onboard", "mine", "--data", "rows.npz", "--name", "1", "--models", "other")
    assert "has a client called '1' already" in taken.err
    assert "has no labels" in ask("onboard", "mine", "--data", "rows.npy", "--models", "other").err
    assert not Path("other").exists()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "models", "rows.npz"), "Give --client NAME, or --global"),
        (("predict", "models", "--client", "9", "rows.npz"), "Unknown client '9'"),
        (("predict", "mine", "--client", "nobody", "rows.npz"), "no client called 'nobody'"),
        (("predict", "models", "--client", "1", "none.npz"), "There is no file or folder none.npz"),
        (("predict", "nowhere", "--client", "1", "rows.npz"), "nowhere"),
        (("predict", "models", "--client", "1", "models/README.md"), "none of the known forms"),
        (("predict", "models", "--client", "1", "models/clients"), "holds no pictures"),
        (("export", "mine", "--models", "models"), "--force"),
        (("export", "mine", "--csv", "tables", "--force"), "go with --models"),
        (("export", "mine", "--models", "new", "--client", "9"), "no client called '9'"),
        (("export", "mine", "--models", "new", "--format", "peft"), "no adapters of PEFT"),
        (("export", "mine", "--models", "new", "--which", "after_finetune"), "no model 'after_finetune'"),
    ],
)
def test_errors_are_one_line(ask: Ask, arguments: tuple[str, ...], said: str) -> None:  # noqa: F811
    answer = ask(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert len(answer.err.strip().splitlines()) == 1
    assert not Path("new").exists()


@pytest.mark.parametrize("command", ["export", "predict", "onboard"])
def test_help_has_examples(ask: Ask, command: str) -> None:  # noqa: F811
    assert f"partita {command} " in ask(command, "--help").out.partition("Examples")[2]


@pytest.mark.usefixtures("own_folder")
def test_new_clients_by_the_number_of_their_samples(ask: Ask) -> None:  # noqa: F811
    """In `partita evaluate` and in the report, where clients never trained."""
    ask("run", "-a", "fedper", "data.split=iid", "data.split.clients=4", "data.newcomers=1", "rounds=1", "-o", "mine")
    answer = ask("evaluate", "mine", "--what", "onboarding", "--epochs", "1")
    assert answer.code == 0, answer.err
    assert "trained alone" in answer.out
    found = read_run(Path("mine")).analyses["onboarding"]
    assert found["counts"] == ["1", "2", "5", "10", "20", "all"]
    assert {name: len(values) for name, values in found["scores"].items()} == {"onboarded": 6, "local": 6, "global": 6}
    assert ask("report", "mine").code == 0
    assert "samples of the new client" in Path("mine/report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("own_folder")
def test_commands_in_the_docs_run(place: Path, ask: Ask) -> None:  # noqa: F811
    """Every command of the page about models, one after the other, as it stands there."""
    image = pytest.importorskip("PIL.Image", reason="needs the extra images")
    for name in ("mine", "baselines"):
        shutil.copytree(place / name, Path("runs", name))
    shutil.copy(place / "rows.csv", "rows.csv")
    for name in ("new", "dora", "later"):
        shutil.copy(place / "rows.npz", f"{name}.npz")
    Path("pictures").mkdir()
    image.new("L", (8, 8), 100).save("pictures/one.png")
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    commands = [shlex.split(line)[1:] for line in re.findall(r"^    (partita .*)$", page, re.MULTILINE)]
    assert {command[0] for command in commands} == {"export", "predict", "onboard"}
    for command in commands:
        if "onnx" not in command or find_spec("onnxruntime"):
            answer = ask(*command)
            assert answer.code == 0, (command, answer.err)
    assert {"models", "dora", "answers.csv"} <= {each.name for each in Path().iterdir()}
