"""Data from elsewhere: arrays in files, a folder for each client, torch datasets, and what other libraries wrote.

One file, since each format takes a few lines, and all must make the same federation.
"""

import io
import json
import os
import pickle
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, TensorDataset

from partita.data.datasets import from_dataset
from partita.data.federation import Federation, federate
from partita.data.pool import Pool, Texts, pool
from partita.data.sources._pickles import load_pickled_npz, unpickle
from partita.data.sources.flbench import flbench
from partita.data.sources.folder import folder
from partita.data.sources.huggingface import huggingface
from partita.data.sources.npz import npz
from partita.data.sources.pfllib import pfllib
from partita.data.split import Split
from partita.data.splits.flwr import flwr
from partita.data.splits.natural import natural
from partita.errors import PartitaError
from partita.experiment.settings.settings import convert
from partita.extras import optional

DRAW = np.random.default_rng(1)
Made = TypeVar("Made")


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARTITA_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def inputs_of(made: Pool) -> torch.Tensor:
    assert isinstance(made.inputs, torch.Tensor)
    return made.inputs


def owners(made: Pool) -> list[str]:
    assert made.clients is not None
    return [made.client_names[client] for client in made.clients]


def official(made: Pool) -> list[bool] | None:
    return None if made.official_test is None else made.official_test.tolist()


def save(path: Path, **arrays: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
    return str(path)


def attempt(read: Callable[[], Made], message: str) -> Made | None:
    """What is read, or nothing where it is refused with that message; no other error may come."""
    try:
        return read()
    except PartitaError as problem:
        if not re.search(message, str(problem)):
            raise AssertionError(f"the message does not say {message}") from problem
        return None


# Arrays


X, Y = DRAW.normal(size=(6, 3)), np.array([0, 1, 2, 0, 1, 2])


def test_one_pool_of_arrays(tmp_path: Path) -> None:
    made = npz(path=save(tmp_path / "mine.npz", x=X, y=Y, client=np.array(list("bbaacc"))))
    assert (made.name, made.classes, owners(made), official(made)) == ("mine", 3, list("bbaacc"), None)
    np.testing.assert_allclose(inputs_of(made), X, rtol=1e-6)


def test_train_and_test_arrays(tmp_path: Path) -> None:
    path = save(
        tmp_path / "a.npz",
        x_train=X[:4],
        y_train=Y[:4],
        client_train=np.array([3, 3, 1, 1]),
        x_test=X[4:],
        y_test=Y[4:],
        client_test=np.array([1, 3]),
    )
    made = npz(path=path)
    assert (official(made), owners(made)) == ([False] * 4 + [True] * 2, ["3", "3", "1", "1", "1", "3"])
    assert made.targets.tolist() == Y.tolist()


def test_arrays_of_text(tmp_path: Path) -> None:
    made = npz(path=save(tmp_path / "a.npz", x=np.array(["a b", "c"]), y=np.array([1, 0])))
    assert isinstance(made.inputs, Texts)
    assert (made.kind, made.inputs.words) == ("classification", ("a", "b", "c"))
    assert npz(path=save(tmp_path / "b.npz", x=np.array(["a b"]))).kind == "next_word"
    letters = npz(path=save(tmp_path / "c.npz", x=np.array(["a b"])), text="characters")
    assert isinstance(letters.inputs, Texts)
    assert letters.inputs.words == ("a", " ", "b")


BAD_ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "has neither x nor x_train and x_test; it has nothing"),
    "other keys": ({"images": X, "labels": Y}, "neither x nor x_train and x_test; it has images, labels"),
    "no labels": ({"x": X}, "there are inputs, but no targets. Give targets; only texts can do without"),
    "half of the labels": (
        {"x_train": X, "x_test": X, "y_train": Y},
        "has y_train, but not y_test",
    ),
    "other shape": (
        {"x_train": X, "y_train": Y, "x_test": X[:, :2], "y_test": Y},
        r"x_test does not fit .*x_train: float64 of shape \(6, 2\), and float64 of shape \(6, 3\)",
    ),
    "bytes and numbers": (
        {"x_train": np.zeros((6, 3), dtype=np.uint8), "y_train": Y, "x_test": X, "y_test": Y},
        "x_test does not fit .*x_train: float64 .* and uint8",
    ),
    "text and numbers": (
        {"x_train": np.array(["a"]), "y_train": Y[:1], "x_test": np.array([1.0]), "y_test": Y[:1]},
        "x_test does not fit .*x_train: float64 .* and <U1",
    ),
    "wrong lengths, right sum": (
        {"x_train": X[:4], "y_train": Y[:3], "x_test": X[4:], "y_test": Y[3:]},
        "y_train has 3 rows, but x_train has 4",
    ),
    "too few clients": ({"x": X, "y": Y, "client": Y[:5]}, "client has 5 rows, but x has 6"),
    "one number": ({"x": np.array(1.0), "y": Y}, r"x does not fit .*shape \(\)"),
    "not a number": (
        {"x": np.where(np.isin(X, X[2, 0]), np.nan, X), "y": Y},
        r"a\.npz: a: inputs: row 2 .*not a finite",
    ),
    "negative label": ({"x": X, "y": Y - 1}, r"a\.npz: a: the label of row 0 is -1"),
    "no rows": ({"x": X[:0], "y": Y[:0]}, r"a\.npz: a: there are no samples"),
    "an empty label": (
        {"x": X, "y": np.array(["a", "b", "", "a", "b", "c"])},
        r"a\.npz: a: the label of row 2 is empty",
    ),
    "pickled": ({"x": np.array([{"a": 1}, None]), "y": Y[:2]}, r"a\.npz cannot be read .*pickled objects are refused"),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_bad_arrays_are_refused(tmp_path: Path, case: str) -> None:
    arrays, message = BAD_ARRAYS[case]
    path = save(tmp_path / "a.npz", **arrays)
    with pytest.raises(PartitaError, match=message) as caught:
        npz(path=path)
    assert "a.npz" in str(caught.value) or case == "no labels"


