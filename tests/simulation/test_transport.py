"""Whatever is packed comes out the same, lies where it should, and leaves nothing behind."""

import errno
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings as examples, strategies as st
from partita.simulation.executors.transport import ALIGNMENT, SMALL, claim, memory_folder, pack, unpack
from torch import Tensor, nn

from partita.errors import PartitaError

KINDS = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.complex128,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
FORMS = ("plain", "transposed", "every second", "expanded", "offset", "channels last")


def shaped(kind: torch.dtype, shape: tuple[int, ...], form: str, seed: int) -> Tensor:
    """A tensor that may lie in memory in any way."""
    draw = torch.Generator().manual_seed(seed)
    wide = tuple(2 * size for size in shape) if form == "every second" else shape
    tensor = torch.randint(-100, 100, wide, generator=draw).to(kind)
    if form == "transposed":
        return tensor.movedim(0, -1) if tensor.dim() else tensor
    if form == "every second":
        return tensor[tuple(slice(None, None, 2) for _ in shape)]
    if form == "expanded":
        return tensor.unsqueeze(0).expand(3, *shape)
    if form == "offset":
        return torch.cat([tensor.flatten()[:1], tensor.flatten()])[-tensor.numel() or None :][: tensor.numel()]
    if form == "channels last" and tensor.dim() == 4:
        return tensor.contiguous(memory_format=torch.channels_last)
    return tensor


tensors = st.builds(
    shaped,
    st.sampled_from(KINDS),
    st.lists(st.integers(0, 5), max_size=4).map(tuple),
    st.sampled_from(FORMS),
    st.integers(0, 9),
)
large = st.builds(shaped, st.sampled_from(KINDS), st.just((150, 150)), st.sampled_from(FORMS), st.integers(0, 9))
leaves = tensors | large | st.integers() | st.text(max_size=3) | st.none()
things = st.recursive(
    leaves, lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=4) | st.lists(inner, max_size=4)
)


def tensors_in(thing: Any) -> list[Tensor]:
    if isinstance(thing, Tensor):
        return [thing]
    parts = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, list | tuple) else ()
    return [tensor for part in parts for tensor in tensors_in(part)]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return (
            isinstance(other, Tensor)
            and one.dtype == other.dtype
            and one.shape == other.shape
            and torch.equal(one, other)
        )
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


anywhere = examples(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])


@anywhere
@given(thing=things)
def test_anything_comes_out_as_it_went_in(tmp_path: Path, thing: Any) -> None:
    parcel = pack(thing, tmp_path)
    out = unpack(parcel)
    assert same(thing, out)
    found = tensors_in(out)
    assert all(tensor.data_ptr() % 64 == 0 for tensor in found)
    assert all(tensor.is_contiguous() for tensor in found)
    assert (parcel.path is None) == (parcel.size <= SMALL)
    parcel.discard()
    assert not list(tmp_path.iterdir())
    assert same(thing, out), "whoever has opened it keeps what is in it"


@anywhere
@given(thing=things)
def test_what_a_receiver_writes_is_its_own(tmp_path: Path, thing: Any) -> None:
    before = [tensor.clone() for tensor in tensors_in(thing)]
    parcel = pack(thing, tmp_path)
    first, second = unpack(parcel), unpack(parcel)
    for tensor in tensors_in(first):
        tensor.fill_(1)
    assert all(torch.equal(tensor, old) for tensor, old in zip(tensors_in(thing), before, strict=True))
    assert same(second, thing), "nor does another receiver see it"
    assert same(unpack(parcel), thing)
    parcel.discard()


@pytest.mark.parametrize("size", [4, SMALL])
def test_what_a_sender_writes_afterwards_does_not_travel(tmp_path: Path, size: int) -> None:
    tensor = torch.zeros(size)
    parcel = pack(tensor, tmp_path)
    out = unpack(parcel)
    tensor.fill_(1)
    assert not out.any()
    assert not unpack(parcel).any()


