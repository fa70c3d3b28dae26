"""Own data with clients: five forms that make the same federation, and what is refused, with the client in the line.

One file, since all five forms hold the same data and are refused for the same faults.
"""

import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset

from partita.algorithms.fedper import fedper
from partita.data.clients import from_clients
from partita.data.federation import Division, Federation, federate
from partita.data.manifests import fingerprint
from partita.errors import PartitaError
from partita.experiment.simulate import simulate
from partita.models.mlp import mlp

DRAW = np.random.default_rng(0)
SIZES = {"anna": 12, "ben": 20, "carla": 9}
COUNT = sum(SIZES.values())
X, Y = DRAW.normal(size=(COUNT, 3)), np.arange(COUNT) % 3
IDS = np.repeat(list(SIZES), list(SIZES.values()))


def of(client: str) -> tuple[np.ndarray, np.ndarray]:
    return X[client == IDS], Y[client == IDS]


BY_CLIENT = {client: of(client) for client in SIZES}
DATASETS: dict[str, Dataset[Any]] = {client: TensorDataset(*map(torch.from_numpy, of(client))) for client in SIZES}
WHOLE: Dataset[Any] = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))


class Columns:
    """What is used of a data frame, without pandas."""

    def __init__(self, **columns: Any) -> None:
        self._columns = columns
        self.columns = list(columns)

    def to_numpy(self) -> np.ndarray:
        raise AssertionError("columns are read one by one")

    def __getitem__(self, column: str) -> Any:
        return self._columns[column]


FRAME = Columns(age=X[:, 0], user=IDS, weight=X[:, 1], label=Y, height=X[:, 2].tolist())

FORMS: dict[str, Callable[..., Federation]] = {
    "arrays by client": lambda **given: from_clients(BY_CLIENT, **given),
    "tensors by client": lambda **given: from_clients(
        {client: (torch.from_numpy(x), torch.from_numpy(y)) for client, (x, y) in BY_CLIENT.items()}, **given
    ),
    "lists by client": lambda **given: from_clients(
        {client: (x.tolist(), y.tolist()) for client, (x, y) in BY_CLIENT.items()}, **given
    ),
    "training parts by client": lambda **given: from_clients(
        {c: {"train": part} for c, part in BY_CLIENT.items()}, **given
    ),
    "arrays and ids": lambda **given: from_clients(X, Y, IDS, **given),
    "arrays and a list of ids": lambda **given: from_clients(X, Y, IDS.tolist(), **given),
    "a tuple": lambda **given: from_clients((X, Y, IDS), **given),
    "tensors and ids": lambda **given: from_clients(torch.from_numpy(X), torch.from_numpy(Y), IDS, **given),
    "datasets by client": lambda **given: from_clients(DATASETS, **given),
    "one dataset and ids": lambda **given: from_clients(WHOLE, clients=IDS, **given),
    "a data frame": lambda **given: from_clients(FRAME, "label", "user", **given),
}
"""The frame has its columns in the order of the features."""


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_make_the_same_federation(form: str) -> None:
    made, again = FORMS[form](seed=3), FORMS[form](seed=3)
    like = FORMS["arrays by client"](seed=3)
    assert fingerprint(made) == fingerprint(again) == fingerprint(like)
    assert list(made.names) == list(SIZES)
    assert (made.name, made.kind, made.classes, made.shape) == ("data", "classification", 3, (3,))
    assert fingerprint(FORMS[form](seed=4)) != fingerprint(made)


LETTERS = np.array(list("abc"))[Y]


class Pairs(Dataset[Any]):
    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, row: int) -> tuple[np.ndarray, str]:
        return X[row], str(LETTERS[row])


