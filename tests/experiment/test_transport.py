"""Whatever is packed comes out the same, lies where it should, and leaves nothing behind."""

import errno
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings as examples, strategies as st
from torch import Tensor, nn

from partita.errors import PartitaError
from partita.experiment.executors import _transport
from partita.experiment.executors._transport import ALIGNMENT, SMALL, Message, pack, receive, unpack
from watching import open_files

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
LARGE = SMALL // 4 + 1


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


MADE: list[Message] = []


def packed(*given: Any, **options: Any) -> Message:
    """A message that is closed after the test."""
    MADE.append(pack(*given, **options))
    return MADE[-1]


@pytest.fixture(autouse=True)
def messages_are_closed() -> Iterator[None]:
    yield
    while MADE:
        MADE.pop().close()


def opened(message: Message) -> Any:
    """As in another process that has the block."""
    return unpack(message.memory())


def sent(message: Message) -> Any:
    """Through a pipe."""
    here, there = multiprocessing.Pipe()
    with here, there:
        message.send(here, os.getpid())
        return unpack(receive(there))


def in_file(message: Message) -> bool:
    return not isinstance(message.content, bytes)


anything = examples(max_examples=80)


@anything
@given(thing=things)
@pytest.mark.parametrize("arrived", [opened, sent])
def test_anything_comes_out_as_it_went_in(arrived: Callable[[Message], Any], thing: Any) -> None:
    message = packed(thing)
    out = arrived(message)
    assert same(thing, out)
    found = tensors_in(out)
    assert all(tensor.data_ptr() % 64 == 0 for tensor in found)
    assert all(tensor.is_contiguous() for tensor in found)
    assert in_file(message) == (message.size > SMALL)
    message.close()
    assert same(thing, out), "whoever has received it keeps what is in it"


@anything
@given(thing=things)
def test_what_a_receiver_writes_is_its_own(thing: Any) -> None:
    before = [tensor.clone() for tensor in tensors_in(thing)]
    message = packed(thing)
    first, second = opened(message), opened(message)
    for tensor in tensors_in(first):
        tensor.fill_(1)
    assert all(torch.equal(tensor, old) for tensor, old in zip(tensors_in(thing), before, strict=True))
    assert same(second, thing), "nor does another receiver see it"
    assert same(opened(message), thing)
    message.close()


@pytest.mark.parametrize("size", [4, LARGE])
def test_what_a_sender_writes_afterwards_does_not_travel(size: int) -> None:
    tensor = torch.zeros(size)
    message = packed(tensor)
    out = opened(message)
    tensor.fill_(1)
    assert not out.any()
    assert not opened(message).any()


