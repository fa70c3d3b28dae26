"""FLICKR-AES, pictures rated by people. Ren et al., 2017; as in FedPer, https://arxiv.org/abs/1912.00818"""

from dataclasses import replace

from ..pool import Pool
from ._images import Colour, normalize, read_pictures
from ._named import absent, locate, stored
from ._tables import rows_of, whole

TABLE = "FLICKR-AES_image_labeled_by_each_worker.csv"


def flickr_aes(*, size: int = 64, smallest: int = 60, largest: int = 290, normalization: Colour = "half") -> Pool:
    """FLICKR-AES: pictures by the person who rated them, 5 classes; of people with `smallest` to `largest` ratings.

    The csv file (worker, imagePair, score) and the pictures' folder 40K stand in the folder flickr_aes. Pictures are
    scaled to `size` x `size`; FedPer takes 224.
    """
    found = stored("flickr_aes", classes=5)
    if found is None:
        path = locate("flickr_aes", TABLE, "flickr_aes.csv")
        if path is None:
            raise absent(
                "flickr_aes",
                "its authors give it out, for research only, as folders of a web drive that is named on "
                "https://github.com/alanspike/personalizedImageAesthetics",
                f"the folder flickr_aes with {TABLE} and the pictures in 40K",
            )
        rows = [
            (worker.strip(), image.strip(), whole(score, path, line, 1, 5) - 1)
            for line, (worker, image, score) in rows_of(path, ["worker", "imagePair", "score"])
        ]
        found = read_pictures(
            "flickr_aes",
            path,
            rows,
            places=[path.parent / folder for folder in ("40K", "images", ".")],
            file=str,
            classes=5,
            size=size,
            sizes=(smallest, largest),
        )
    # Many rate the same picture.
    return replace(normalize(found, normalization), rows_identify=False)