NAMED: dict[str, Callable[[], Federation]] = {
    "arrays by client": lambda: from_clients({client: (X[client == IDS], LETTERS[client == IDS]) for client in SIZES}),
    "lists and ids": lambda: from_clients(X.tolist(), LETTERS.tolist(), IDS),
    "objects and ids": lambda: from_clients(X, LETTERS.astype(object), IDS),
    "a data frame": lambda: from_clients(
        Columns(age=X[:, 0], weight=X[:, 1], height=X[:, 2], label=LETTERS, user=IDS), "label", "user"
    ),
    "a dataset": lambda: from_clients(Pairs(), clients=IDS),
}


@pytest.mark.parametrize("form", NAMED)
def test_labels_of_text_name_the_classes(form: str) -> None:
    """And change nothing else: the data are those of the numbered classes, to the bit."""
    made, plain = NAMED[form](), from_clients(X, Y, IDS)
    assert (list(made.class_names), made.classes, plain.class_names) == (["a", "b", "c"], 3, ())
    assert made.fingerprint == plain.fingerprint


def test_every_client_has_its_own_samples() -> None:
    made = from_clients(BY_CLIENT)
    for client, (name, count) in enumerate(SIZES.items()):
        parts = made[client]
        seen = torch.cat([parts.train.inputs, parts.validation.inputs, parts.test.inputs])
        assert sorted(seen.tolist()) == sorted(torch.from_numpy(of(name)[0]).float().tolist())
        assert len(parts.test) == count - int(0.75 * count)
        assert len(parts.validation) == round(0.2 * int(0.75 * count))
    assert made.origin["split"] == {"name": "as_given", "test": 0.25}
    assert [len(from_clients(BY_CLIENT, test=0.5)[client].test) for client in range(3)] == [6, 10, 5]


def test_parts_that_are_given_are_kept() -> None:
    """Also the validation part; nothing else is cut then."""
    parts = {"train": slice(0, 4), "validation": slice(4, 6), "test": slice(6, 9)}
    data = {c: {role: (x[rows], y[rows]) for role, rows in parts.items()} for c, (x, y) in BY_CLIENT.items()}
    made = from_clients(data)
    for client, (x, _) in enumerate(BY_CLIENT.values()):
        for role, rows in parts.items():
            assert torch.equal(getattr(made[client], role).inputs, torch.from_numpy(x[rows]).float())
    tested = from_clients(
        {c: {role: each[role] for role in ("train", "test")} for c, each in data.items()}, validation=0
    )
    assert [len(tested[0].train), len(tested[0].validation), len(tested[0].test)] == [4, 0, 3]
    mixed: Any = {
        c: {"train": TensorDataset(*map(torch.from_numpy, each["train"])), "test": each["test"]}
        for c, each in data.items()
    }
    assert fingerprint(from_clients(mixed, validation=0)) == fingerprint(tested)


def test_a_list_of_datasets_has_numbers_for_names() -> None:
    made = from_clients(list(DATASETS.values()))
    assert list(made.names) == list(from_clients(tuple(DATASETS.values())).names) == ["0", "1", "2"]
    assert fingerprint(made) == fingerprint(from_clients(DATASETS))


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        ([7, -3, 7, -3] * 10, ["-3", "7"]),
        ([2**70, 5] * 20, ["5", "1180591620717411303424"]),
        (torch.tensor([10, 9] * 20), ["9", "10"]),
        (["ä/b c", "=1+1"] * 20, ["=1+1", "ä/b c"]),
        ([np.int64(4), 3] * 20, ["3", "4"]),
    ],
)
def test_ids_may_be_texts_and_any_whole_numbers(ids: Any, names: list[str]) -> None:
    assert list(from_clients(X[:40], Y[:40], ids).names) == names
    assert list(from_clients({5: BY_CLIENT["anna"], np.int64(-1): BY_CLIENT["ben"]}).names) == ["5", "-1"]


def images(kind: Any, *shape: int) -> np.ndarray:
    return DRAW.integers(0, 256, (COUNT, *shape)).astype(kind)


