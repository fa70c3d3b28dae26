"""Pools: what plain arrays become, and which of them are refused, with the row in the message."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings, strategies as st

from partita.data.pool import Array, Pool, Texts, number_clients, pool
from partita.errors import PartitaError

LABELS = np.array([0, 1, 1, 0])


def rows(*shape: int, kind: npt.DTypeLike = np.float32) -> Array:
    return np.arange(4 * int(np.prod(shape)), dtype=kind).reshape(4, *shape)


def inputs_of(made: Pool) -> torch.Tensor:
    assert isinstance(made.inputs, torch.Tensor)
    return made.inputs


def test_grey_bytes_get_a_channel() -> None:
    made = pool("p", rows(5, 6, kind=np.uint8), LABELS)
    assert (inputs_of(made).shape, inputs_of(made).dtype) == ((4, 1, 5, 6), torch.uint8)


@settings(deadline=None)
@given(st.integers(4, 7), st.integers(4, 7), st.sampled_from([1, 3]))
def test_colour_bytes_become_channels_first(height: int, width: int, channels: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, height, width, channels), dtype=np.uint8)
    inputs = inputs_of(pool("p", pixels, LABELS))
    assert inputs.shape == (4, channels, height, width)
    assert torch.equal(inputs.permute(0, 2, 3, 1), torch.from_numpy(pixels))


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 13])
def test_bytes_with_channels_first_stay(channels: int) -> None:
    pixels = rows(channels, 8, 8, kind=np.uint8)
    assert torch.equal(inputs_of(pool("p", pixels, LABELS)), torch.from_numpy(pixels))


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_bytes_with_channels_last_are_turned(channels: int) -> None:
    """Grey, grey with alpha, colours, colours with alpha."""
    pixels = rows(8, 6, channels, kind=np.uint8)
    inputs = inputs_of(pool("p", pixels, LABELS))
    assert torch.equal(inputs, torch.from_numpy(pixels).permute(0, 3, 1, 2))


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 8, 8), (8, 6, 3), (4, 4, 3)])
def test_numbers_that_may_be_anything_stay(shape: tuple[int, ...]) -> None:
    assert inputs_of(pool("p", rows(*shape), LABELS)).shape == (4, *shape)


@pytest.mark.parametrize(
    ("given_kind", "made_kind"),
    [
        ("float64", torch.float32),
        ("float32", torch.float32),
        ("float16", torch.float32),
        ("longdouble", torch.float32),
        ("uint64", torch.int64),
        (">f4", torch.float32),
        (">i8", torch.int64),
        ("int32", torch.int64),
        ("uint16", torch.int64),
        ("bool", torch.int64),
    ],
)
def test_numbers_are_of_the_types_that_networks_take(given_kind: str, made_kind: torch.dtype) -> None:
    values = rows(2, kind=np.float64).astype(given_kind)
    made = pool("p", values, LABELS.astype(">i2"))
    assert inputs_of(made).dtype == made_kind
    assert inputs_of(made).tolist() == values.tolist()
    assert made.targets.tolist() == [0, 1, 1, 0]


def test_arrays_that_cannot_be_written_are_copied() -> None:
    values = rows(2)
    values.flags.writeable = False
    made = pool("p", values, LABELS)
    inputs_of(made)[0, 0] = 9
    assert values[0, 0] == 0


def test_classes_are_counted_or_given() -> None:
    assert pool("p", rows(2), LABELS).classes == 2
    assert pool("p", rows(2), LABELS, classes=7).classes == 7
    assert pool("p", rows(2), LABELS / 2, kind="regression").classes == 1
    assert pool("p", rows(2), np.ones((4, 3)), kind="regression").classes == 3
    assert pool("p", rows(2), np.array([0, 4, 2, 2]), classes=9).classes == 9


def test_there_is_an_end_to_classes() -> None:
    with pytest.raises(PartitaError, match="p: 1000000000 classes are too many; at most 1000000 are allowed"):
        pool("p", rows(2), LABELS, classes=10**9)


def test_a_column_of_numbers_is_no_row_of_targets() -> None:
    """A network's one output would be compared with every target."""
    with pytest.raises(PartitaError, match=r"shape \(4, 1\)"):
        pool("p", rows(2), LABELS[:, None] / 2, kind="regression")


