"""MNIST. LeCun, Bottou, Bengio, Haffner, 1998."""

from ..arrays import naming
from ..download import Remote, find, obtain
from ..pool import Pool
from ..source import source
from ._characters import DIGITS
from ._files import read_bytes
from ._idx import Bytes, idx_pool, parse_idx
from ._images import Gray, normalize
from ._named import check_shape, stored

# The publishers' own page no longer serves them reliably; PyTorch keeps the same files here.
HOME = "https://ossci-datasets.s3.amazonaws.com/mnist/"
FILES = {
    "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
}
SHAPE = (1, 28, 28)


@source
def mnist(*, normalization: Gray = "half") -> Pool:
    """MNIST: 70,000 grey images of 28 x 28 pixels, 10 classes."""
    pool = stored("mnist", classes=10, shape=SHAPE)
    if pool is None:
        train_images, train_labels, test_images, test_labels = map(read_part, FILES)
        pool = idx_pool("mnist", [(train_images, train_labels), (test_images, test_labels)], classes=10)
        check_shape(pool, SHAPE)
    return normalize(pool.named(DIGITS), normalization)


def read_part(file: str) -> Bytes:
    """Read one of the four official files; fetch it if it is missing."""
    # A data folder itself comes last: other sets use the same file names.
    names = [f"{folder}{file}{end}" for folder in ("mnist/", "MNIST/raw/", "") for end in ("", ".gz")]
    path = find(*names) or obtain([Remote(f"mnist/{file}.gz", f"{HOME}{file}.gz", FILES[file])])[0]
    with naming(path):
        return parse_idx(read_bytes(path), path, 3 if "images" in file else 1)