@pytest.mark.parametrize(
    ("inputs", "shape", "stored"),
    [
        (images(np.uint8, 8, 8), (1, 8, 8), torch.uint8),
        (images(np.uint8, 8, 8, 3), (3, 8, 8), torch.uint8),
        (images(np.uint8, 8, 8, 4), (4, 8, 8), torch.uint8),
        (images(np.int64, 1, 8, 8), (1, 8, 8), torch.float32),
        (images(np.float16, 3, 8, 8), (3, 8, 8), torch.float32),
        (images(np.longdouble, 3, 8, 8), (3, 8, 8), torch.float32),
        (images(bool, 5), (5,), torch.float32),
        (images(np.int32, 5).tolist(), (5,), torch.float32),
        (torch.from_numpy(images(np.float32, 5)).bfloat16(), (5,), torch.float32),
        (torch.from_numpy(images(np.float32, 5)).requires_grad_(), (5,), torch.float32),
        ([torch.from_numpy(each) for each in images(np.float32, 5)], (5,), torch.float32),
    ],
    ids=["grey", "colours", "alpha", "whole", "half", "long", "truth", "lists", "bfloat16", "gradient", "rows"],
)
def test_inputs_of_many_kinds(inputs: Any, shape: tuple[int, ...], stored: torch.dtype) -> None:
    made = from_clients(inputs, Y, IDS, most_duplicates=1.0)
    assert (made.shape, made.samples.stored.dtype) == (shape, stored)
    assert made[0].train.inputs.dtype == torch.float32


def test_whole_numbers_that_number_things_stay() -> None:
    films = DRAW.integers(0, 9, COUNT)
    made = from_clients(films, DRAW.normal(size=COUNT), IDS, kind="regression", indices=True, most_duplicates=1.0)
    assert (made.samples.stored.dtype, made.shape, made.classes) == (torch.int64, (), 1)
    with pytest.raises(PartitaError, match=r"of \d+ test rows .* equal a row of the training data"):
        from_clients(films, DRAW.normal(size=COUNT), IDS, kind="regression", indices=True)


def test_texts_by_client() -> None:
    said = {"anna": [f"good film {n}" for n in range(9)], "ben": [f"плохой фильм {n}" for n in range(9)]}
    made = from_clients({client: (texts, [0, 1, 1] * 3) for client, texts in said.items()}, length=3)
    assert (made.kind, made.classes, made.shape) == ("classification", 2, (3,))
    spoken = from_clients(said, length=3)
    assert spoken.kind == "next_word"
    rows = [text for texts in said.values() for text in texts]
    owners = ["anna"] * 9 + ["ben"] * 9
    assert fingerprint(spoken) == fingerprint(from_clients(rows, clients=owners, length=3))
    frame = Columns(who=owners, text=np.array(rows, dtype=object))
    assert fingerprint(spoken) == fingerprint(from_clients(frame, clients="who", length=3))
    characters = from_clients(said, text="characters", length=5, most_duplicates=1.0)
    assert characters.facts["vocabulary"] > made.facts["vocabulary"]


def test_arguments_of_a_division_can_be_given() -> None:
    made = from_clients(BY_CLIENT, name="mine", classes=7, newcomers=1, own_labels=True, standardize=True, validation=0)
    assert (made.name, made.classes, len(made.newcomers), len(made.label_sets)) == ("mine", 7, 1, 3)


def test_arguments_of_a_division_are_those_of_federate() -> None:
    """They are listed for type checkers, with the same types."""
    own = inspect.signature(federate).parameters
    assert {name: own[name].annotation for name in own if name not in ("pool", "split")} == Division.__annotations__


def test_own_data_are_simulated() -> None:
    result = simulate(fedper(epochs=1), mlp, from_clients(BY_CLIENT), rounds=2)
    assert result.score().clients == 3


