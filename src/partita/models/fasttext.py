"""fastText, the network of FLAYER and FedALA for text. Joulin et al., 2016, https://arxiv.org/abs/1607.01759"""

from typing import ClassVar

from torch import Tensor, nn

from ..core.signatures import Positive, Width, checked


class FastText(nn.Module):
    """The mean of the words' vectors and two linear layers, with nothing between them."""

    groups: ClassVar = {"head": "fc", "input": "embedding", "embedding": "embedding"}
    blocks = ("embedding", "fc1", "fc")

    def __init__(self, vocabulary: int, width: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.fc1 = nn.Linear(width, width)
        self.fc = nn.Linear(width, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        # Padding counts in the mean, as in the authors' code: a short text has a short vector.
        answer: Tensor = self.fc(self.fc1(self.embedding(inputs).mean(1)))
        return answer


@checked
def fasttext(*, shape: tuple[int, ...], classes: int, vocabulary: Positive = 98635, width: Width = 32) -> nn.Module:
    """The mean of word vectors and two linear layers: 3,157,508 parameters for 4 classes."""
    return FastText(vocabulary, width, classes)
