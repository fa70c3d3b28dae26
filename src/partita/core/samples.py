"""What does a client learn from? Samples: inputs and targets, stored once and selected by index."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Preparation:
    """How stored values become inputs: bytes are scaled to 0..1, then normalised by channel or by entry."""

    mean: Tensor | None = None
    std: Tensor | None = None
    crop: int = 0
    """The pixels by which images are padded in training before a random crop."""
    flip: bool = False
    """Whether images are mirrored in training, each with probability 1/2."""

    def __call__(self, stored: Tensor) -> Tensor:
        fresh = stored.dtype == torch.uint8
        values = stored.to(torch.get_default_dtype()).div_(255) if fresh else stored
        if self.mean is None or self.std is None:
            return values
        return values.sub_(self.mean).div_(self.std) if fresh else (values - self.mean) / self.std

    def on(self, device: torch.device | str) -> "Preparation":
        mean, std = (each if each is None else each.to(device) for each in (self.mean, self.std))
        return Preparation(mean, std, self.crop, self.flip)

    def augment(self, stored: Tensor, draw: torch.Generator) -> Tensor:
        """Another crop and mirroring for every image of a batch (batch, channels, height, width)."""
        count, channels, height, width = stored.shape
        device = stored.device
        if self.crop:
            padded = torch.nn.functional.pad(stored, (self.crop,) * 4)
            top, left = torch.randint(2 * self.crop + 1, (2, count), generator=draw)
            rows = (top[:, None] + torch.arange(height))[:, None, :, None].to(device)
            columns = (left[:, None] + torch.arange(width))[:, None, None, :].to(device)
            each = torch.arange(count, device=device)[:, None, None, None]
            stored = padded[each, torch.arange(channels, device=device)[None, :, None, None], rows, columns]
        if self.flip:
            mirrored = (torch.rand(count, generator=draw) < 0.5).to(device)
            stored = torch.where(mirrored[:, None, None, None], stored.flip(-1), stored)
        return stored


AS_STORED = Preparation()
READY = 1 << 26
"""The largest number of prepared values that are kept for a client."""


class Samples:
    """Inputs and targets; a selection shares the storage and is made ready only when it is used."""

    def __init__(
        self,
        inputs: Tensor,
        targets: Tensor,
        *,
        indices: Tensor | None = None,
        preparation: Preparation = AS_STORED,
        numbers: Tensor | None = None,
        layout: torch.memory_format | None = None,
    ) -> None:
        """With a `layout`, all are made ready together, at the first use, with images in that layout."""
        if len(inputs) != len(targets):
            raise ValueError(f"{len(inputs)} inputs, but {len(targets)} targets. They must be of the same length.")
        self._inputs, self._targets, self._indices = inputs, targets, indices
        self._preparation, self._numbers, self._layout = preparation, numbers, layout

    def __len__(self) -> int:
        return (self._targets if self._indices is None else self._indices).shape[0]

    @property
    def fixed(self) -> bool:
        """Whether training sees the same inputs in every epoch."""
        return not (self._preparation.crop or self._preparation.flip)

    @property
    def kind(self) -> tuple[torch.Size, torch.dtype, torch.Size, torch.dtype]:
        """The shape and the type of one input and of one target, as a network sees them."""
        inputs, targets, mean = self._inputs, self._targets, self._preparation.mean
        seen = torch.get_default_dtype() if inputs.dtype == torch.uint8 else inputs.dtype
        seen = seen if mean is None else torch.promote_types(seen, mean.dtype)
        return inputs.shape[1:], seen, targets.shape[1:], targets.dtype

    @property
    def preparation(self) -> Preparation:
        """How stored values become inputs."""
        return self._preparation

    @property
    def stored(self) -> Tensor:
        return self._inputs if self._indices is None else _rows(self._inputs, self._indices)

    @cached_property
    def inputs(self) -> Tensor:
        return self._preparation(self.stored) if self._layout is None else self._ready.stored

    @cached_property
    def targets(self) -> Tensor:
        stored = self._targets if self._indices is None else _rows(self._targets, self._indices)
        return stored if self._numbers is None else self._numbers.to(stored.device)[stored]

    def take(self, indices: Tensor | slice) -> "Samples":
        """A selection, without a copy of the data."""
        if self._layout is not None:
            return self._ready.take(indices)
        if self._indices is None:
            chosen = torch.arange(len(self._targets))[indices] if isinstance(indices, slice) else indices
        else:
            chosen = self._indices[indices if isinstance(indices, slice) else indices.to(self._indices.device)]
        return Samples(
            self._inputs, self._targets, indices=chosen, preparation=self._preparation, numbers=self._numbers
        )

    def alone(
        self, layout: torch.memory_format = torch.contiguous_format, device: torch.device | str = "cpu"
    ) -> "Samples":
        """A copy of these samples, from which no other sample can be reached.

        They are made ready once, with images in this layout, unless augmentation comes first or they are too many.
        """
        stored, targets = (each.to(device) for each in self._copied())
        once = self.fixed and stored.numel() <= READY
        return Samples(stored, targets, preparation=self._preparation.on(device), layout=layout if once else None)

    def in_own_storage(self) -> "Samples":
        """The same samples as they are stored, without those that were not selected."""
        return Samples(*self._copied(), preparation=self._preparation)

    def _copied(self) -> tuple[Tensor, Tensor]:
        """Inputs as they are stored, and targets, in memory of their own."""
        # Selected inputs are a copy already.
        return self._inputs.clone() if self._indices is None else self.stored, self.targets.clone()

    @cached_property
    def _ready(self) -> "Samples":
        inputs, layout = self._preparation(self.stored), self._layout or torch.contiguous_format
        return Samples(
            inputs.contiguous(memory_format=layout if inputs.dim() == 4 else torch.contiguous_format), self.targets
        )

    def relabelled(self, labels: Tensor, classes: int) -> "Samples":
        """The same samples with these labels numbered from 0; others become -1."""
        numbers = torch.full((classes,), -1, dtype=torch.int64)
        numbers[labels] = torch.arange(len(labels))
        return Samples(
            self._inputs, self._targets, indices=self._indices, preparation=self._preparation, numbers=numbers
        )

    def augmented(self, draw: torch.Generator) -> "Samples":
        """The same samples as training sees them, where the preparation augments; else themselves."""
        if self.fixed:
            return self
        return Samples(self._preparation.augment(self.stored, draw), self.targets, preparation=self._preparation)


def _rows(stored: Tensor, indices: Tensor) -> Tensor:
    """`stored[indices]` in the same layout, five times as fast."""
    indices = indices.to(stored.device)
    if stored.dim() == 4 and not stored.is_contiguous():
        return stored.permute(0, 2, 3, 1).index_select(0, indices).permute(0, 3, 1, 2)
    return stored.index_select(0, indices)
