"""Manifests that somebody else wrote: with the right hash and with anything in them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from data.test_splits import MERGED
from partita.data import manifests
from partita.data.federation import Federation, federate
from partita.data.splits.iid import iid
from partita.data.splits.manifest import manifest
from partita.errors import PartitaError

MADE = federate(MERGED, iid(clients=4), newcomers=1)


def rebuilt(folder: Path, change: Callable[[dict[str, Any]], object]) -> Federation:
    """A division from a manifest that was changed and hashed again."""
    body = manifests.manifest_of(MADE)
    change(body)
    body.pop("hash", None)
    body["hash"] = manifests._hash(body)
    (folder / "a.json").write_text(json.dumps(body), encoding="utf-8")
    return federate(MERGED, manifest(path=str(folder / "a.json")))


def without(key: str) -> Callable[[dict[str, Any]], object]:
    return lambda body: body.pop(key)


def with_row(row: object) -> Callable[[dict[str, Any]], object]:
    return lambda body: body["clients"][0]["train"].append(row)


ODD: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    **{
        f"no {key}": (without(key), f"{key} is missing or of another type")
        for key in ("data", "rows", "content", "origin", "newcomers", "clients")
    },
    "true for a number": (lambda body: body.update(rows=True), "rows is missing or of another type"),
    "half of a number": (lambda body: body.update(rows=400.0), "rows is missing or of another type"),
    "clients as a table": (lambda body: body.update(clients={"0": []}), "clients is missing or of another type"),
    "client as a list": (lambda body: body["clients"].insert(1, []), "client 1 has no name"),
    "name as a number": (lambda body: body["clients"][2].update(name=5), "client 2 has no name"),
    "no role": (lambda body: body["clients"][2].pop("test"), "the test rows of client 2 are not numbers of rows"),
    **{
        f"row {row!r}": (
            with_row(row),
            "the train rows of client 0 are not numbers of rows",
        )
        for row in (-1, 400, 2**70, 1.0, True, None, "1", [1])
    },
    "rows as text": (
        lambda body: body["clients"][0].update(train="123"),
        "the train rows of client 0 are not numbers of rows",
    ),
    "another newcomer": (lambda body: body.update(newcomers=[4]), "the newcomers are not numbers of clients"),
    "newcomer as text": (lambda body: body.update(newcomers=["0"]), "the newcomers are not numbers of clients"),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_content_is_refused_by_one_line(tmp_path: Path, case: str) -> None:
    change, message = ODD[case]
    with pytest.raises(PartitaError, match=rf"a\.json is not a manifest as Partita writes it: {message}\.$"):
        rebuilt(tmp_path, change)


OTHER: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "nobody trains": (
        lambda body: body.update(newcomers=[0, 1, 2, 3]),
        "newcomers is 4, but must be from 0 to 3: at least one of the 4 clients must",
    ),
    "nobody at all": (lambda body: body.update(clients=[], newcomers=[]), "manifest on toy: there are no clients"),
    "one name twice": (lambda body: body["clients"][1].update(name="0"), "toy: two clients are called '0'"),
    "a row twice": (
        lambda body: body["clients"][0]["train"].append(body["clients"][1]["train"][0]),
        "manifest on toy: a sample was given out twice",
    ),
    "no test rows": (lambda body: body["clients"][3].update(test=[]), r"1 client without test samples \(3\)"),
    "another format": (lambda body: body.update(format=9), r"is not a manifest of format 1"),
}


@pytest.mark.parametrize("case", OTHER)
def test_divisions_that_cannot_be_are_refused(tmp_path: Path, case: str) -> None:
    change, message = OTHER[case]
    with pytest.raises(PartitaError, match=message):
        rebuilt(tmp_path, change)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"[" * 200_000, b'{"a": ' * 100_000, b"NaN"],
    ids=["empty", "bytes", "list", "deep", "nan"],
)
def test_what_is_no_manifest_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(PartitaError, match=r"The manifest .*a\.json is damaged|a\.json is not a manifest of format 1"):
        federate(MERGED, manifest(path=str(tmp_path / "a.json")))


def test_a_manifest_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(PartitaError, match=r"Cannot write the manifest .*none/a\.json: No such file or directory\."):
        manifests.write(MADE, tmp_path / "none" / "a.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
PLACES = [("rows",), ("clients",), ("clients", 0), ("clients", 0, "train"), ("clients", 0, "train", 0), ("newcomers",)]


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(PLACES), JSON)
def test_anything_in_a_manifest_is_the_division_or_refused(
    tmp_path_factory: pytest.TempPathFactory, place: tuple[Any, ...], value: Any
) -> None:
    def change(body: Any) -> None:
        for key in place[:-1]:
            body = body[key]
        body[place[-1]] = value

    folder = tmp_path_factory.mktemp("odd")
    try:
        made = rebuilt(folder, change)
    except PartitaError:
        return
    rows = [int(row) for roles in made.roles for rows in roles.values() for row in rows]
    assert len(set(rows)) == len(rows)
    assert all(0 <= row < len(MERGED) for row in rows)