@pytest.mark.parametrize("size", [16, 3 * LARGE])
def test_a_tensor_in_two_places_travels_once_and_stays_one(size: int) -> None:
    tensor = torch.arange(size)
    message = packed({"a": tensor, "b": [tensor, {"c": tensor.detach()}], "d": tensor[: size // 2]})
    assert offset_of_pickle(message) == padded(tensor) + padded(tensor[: size // 2])
    out = opened(message)
    assert out["a"] is out["b"][0]
    out["a"].fill_(7)
    assert out["b"][1]["c"].eq(7).all()


def padded(tensor: Tensor) -> int:
    return -(-tensor.nbytes // ALIGNMENT) * ALIGNMENT


def offset_of_pickle(message: Message) -> int:
    """The bytes of tensors in a block."""
    return int.from_bytes(bytes(message.memory()[-8:].tolist()), "little")


def test_tensors_that_lie_in_one_storage_are_told_apart() -> None:
    whole = torch.arange(12.0)
    views = [whole, whole[:6], whole[6:], whole.view(3, 4), whole.view(3, 4).T, whole.view(4, 3), whole[::2], whole[:0]]
    assert same(views, opened(packed(views)))


def test_a_conjugate_is_not_the_number_itself() -> None:
    """Both look at the same memory in the same way; a bit says that one is read otherwise."""
    number = torch.tensor([1 + 2j, 3 - 1j])
    assert same([number, number.conj()], opened(packed([number, number.conj()])))


def test_a_tensor_of_another_kind_travels_as_torch_does_it() -> None:
    sparse = torch.eye(3).to_sparse()
    assert torch.equal(opened(packed({"sparse": sparse}))["sparse"].to_dense(), torch.eye(3))


def test_small_things_need_no_file() -> None:
    rest = packed(torch.ones(1)).size - ALIGNMENT
    edge = (SMALL - rest) // ALIGNMENT * ALIGNMENT // 4
    assert not in_file(packed(torch.ones(edge)))
    beyond = packed(torch.ones(edge + ALIGNMENT))
    assert in_file(beyond)
    assert opened(beyond).shape == (edge + ALIGNMENT,)


def test_many_small_ones_make_a_large_one() -> None:
    """Each is padded, so that ones of one byte count as sixty-four."""
    some = [torch.full((), at % 100, dtype=torch.uint8) for at in range(SMALL // ALIGNMENT + 1)]
    message = packed(some)
    assert offset_of_pickle(message) == SMALL + ALIGNMENT
    assert in_file(message)
    assert same(some, opened(message))


def test_a_large_pickle_needs_a_file_too() -> None:
    """A pipe holds little: whoever writes more waits for the reader."""
    message = packed(list(range(SMALL)))
    assert in_file(message)
    assert opened(message) == list(range(SMALL))


def test_a_module_and_functions_travel_with_code() -> None:
    module, factor = nn.Linear(200, 200), 3
    out = opened(packed({"module": module, "function": lambda x: factor * x}, code=True))
    assert isinstance(out["module"].weight, nn.Parameter)
    assert same(dict(module.state_dict()), dict(out["module"].state_dict()))
    assert out["function"](2) == 6


def test_gradients_do_not_travel() -> None:
    parameter = torch.ones(3, requires_grad=True)
    assert not any(tensor.requires_grad for tensor in opened(packed([parameter, parameter * 2])))


@pytest.mark.parametrize("problem", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_full_disk_leaves_no_file(monkeypatch: pytest.MonkeyPatch, problem: BaseException) -> None:
    def full(*_: object) -> None:
        raise problem

    before = open_files()
    monkeypatch.setattr(_transport, "_bytes", full)
    with pytest.raises(PartitaError if isinstance(problem, OSError) else KeyboardInterrupt):
        packed(torch.ones(SMALL))
    assert open_files() == before


def test_what_cannot_be_packed_leaves_no_file() -> None:
    before = open_files()
    with pytest.raises(TypeError):
        packed([torch.ones(SMALL), threading.Lock()])
    assert open_files() == before


def test_no_file_stays_open() -> None:
    before, kept = open_files(), []
    for _ in range(5):
        message = packed(torch.ones(SMALL))
        kept += [opened(message), sent(message)]
        message.close()
        message.close()
    assert open_files() == before
    assert all(tensor.eq(1).all() for tensor in kept)


def test_a_file_has_no_name() -> None:
    """So nobody can leave it behind, and no other user can open it."""
    message = packed(torch.ones(SMALL))
    assert not isinstance(message.content, bytes)
    assert os.readlink(f"/proc/self/fd/{message.content.fileno()}") == "/memfd:partita (deleted)"


def test_where_there_are_no_files_in_memory_they_are_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    message = packed(torch.ones(SMALL))
    assert not isinstance(message.content, bytes)
    assert os.readlink(f"/proc/self/fd/{message.content.fileno()}").startswith(str(tmp_path))
    assert not list(tmp_path.iterdir())
    assert sent(message).eq(1).all()


def test_where_files_cannot_be_opened_by_number_they_are_mapped_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda _: False)
    message = packed({"a": torch.arange(SMALL)})
    first, second = sent(message), opened(message)
    first["a"].fill_(1)
    assert same(second, {"a": torch.arange(SMALL)})
    assert first["a"].data_ptr() % 64 == 0
