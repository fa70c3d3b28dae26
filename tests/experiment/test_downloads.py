"""What the server sends to all travels once to each worker; what it makes for one client travels with its job."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
import torch
from torch import Tensor

from experiment.small import run
from laws.methods import ALGORITHMS
from partita.experiment.executors import _pool
from partita.experiment.executors._transport import Message, pack, unpack
from partita.experiment.jobs import Job
from partita.tensors import Tensors


def offset_of_pickle(message: Message) -> int:
    """The bytes of tensors in a block."""
    return int.from_bytes(bytes(message.memory()[-8:].tolist()), "little")


def bytes_of(*parts: Tensors) -> int:
    """Each tensor once, and padded."""
    tensors = {(t.data_ptr(), tuple(t.shape)): t for part in parts for t in part.values()}
    return sum(-(-tensor.nbytes // 64) * 64 for tensor in tensors.values())


@pytest.mark.parametrize("size", [16, 40_000])
def test_tensors_that_are_known_do_not_travel_again(size: int) -> None:
    state = {"a": torch.randn(size), "b": torch.arange(size), "none": torch.ones(0)}
    own = {"own": torch.full((3,), 5.0)}
    job = {"b": state["b"], **own, "a": state["a"], "none": state["none"]}
    with closing(pack(state)) as broadcast, closing(pack(job, known=broadcast)) as message:
        assert offset_of_pickle(message) == bytes_of(own), "of its own tensors alone"
        out = unpack(message.memory(), known=broadcast.memory())
    assert list(out) == list(job)
    assert all(torch.equal(out[name], tensor) for name, tensor in job.items())
    assert all(tensor.data_ptr() % 64 == 0 for tensor in out.values() if tensor.numel())


@pytest.mark.parametrize(
    "other", [lambda t: t.clone(), lambda t: t[1:], lambda t: t.view(2, -1), lambda t: t.view(torch.int32)]
)
def test_what_is_not_the_very_same_tensor_does_travel(other: Callable[[Tensor], Tensor]) -> None:
    tensor = torch.randn(16)
    with closing(pack({"a": tensor})) as broadcast, closing(pack(other(tensor), known=broadcast)) as message:
        assert offset_of_pickle(message) == bytes_of({"other": other(tensor)})
        assert torch.equal(other(tensor), unpack(message.memory(), known=broadcast.memory()))


@pytest.fixture
def travelled(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """States and jobs that were packed, with the bytes of their tensors."""
    found: dict[str, list[Any]] = {"states": [], "jobs": []}

    def noted(thing: Any, **options: Any) -> Message:
        message = pack(thing, **options)
        found["jobs" if isinstance(thing, Job) else "states"].append((thing, offset_of_pickle(message)))
        return message

    monkeypatch.setattr(_pool, "pack", noted)
    return found


@pytest.mark.parametrize("name", ["fedavg", "fedper", "ditto", "scaffold", "apple"])
def test_what_is_of_the_servers_state_does_not_travel_again(name: str, travelled: dict[str, list[Any]]) -> None:
    """APPLE sends every client another choice of the cores that the server holds."""
    run(ALGORITHMS[name], "processes:2")
    assert len(travelled["states"]) == 4, "twice a round: for training and for evaluation"
    assert all(size == bytes_of(state) for state, size in travelled["states"])
    for job, size in travelled["jobs"]:
        assert any(received.values() for received in job.received)
        assert size == bytes_of(*job.own)


def test_what_is_made_for_one_client_travels_with_its_job(travelled: dict[str, list[Any]]) -> None:
    """FedAMP mixes the models of others for each client."""
    run(ALGORITHMS["fedamp"], "processes:2")
    mixed = [(job, size) for job, size in travelled["jobs"] if job.moment.round > 0]
    assert mixed
    for job, size in mixed:
        assert size == bytes_of(*job.own, *job.received) > 0


def test_a_state_is_not_packed_for_nobody(travelled: dict[str, list[Any]]) -> None:
    run(ALGORITHMS["fedavg"], "processes:2", participation=[[], [0]], evaluate_every=0)
    assert [job.moment.round for job, _ in travelled["jobs"]] == [1, *[2] * 5], "training, then evaluation"
    assert len(travelled["states"]) == 2
