"""CIFAR-10. Krizhevsky, 2009, https://www.cs.toronto.edu/~kriz/cifar.html"""

from typing import Literal

from ..download import Remote
from ..pool import Pool
from ..source import source
from ._cifar import SHAPE, read_cifar
from ._images import IMAGENET, normalize
from ._named import stored

ARCHIVE = Remote(
    "cifar-10-binary.tar.gz",
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "c32a1d4ab5d03f1284b67883e8d87530",
)

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@source
def cifar10(*, normalization: Literal["half", "imagenet", "published", "none"] = "half") -> Pool:
    """CIFAR-10: 60,000 colour images of 32 x 32 pixels, 10 classes; "published" normalises as FedBABU does."""
    pool = stored("cifar10", classes=10, shape=SHAPE) or read_cifar(
        "cifar10",
        ARCHIVE,
        "cifar-10-batches-bin",
        train=[f"data_batch_{number}.bin" for number in range(1, 6)],
        test=["test_batch.bin"],
        labels=1,
        label=0,
        classes=10,
    )
    return normalize(pool.named(NAMES), normalization, IMAGENET)