def test_targets_of_a_regression_are_numbers() -> None:
    targets = pool("p", rows(2), np.array([0.5, 1.0, 2.5, 3.0]), kind="regression").targets
    assert (targets.dtype, targets.tolist()) == (torch.float32, [0.5, 1.0, 2.5, 3.0])


def test_clients_are_numbered_and_named() -> None:
    numbers, names = number_clients(np.array(["b", "a", "b"]))
    assert numbers is not None
    assert (numbers.tolist(), names) == ([1, 0, 1], ("a", "b"))
    numbers, names = number_clients(np.array([30, 4, 30]))
    assert numbers is not None
    assert (numbers.tolist(), names) == ([1, 0, 1], ("4", "30"))
    assert number_clients(None) == (None, ())


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        (np.array([b"b", "ä".encode()]), ("b", "ä")),
        (np.array([2.0, -1.0]), ("-1", "2")),
        (np.array(["b", "a"], dtype=object), ("a", "b")),
        (np.array([2**70, 3], dtype=object), ("3", "1180591620717411303424")),
        (np.array([2**64 - 1, 0], dtype=np.uint64), ("0", "18446744073709551615")),
        (np.array([10, 9]), ("9", "10")),
    ],
)
def test_ids_of_many_kinds_become_names(ids: Array, names: tuple[str, ...]) -> None:
    assert number_clients(ids)[1] == names


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.array([[1], [2]]), r"p: the client ids have shape \(2, 1\)\. Give one id for each row\."),
        (np.array([1.0, np.nan]), r"p: the client id of row 1 is nan\. Give text or whole numbers\."),
        (np.array([0.5, 1.0]), r"p: the client id of row 0 is 0\.5"),
        (np.array([1.0, np.inf]), "p: the client id of row 1 is inf"),
        (np.array(["a", 1], dtype=object), r"p: the client ids are of type int and str\. Give one text or one whole"),
        (np.array([None, None], dtype=object), "p: the client ids are of type NoneType"),
        (np.array([1j]), r"p: the client ids are of type complex128\. Give text"),
        (np.array(["a", ""]), r"p: the client id of row 1 is empty\. Give every client a name\."),
    ],
)
def test_what_is_no_id_is_refused(ids: Array, message: str) -> None:
    with pytest.raises(PartitaError, match=message):
        number_clients(ids, "p")


def test_normalisation_is_by_channel() -> None:
    pixels = np.full((2, 3, 4, 4), 255, dtype=np.uint8)
    made = pool("p", pixels, np.array([0, 1])).normalized((0.5, 0.0, 1.0), (0.5, 2.0, 4.0))
    assert made.preparation(inputs_of(made))[0, :, 0, 0].tolist() == [1.0, 0.5, 0.0]


def test_rows_of_the_official_test_set() -> None:
    made = pool("p", rows(2), LABELS, official_test=np.array([0, 1, 0, 1]))
    assert (made.rows(test=True).tolist(), made.rows(test=False).tolist()) == ([1, 3], [0, 2])
    with pytest.raises(PartitaError, match="p has no official test set"):
        pool("p", rows(2), LABELS).rows(test=True)


