"""Large states are written and read in parts."""

import json
from itertools import chain

import pytest
import torch

from partita.deploy import states
from partita.deploy.states import TYPES, read, written
from partita.tensors import Tensors


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "PART", 16)


def some() -> Tensors:
    draw = torch.Generator().manual_seed(0)
    bits = torch.randint(2, (3, 7), generator=draw, dtype=torch.uint8)
    return {
        "z": torch.randn(5, 3, generator=draw),
        "transposed": torch.randn(5, 3, generator=draw).t(),
        "nothing": torch.empty(0, 4),
        "single": torch.tensor(3),
        "one of many": torch.arange(12.0).view(3, 4)[1:2, 2:3],
        "a": torch.randn(2, 2, generator=draw, dtype=torch.complex64).conj(),
        **{kind: bits.to(each) for kind, each in TYPES.items()},
    }


def test_what_is_written_is_read() -> None:
    tensors = some()
    parts = list(written(tensors))
    assert max(map(len, parts[1:])) == 16
    found = read(parts)
    assert [*found] == [*tensors]
    assert {name: each.dtype for name, each in found.items()} == {name: each.dtype for name, each in tensors.items()}
    assert all(found[name].equal(each) for name, each in tensors.items())
    assert read(written({})) == {}


def test_no_part_may_be_missing_short_or_too_many() -> None:
    parts = list(written(some()))
    for broken in (parts[:-1], [], [*parts, b"more"], [parts[0], parts[1][:-1], *parts[2:]], parts[:1] + parts[2:]):
        with pytest.raises(ValueError, match=r"has a part of|more than its first part says|Expecting value"):
            read(broken)


@pytest.mark.parametrize(
    ("head", "words"),
    [([["a", "object", [1]]], "of the unknown type object"), ([["a", "float32"]], "not enough values")],
)
def test_a_first_part_that_says_something_else(head: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(chain([json.dumps(head).encode()], [bytes(4)]))
