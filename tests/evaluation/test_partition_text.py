"""The text of a method is the same in every process."""

import pytest

from partita import registry
from partita.core.task import Task
from partita.evaluation.partition import partition
from toys import small_network


@pytest.mark.parametrize("name", registry.names("algorithms"))
def test_no_text_holds_a_place_in_memory(name: str) -> None:
    """A run that is killed and made again would otherwise have other bits."""
    found = partition(registry.get("algorithms", name)(), Task(small_network()))
    assert not any(" at 0x" in text for text in (*found.stages, *found.finetune))