BAD: dict[str, tuple[Array, Array, str]] = {
    "no rows": (rows(2)[:0], LABELS[:0], "p: there are no samples"),
    "too few labels": (rows(2), LABELS[:3], "p: 4 inputs, but 3 targets"),
    "not a number": (np.array([[1.0], [2.0], [np.nan], [3.0]]), LABELS, r"p: inputs: row 2 .*not a finite number \(1 "),
    "infinite": (np.array([[1.0], [np.inf], [-np.inf], [3.0]]), LABELS, r"p: inputs: row 1 .*\(2 such rows\)"),
    "too large for the type": (np.array([[1.0], [1e300], [0.0], [0.0]]), LABELS, "row 1"),
    "negative label": (rows(2), np.array([0, 1, -1, 0]), r"the label of row 2 is -1, outside 0\.\.1"),
    "half a label": (rows(2), np.array([0.0, 1.5, 1.0, 0.0]), r"the label of row 1 is 1\.5, not the number of a class"),
    "label not a number": (rows(2), np.array([0.0, 1.0, np.nan, 0.0]), "the label of row 2 is nan"),
    "one-hot labels": (rows(2), np.eye(4), r"the targets have shape \(4, 4\).*argmax"),
    "an empty label": (rows(2), np.array(["a", "", "a", "b"]), "p: the label of row 1 is empty"),
    "labels of text in rows": (rows(2), np.array([["a"]] * 4), r"are of type <U1 and shape \(4, 1\)\. Give one text"),
    "inputs of bytes": (np.array([b"a"] * 4), LABELS, r"the inputs are of type \|S1"),
    "complex inputs": (rows(2, kind=np.complex64), LABELS, "the inputs are of type complex64"),
    "labels in a column": (
        rows(2),
        LABELS[:, None],
        r"p: the targets have shape \(4, 1\)\. Give one number for each row: targets\.reshape\(-1\)\.",
    ),
    "labels as objects": (
        rows(2),
        np.array(["a", 1, "a", 1], dtype=object),
        r"of type object and .* Give one text for each row, or",
    ),
    "gaps between labels": (
        rows(2),
        np.array([0, 1000, 2000, 0]),
        r"p: the labels go up to 2000, but only 3 classes occur \(0, 1000, 2000\)\. Number them from 0 without gaps, "
        r"as numpy\.unique\(targets, return_inverse=True\)\[1\] does, or, .* say how many there are: classes=2001\.",
    ),
    "a label that stands for none": (
        rows(2),
        np.array([0, 1, 999_999_999, 0]),
        r"go up to 999999999, but only 3 classes occur \(0, 1, 999999999\)",
    ),
    "too large a whole number": (
        np.full((4, 1), 2**63, dtype=np.uint64),
        LABELS,
        "p: the inputs hold 9223372036854775808, which is too large for a whole number of 64 bits",
    ),
    "numbers with channels last": (
        rows(8, 8, 3),
        LABELS,
        r"p: the inputs have shape \(4, 8, 8, 3\), like images with their channels last.*transpose\(0, 3, 1, 2\)",
    ),
    "one number": (np.array(3.0), LABELS, r"the inputs are of type float64 and shape \(\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arrays_are_refused(case: str) -> None:
    inputs, targets, message = BAD[case]
    with pytest.raises(PartitaError, match=message), np.errstate(over="ignore"):
        pool("p", inputs, targets)


def test_labels_outside_the_classes_are_refused() -> None:
    with pytest.raises(PartitaError, match=r"the label of row 1 is 1, outside 0\.\.0 \(2 such rows\)"):
        pool("p", rows(2), LABELS, classes=1)


def test_a_target_that_is_no_number_is_refused() -> None:
    with pytest.raises(PartitaError, match="p: targets: row 3"):
        pool("p", rows(2), np.array([0.0, 1.0, 2.0, np.inf]), kind="regression")


@pytest.mark.parametrize("what", ["clients", "official_test"])
def test_every_array_must_have_a_row_for_each_sample(what: str) -> None:
    with pytest.raises(PartitaError, match=f"p: 3 {what}, but 4 targets"):
        pool("p", rows(2), LABELS, **{what: np.zeros(3, dtype=bool)})  # type: ignore[arg-type]


def test_a_deviation_must_be_positive() -> None:
    with pytest.raises(PartitaError, match="a standard deviation of 0"):
        pool("p", rows(1, 2, 2), LABELS).normalized((0.5,), (0.0,))


def test_texts_have_a_length() -> None:
    assert len(Texts(np.zeros(3, dtype=np.int32), np.array([0, 1, 3]), ("a",))) == 2