def test_files_that_are_no_arrays_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PartitaError, match=r"There is no file .*none\.npz"):
        npz(path=str(tmp_path / "none.npz"))
    path = tmp_path / "a.npz"
    contents = [b"", b"hello", pickle.dumps({"x": X})]
    buffer = io.BytesIO()
    np.save(buffer, X)
    for content in (*contents, buffer.getvalue()):
        path.write_bytes(content)
        with pytest.raises(PartitaError, match=r"a\.npz cannot be read as an \.npz file of plain arrays"):
            npz(path=str(path))
    with pytest.raises(PartitaError, match=r"cannot be read as an \.npz"):
        npz(path=str(tmp_path))


def test_any_damage_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    """Every place cut off or changed: the file is read as it was, or refused, and nothing else is raised."""
    path = tmp_path / "a.npz"
    save(path, x=X.astype(np.float32), y=Y)
    whole, right = path.read_bytes(), npz(path=str(path))
    refused = 0
    for place in range(0, len(whole), 5):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :]):
            path.write_bytes(damaged)
            made = attempt(lambda: npz(path=str(path)), r"a\.npz")
            if made is None:
                refused += 1
            else:
                assert torch.equal(inputs_of(made), inputs_of(right))
                assert torch.equal(made.targets, right.targets)
    assert refused > len(whole) // 5


# A folder for each client


def test_a_folder_for_each_client(tmp_path: Path) -> None:
    for name, rows in (("bob", slice(0, 2)), ("ann", slice(2, 6))):
        save(tmp_path / "set" / name / "data.npz", x=X[rows], y=Y[rows])
    (tmp_path / "set" / ".hidden").mkdir()
    made = folder(path=str(tmp_path / "set"))
    assert (made.name, owners(made), official(made)) == ("set", ["ann"] * 4 + ["bob"] * 2, None)
    assert made.targets.tolist() == [2, 0, 1, 2, 0, 1]


def test_a_folder_for_each_client_with_tests(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(tmp_path / "set" / name / "d.npz", x=X[:4], y=Y[:4], x_test=X[4:] + ord(name), y_test=Y[4:])
    made = folder(path=str(tmp_path / "set"), classes=5)
    assert (made.classes, owners(made)) == (5, ["a"] * 6 + ["b"] * 6)
    assert official(made) == ([False] * 4 + [True] * 2) * 2
    assert federate(made, validation=0.0, most_duplicates=1.0).sizes == [4, 4]


def test_folders_of_texts(tmp_path: Path) -> None:
    save(tmp_path / "set" / "a" / "d.npz", x=np.array(["one", "two words"]), y=np.array([0, 1]))
    made = folder(path=str(tmp_path / "set"))
    assert isinstance(made.inputs, Texts)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "There is no folder"),
        ({"a/d.npz": {"x": X, "y": Y}, "a/e.npz": {"x": X, "y": Y}}, r"a has 2 \.npz files; it must have one"),
        ({"a/d.npz": {"x": X}}, r"d\.npz lacks y; it has x"),
        ({"a/d.npz": {"x": X, "y": Y, "x_test": X}}, r"d\.npz lacks y_test"),
        ({"a/d.npz": {"x": X, "y": Y[:2]}}, r"d\.npz: 6 inputs x, but 2 targets y"),
        (
            {"a/d.npz": {"x": X, "y": Y}, "b/e.npz": {"x": X, "y": Y, "x_test": X, "y_test": Y}},
            r"e\.npz: x_test must be in the files of all clients or of none",
        ),
        ({"a/d.npz": {"x": X, "y": Y}, "b/e.npz": {"x": X[:, 1:], "y": Y}}, r"e\.npz: x does not fit .*d\.npz: x"),
        ({"a/d.npz": {"x": X, "y": -Y}}, r"set: set: the label of row 1 is -1"),
    ],
)
def test_bad_folders_are_refused(tmp_path: Path, files: dict[str, Any], message: str) -> None:
    for name, arrays in files.items():
        save(tmp_path / "set" / name, **arrays)
    with pytest.raises(PartitaError, match=message):
        folder(path=str(tmp_path / "set"))


