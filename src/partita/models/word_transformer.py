"""A word-level language model, the network of partial personalization for text."""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..core.signatures import Dropout, Positive, Width, checked
from ._adapters import Bottleneck

WIDTH = 256
HIDDEN = 1024
HEADS = 4
LAYERS = 4

SecondAdapter = Literal["feed_forward", "residual_branch"]


class Projection(nn.Linear):
    """Weights N(0, 0.02^2) and no bias at first."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=0.02)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class Vectors(nn.Embedding):
    """Weights N(0, 0.02^2) at first."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=0.02)


class Attention(nn.Module):
    """Causal attention: each position attends to itself and those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.query = Projection(WIDTH, WIDTH, bias=False)
        self.key = Projection(WIDTH, WIDTH, bias=False)
        self.value = Projection(WIDTH, WIDTH, bias=False)
        self.output = Projection(WIDTH, WIDTH, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        def heads(projected: Tensor) -> Tensor:
            return projected.view(*projected.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2)

        mixed = F.scaled_dot_product_attention(
            heads(self.query(inputs)), heads(self.key(inputs)), heads(self.value(inputs)), is_causal=True
        )
        answer: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return answer


class Layer(nn.Module):
    """Attention and two linear layers, each added to its input and then normed; there may be an adapter in each."""

    def __init__(self, adapter_width: int, adapter_dropout: float, second_adapter: SecondAdapter) -> None:
        super().__init__()

        def adapter() -> nn.Module:
            return Bottleneck(WIDTH, adapter_width, dropout=adapter_dropout) if adapter_width else nn.Identity()

        self.attention = Attention()
        self.adapter1 = adapter()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.feed_forward = nn.Sequential(Projection(WIDTH, HIDDEN), nn.ReLU(), Projection(HIDDEN, WIDTH))
        self.adapter2 = adapter()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.second_adapter = second_adapter

    def forward(self, inputs: Tensor) -> Tensor:
        attended: Tensor = self.norm1(inputs + self.adapter1(self.attention(inputs)))
        answer: Tensor
        if self.second_adapter == "feed_forward":
            answer = self.norm2(attended + self.adapter2(self.feed_forward(attended)))
        else:
            answer = self.norm2(self.adapter2(attended) + self.feed_forward(attended))
        return answer


class Decoder(nn.Module):
    """A bias for each word, and vectors of its own if the words' are not used again."""

    def __init__(self, vocabulary: int, untied: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, WIDTH)) if untied else None
        self.bias = nn.Parameter(torch.empty(vocabulary))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            nn.init.normal_(self.weight, std=0.02)
        nn.init.zeros_(self.bias)

    def forward(self, inputs: Tensor, words: Tensor) -> Tensor:
        return F.linear(inputs, words if self.weight is None else self.weight, self.bias)


class WordTransformer(nn.Module):
    """Vectors of words and positions, four layers, and for each position the logits of the next word."""

    blocks = (("words", "positions"), *(f"layers.{number}" for number in range(LAYERS)), "decoder")

    def __init__(
        self,
        length: int,
        vocabulary: int,
        *,
        untied: bool,
        adapter_width: int,
        adapter_dropout: float,
        second_adapter: SecondAdapter,
    ) -> None:
        super().__init__()
        self.words = Vectors(vocabulary, WIDTH)
        self.positions = Vectors(length, WIDTH)
        self.layers = nn.Sequential(*(Layer(adapter_width, adapter_dropout, second_adapter) for _ in range(LAYERS)))
        self.decoder = Decoder(vocabulary, untied)
        # The input and output layers of the paper are the first and last layer between the vectors.
        self.groups: dict[str, str | tuple[str, ...]] = {
            "head": "decoder",
            "input": "layers.0",
            "output": f"layers.{LAYERS - 1}",
            "embedding": ("words", "positions"),
        }
        if adapter_width:
            bare = ("*.adapter1", "*.adapter2")
            self.groups |= {"bare_adapter": bare, "adapter": (*bare, "*.norm1", "*.norm2")}

    def forward(self, inputs: Tensor) -> Tensor:
        places = torch.arange(inputs.shape[1], device=inputs.device)
        hidden = F.relu(math.sqrt(WIDTH) * self.words(inputs) + self.positions(places))
        answer: Tensor = self.decoder(self.layers(hidden), self.words.weight)
        return answer


@checked
def word_transformer(
    *,
    shape: tuple[int, ...],
    classes: int,
    vocabulary: Positive | None = None,
    adapters: bool = False,
    adapter_width: Width = 16,
    adapter_dropout: Dropout = 0.0,
    second_adapter: SecondAdapter = "feed_forward",
    untied: bool = False,
) -> nn.Module:
    """A causal transformer of 4 layers for texts of one length: 5,731,092 parameters for 20 of 10,004 words.

    The vocabulary is as large as there are classes, unless it is given. The second adapter of a layer adapts what the
    `feed_forward` layers give or, as in the authors' code, the `residual_branch` beside them. The vectors of the words
    also make the logits, unless they are `untied`.
    """
    return WordTransformer(
        shape[0],
        classes if vocabulary is None else vocabulary,
        untied=untied,
        adapter_width=adapter_width if adapters else 0,
        adapter_dropout=adapter_dropout,
        second_adapter=second_adapter,
    )