@pytest.mark.parametrize("size", [16, 3 * SMALL])
def test_a_tensor_in_two_places_travels_once_and_stays_one(tmp_path: Path, size: int) -> None:
    tensor = torch.arange(size)
    parcel = pack({"a": tensor, "b": [tensor, {"c": tensor.detach()}], "d": tensor[: size // 2]}, tmp_path)
    assert parcel.size == tensor.nbytes + tensor.nbytes // 2
    out = unpack(parcel)
    assert out["a"] is out["b"][0]
    out["a"].fill_(7)
    assert out["b"][1]["c"].eq(7).all()


def test_tensors_that_lie_in_one_storage_are_told_apart(tmp_path: Path) -> None:
    whole = torch.arange(12.0)
    views = [whole, whole[:6], whole[6:], whole.view(3, 4), whole.view(3, 4).T, whole.view(4, 3), whole[::2], whole[:0]]
    assert same(views, unpack(pack(views, tmp_path)))


def test_a_conjugate_is_not_the_number_itself(tmp_path: Path) -> None:
    """Both look at the same memory in the same way; a bit says that one is read otherwise."""
    number = torch.tensor([1 + 2j, 3 - 1j])
    assert same([number, number.conj()], unpack(pack([number, number.conj()], tmp_path)))


def test_small_things_need_no_file(tmp_path: Path) -> None:
    edge = SMALL // 4
    parcel = pack(torch.ones(edge), tmp_path)
    assert parcel.path is None
    assert not list(tmp_path.iterdir())
    parcel.discard()
    beyond = pack(torch.ones(edge + 1), tmp_path)
    assert beyond.path is not None
    assert unpack(beyond).shape == (edge + 1,)


def test_many_small_ones_make_a_large_one(tmp_path: Path) -> None:
    """Each is padded, so that ones of one byte count as sixty-four."""
    some = [torch.full((), at % 100, dtype=torch.uint8) for at in range(SMALL // ALIGNMENT + 1)]
    parcel = pack(some, tmp_path)
    assert parcel.size == SMALL + ALIGNMENT
    assert parcel.path is not None
    assert same(some, unpack(parcel))


def test_a_module_and_functions_travel_with_code(tmp_path: Path) -> None:
    module, factor = nn.Linear(200, 200), 3
    parcel = pack({"module": module, "function": lambda x: factor * x}, tmp_path, code=True)
    out = unpack(parcel)
    assert isinstance(out["module"].weight, nn.Parameter)
    assert same(dict(module.state_dict()), dict(out["module"].state_dict()))
    assert out["function"](2) == 6


def test_gradients_do_not_travel(tmp_path: Path) -> None:
    parameter = torch.ones(3, requires_grad=True)
    out = unpack(pack([parameter, parameter * 2], tmp_path))
    assert not any(tensor.requires_grad for tensor in out)


@pytest.mark.parametrize("problem", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: BaseException) -> None:
    def full(*_: object) -> None:
        raise problem

    open_before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr("partita.simulation.executors.transport._bytes", full)
    with pytest.raises(PartitaError if isinstance(problem, OSError) else KeyboardInterrupt):
        pack(torch.ones(SMALL), tmp_path)
    assert not list(tmp_path.iterdir())
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_what_cannot_be_packed_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        pack([torch.ones(SMALL), threading.Lock()], tmp_path)
    assert not list(tmp_path.iterdir())


def test_no_file_stays_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        parcel = pack(torch.ones(SMALL), tmp_path)
        unpack(parcel)
        parcel.discard()
        parcel.discard()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_folder_in_memory_is_ours_alone() -> None:
    folder = memory_folder()
    assert folder.name.startswith("partita-")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert memory_folder_and_away() != folder
    folder.rmdir()


def memory_folder_and_away() -> Path:
    folder = memory_folder()
    folder.rmdir()
    return folder


def test_where_there_is_little_memory_files_are_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partita.simulation.executors.transport._free", lambda folder: 1 << 20)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert memory_folder().parent == tmp_path


def test_what_nobody_uses_any_more_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a kill -9 of all processes at once."""
    monkeypatch.setattr("partita.simulation.executors.transport._free", lambda place: 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    used, left, young = memory_folder(), memory_folder(), memory_folder()
    with claim(used):
        claim(left).close()
        (left / "parcel").write_bytes(b"1")
        new = memory_folder()
        assert (used.exists(), left.exists(), young.exists(), new.exists()) == (True, False, True, True)