def test_folders_without_clients_are_refused(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    with pytest.raises(PartitaError, match=r"set has no folders\. Each client needs one"):
        folder(path=str(tmp_path / "set"))
    (tmp_path / "set" / "a").mkdir()
    with pytest.raises(PartitaError, match=r"a has 0 \.npz files"):
        folder(path=str(tmp_path / "set"))


# PFLlib


def pfllib_files(root: Path, clients: int = 12, **config: object) -> list[dict[str, dict[str, np.ndarray]]]:
    """As its generators write: one dictionary for each client and role, pickled under the key data."""
    written = []
    for client in range(clients):
        parts: dict[str, dict[str, np.ndarray]] = {}
        for role, count in (("train", 3 + client), ("test", 2)):
            (root / role).mkdir(parents=True, exist_ok=True)
            x = DRAW.normal(size=(count, 3, 4, 4)).astype(np.float32)
            parts[role] = {"x": x, "y": np.asarray(DRAW.integers(0, 5, count))}
            with (root / role / f"{client}.npz").open("wb") as file:
                np.savez_compressed(file, data=parts[role])  # type: ignore[arg-type]
        written.append(parts)
    settings = {"num_clients": clients, "num_classes": 5, "non_iid": True, "partition": "dir", **config}
    (root / "config.json").write_text(json.dumps(settings))
    return written


def test_pfllibs_division_is_rebuilt_exactly(tmp_path: Path) -> None:
    """Also the order: client 10 comes after client 9, and rows are in the order of the files."""
    written = pfllib_files(tmp_path / "Cifar10")
    made = pfllib(path=str(tmp_path / "Cifar10"))
    assert (made.name, made.classes, made.kind) == ("Cifar10", 5, "classification")
    federation = federate(made, natural(), validation=0.0)
    assert federation.names == [str(client) for client in range(12)]
    for client, parts in enumerate(written):
        for role, samples in (("train", federation[client].train), ("test", federation[client].test)):
            np.testing.assert_array_equal(samples.inputs, parts[role]["x"])
            np.testing.assert_array_equal(samples.targets, parts[role]["y"])


def test_pfllib_without_a_configuration(tmp_path: Path) -> None:
    pfllib_files(tmp_path / "mnist", clients=2)
    (tmp_path / "mnist" / "config.json").unlink()
    assert len(pfllib(path=str(tmp_path / "mnist")).client_names) == 2


def test_other_files_beside_those_of_pfllib_are_left_alone(tmp_path: Path) -> None:
    pfllib_files(tmp_path / "mnist", clients=2)
    (tmp_path / "mnist/train/².npz").touch()
    assert pfllib(path=str(tmp_path / "mnist")).client_names == ("0", "1")


def put(path: Path, content: object) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, data=content)  # type: ignore[arg-type]


BAD_PFLLIB: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (lambda root: (root / "test").rename(root / "other"), "has no folders train and test"),
    "client missing": (lambda root: (root / "train/1.npz").unlink(), "has files for 2 clients, but there should be"),
    "test missing": (lambda root: (root / "test/1.npz").unlink(), r"There is no file .*1\.npz"),
    "fewer than configured": (
        lambda root: (root / "config.json").write_text('{"num_clients": 20}'),
        r"files for 3 clients, but there should be 0\.npz to 19\.npz",
    ),
    "number that is none": (
        lambda root: (root / "config.json").write_text('{"num_clients": "three"}'),
        r"config\.json: num_clients is 'three', not a whole number above 0",
    ),
    "classes that are none": (
        lambda root: (root / "config.json").write_text('{"num_classes": -5}'),
        r"config\.json: num_classes is -5, not a whole number above 0",
    ),
    "nested too deep": (
        lambda root: (root / "config.json").write_text("[" * 200_000),
        r"config\.json cannot be read as JSON",
    ),
    "bad configuration": (lambda root: (root / "config.json").write_text("[]"), r"config\.json cannot be read as JSON"),
    "other object": (lambda root: put(root / "train/1.npz", {"x": X}), r"1\.npz does not hold arrays x and y"),
    "lists": (lambda root: put(root / "train/1.npz", {"x": [[1]], "y": [0]}), "does not hold arrays x and y"),
    "objects": (
        lambda root: put(root / "train/1.npz", {"x": np.array([None, [1]], dtype=object), "y": Y[:2]}),
        "holds Python objects",
    ),
    "lengths": (lambda root: put(root / "train/1.npz", {"x": X, "y": Y[:2]}), "6 inputs, but 2 targets"),
    "shapes": (lambda root: put(root / "train/1.npz", {"x": X, "y": Y}), r"1\.npz: x does not fit .*0\.npz: x"),
    "plain array": (lambda root: put(root / "train/1.npz", X), "'data' is an array of float64"),
    "no zip": (lambda root: (root / "train/1.npz").write_bytes(b"x"), r"1\.npz cannot be read as an \.npz file"),
    "other key": (lambda root: np.savez(root / "train/1.npz", x=X), "it has no 'data'"),
    "label": (
        lambda root: put(root / "test/2.npz", {"x": np.zeros((1, 3, 4, 4), dtype=np.float32), "y": np.array([5])}),
        r"the label of row 16 is 5, outside 0\.\.4",
    ),
}


@pytest.mark.parametrize("case", BAD_PFLLIB)
def test_bad_folders_of_pfllib_are_refused(tmp_path: Path, case: str) -> None:
    damage, message = BAD_PFLLIB[case]
    pfllib_files(tmp_path / "set", clients=3)
    damage(tmp_path / "set")
    with pytest.raises(PartitaError, match=message):
        pfllib(path=str(tmp_path / "set"))


# Pickles


