"""EMNIST. Cohen, Afshar, Tapson, van Schaik, 2017, https://arxiv.org/abs/1702.05373"""

from pathlib import Path
from typing import Literal

from ...errors import PartitaError, unknown
from ..download import Remote, obtain
from ..pool import Pool
from ..source import source
from ._characters import CAPITALS, CHARACTERS, DIGITS, MERGED
from ._files import Tree
from ._idx import Bytes, idx_pool, parse_idx
from ._images import Gray, normalize
from ._named import check_shape, locate, stored

ARCHIVE = Remote(
    "emnist/gzip.zip",
    "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
    "58c8d27c78d21e728a6bc7b3cc06412e",
)
Part = Literal["balanced", "byclass", "bymerge", "letters", "digits", "mnist"]
CLASSES: dict[str, tuple[str, ...]] = {
    "balanced": MERGED,
    "byclass": CHARACTERS,
    "bymerge": MERGED,
    "letters": CAPITALS,
    "digits": DIGITS,
    "mnist": DIGITS,
}
SHAPE = (1, 28, 28)


@source
def emnist(*, part: Part = "balanced", normalization: Gray = "half") -> Pool:
    """EMNIST: handwritten digits and letters of 28 x 28 pixels, upright; as .npz: emnist_PART.npz."""
    if part not in CLASSES:
        raise PartitaError(unknown("part of emnist", part, CLASSES))
    pool = stored("emnist", file=f"emnist_{part}", classes=len(CLASSES[part]), shape=SHAPE)
    if pool is None:
        place = locate("emnist", "gzip", "gzip.zip") or obtain([ARCHIVE])[0]
        halves = [tuple(_read(place, part, role, what) for what in ("images", "labels")) for role in ("train", "test")]
        # Stored by columns; letters are numbered from 1.
        pool = idx_pool(
            "emnist",
            [(images, labels) for images, labels in halves],
            classes=len(CLASSES[part]),
            first_label=1 if part == "letters" else 0,
            transposed=True,
        )
        check_shape(pool, SHAPE)
    return normalize(pool.named(CLASSES[part]), normalization)


def _read(place: Path, part: str, role: str, what: str) -> Bytes:
    rank = 3 if what == "images" else 1
    name = f"emnist-{part}-{role}-{what}-idx{rank}-ubyte"
    with Tree(place) as tree:
        known = [f"{folder}{name}{end}" for folder in ("", "gzip/") for end in (".gz", "")]
        file = next((each for each in known if tree.has(each)), known[0])
        return parse_idx(tree.read(file), f"{place}: {file}", rank)
