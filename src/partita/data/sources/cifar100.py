"""CIFAR-100. Krizhevsky, 2009, https://www.cs.toronto.edu/~kriz/cifar.html"""

from typing import Literal

from ...errors import PartitaError, unknown
from ..download import Remote
from ..pool import Pool
from ._cifar import SHAPE, read_cifar
from ._images import Statistics, normalize
from ._named import stored

ARCHIVE = Remote(
    "cifar-100-binary.tar.gz",
    "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    "03b5dce01913d631647c71ecec9e9cb8",
)
CLASSES = {"fine": 100, "coarse": 20}
PUBLISHED: Statistics = ((0.507, 0.487, 0.441), (0.267, 0.256, 0.276))


def cifar100(
    *,
    labels: Literal["fine", "coarse"] = "fine",
    normalization: Literal["half", "imagenet", "published", "none"] = "half",
) -> Pool:
    """CIFAR-100: 60,000 colour images of 32 x 32 pixels, 100 classes in 20 groups; "published" normalises as FedBABU.

    An .npz file has one kind of labels: cifar100.npz the fine, cifar100_coarse.npz the coarse ones.
    """
    if labels not in CLASSES:
        raise PartitaError(unknown("kind of labels", labels, CLASSES))
    file = "cifar100" if labels == "fine" else "cifar100_coarse"
    pool = stored("cifar100", file=file, classes=CLASSES[labels], shape=SHAPE) or read_cifar(
        "cifar100",
        ARCHIVE,
        "cifar-100-binary",
        train=["train.bin"],
        test=["test.bin"],
        labels=2,
        label=1 if labels == "fine" else 0,
        classes=CLASSES[labels],
    )
    return normalize(pool, normalization, PUBLISHED)