class Command:
    """A pickle of this runs a command when it is read."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


def test_a_pickle_runs_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    for content in (Command(marker), {"x": Command(marker)}, np.array([Command(marker)], dtype=object)):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(PartitaError, match=r"here is refused: it asks for \w+\.mkdir"):
                unpickle(pickle.dumps(content, protocol), "here")
    assert not marker.exists()
    pickle.loads(pickle.dumps(Command(marker)))
    assert marker.exists(), "the command would have worked"


def test_a_command_in_a_file_of_pfllib_is_not_run(tmp_path: Path) -> None:
    pfllib_files(tmp_path / "set", clients=2)
    put(tmp_path / "set/train/0.npz", {"x": X, "y": Command(tmp_path / "ran")})
    with pytest.raises(PartitaError, match=r"0\.npz is refused: it asks for \w+\.mkdir.*can run any program"):
        pfllib(path=str(tmp_path / "set"))
    assert not (tmp_path / "ran").exists()


def test_a_command_in_a_file_of_flbench_is_not_run(tmp_path: Path) -> None:
    root = flbench_files(tmp_path / "synthetic")
    (root / "partition.pkl").write_bytes(pickle.dumps({"data_indices": [Command(tmp_path / "ran")]}))
    with pytest.raises(PartitaError, match=r"partition\.pkl is refused: it asks for \w+\.mkdir"):
        flbench(path=str(root))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "asked",
    [
        "builtins eval",
        "builtins getattr",
        "os system",
        "numpy load",
        "numpy.core.multiarray fromfile",
        "numpy ndarray.tofile",
    ],
)
def test_only_arrays_may_be_asked_for(asked: str) -> None:
    module, name = asked.split()
    with pytest.raises(PartitaError, match=r"is refused: it asks for .*only numpy's arrays are allowed"):
        unpickle(f"c{module}\n{name}\n.".encode(), "here")


# Parts of pickles: instructions as text where they have arguments, values as numpy writes them.
NUMBERS = b"cnumpy\ndtype\n(S'i8'\nI0\nI1\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntb"
OBJECTS = b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI63\ntb"
POINTER = b"C\x08" + (0x41414141).to_bytes(8, "little")
EMPTY = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntC\x01btR"
ONE = b"(I1\nt"

ATTACKS: dict[str, tuple[bytes, str]] = {
    "objects of bytes": (
        b"cnumpy\nndarray\n((tS'O'\n" + POINTER + b"tR.",
        "it calls numpy.ndarray otherwise than an array does",
    ),
    "a new array of bytes": (
        b"\x80\x02cnumpy\nndarray\n((tS'O'\n" + POINTER + b"t\x81.",
        "it uses the instruction NEWOBJ",
    ),
    "objects as content": (
        EMPTY + b"(I1\n" + ONE + OBJECTS + b"I00\n" + POINTER + b"tb.",
        "an array of objects is not given as a list of them",
    ),
    "fewer objects than the shape says": (
        EMPTY + b"(I1\n(I9\nt" + OBJECTS + b"I00\n(lI1\natb.",
        "an array of objects is not given as a list of them",
    ),
    "objects of a buffer": (
        b"cnumpy.core.numeric\n_frombuffer\n(" + POINTER + OBJECTS + ONE + b"S'C'\ntR.",
        "an array of objects is not given as a list of them",
    ),
    "an object of bytes": (
        b"cnumpy.core.multiarray\nscalar\n(" + OBJECTS + POINTER + b"tR.",
        "an array of objects is not given as a list of them",
    ),
    "a type with fields of objects": (
        b"cnumpy\ndtype\n(S'i8'\nI0\nI1\ntR(I3\nS'<'\nN(S'a'\nt(dS'a'\n(" + OBJECTS + b"I0\ntsI8\nI1\nI63\ntb.",
        "it changes a type otherwise than an array does",
    ),
    "a type of another": (
        b"cnumpy\ndtype\n(S'i8'\nI0\nI1\ntR(I3\nS'<'\n(" + OBJECTS + ONE + b"tNNI8\nI1\nI63\ntb.",
        "it changes a type otherwise than an array does",
    ),
    "a type of nothing": (
        b"cnumpy\ndtype\n(S'V8'\nI0\nI1\ntR.",
        "it asks for an array of type 'V8', and only numbers and text are allowed",
    ),
    "a type of fields": (b"cnumpy\ndtype\n((lS'a'\natR.", "it asks for an array of type"),
    "too few bytes": (
        EMPTY + b"(I1\n(I1000000000\nt" + NUMBERS + b"I00\n" + POINTER + b"tb.",
        "an array of 1000000000 values of type i8 has 8 bytes",
    ),
    "a negative shape": (
        EMPTY + b"(I1\n(I-1\nI-1\nt" + NUMBERS + b"I00\n" + POINTER + b"tb.",
        r"an array has the shape \(-1, -1\)",
    ),
    "an array that is changed": (
        EMPTY
        + b"(I1\n"
        + ONE
        + NUMBERS
        + b"I00\n"
        + POINTER
        + b"tb(I1\n"
        + ONE
        + NUMBERS
        + b"I00\n"
        + POINTER
        + b"tb.",
        "it changes a ndarray otherwise than an array does",
    ),
    "an array within itself": (
        EMPTY + b"p7\n(I1\n" + ONE + OBJECTS + b"I00\n(lg7\natb.",
        "it keeps a name or half an array as a value",
    ),
    "half an array": (EMPTY + b".", "it ends with a name or with half an array"),
    "a name": (b"cnumpy\nndarray\n.", "it ends with a name or with half an array"),
    "a dictionary that is changed": (b"}}S'a'\nI1\nsb.", "it changes a dict otherwise than an array does"),
    "an attribute of a function": (
        b"c_codecs\nencode\n(N}S'mark'\nI1\nstb.",
        "it changes a name otherwise than an array does",
    ),
    "another encoding": (
        b"c_codecs\nencode\n(S'a'\nS'rot13'\ntR.",
        r"it calls _codecs\.encode otherwise than an array does",
    ),
    "a call of a value": (b"S'a'\n(tR.", "it calls a str"),
    "truth values of other bytes": (
        b"cnumpy.core.numeric\n_frombuffer\n(C\x01\x07cnumpy\ndtype\n(S'b1'\nI0\nI1\ntR" + ONE + b"S'C'\ntR.",
        "an array of truth values holds others",
    ),
    "text of no characters": (
        b"cnumpy.core.numeric\n_frombuffer\n(C\x04\xff\xff\xff\xffcnumpy\ndtype\n(S'U1'\nI0\nI1\ntR"
        + ONE
        + b"S'C'\ntR.",
        "an array of text holds a number that is no character",
    ),
    "a key so deep that its hash would not end": (
        b"})" + b"\x85" * 200_000 + b"Ns.",
        "a dictionary has a key of type tuple",
    ),
    "an instance": (b"(ios\nsystem\n.", "it uses the instruction INST"),
    "an extension": (b"\x82\x01.", "it uses the instruction EXT1"),
    "something stored elsewhere": (b"S'a'\nQ.", "it uses the instruction BINPERSID"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_by_pickles_are_refused(attack: str) -> None:
    content, message = ATTACKS[attack]
    with pytest.raises(
        PartitaError, match=rf"^here is refused: ({message}).*\. A pickle can run any program"
    ) as caught:
        unpickle(content, "here")
    assert "\n" not in str(caught.value)


def test_a_far_place_in_a_pickles_memory_takes_no_room() -> None:
    """The standard library would make room for two thousand million values."""
    assert unpickle(b"\x80\x02Nr\xfe\xff\xff\x7f.", "here") is None


def test_lists_may_be_nested_deep() -> None:
    found = unpickle(b"]" * 100_000 + b"a" * 99_999 + b".", "here")
    for _ in range(99_999):
        assert isinstance(found, list)
        (found,) = found
    assert found == []


ARRAYS = [
    np.arange(6).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1),
    np.array(["a", "bc"]),
    np.array([True, False]),
    np.array([], dtype=np.int32),
    np.array([[1, 2], None], dtype=object),
    np.array(5, dtype=">i2"),
]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_of_all_kinds_can_be_read(protocol: int) -> None:
    for array in ARRAYS:
        content = {"a": [array, np.float32(1.5), np.int64(3), "text", None, (1, 2.5), b"bytes"]}
        read = unpickle(pickle.dumps(content, protocol), "here")
        assert isinstance(read, dict)
        found, *rest = read["a"]
        like = pickle.loads(pickle.dumps(array, protocol))
        assert (found.dtype, found.shape, found.tolist()) == (like.dtype, array.shape, array.tolist())
        assert rest == content["a"][1:]


OLD, NEW = b"numpy.core.", b"numpy._core."


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("module", [OLD, NEW])
def test_names_of_both_versions_of_numpy_are_known(module: bytes, protocol: int) -> None:
    """The names are as long in both, but for one character, which the length before them says."""
    values = {
        "x": np.arange(6.0).reshape(2, 3),
        "y": [np.float32(0.5), np.array(["a", "é"])],
        "z": ({"n": np.int8(3)},),
    }
    content = pickle.dumps(values, protocol)
    for name in (b"multiarray", b"numeric"):
        for found in (OLD, NEW):
            was, becomes = found + name, module + name
            content = content.replace(bytes([len(was)]) + was, bytes([len(becomes)]) + becomes)
            content = content.replace(b"c" + was, b"c" + becomes)
    assert (OLD in content, NEW in content) == (module == OLD, module == NEW)
    if protocol >= 4:
        # Frames would have another length: they only help to read ahead.
        content = re.sub(rb"\x95.{8}", b"", content, flags=re.DOTALL)
    read = unpickle(content, "here")
    assert isinstance(read, dict)
    assert repr(read) == repr(values)


def test_damaged_pickles_are_refused() -> None:
    content = pickle.dumps({"a": np.arange(30), "b": [1, "x"]}, 2)
    for place in range(0, len(content) - 1, 3):
        with pytest.raises(PartitaError, match=r"here (is refused|cannot be read)"):
            unpickle(content[:place], "here")
        changed = content[:place] + bytes([content[place] ^ 0x1F]) + content[place + 1 :]
        attempt(lambda content=changed: unpickle(content, "here"), "here")  # type: ignore[misc]


def test_a_long_head_of_an_array_file_is_read(tmp_path: Path) -> None:
    """numpy writes another version of the format where version 1 has no room."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.array({"x": 1}, dtype=object), version=(2, 0))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("data.npy", stream.getvalue())
    assert load_pickled_npz(tmp_path / "a.npz", "data") == {"x": 1}


