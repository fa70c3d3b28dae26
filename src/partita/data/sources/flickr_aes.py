"""FLICKR-AES, pictures rated by people. Ren et al., 2017; as in FedPer, https://arxiv.org/abs/1912.00818"""

from dataclasses import replace
from pathlib import Path

from ..download import obtain
from ..pool import Pool
from ..source import source
from ..tables import rows_of, whole
from ._drive import shared_files
from ._files import Tree
from ._images import Colour, normalize, read_pictures
from ._named import locate, stored

# The folder that https://github.com/alanspike/personalizedImageAesthetics names; for research only.
FOLDER = "1LR6trJhN4XbgTtqZo1zfe272cAkXqA7e"
ARCHIVE = "FLICKR-AES-001.zip"
TABLE = "FLICKR-AES_image_labeled_by_each_worker.csv"


@source
def flickr_aes(*, size: int = 64, smallest: int = 60, largest: int = 290, normalization: Colour = "half") -> Pool:
    """FLICKR-AES: pictures by the person who rated them, 5 classes; of people with `smallest` to `largest` ratings.

    The csv file (worker, imagePair, score) and the pictures, as FLICKR-AES-001.zip (5.8 GB) or as the folder 40K, stand
    in the folder flickr_aes. Pictures are scaled to `size` x `size`; FedPer takes 224.
    """
    found = stored("flickr_aes", classes=5)
    if found is None:
        path = locate("flickr_aes", TABLE, "flickr_aes.csv") or _fetched()
        rows = [
            (worker.strip(), image.strip(), whole(score, path, line, 1, 5) - 1)
            for line, (worker, image, score) in rows_of(path, ["worker", "imagePair", "score"])
        ]
        with Tree(locate("flickr_aes", ARCHIVE) or path.parent) as tree:
            found = read_pictures(
                "flickr_aes",
                path,
                rows,
                tree=tree,
                folders=["40K/", "images/", ""],
                file=str,
                classes=5,
                size=size,
                sizes=(smallest, largest),
            )
    # Many rate the same picture.
    return replace(normalize(found, normalization), rows_identify=False)


def _fetched() -> Path:
    """The table; it is fetched last, so that where it is, the pictures are."""
    return obtain(shared_files("flickr_aes", FOLDER, [ARCHIVE, TABLE]))[-1]
