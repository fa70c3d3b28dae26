"""Google Landmarks v2 by photographer. Hsu, Qi, Brown, 2020, https://arxiv.org/abs/2003.08082"""

from ..pool import Pool
from ..source import source
from ..tables import rows_of, whole
from ._files import Tree
from ._images import Colour, normalize, read_pictures
from ._landmarks import TABLE, fetch_landmarks, file_of
from ._named import locate, stored

CLASSES = 2028


@source
def gldv2(*, size: int = 64, smallest: int = 50, normalization: Colour = "half", fetch: bool = False) -> Pool:
    """Google Landmarks v2: pictures by photographer, 2,028 classes; of people with at least `smallest` pictures.

    The csv file federated_train.csv (user_id, image_id, class) and the pictures (train/a/b/c/abc....jpg) stand in the
    folder gldv2. Pictures are scaled to `size` x `size`; the papers take 224. If they are not there, `fetch` allows a
    download of 500 GB, of which 22 GB are kept.
    """
    found = stored("gldv2", classes=CLASSES)
    if found is None:
        path = locate("gldv2", TABLE, "mini_gld_train_split.csv") or fetch_landmarks(allowed=fetch)
        rows = [
            (user, image, whole(label, path, line, 0, 300_000))
            for line, (user, image, label) in rows_of(path, ["user_id", "image_id", "class"])
        ]
        with Tree(path.parent) as tree:
            found = read_pictures(
                "gldv2",
                path,
                rows,
                tree=tree,
                folders=["train/", "images/", ""],
                file=file_of,
                classes=max((label for _, _, label in rows), default=0) + 1,
                size=size,
                sizes=(smallest, None),
            )
    return normalize(found, normalization)