# FL-bench


PARTITION = {
    "separation": {"train": [0, 1, 2], "val": [0, 1, 2], "test": [0, 1, 2], "total": 3},
    "data_indices": [
        {"train": np.array([3, 0]), "val": np.array([8], dtype=np.int32), "test": [5]},
        {"train": [], "val": np.array([], dtype=np.int64), "test": []},
        {"train": [7, 2], "test": np.array([1])},
    ],
}


def flbench_files(root: Path, partition: object = PARTITION, data: np.ndarray | None = None) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    inputs = np.arange(27.0).reshape(9, 3) if data is None else data
    np.save(root / "data.npy", inputs)
    np.save(root / "targets.npy", np.arange(9) % 4)
    (root / "partition.pkl").write_bytes(pickle.dumps(partition))
    (root / "args.json").write_text('{"dataset": "synthetic", "client_num": 3}')
    return root


def test_flbenchs_division_is_rebuilt(tmp_path: Path) -> None:
    """Rows of nobody are left out, validation rows count as training rows."""
    made = flbench(path=str(flbench_files(tmp_path / "synthetic")))
    assert inputs_of(made)[:, 0].tolist() == [0, 3, 6, 9, 15, 21, 24]
    assert made.targets.tolist() == [0, 1, 2, 3, 1, 3, 0]
    assert owners(made) == ["0", "2", "2", "0", "0", "2", "0"]
    assert official(made) == [False, True, False, False, True, False, False]
    federation = federate(made, natural(), validation=0.0)
    assert (federation.names, federation.sizes) == (["0", "2"], [3, 2])


