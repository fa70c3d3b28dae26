"""A run on texts, asked on the command line: files of lines, of JSON and of tables, answered by the classes' names."""

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

from cli.test_cli import Ask, ask  # noqa: F401  (a fixture)
from partita import PartitaError, load, load_exported
from partita.serving.answers import class_of

MAIL = {
    "spam": ("buy cheap pills now", "win money fast", "cheap money offer"),
    "ham": ("see you at lunch", "meeting at noon today", "thanks for the notes"),
}
ASKED = {"cheap pills": "spam", "lunch at noon": "ham", "money offer": "spam"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learned to tell spam from ham, its models, and the same questions in every form."""
    from partita.api.run import keep
    from partita.experiment.settings.files import make, read
    from partita.serving.export import export_models

    folder = tmp_path_factory.mktemp("texts")
    with (folder / "mail.csv").open("w") as file:
        table = csv.writer(file)
        table.writerow(["text", "label", "who"])
        for who in ("anna", "ben"):
            for label, texts in MAIL.items():
                table.writerows([f"{text} {who} {number}", label, who] for number in range(6) for text in texts)
    data = (f"data.path={folder / 'mail.csv'}", "data.client_column=who", "data.most_duplicates=1")
    chosen = ("data=csv_text", *data, "model=fasttext", "algorithm=fedper", "algorithm.optimizer.lr=0.5")
    keep(make(read(None, [*chosen, "rounds=40", "evaluate_every=0"])), folder / "mine", on="inline", baselines=None)
    export_models(load(folder / "mine"), folder / "models")
    lines = list(ASKED)
    (folder / "new.txt").write_text(f"{lines[0]}\n\n{lines[1]}\n{lines[2]}\n")
    rows = [{"text": text, "label": label} for text, label in ASKED.items()]
    (folder / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    written = "text,label\n" + "".join(f"{text},{label}\n" for text, label in ASKED.items())
    (folder / "new.csv").write_text(written)
    (folder / "new.csv.gz").write_bytes(gzip.compress(written.encode()))
    (folder / "numbered.csv").write_text("text,label\ncheap pills,1\nlunch at noon,0\n")
    (folder / "strange.csv").write_text("text,label\ncheap pills,junk\n")
    (folder / "subject.csv").write_text(written.replace("text", "subject", 1))
    (folder / "subject.jsonl").write_text(
        "".join(json.dumps({"subject": text, "label": ASKED[text]}) + "\n" for text in ASKED)
    )
    (folder / "two.csv").write_text("subject,body\ncheap,pills\n")
    (folder / "empty.txt").write_text("\n\n")
    return folder


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(place)
    return place


NAMES = {
    "new.txt": ["1", "3", "4"],
    "new.jsonl": ["1", "2", "3"],
    "new.csv": ["2", "3", "4"],
    "subject.csv": ["2", "3", "4"],
    "subject.jsonl": ["1", "2", "3"],
}
"""Of the questions: the numbers of their lines. A column of texts that is alone may have any name."""


@pytest.mark.parametrize("models", ["mine", "models"])
@pytest.mark.parametrize("file", [*NAMES, "new.csv.gz"])
@pytest.mark.usefixtures("here")
def test_texts_of_every_form_are_answered_by_name(ask: Ask, models: str, file: str) -> None:  # noqa: F811
    answer = ask("predict", models, "--client", "anna", file)
    assert answer.code == 0, answer.err
    table = list(csv.DictReader(io.StringIO(answer.out)))
    assert [row["input"] for row in table] == NAMES[file.removesuffix(".gz")]
    assert [row["label"] for row in table] == list(ASKED.values()), "learned, and called by the right names"
    labels, probabilities = load("mine").model("anna").predict(list(ASKED))
    assert labels == list(ASKED.values())
    assert probabilities is not None
    assert probabilities.amax(1).min() > 0.55, "no answer hangs on rounding"
    for at, name in enumerate(("ham", "spam")):
        given = [float(row[f"p({name})"]) for row in table]
        assert given == pytest.approx(probabilities[:, at].tolist(), rel=1e-5)
    assert ("accuracy 100.0 % of 3 rows" in answer.err) == (file != "new.txt")


def test_names_are_in_the_card_and_the_record(here: Path, ask: Ask) -> None:  # noqa: F811
    assert json.loads((here / "models" / "card.json").read_text())["classes"] == ["ham", "spam"]
    assert "2 classes: ham, spam" in (here / "models" / "README.md").read_text()
    assert load_exported("models").model("ben").classes == ("ham", "spam")
    told = json.loads(ask("predict", "models", "--client", "ben", "numbered.csv", "--json").out)
    assert (told["classes"], told["score"]) == (["ham", "spam"], 1.0), "labels may also be numbers"


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("strange.csv", "Unknown label 'junk'. Known: ham, spam."),
        ("two.csv", "two.csv: Unknown column 'text'. Known: body, subject."),
        ("empty.txt", "empty.txt has no rows"),
    ],
)
@pytest.mark.usefixtures("here")
def test_texts_that_cannot_be_asked(ask: Ask, file: str, said: str) -> None:  # noqa: F811
    answer = ask("predict", "models", "--client", "anna", file)
    assert (answer.code, answer.out, len(answer.err.strip().splitlines())) == (2, "", 1)
    assert said in answer.err


@pytest.mark.parametrize(
    ("label", "classes", "name"),
    [
        ("1", ["ham", "spam"], "spam"),
        ("1.0", ["ham", "spam"], "spam"),
        ("1", ["1", "2"], "1"),
        ("2.0", ["1", "2"], "2"),
        ("10", [*"0123456789", "A"], "A"),
        ("0", ["1", "2"], None),
        ("1", ["0.5", "1.5"], None),
        ("2", ["ham", "spam"], None),
    ],
)
def test_a_label_is_a_name_before_it_is_a_number(label: str, classes: list[str], name: str | None) -> None:
    """Where names are other numbers than those of their classes, a number that is no name could mean either."""
    if name is not None:
        assert class_of(label, classes) == name
        return
    with pytest.raises(PartitaError, match="Unknown label"):
        class_of(label, classes)
