"""Google Landmarks v2 by photographer. Hsu, Qi, Brown, 2020, https://arxiv.org/abs/2003.08082"""

from ..errors import PartitaError
from ..pool import Pool
from ._images import Colour, normalize, read_pictures
from ._named import absent, locate, stored
from ._tables import rows_of, whole


def gldv2(*, size: int = 64, smallest: int = 50, normalization: Colour = "half") -> Pool:
    """Google Landmarks v2: pictures by photographer, 2,028 classes; of people with at least `smallest` pictures.

    The csv file federated_train.csv (user_id, image_id, class) and the pictures (train/a/b/c/abc....jpg) stand in the
    folder gldv2. Pictures are scaled to `size` x `size`; the papers take 224.
    """
    found = stored("gldv2")
    if found is None:
        path = locate("gldv2", "federated_train.csv", "mini_gld_train_split.csv")
        if path is None:
            raise absent(
                "gldv2",
                "its pictures are spread over 500 archives of about 1 GB, see "
                "https://github.com/cvdfoundation/google-landmark; the table is in "
                "http://storage.googleapis.com/gresearch/federated-vision-datasets/landmarks-user-160k.zip",
                "the folder gldv2 with federated_train.csv and the pictures in train/a/b/c",
            )
        rows = [
            (user, image, whole(label, path, line, 0, 300_000))
            for line, (user, image, label) in rows_of(path, ["user_id", "image_id", "class"])
        ]
        found = read_pictures(
            "gldv2",
            path,
            rows,
            places=[path.parent / folder for folder in ("train", "images", ".")],
            file=_file,
            classes=max((label for _, _, label in rows), default=0) + 1,
            size=size,
            sizes=(smallest, None),
        )
    return normalize(found, normalization)


def _file(image: str) -> str:
    """Pictures lie in folders by the first three characters of their names."""
    if len(image) < 3:
        raise PartitaError(f"gldv2: {image!r} is not the id of a picture.")
    return f"{image[0]}/{image[1]}/{image[2]}/{image}.jpg"