def test_images_of_flbench_are_channels_first_from_0_to_1(tmp_path: Path) -> None:
    celeba = flbench_files(tmp_path / "celeba", data=np.full((9, 5, 6, 3), 51.0))
    assert inputs_of(flbench(path=str(celeba))).shape == (7, 3, 5, 6)
    torch.testing.assert_close(inputs_of(flbench(path=str(celeba))), torch.full((7, 3, 5, 6), 0.2))
    femnist = flbench_files(tmp_path / "femnist", data=np.full((9, 784), 0.5))
    assert inputs_of(flbench(path=str(femnist))).shape == (7, 1, 28, 28)


def test_sets_that_flbench_leaves_to_torchvision(tmp_path: Path) -> None:
    """Its rows of CIFAR-10 are train, then test: as here."""
    pixels, labels = DRAW.integers(0, 256, (9, 32, 32, 3), dtype=np.uint8), np.arange(9)
    save(tmp_path / "cifar10.npz", x_train=pixels[:5], y_train=labels[:5], x_test=pixels[5:], y_test=labels[5:])
    root = flbench_files(tmp_path / "bench" / "cifar10")
    (root / "data.npy").unlink()
    made = flbench(path=str(root))
    assert made.targets.tolist() == [0, 1, 2, 3, 5, 7, 8]
    assert official(made) == [False, True, False, False, True, False, False]


def doubled(times: int) -> list[Any]:
    """A list of two times the same list, and so on: few bytes, but 2 ** times numbers."""
    rows: list[Any] = [0]
    for _ in range(times):
        rows = [rows, rows]
    return rows


BAD_FLBENCH: dict[str, tuple[Callable[[Path], object], str]] = {
    "no data": (lambda root: (root / "data.npy").unlink(), r"has no data\.npy, and 'synthetic' is none of cifar10"),
    "no targets": (lambda root: (root / "targets.npy").unlink(), r"There is no file .*targets\.npy"),
    "no partition": (lambda root: (root / "partition.pkl").unlink(), r"There is no file .*partition\.pkl"),
    "truncated": (
        lambda root: (root / "data.npy").write_bytes(b"\x93NUMPY\x01"),
        r"data\.npy cannot be read as an \.npy",
    ),
    "pickled": (
        lambda root: np.save(root / "data.npy", np.array([{}], dtype=object)),
        r"data\.npy cannot be read .*pickled objects are refused",
    ),
    "other form": (lambda root: flbench_files(root, [1, 2]), r"partition\.pkl: it has no data_indices"),
    "twice": (
        lambda root: flbench_files(root, {"data_indices": [{"train": [1]}, {"train": [2], "test": [1]}]}),
        r"partition\.pkl: Row 1 belongs to client 0 and to client 1",
    ),
    "same client": (
        lambda root: flbench_files(root, {"data_indices": [{"train": [1, 2], "test": [2]}]}),
        r"partition\.pkl: The rows of client 0 include one twice",
    ),
    "outside": (
        lambda root: flbench_files(root, {"data_indices": [{"train": [9]}]}),
        r"partition\.pkl: The rows of client 0 include 9, but there are 9 rows",
    ),
    "no numbers": (
        lambda root: flbench_files(root, {"data_indices": [{"train": ["a"]}]}),
        r"partition\.pkl: the train rows of client 0 are not a list of whole numbers",
    ),
    "more than there is room for": (
        lambda root: flbench_files(root, {"data_indices": [{"train": doubled(40)}]}),
        r"partition\.pkl: the train rows of client 0 are not a list of whole numbers",
    ),
    "a row that no number can be": (
        lambda root: flbench_files(root, {"data_indices": [{"train": [2**70]}]}),
        r"partition\.pkl: The rows of client 0 include 1180591620717411303424, but there are 9 rows",
    ),
}


@pytest.mark.parametrize("case", BAD_FLBENCH)
def test_bad_folders_of_flbench_are_refused(tmp_path: Path, case: str) -> None:
    damage, message = BAD_FLBENCH[case]
    damage(flbench_files(tmp_path / "synthetic"))
    with pytest.raises(PartitaError, match=message):
        flbench(path=str(tmp_path / "synthetic"))


def test_a_missing_folder_of_flbench_is_named(tmp_path: Path) -> None:
    with pytest.raises(PartitaError, match=r"There is no folder .*none"):
        flbench(path=str(tmp_path / "none"))


# Torch datasets


def dataset(count: int = 6) -> TensorDataset:
    return TensorDataset(torch.arange(3.0 * count).reshape(count, 3), torch.arange(count) % 3)


def test_a_torch_dataset() -> None:
    made = from_dataset(dataset(), name="mine", classes=4)
    assert (made.name, made.classes, made.clients, made.official_test) == ("mine", 4, None, None)
    assert torch.equal(inputs_of(made), torch.arange(18.0).reshape(6, 3))
    assert made.targets.tolist() == [0, 1, 2, 0, 1, 2]


def test_a_torch_dataset_of_clients() -> None:
    made = from_dataset(dataset(), clients=[[4, 0], [], [2, 5]], test=[0, 5, 1])
    assert inputs_of(made)[:, 0].tolist() == [0, 6, 12, 15]
    assert (owners(made), official(made)) == (["0", "2", "0", "2"], [True, False, False, True])


