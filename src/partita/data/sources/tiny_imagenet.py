"""Tiny ImageNet: 200 classes of ImageNet at 64 x 64 pixels."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ...errors import PartitaError
from ..download import Remote, obtain
from ..pool import Pool, pool
from ..source import source
from ._files import Tree
from ._images import Colour, decode_all, normalize
from ._named import locate, stored

ARCHIVE = Remote(
    "tiny-imagenet-200.zip",
    "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    "90528d7ca1a48142e341f4ef8d21d0de",
)
SIZE = 64
Picture = tuple[str, Callable[[], bytes]]


@source
def tiny_imagenet(*, normalization: Colour = "half") -> Pool:
    """Tiny ImageNet: 110,000 colour images of 64 x 64 pixels, 200 classes; its validation part is the test set."""
    found = stored("tiny_imagenet", classes=200, shape=(3, SIZE, SIZE))
    if found is None:
        place = locate("tiny_imagenet", "tiny-imagenet-200", ARCHIVE.name) or obtain([ARCHIVE])[0]
        with Tree(place) as tree:
            found = _read(tree, "" if place.is_dir() else "tiny-imagenet-200/")
    return normalize(found, normalization)


def _read(tree: Tree, root: str) -> Pool:
    classes = sorted(tree.read_text(f"{root}wnids.txt").split())
    pictures: list[Picture] = []
    labels = []
    for number, name in enumerate(classes):
        files = [file for file in tree.files(f"{root}train/{name}/images") if file.lower().endswith((".jpeg", ".jpg"))]
        pictures += [_picture(tree, file) for file in files]
        labels += [number] * len(files)
    training = len(pictures)
    if not training:
        raise PartitaError(f"{tree.path} has no images train/CLASS/images/*.JPEG of the classes in wnids.txt.")
    for line, text in enumerate(tree.read_text(f"{root}val/val_annotations.txt").splitlines(), 1):
        file, name = text.split("\t")[:2] if "\t" in text else ("", "")
        if name not in classes:
            raise PartitaError(f"{tree.path}: val_annotations.txt, line {line} names no file and class of wnids.txt.")
        pictures.append(_picture(tree, f"{root}val/images/{file}"))
        labels.append(classes.index(name))
    tested = np.arange(len(labels)) >= training
    found = pool(
        "tiny_imagenet", decode_all(pictures, SIZE), np.array(labels), classes=len(classes), official_test=tested
    )
    return found.named(_names(tree, root, classes))


def _names(tree: Tree, root: str, classes: Sequence[str]) -> Sequence[str]:
    """The first of each class's words in words.txt; where words are missing or ambiguous, the classes' own codes."""
    if not tree.has(f"{root}words.txt"):
        return classes
    rows = (line.partition("\t") for line in tree.read_text(f"{root}words.txt").splitlines())
    words = {code: text.split(",")[0].strip() for code, _, text in rows}
    names = [words.get(code, "") for code in classes]
    return names if all(names) and len(set(names)) == len(names) else classes


def _picture(tree: Tree, file: str) -> Picture:
    return f"{tree.path}: {file}", partial(tree.read, file)