def test_a_data_frame_of_pandas() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"age": X[:, 0], "user": IDS, "weight": X[:, 1], "label": Y, "height": X[:, 2]})
    assert fingerprint(from_clients(frame, "label", "user")) == fingerprint(from_clients(BY_CLIENT))
    shuffled = frame.sample(frac=1.0, random_state=0)
    assert list(from_clients(shuffled, "label", "user").names) == list(SIZES)
    frame["user"] = frame["user"].astype("category")
    frame["age"] = frame["age"].astype("Float64")
    assert fingerprint(from_clients(frame, "label", "user")) == fingerprint(from_clients(BY_CLIENT))
    frame.loc[4, "age"] = None
    with pytest.raises(PartitaError, match="data: column 'age'"):
        from_clients(frame, "label", "user")
    twice = pandas.concat([frame[["weight", "user", "label"]], frame[["weight"]]], axis=1)
    with pytest.raises(PartitaError, match="there are several columns 'weight'"):
        from_clients(twice, "label", "user")
    assert list(from_clients(frame[["weight"]].to_numpy(), frame["label"], frame["user"]).names) == list(SIZES)


def test_pandas_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert len(from_clients(FRAME, "label", "user")) == 3


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([])


class Rows(Dataset[Any]):
    """A dataset of anything."""

    def __init__(self, *rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> Any:
        return self.rows[row]


def changed(**parts: Any) -> dict[str, Any]:
    return {**BY_CLIENT, **parts}


A, B = BY_CLIENT["anna"]
HOLE = np.where(np.arange(12)[:, None] == 2, np.nan, A)

BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "nobody": (lambda: from_clients({}), r"data: there are no clients\."),
    "a value that is none": (
        lambda: from_clients(changed(ben=5)),
        r"data, client ben: a value of type int was given\. Give a tuple \(inputs, targets\), a torch dataset, ",
    ),
    "a list for a pair": (
        lambda: from_clients(changed(ben=[A, B])),
        "data, client ben: a value of type list",
    ),
    "three for a pair": (
        lambda: from_clients(changed(ben=(A, B, B))),
        "data, client ben: a value of type tuple",
    ),
    "a name of another kind": (
        lambda: from_clients({1.5: (A, B)}),
        r"data: a client is called 1\.5\. Call clients by a text or a whole number\.",
    ),
    "an empty name": (lambda: from_clients({"": (A, B)}), "data: a client is called ''"),
    "truth as a name": (lambda: from_clients({True: (A, B)}), "data: a client is called True"),
    "one name twice": (lambda: from_clients({1: (A, B), "1": (A, B)}), "data: two clients are called '1'"),
    "another part": (
        lambda: from_clients({"anna": {"train": (A, B), "tests": (A, B)}}),
        r"data, client anna: Unknown part 'tests'\. Did you mean 'test'\?",
    ),
    "no training part": (
        lambda: from_clients({"anna": {"test": (A, B)}}),
        "data, client anna: there is no part 'train'",
    ),
    "parts of some": (
        lambda: from_clients({"anna": {"train": (A, B), "test": (A, B)}, "ben": (A, B)}),
        r"data: client anna comes with train and test, client ben with train\. Give all clients the same parts\.",
    ),
    "not a number": (
        lambda: from_clients(changed(anna=(HOLE, B))),
        r"data, client anna: inputs: row 2 holds a value that is not a finite number \(1 such rows\)",
    ),
    "not a number in test": (
        lambda: from_clients({"anna": {"train": (A, B), "test": (HOLE, B)}}),
        "data, client anna, test: inputs: row 2 holds a value that is not a finite number",
    ),
    "lengths": (lambda: from_clients(changed(ben=(A, B[:5]))), "data, client ben: 12 inputs, but 5 targets"),
    "targets in a column": (
        lambda: from_clients(changed(ben=(A, B[:, None]))),
        r"data, client ben: the targets have shape \(12, 1\)\. Give one number for each row: targets\.reshape\(-1\)",
    ),
    "one-hot targets": (lambda: from_clients(changed(ben=(A, np.eye(12)))), r"data, client ben: .*argmax\(1\)"),
    "targets of text beside numbers": (
        lambda: from_clients(changed(ben=(A, list("abcabcabcabc")))),
        "data, client ben: the array of targets does not fit data, client anna: the array of targets: <U1 .* and int64",
    ),
    "a target without text": (
        lambda: from_clients(changed(ben=(A, [*"abcabcabcab", ""]))),
        "data, client ben: the label of row 11 is empty",
    ),
    "negative label": (lambda: from_clients(changed(ben=(A, B - 1))), "data, client ben: the label of row 0 is -1"),
    "half a label": (lambda: from_clients(changed(ben=(A, B + 0.5))), r"data, client ben: the label of row 0 is 0\.5"),
    "a label beyond": (
        lambda: from_clients(changed(ben=(A, np.where(B == 2, 999_999_999, B))), classes=3),
        r"data, client ben: the label of row 2 is 999999999, outside 0\.\.2 \(4 such rows\)",
    ),
    "a label far beyond": (
        lambda: from_clients(changed(ben=(A, np.where(B == 2, 999_999_999, B)))),
        r"data, client ben: the label of row 2 is 999999999, outside 0\.\.999999",
    ),
    "a class of nobody": (
        lambda: from_clients({"anna": (A, B * 5)}),
        r"data: the labels go up to 10, but only 3 classes occur \(0, 5, 10\)",
    ),
    "an empty client": (lambda: from_clients(changed(ben=(A[:0], B[:0]))), "data, client ben: there are no samples"),
    "an empty test part": (
        lambda: from_clients({"anna": {"train": (A, B), "test": (A[:0], B[:0])}}),
        "data, client anna, test: there are no samples",
    ),
    "nothing to test with": (
        lambda: from_clients(changed(dora=(A[:1], B[:1]), emil=(A[1:2], B[1:2]))),
        r"data: 2 clients with a single sample \(dora, emil\)\. Two are needed, one to train and one to test: leave ",
    ),
    "nothing to test with, by ids": (
        lambda: from_clients(X, Y, ["dora", *["anna"] * (COUNT - 1)]),
        r"data: 1 client with a single sample \(dora\)\.",
    ),
    "other shapes": (
        lambda: from_clients(changed(ben=(A[:, :2], B))),
        r"data, client ben: the array of inputs does not fit data, client anna: the array of inputs: float64 of shape ",
    ),
    "bytes and numbers": (
        lambda: from_clients(changed(ben=(images(np.uint8, 3)[:12], B))),
        "data, client ben: the array of inputs does not fit data, client anna: the array of inputs: uint8",
    ),
    "texts and numbers": (
        lambda: from_clients(changed(ben=(["a"] * 12, B))),
        "data, client ben: the array of inputs is of texts, but data, client anna: the array of inputs is of "
        "numbers. Give",
    ),
    "targets of some": (
        lambda: from_clients({"anna": (["a", "b"], [0, 1]), "ben": ["c", "d"]}),
        "data, client ben: the array of targets is missing, unlike data, client anna: the array of targets",
    ),
    "rows of other lengths": (
        lambda: from_clients(changed(ben=([[1.0], [1.0, 2.0]], [0, 1]))),
        r"data, client ben: the inputs cannot be put into one array: .* Rows must be of one shape\.",
    ),
    "one number": (
        lambda: from_clients(changed(ben=(1.0, 0))),
        r"data, client ben: the inputs are a single value of type float\. Give a row for each sample\.",
    ),
    "channels last": (
        lambda: from_clients({"anna": (np.zeros((12, 8, 8, 3)), B)}),
        r"data, client anna: the inputs have shape \(12, 8, 8, 3\), like images with their channels last",
    ),
    "more than needed": (
        lambda: from_clients(BY_CLIENT, Y),
        "data: data given by client have their own targets",
    ),
    "a fraction that is none": (lambda: from_clients(BY_CLIENT, test=1.5), r"test is 1\.5, but must be"),
    "no ids": (
        lambda: from_clients(X, Y),
        r"data: the client of each row is missing\. Give clients, a name or a number for each row, or ",
    ),
    "too few ids": (lambda: from_clients(X, Y, IDS[:-1]), "data: 41 inputs, 41 targets, 40 client ids. They must be"),
    "too few targets": (lambda: from_clients(X, Y[:-1], IDS), "data: 41 inputs, 40 targets, 41 client ids"),
    "no targets": (
        lambda: from_clients(X, None, IDS),
        "data: there are inputs, but no targets. Give targets; only texts can do",
    ),
    "an id that is none": (
        lambda: from_clients(X, Y, [None, *IDS[1:]]),
        "data: the client ids are of type NoneType and str",
    ),
    "ids of two kinds": (lambda: from_clients(X, Y, [1, *IDS[1:]]), "data: the client ids are of type int and str"),
    "an id that is not a number": (
        lambda: from_clients(X, Y, np.where(Y == 1, np.nan, 1.0)),
        r"data: the client id of row 1 is nan\. Give text or whole numbers\.",
    ),
    "ids in a column": (lambda: from_clients(X, Y, IDS[:, None]), r"data: the client ids have shape \(41, 1\)"),
    "no rows": (lambda: from_clients(X[:0], Y[:0], []), "data: there are no samples"),
    "a number in the ids form": (
        lambda: from_clients(np.where(X[7, 1] == X, np.inf, X), Y, IDS),
        "data: inputs: row 7 holds a value that is not a finite number",
    ),
    "a dataset with targets": (lambda: from_clients(WHOLE, Y, IDS), "data: a torch dataset has its own targets"),
    "a dataset without length": (lambda: from_clients(Stream(), clients=IDS), "data: the dataset has no length"),
    "an empty dataset": (lambda: from_clients({"anna": Subset(WHOLE, [])}), "data, client anna: there are no samples"),
    "a dataset of inputs": (
        lambda: from_clients({"anna": Rows(X[0], X[1])}),
        r"data, client anna: row 0 of the dataset is a ndarray, not \(input, target\)",
    ),
    "a dataset of other shapes": (
        lambda: from_clients({"anna": Rows((X[0], 0), (X[1, :2], 1))}),
        "data, client anna: the input of row 1 does not fit data, client anna: the input of row 0",
    ),
    "no such column": (
        lambda: from_clients(FRAME, "labels", "user"),
        r"data: targets must name a column of the data frame\. Unknown column 'labels'\. Did you mean 'label'\?",
    ),
    "ids beside a frame": (lambda: from_clients(FRAME, "label", IDS), "data: clients must name a column"),
    "no features": (
        lambda: from_clients(Columns(user=IDS, label=Y), "label", "user"),
        "data: the data frame has no column of features, only 'label' and 'user'",
    ),
    "a column of text": (
        lambda: from_clients(Columns(city=IDS, age=X[:, 0], user=IDS, label=Y), "label", "user"),
        r"data: column 'city' is of type <U5, and features must be numbers\. Leave it out, or make numbers of it",
    ),
    "a hole in a column": (
        lambda: from_clients(Columns(age=np.where(Y == 1, np.nan, Y), user=IDS, label=Y), "label", "user"),
        r"data: column 'age' has no finite number in row 1 \(14 such rows\)\. Fill them in",
    ),
    "a frame without targets": (
        lambda: from_clients(Columns(age=X[:, 0], user=IDS), None, "user"),
        "data: there are inputs, but no targets",
    ),
    "anything else": (
        lambda: from_clients(object(), Y, IDS),  # type: ignore[arg-type]
        r"data: the inputs are a single value of type object\. Give a row for each sample\.",
    ),
    "a single text": (lambda: from_clients({"anna": "words"}), "data, client anna: a value of type str was given"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_federated_is_refused_by_one_line(case: str) -> None:
    make, message = BAD[case]
    with pytest.raises(PartitaError, match=f"^{message}") as caught:
        make()
    assert "\n" not in str(caught.value)


def test_datasets_of_datasets() -> None:
    joined: Dataset[Any] = ConcatDataset([DATASETS["anna"], DATASETS["ben"]])
    assert list(from_clients(joined, clients=["x", "y"] * 16).names) == ["x", "y"]