def test_two_torch_datasets_as_train_and_test() -> None:
    both: ConcatDataset[Any] = ConcatDataset([dataset(6), dataset(2)])
    assert official(from_dataset(both, test=range(6, 8))) == [False] * 6 + [True] * 2


def test_items_of_a_dataset_can_be_anything_like_an_array() -> None:
    items: Any = [(np.full((8, 8), at, dtype=np.uint8), at % 2) for at in range(3)]
    assert inputs_of(from_dataset(items)).shape == (3, 1, 8, 8)
    ratings: Any = [([1.0], 0.5), ([2.0], 1.5)]
    assert from_dataset(ratings, kind="regression").targets.tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    ("clients", "test", "message"),
    [
        ([[0, 1], [1]], None, "Row 1 belongs to client 0 and to client 1"),
        ([[0, 0]], None, "The rows of client 0 include one twice"),
        ([[0], [6]], None, "The rows of client 1 include 6, but there are 6 rows"),
        ([[-1]], None, "include -1"),
        ([[0]], [7], "The rows of the test set include 7"),
        ([[2**70]], None, "The rows of client 0 include 1180591620717411303424, but there are 6 rows"),
        ([[True, False]], None, "The rows of client 0 are of type bool. Give the numbers of rows"),
        ([[0.0]], None, "The rows of client 0 are of type float64"),
        ([], None, "mine: there are no samples"),
    ],
)
def test_bad_clients_of_a_dataset_are_refused(clients: Any, test: list[int] | None, message: str) -> None:
    with pytest.raises(PartitaError, match=message):
        from_dataset(dataset(), name="mine", clients=clients, test=test)


def test_items_of_other_shapes_are_named() -> None:
    items: Any = [(np.zeros(3), 0), (np.zeros(4), 1)]
    with pytest.raises(PartitaError, match="mine: the input of row 1 does not fit mine: the input of row 0"):
        from_dataset(items, name="mine")


# Hugging Face and Flower: with a stand-in, and with the libraries where they are installed


