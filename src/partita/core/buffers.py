"""How are a module's buffers restored? From a snapshot of their values."""

from collections.abc import Collection

import torch
from torch import nn


class Snapshot:
    """The buffers of a module as they are now: all, or all but those in `except_for`."""

    def __init__(self, module: nn.Module, except_for: Collection[str] = ()) -> None:
        self._kept = [
            (part, name, buffer, buffer.clone())
            for place, part in module.named_modules()
            for name, buffer in part.named_buffers(recurse=False)
            if f"{place}.{name}".lstrip(".") not in except_for
        ]

    def restore_(self) -> None:
        """Restore the buffers: a forward pass may change one in place, or replace it by another tensor."""
        with torch.no_grad():
            for part, name, buffer, values in self._kept:
                part._buffers[name] = buffer
                if not torch.equal(buffer, values):
                    buffer.copy_(values)
