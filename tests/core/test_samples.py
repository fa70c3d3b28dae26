"""Samples that are copied for a client: in memory of their own, and copied once."""

import pytest
import torch
from torch import Tensor

from partita.core.samples import Samples

ALL = Samples(torch.arange(12.0).reshape(6, 2), torch.arange(6))


@pytest.mark.parametrize("samples", [ALL, ALL.take(torch.tensor([4, 1])), ALL.take(slice(2, 4))])
def test_a_copy_has_memory_of_its_own(samples: Samples) -> None:
    before = samples.inputs.clone(), samples.targets.clone()
    for made in (samples.alone(), samples.in_own_storage()):
        assert torch.equal(made.inputs, before[0])
        assert torch.equal(made.targets, before[1])
        for mine, theirs in ((made.inputs, ALL.inputs), (made.targets, ALL.targets), (made.targets, samples.targets)):
            assert mine.untyped_storage().data_ptr() != theirs.untyped_storage().data_ptr()
            assert mine.untyped_storage().nbytes() == mine.nbytes


def test_selected_inputs_are_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Selecting them makes a copy already, and they are the largest thing that a client has."""
    copied: list[tuple[int, ...]] = []
    clone = Tensor.clone

    def noted(tensor: Tensor) -> Tensor:
        copied.append(tuple(tensor.shape))
        return clone(tensor)

    monkeypatch.setattr(Tensor, "clone", noted)
    ALL.take(torch.tensor([4, 1])).alone()
    assert copied == [(2,)]