class Part:
    """What the source uses of `datasets.Dataset`."""

    def __init__(self, columns: dict[str, list[Any]], names: list[str] | None = None) -> None:
        self.columns, self.column_names = columns, list(columns)
        told = {} if names is None else {"num_classes": len(names), "names": names}
        self.features = {name: type("Feature", (), told)() for name in columns}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, column: str) -> list[Any]:
        return self.columns[column]

    @staticmethod
    def from_dict(columns: dict[str, Any]) -> "Part":
        return Part({name: list(values) for name, values in columns.items()})


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Data sets by name, as `datasets.load_dataset` would find them."""
    found: dict[str, Any] = {}
    library: Any = ModuleType("datasets")

    def load_dataset(path: str, configuration: str | None) -> Any:
        if path not in found:
            raise ConnectionError("cannot be reached")
        return found[path]

    library.load_dataset = load_dataset
    library.load_from_disk = lambda path: found[Path(path).name]
    library.Dataset = Part
    monkeypatch.setitem(sys.modules, "datasets", library)
    return found


def pictures() -> dict[str, list[Any]]:
    return {
        "img": [np.full((8, 8, 3), at, dtype=np.uint8) for at in range(4)],
        "label": [1, 0, 1, 2],
        "writer": ["b", "a", "b", "a"],
    }


def test_pictures_of_hugging_face(hub: dict[str, Any]) -> None:
    hub["someone/cats"] = {"train": Part(pictures(), list("abcdefg")), "test": Part(pictures(), list("abcdefg"))}
    made = huggingface(path="someone/cats", input_column="img", client_column="writer", test_split="test")
    assert (made.name, made.classes, made.targets.tolist()) == ("cats", 7, [1, 0, 1, 2] * 2)
    assert made.class_names == tuple("abcdefg")
    assert inputs_of(made).shape == (8, 3, 8, 8)
    assert (owners(made), official(made)) == (["b", "a", "b", "a"] * 2, [False] * 4 + [True] * 4)


def test_texts_of_hugging_face(hub: dict[str, Any]) -> None:
    hub["news"] = {"train": Part({"text": ["a b", "c"], "label": ["x", "w"]})}
    made = huggingface(path="news", input_column="text")
    assert isinstance(made.inputs, Texts)
    assert (made.classes, made.targets.tolist(), official(made)) == (2, [1, 0], None)
    assert made.class_names == ("w", "x")
    assert huggingface(path="news", input_column="text", label_column=None).kind == "next_word"


def test_a_set_of_hugging_face_on_disk(hub: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "dataset_info.json").touch()
    hub["mine"] = Part(pictures())
    assert len(huggingface(path=str(tmp_path / "mine"), input_column="img")) == 4
    with pytest.raises(PartitaError, match="is a single part, without a split 'test'"):
        huggingface(path=str(tmp_path / "mine"), input_column="img", test_split="test")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path": "none"}, "The data set 'none' cannot be loaded: cannot be reached"),
        ({"path": "cats"}, r"cats: Unknown column 'image'\. Did you mean 'img'"),
        (
            {"path": "cats", "input_column": "img", "train_split": "trian"},
            r"Unknown split 'trian'\. Did you mean 'train'",
        ),
        ({"path": "mixed", "input_column": "img"}, "mixed: img of row 1 does not fit mixed: img of row 0"),
    ],
)
def test_bad_settings_for_hugging_face_are_named(hub: dict[str, Any], settings: dict[str, str], message: str) -> None:
    hub["cats"] = {"train": Part(pictures())}
    hub["mixed"] = {"train": Part({"img": [np.zeros((4, 4)), np.zeros((4, 4, 3))], "label": [0, 1]})}
    with pytest.raises(PartitaError, match=message):
        huggingface(**settings)  # type: ignore[arg-type]


def test_missing_libraries_are_named_with_their_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("datasets", "flwr_datasets", "flwr_datasets.partitioner"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(PartitaError, match=r"pip install 'partita\[hf\]'"):
        huggingface(path="any")
    with pytest.raises(PartitaError, match=r"pip install 'partita\[hf\]'"):
        federate(some_pool(), flwr())
    assert optional("json", "nothing") is json


def test_the_real_library_of_hugging_face(tmp_path: Path) -> None:
    library = pytest.importorskip("datasets", reason="the library datasets is not installed")
    features = library.Features(
        {"text": library.Value("string"), "label": library.ClassLabel(names=["dog", "cat", "fox"])}
    )
    train = library.Dataset.from_dict({"text": ["a b", "c", "d"], "label": [0, 1, 0]}, features=features)
    library.DatasetDict({"train": train, "test": train}).save_to_disk(str(tmp_path / "mine"))
    made = huggingface(path=str(tmp_path / "mine"), input_column="text", test_split="test")
    assert (made.classes, made.targets.tolist()) == (3, [0, 1, 0, 0, 1, 0])
    assert made.class_names == ("dog", "cat", "fox")
    assert official(made) == [False] * 3 + [True] * 3


def some_pool(count: int = 40) -> Pool:
    return pool("p", DRAW.normal(size=(count, 2)), np.arange(count) % 4, clients=np.arange(count) // 10)


@pytest.fixture
def partitioners(monkeypatch: pytest.MonkeyPatch, hub: dict[str, Any]) -> Any:
    """A stand-in for flwr_datasets with one partitioner."""
    library: Any = ModuleType("flwr_datasets.partitioner")

    class ModuloPartitioner:
        dataset: Part
        seeds: list[int] = []  # noqa: RUF012

        def __init__(self, num_partitions: int, by: str = "label", seed: int = 42) -> None:
            if num_partitions < 1:
                raise ValueError("num_partitions must be positive")
            self.num_partitions, self.by = num_partitions, by
            self.seeds.append(seed)

        def load_partition(self, number: int) -> Part:
            rows = [at for at, value in enumerate(self.dataset[self.by]) if value % self.num_partitions == number]
            return Part({name: [self.dataset[name][row] for row in rows] for name in self.dataset.column_names})

    library.ModuloPartitioner = ModuloPartitioner
    monkeypatch.setitem(sys.modules, "flwr_datasets", ModuleType("flwr_datasets"))
    monkeypatch.setitem(sys.modules, "flwr_datasets.partitioner", library)
    return library


def check_partition(made: Federation, count: int) -> None:
    rows = torch.cat([part for roles in made.roles for part in roles.values()])
    assert rows.sort().values.tolist() == list(range(count))


def test_a_partitioner_of_flower(partitioners: Any) -> None:
    split = convert(Split, {"name": "flwr", "partitioner": "ModuloPartitioner", "options": {"num_partitions": 2}}, "s")
    made = federate(some_pool(), split, seed=3)
    check_partition(made, 40)
    assert [sorted(set(made.samples.targets[roles["train"]].tolist())) for roles in made.roles] == [[0, 2], [1, 3]]
    by_client = flwr(partitioner="ModuloPartitioner", options={"num_partitions": 4, "by": "client", "seed": 9})
    made = federate(some_pool(), by_client, seed=3)
    assert [int(roles["test"].max()) // 10 for roles in made.roles] == [0, 1, 2, 3]
    first, second = partitioners.ModuloPartitioner.seeds[-2:]
    assert (second, first != 42) == (9, True)


def test_rows_that_a_partitioner_leaves_out_are_noted(partitioners: Any) -> None:
    options = {"num_partitions": 3, "by": "client"}
    pool_of_five = pool("p", DRAW.normal(size=(50, 2)), np.arange(50) % 4, clients=np.arange(50) // 10)
    part = partitioners.ModuloPartitioner.load_partition
    partitioners.ModuloPartitioner.load_partition = lambda self, number: Part(
        {name: values[:10] for name, values in part(self, number).columns.items()}
    )
    made = federate(pool_of_five, flwr(partitioner="ModuloPartitioner", options=options))
    notes = made.origin["notes"]
    assert notes == ["20 samples belong to no client"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"partitioner": "ModuloPartition"},
            r"Unknown partitioner 'ModuloPartition'\. Did you mean 'ModuloPartitioner'",
        ),
        (
            {"options": {"number": 3}},
            r"ModuloPartitioner: .*unexpected keyword argument 'number'\. It takes \(num_part",
        ),
        ({"options": {"num_partitions": 0}}, "ModuloPartitioner: num_partitions must be positive"),
        ({"options": 3}, "The options of a partitioner must be names with values, not 3"),
    ],
)
def test_bad_partitioners_are_named(partitioners: Any, settings: dict[str, Any], message: str) -> None:
    split = flwr(**{"partitioner": "ModuloPartitioner", **settings})
    with pytest.raises(PartitaError, match=message):
        federate(some_pool(), split)


def test_the_real_partitioners_of_flower() -> None:
    pytest.importorskip("flwr_datasets", reason="the library flwr-datasets is not installed")
    options = {"num_partitions": 4, "partition_by": "label", "alpha": 0.5, "min_partition_size": 4}
    made = federate(some_pool(400), flwr(partitioner="DirichletPartitioner", options=options))
    check_partition(made, 400)
    assert len(made) == 4
