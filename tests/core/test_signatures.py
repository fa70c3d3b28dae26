"""Ranges of settings: declared in a signature, checked when the function is called or the record is made."""

import math
from dataclasses import dataclass, field
from typing import Annotated

import pytest
from hypothesis import given, strategies as st

from partita.core.signatures import (
    Length,
    Range,
    Rate,
    Share,
    above,
    between,
    check_fields,
    checked,
    configurable,
    ranges,
)
from partita.errors import PartitaError


@checked
def example(
    *,
    lr: Rate = 0.1,
    epochs: Length | None = 3,
    shares: Share | tuple[Share, ...] = 0.5,
    anything: float = 1.0,
    text: str = "",
    flag: bool = False,
) -> str:
    """What is checked."""
    return f"{lr} {epochs} {shares} {anything}"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"lr": -1}, "example: lr is -1, but must be from 0 to 1,000."),
        ({"lr": math.nan}, "lr is nan, but must be from 0 to 1,000."),
        ({"lr": math.inf}, "lr is inf"),
        ({"lr": 10**30}, "must be from 0 to 1,000, and a float"),
        ({"epochs": -1}, "epochs is -1, but must be a whole number, from 0 to 1,000,000."),
        ({"epochs": 1.5}, "epochs is 1.5, but must be a whole number"),
        ({"epochs": 10**30}, "from 0 to 1,000,000"),
        ({"shares": 2}, "shares is 2, but must be from 0 to 1."),
        ({"shares": (0.5, 2.0)}, "shares is (0.5, 2.0), but must be in every entry from 0 to 1."),
        ({"anything": math.nan}, "anything is nan, but must be finite."),
    ],
)
def test_a_number_out_of_its_range_is_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(PartitaError) as caught:
        example(**arguments)  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_what_is_in_range_passes() -> None:
    assert example(lr=0, epochs=None, shares=(0.0, 1.0), anything=-5, flag=True) == "0 None (0.0, 1.0) -5"


def test_ranges_can_be_listed() -> None:
    found = {name: str(each) for name, each in ranges(example).items()}
    assert found == {
        "lr": "from 0 to 1,000",
        "epochs": "from 0 to 1,000,000",
        "shares": "from 0 to 1",
        "anything": "finite",
    }


@dataclass(frozen=True)
class Record:
    size: Annotated[float, above(0)]
    name: str = ""
    settings: dict[str, object] = field(default_factory=dict)
    made_by: str = ""

    def __post_init__(self) -> None:
        check_fields(self)


@configurable
def made(*, size: Annotated[float, between(0, 10)] = 1.0) -> Record:
    """A record that remembers."""
    return Record(size)


def test_records_check_themselves() -> None:
    with pytest.raises(PartitaError, match="Record: size is 0, but must be above 0"):
        Record(0)


def test_what_is_made_remembers_how() -> None:
    assert (made().name, made().settings) == ("made", {"size": 1.0})
    assert made(size=2.0).settings == {"size": 2.0}
    assert made().made_by == f"{__name__}:made"
    with pytest.raises(PartitaError, match="made: size is 11, but must be from 0 to 10"):
        made(size=11)


@given(st.floats(), st.floats(), st.floats(), st.booleans(), st.booleans())
def test_a_range_holds_what_is_between_its_ends(
    low: float, high: float, value: float, low_open: bool, high_open: bool
) -> None:
    inside = (low < value if low_open else low <= value) and (value < high if high_open else value <= high)
    assert (value in Range(low, high, low_open, high_open)) == (inside and math.isfinite(value))
