"""Data sources with a name: each official format, written here byte by byte, and what is said of damaged files.

One file, since each format takes a few lines, and the last tests go over all of them.
"""

import gzip
import io
import json
import lzma
import sqlite3
import struct
import sys
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from partita import registry
from partita.data.federation import federate
from partita.data.pool import Pool, Texts
from partita.data.sources._examples import parse_example
from partita.data.sources._files import Tree, plain, read_bytes, read_tar
from partita.data.sources.ag_news import ag_news
from partita.data.sources.cifar10 import cifar10
from partita.data.sources.cifar100 import cifar100
from partita.data.sources.csv_text import csv_text
from partita.data.sources.digits import digits
from partita.data.sources.emnist import Part, emnist
from partita.data.sources.femnist import femnist
from partita.data.sources.flickr_aes import flickr_aes
from partita.data.sources.gldv2 import gldv2
from partita.data.sources.hapt import hapt
from partita.data.sources.mnist import mnist
from partita.data.sources.mnist_writers import mnist_writers
from partita.data.sources.movielens import movielens
from partita.data.sources.personal_digits import personal_digits
from partita.data.sources.shakespeare import shakespeare
from partita.data.sources.stackoverflow import stackoverflow
from partita.data.sources.tiny_imagenet import tiny_imagenet
from partita.data.splits.natural import natural
from partita.errors import PartitaError
from partita.experiment.settings.settings import convert, undivided

NAMED: dict[str, Callable[[], Pool]] = {
    each.__name__: each
    for each in (
        ag_news,
        cifar10,
        cifar100,
        emnist,
        femnist,
        flickr_aes,
        gldv2,
        hapt,
        mnist,
        mnist_writers,
        movielens,
        shakespeare,
        stackoverflow,
        tiny_imagenet,
    )
}
DRAW = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty data folder and an empty cache; nothing can be fetched."""

    def unreachable(*_: object, **__: object) -> object:
        raise urllib.error.URLError("no network in tests")

    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    monkeypatch.setenv("PARTITA_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def inputs_of(pool: Pool) -> Tensor:
    assert isinstance(pool.inputs, Tensor)
    return pool.inputs


def prepared(pool: Pool) -> Tensor:
    return pool.preparation(inputs_of(pool))


def texts_of(pool: Pool, between: str = " ") -> list[str]:
    assert isinstance(pool.inputs, Texts)
    words = [pool.inputs.words[token] for token in pool.inputs.tokens]
    return [between.join(words[begin:end]) for begin, end in pairwise(pool.inputs.bounds.tolist())]


def official(pool: Pool) -> list[bool]:
    assert pool.official_test is not None
    marks: list[bool] = pool.official_test.tolist()
    return marks


def owners(pool: Pool) -> list[str]:
    assert pool.clients is not None
    return [pool.client_names[client] for client in pool.clients]


def write(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def zipped(path: Path, members: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


# CIFAR


def cifar_file(labels: list[tuple[int, ...]], pixels: np.ndarray) -> bytes:
    """Label bytes, then red, green and blue planes of 32 x 32, for each image."""
    return b"".join(bytes(label) + image.tobytes() for label, image in zip(labels, pixels, strict=True))


def some_pixels(count: int) -> np.ndarray:
    return DRAW.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)


def cifar10_files() -> tuple[dict[str, bytes], np.ndarray]:
    pixels = some_pixels(12)
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    return {
        name: cifar_file([(2 * at % 10,), (9,)], pixels[2 * at : 2 * at + 2]) for at, name in enumerate(names)
    }, pixels


def cifar100_files() -> tuple[dict[str, bytes], np.ndarray]:
    pixels = some_pixels(3)
    return {
        "train.bin": cifar_file([(19, 99), (0, 5)], pixels[:2]),
        "test.bin": cifar_file([(7, 42)], pixels[2:]),
    }, pixels


def check_cifar10(pool: Pool, pixels: np.ndarray) -> None:
    assert (pool.name, pool.classes, len(pool)) == ("cifar10", 10, 12)
    assert torch.equal(inputs_of(pool), torch.from_numpy(pixels))
    assert pool.targets.tolist() == [0, 9, 2, 9, 4, 9, 6, 9, 8, 9, 0, 9]
    assert official(pool) == [False] * 10 + [True] * 2


def test_cifar10_from_its_archive(data: Path) -> None:
    files, pixels = cifar10_files()
    members = {f"cifar-10-batches-bin/{name}": content for name, content in files.items()}
    tar(data / "cifar-10-binary.tar.gz", {"../evil.bin": b"x", "cifar-10-batches-bin/readme.html": b"", **members})
    check_cifar10(cifar10(), pixels)
    assert [each.name for each in data.parent.rglob("*") if each.is_file()] == ["cifar-10-binary.tar.gz"]


@pytest.mark.parametrize("inside", ["", "cifar10/"])
def test_cifar10_from_its_folder(data: Path, inside: str) -> None:
    files, pixels = cifar10_files()
    for name, content in files.items():
        write(data / f"{inside}cifar-10-batches-bin" / name, content)
    check_cifar10(cifar10(), pixels)


def test_cifar10_from_npz_comes_first(data: Path) -> None:
    pixels = some_pixels(12).transpose(0, 2, 3, 1)
    labels = np.arange(12) % 10
    np.savez(data / "cifar10.npz", x_train=pixels[:8], y_train=labels[:8], x_test=pixels[8:], y_test=labels[8:])
    write(data / "cifar-10-binary.tar.gz", b"not looked at")
    pool = cifar10()
    assert torch.equal(inputs_of(pool), torch.from_numpy(pixels.transpose(0, 3, 1, 2)))
    assert (pool.targets.tolist(), official(pool)) == (labels.tolist(), [False] * 8 + [True] * 4)


def test_cifar100_has_two_kinds_of_labels(data: Path) -> None:
    files, pixels = cifar100_files()
    tar(data / "cifar-100-binary.tar.gz", {f"cifar-100-binary/{name}": each for name, each in files.items()})
    fine, coarse = cifar100(), cifar100(labels="coarse")
    assert (fine.classes, fine.targets.tolist()) == (100, [99, 5, 42])
    assert (coarse.classes, coarse.targets.tolist()) == (20, [19, 0, 7])
    assert torch.equal(inputs_of(fine), torch.from_numpy(pixels))
    assert official(fine) == official(coarse) == [False, False, True]


def test_coarse_labels_have_their_own_npz(data: Path) -> None:
    pixels = some_pixels(2)
    np.savez(data / "cifar100.npz", x=pixels, y=np.array([99, 1]))
    np.savez(data / "cifar100_coarse.npz", x=pixels, y=np.array([19, 1]))
    assert cifar100().targets.tolist() == [99, 1]
    assert cifar100(labels="coarse").targets.tolist() == [19, 1]


STATISTICS: dict[tuple[str, str], tuple[tuple[float, ...], tuple[float, ...]]] = {
    ("cifar10", "half"): ((0.5,) * 3, (0.5,) * 3),
    ("cifar10", "imagenet"): ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ("cifar10", "published"): ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ("cifar100", "half"): ((0.5,) * 3, (0.5,) * 3),
    ("cifar100", "imagenet"): ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ("cifar100", "published"): ((0.507, 0.487, 0.441), (0.267, 0.256, 0.276)),
    ("cifar100", "none"): ((0.0,) * 3, (1.0,) * 3),
}


@pytest.mark.parametrize(("name", "choice"), STATISTICS)
def test_normalisations_are_those_of_the_papers(data: Path, name: str, choice: str) -> None:
    pixels = some_pixels(2)
    np.savez(data / f"{name}.npz", x=pixels, y=np.array([0, 1]))
    mean, std = (torch.tensor(each)[:, None, None] for each in STATISTICS[name, choice])
    made = NAMED[name](normalization=choice)  # type: ignore[call-arg]
    torch.testing.assert_close(prepared(made), (torch.from_numpy(pixels) / 255 - mean) / std)


def test_an_unknown_choice_is_named(data: Path) -> None:
    np.savez(data / "cifar10.npz", x=some_pixels(2), y=np.array([0, 1]))
    with pytest.raises(PartitaError, match=r"Unknown normalization 'halve'\. Did you mean 'half'"):
        cifar10(normalization="halve")  # type: ignore[arg-type]
    with pytest.raises(PartitaError, match=r"Unknown kind of labels 'course'\. Did you mean 'coarse'"):
        cifar100(labels="course")  # type: ignore[arg-type]
    with pytest.raises(PartitaError, match=r"Unknown part of emnist 'letter'\. Did you mean 'letters'"):
        emnist(part="letter")  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, 3072, 3074])
def test_a_cifar_file_of_another_size_is_refused(data: Path, size: int) -> None:
    files, _ = cifar10_files()
    for name, content in {**files, "data_batch_3.bin": bytes(size)}.items():
        write(data / "cifar-10-batches-bin" / name, content)
    with pytest.raises(PartitaError, match=rf"data_batch_3\.bin has {size} bytes, which is no multiple of the 3073"):
        cifar10()


def test_a_cifar_label_out_of_range_is_refused(data: Path) -> None:
    files, pixels = cifar10_files()
    wrong = cifar_file([(10,), (1,)], pixels[:2])
    for name, content in {**files, "data_batch_2.bin": wrong}.items():
        write(data / "cifar-10-batches-bin" / name, content)
    with pytest.raises(PartitaError, match=r"cifar10: the label of row 2 is 10, outside 0\.\.9"):
        cifar10()


def test_a_missing_cifar_file_is_named(data: Path) -> None:
    files, _ = cifar10_files()
    for name in [name for name in files if name != "test_batch.bin"]:
        write(data / "cifar-10-batches-bin" / name, files[name])
    with pytest.raises(PartitaError, match=r"There is no file .*test_batch\.bin"):
        cifar10()


def test_truncated_tar_files_are_refused(data: Path) -> None:
    files, _ = cifar10_files()
    path = data / "cifar-10-binary.tar.gz"
    tar(path, {f"cifar-10-batches-bin/{name}": content for name, content in files.items()})
    content = path.read_bytes()
    for part in (0, 10, 1000, len(content) // 2, len(content) - 5000):
        path.write_bytes(content[:part])
        with pytest.raises(PartitaError, match=r"cifar-10-binary\.tar\.gz (cannot be read as a tar file|lacks)"):
            cifar10()


def test_a_tar_file_without_the_members_is_refused(data: Path) -> None:
    tar(data / "cifar-10-binary.tar.gz", {"cifar-10-batches-bin/data_batch_1.bin": b"", "other": b"x"})
    with pytest.raises(PartitaError, match=r"lacks cifar-10-batches-bin/data_batch_2\.bin, .*test_batch\.bin"):
        cifar10()


def test_a_link_in_a_tar_file_is_not_followed(data: Path, tmp_path: Path) -> None:
    write(tmp_path / "secret", b"x" * 3073)
    with tarfile.open(data / "a.tar", "w") as archive:
        link = tarfile.TarInfo("wanted")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
        archive.addfile(link)
    with pytest.raises(PartitaError, match=r"a\.tar lacks wanted"):
        read_tar(data / "a.tar", ["wanted"])


# IDX


def idx(values: np.ndarray) -> bytes:
    """Two zeros, the type (8: unsigned bytes), the rank, big-endian lengths, bytes."""
    head = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
    return head + values.astype(np.uint8).tobytes()


DIGITS = DRAW.integers(0, 256, (5, 28, 28), dtype=np.uint8)
MNIST = {
    "train-images-idx3-ubyte": idx(DIGITS[:3]),
    "train-labels-idx1-ubyte": idx(np.array([7, 0, 9])),
    "t10k-images-idx3-ubyte": idx(DIGITS[3:]),
    "t10k-labels-idx1-ubyte": idx(np.array([1, 2])),
}


@pytest.mark.parametrize("folder", ["", "mnist", "MNIST/raw"])
@pytest.mark.parametrize("packed", [False, True])
def test_mnist(data: Path, folder: str, packed: bool) -> None:
    for name, content in MNIST.items():
        write(data / folder / f"{name}{'.gz' if packed else ''}", gzip.compress(content) if packed else content)
    pool = mnist(normalization="none")
    assert torch.equal(inputs_of(pool), torch.from_numpy(DIGITS)[:, None])
    assert (pool.classes, pool.targets.tolist()) == (10, [7, 0, 9, 1, 2])
    assert official(pool) == [False] * 3 + [True] * 2
    torch.testing.assert_close(prepared(mnist()), torch.from_numpy(DIGITS)[:, None] / 127.5 - 1)


BAD_MNIST: dict[str, tuple[str, bytes, str]] = {
    "truncated": ("train-images-idx3-ubyte", idx(DIGITS[:3])[:-1], r"should hold 2352 bytes .*but it holds 2351"),
    "too long": ("train-images-idx3-ubyte", idx(DIGITS[:3]) + b"\0", "but it holds 2353"),
    "only a head": ("t10k-labels-idx1-ubyte", idx(np.array([1, 2]))[:6], "is not an IDX file of bytes with 1 dim"),
    "labels as images": (
        "train-images-idx3-ubyte",
        idx(np.array([1])),
        "is not an IDX file of bytes with 3 dimensions",
    ),
    "floats": ("train-labels-idx1-ubyte", b"\0\0\x0d\x01" + bytes(8), "is not an IDX file of bytes"),
    "empty": ("train-labels-idx1-ubyte", b"", "is not an IDX file"),
    "another number": ("t10k-labels-idx1-ubyte", idx(np.array([1])), "mnist: 2 test images, but 1 labels"),
    "label": ("t10k-labels-idx1-ubyte", idx(np.array([1, 10])), r"the label of row 4 is 10, outside 0\.\.9"),
    "gzip": ("train-labels-idx1-ubyte.gz", gzip.compress(idx(np.zeros(3)))[:-6], "cannot be read as a gzip file"),
    "no gzip": ("train-labels-idx1-ubyte.gz", b"plain", "cannot be read as a gzip file: Not a gzipped file"),
}


@pytest.mark.parametrize("case", BAD_MNIST)
def test_damaged_idx_files_are_refused(data: Path, case: str) -> None:
    name, content, message = BAD_MNIST[case]
    for each, right in MNIST.items():
        if each != name.removesuffix(".gz"):
            write(data / "mnist" / each, right)
    write(data / "mnist" / name, content)
    with pytest.raises(PartitaError, match=message) as caught:
        mnist()
    assert "mnist" in str(caught.value)


def test_images_of_another_shape_are_refused(data: Path) -> None:
    for name, content in {
        **MNIST,
        "train-images-idx3-ubyte": idx(DIGITS[:3, :8, :8]),
        "t10k-images-idx3-ubyte": idx(DIGITS[3:, :8, :8]),
    }.items():
        write(data / "mnist" / name, content)
    with pytest.raises(PartitaError, match=r"rows of mnist have shape \(1, 28, 28\), but these have \(1, 8, 8\)"):
        mnist()


def test_a_missing_mnist_file_is_fetched(data: Path) -> None:
    for name in list(MNIST)[:3]:
        write(data / "mnist" / name, MNIST[name])
    with pytest.raises(
        PartitaError, match=r"Cannot fetch .*t10k-labels.*Put the file mnist/t10k-labels-idx1-ubyte\.gz"
    ):
        mnist()


def emnist_files(part: str, labels: list[int]) -> dict[str, bytes]:
    """As NIST stores them: every image transposed."""
    turned = DIGITS.swapaxes(1, 2)
    parts = {"train": slice(0, 3), "test": slice(3, 5)}
    files = {}
    for role, rows in parts.items():
        files[f"emnist-{part}-{role}-images-idx3-ubyte.gz"] = gzip.compress(idx(turned[rows]))
        files[f"emnist-{part}-{role}-labels-idx1-ubyte.gz"] = gzip.compress(idx(np.array(labels[rows])))
    return files


EMNIST: list[tuple[Part, int, list[int], list[int]]] = [
    ("byclass", 62, [0, 61, 3, 4, 5], [0, 61, 3, 4, 5]),
    ("balanced", 47, [0, 46, 3, 4, 5], [0, 46, 3, 4, 5]),
    ("letters", 26, [1, 26, 3, 4, 5], [0, 25, 2, 3, 4]),
    ("digits", 10, [0, 9, 3, 4, 5], [0, 9, 3, 4, 5]),
]


@pytest.mark.parametrize(("part", "classes", "stored", "labels"), EMNIST)
@pytest.mark.parametrize("form", ["archive", "folder", "unpacked"])
def test_emnist_is_upright(
    data: Path, part: Part, classes: int, stored: list[int], labels: list[int], form: str
) -> None:
    files = emnist_files(part, stored)
    if form == "archive":
        zipped(data / "emnist" / "gzip.zip", {f"gzip/{name}": content for name, content in files.items()})
    for name, content in files.items() if form != "archive" else ():
        plainly = gzip.decompress(content) if form == "unpacked" else content
        write(data / "gzip" / (name.removesuffix(".gz") if form == "unpacked" else name), plainly)
    pool = emnist(part=part)
    assert torch.equal(inputs_of(pool), torch.from_numpy(DIGITS)[:, None])
    assert (pool.classes, pool.targets.tolist()) == (classes, labels)
    assert official(pool) == [False] * 3 + [True] * 2


def test_damaged_zip_files_are_refused(data: Path) -> None:
    path = data / "emnist" / "gzip.zip"
    zipped(path, {f"gzip/{name}": content for name, content in emnist_files("balanced", [0] * 5).items()})
    content = path.read_bytes()
    for damaged in (content[:100], content[:-30], b"", content[:3000] + b"\xff" * 50 + content[3050:]):
        path.write_bytes(damaged)
        with pytest.raises(PartitaError, match=r"gzip\.zip.* cannot be read as"):
            emnist()


def test_a_part_that_the_archive_lacks_is_named(data: Path) -> None:
    zipped(data / "gzip.zip", emnist_files("digits", [0] * 5))
    with pytest.raises(PartitaError, match=r"gzip\.zip has no file emnist-letters-train-images-idx3-ubyte\.gz"):
        emnist(part="letters")


# Pictures


def ppm(pixels: np.ndarray) -> bytes:
    """A picture without compression, which Pillow reads whatever its name ends in."""
    height, width, _ = pixels.shape
    return f"P6 {width} {height} 255\n".encode() + pixels.astype(np.uint8).tobytes()


class StandIn:
    """What the sources use of Pillow, for uncompressed pictures only."""

    class Resampling:
        BILINEAR = 2

    def __init__(self, pixels: np.ndarray) -> None:
        self.pixels = pixels
        self.size = pixels.shape[1::-1]

    @staticmethod
    def open(stream: io.BytesIO) -> "StandIn":
        head, _, body = stream.read().partition(b"\n")
        if not head.startswith(b"P6"):
            raise OSError("cannot identify image file")
        width, height = (int(each) for each in head.split()[1:3])
        return StandIn(np.frombuffer(body, dtype=np.uint8).reshape(height, width, 3))

    def convert(self, mode: str) -> "StandIn":
        assert mode == "RGB"
        return self

    def resize(self, size: tuple[int, int], _: int) -> "StandIn":
        rows, columns = (
            np.arange(new) * old // new for new, old in zip(size[::-1], self.pixels.shape[:2], strict=True)
        )
        return StandIn(self.pixels[rows][:, columns])

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        return self.pixels

    def __enter__(self) -> "StandIn":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture(params=["stand-in", "Pillow"])
def pillow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The tests of pictures run with a stand-in, and with Pillow itself where it is installed."""
    if request.param == "Pillow":
        pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    else:
        package: Any = ModuleType("PIL")
        package.Image = StandIn
        monkeypatch.setitem(sys.modules, "PIL", package)
        monkeypatch.setitem(sys.modules, "PIL.Image", package.Image)
    return str(request.param)


def plain_colour(red: int, green: int, blue: int, size: int = 64) -> np.ndarray:
    return np.full((size, size, 3), (red, green, blue), dtype=np.uint8)


def tiny_files() -> dict[str, bytes]:
    return {
        "wnids.txt": b"n02\nn01\n",
        "train/n01/images/n01_0.JPEG": ppm(plain_colour(1, 2, 3)),
        "train/n01/n01_boxes.txt": b"n01_0.JPEG\t0\t0\t62\t62\n",
        "train/n02/images/n02_0.JPEG": ppm(plain_colour(4, 5, 6)),
        "train/n02/images/n02_1.JPEG": ppm(plain_colour(7, 8, 9)),
        "val/images/val_0.JPEG": ppm(plain_colour(10, 11, 12)),
        "val/val_annotations.txt": b"val_0.JPEG\tn02\t0\t32\t44\t62\n",
    }


@pytest.mark.parametrize("form", ["folder", "archive"])
def test_tiny_imagenet(data: Path, pillow: str, form: str) -> None:
    if form == "folder":
        for name, content in tiny_files().items():
            write(data / "tiny-imagenet-200" / name, content)
    else:
        members = {f"tiny-imagenet-200/{name}": content for name, content in tiny_files().items()}
        zipped(data / "tiny-imagenet-200.zip", {"tiny-imagenet-200/": b"", **members})
    pool = tiny_imagenet()
    assert (pool.classes, pool.targets.tolist()) == (2, [0, 1, 1, 1])
    assert official(pool) == [False, False, False, True]
    assert inputs_of(pool).shape == (4, 3, 64, 64)
    assert inputs_of(pool)[:, :, 5, 60].tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]]
    assert pool.class_names == ("n01", "n02")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("n00\tthing\nn02\tcrane, bird\nn01\tEgyptian cat\n", ("Egyptian cat", "crane")),
        ("n02\tcrane\nn01\tcrane, machine\n", ("n01", "n02")),
        ("n02\tcrane\n", ("n01", "n02")),
    ],
)
def test_the_classes_of_tiny_imagenet_have_names(data: Path, pillow: str, words: str, names: tuple[str, ...]) -> None:
    """The first word of each; where one is missing or stands for two classes, their codes."""
    for name, content in {**tiny_files(), "words.txt": words.encode()}.items():
        write(data / "tiny-imagenet-200" / name, content)
    assert tiny_imagenet().class_names == names


BAD_TINY: dict[str, tuple[str, bytes, str]] = {
    "not a picture": ("train/n02/images/n02_0.JPEG", b"text", r"n02_0\.JPEG cannot be read as an image"),
    "no tab": ("val/val_annotations.txt", b"val_0.JPEG n02", r"val_annotations\.txt, line 1 names no file and class"),
    "another class": ("val/val_annotations.txt", b"val_0.JPEG\tn03", "line 1 names no file and class"),
    "missing file": ("val/val_annotations.txt", b"val_7.JPEG\tn01", r"has no file val/images/val_7\.JPEG"),
    "outside": ("val/val_annotations.txt", b"../../../secret\tn01", "which is not a path below"),
    "no classes": ("wnids.txt", b"", "has no images train/CLASS/images"),
}


@pytest.mark.parametrize("case", BAD_TINY)
def test_damaged_folders_of_pictures_are_refused(data: Path, pillow: str, case: str) -> None:
    name, content, message = BAD_TINY[case]
    write(data / "secret", b"")
    for each, right in {**tiny_files(), name: content}.items():
        write(data / "tiny-imagenet-200" / each, right)
    with pytest.raises(PartitaError, match=message):
        tiny_imagenet()


def test_pictures_need_pillow(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    for name, content in tiny_files().items():
        write(data / "tiny-imagenet-200" / name, content)
    with pytest.raises(PartitaError, match="not installed: pip install 'pillow'"):
        tiny_imagenet()


def test_real_jpeg_files(data: Path) -> None:
    """Compressed, grey and of another size: what a stand-in cannot show."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    grey = io.BytesIO()
    image.new("L", (64, 64), 200).save(grey, "JPEG")
    large = io.BytesIO()
    image.new("RGB", (90, 70), (10, 120, 250)).save(large, "JPEG", quality=95)
    files = {
        **tiny_files(),
        "train/n01/images/n01_0.JPEG": grey.getvalue(),
        "val/images/val_0.JPEG": large.getvalue(),
    }
    for name, content in files.items():
        write(data / "tiny-imagenet-200" / name, content)
    pixels = inputs_of(tiny_imagenet()).int()
    assert (pixels[0] - 200).abs().max() <= 2
    assert (pixels[3] - torch.tensor([10, 120, 250])[:, None, None]).abs().max() <= 4
    write(data / "tiny-imagenet-200" / "val/images/val_0.JPEG", large.getvalue()[:400])
    with pytest.raises(PartitaError, match=r"val_0\.JPEG cannot be read as an image"):
        tiny_imagenet()


FLICKR = " worker, imagePair, score\nA1,a.jpg,1\nA1,b.jpg,5\nA2,a.jpg,3\nA3,b.jpg,2\nA3,a.jpg,4\nA3,c.jpg,4\n"
FLICKR_FILE = "FLICKR-AES_image_labeled_by_each_worker.csv"


@pytest.mark.parametrize("folder", ["40K", "images", "."])
def test_flickr_aes(data: Path, pillow: str, folder: str) -> None:
    write(data / "flickr_aes" / FLICKR_FILE, FLICKR)
    for name, grey in (("a", 10), ("b", 20)):
        write(data / "flickr_aes" / folder / f"{name}.jpg", ppm(plain_colour(grey, grey, grey, size=9)))
    pool = flickr_aes(size=8, smallest=1, largest=2)
    assert (pool.classes, pool.targets.tolist(), owners(pool)) == (5, [0, 4, 2], ["A1", "A1", "A2"])
    assert inputs_of(pool).shape == (3, 3, 8, 8)
    assert inputs_of(pool)[:, 0, 3, 3].tolist() == [10, 20, 10]
    assert not pool.rows_identify


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("worker,imagePair,score\nA1,a.jpg,6\n", r"each_worker\.csv, line 2: '6' is not a whole number from 1 to 5"),
        ("worker,imagePair,score\nA1,a.jpg,2.5\n", "line 2: '2.5' is not a whole number"),
        ("worker,imagePair,score\nA1,a.jpg,much\n", "line 2: 'much' is not a whole number"),
        ("worker,imagePair,score\nA1,a.jpg\n", "line 2: 2 values for 3 columns"),
        ("worker,image,score\nA1,a.jpg,3\n", "Unknown column 'imagePair'. Did you mean 'image'"),
        ("worker,imagePair,score\nA1,../../secret,3\n", "which is not a path below"),
        ("worker,imagePair,score\nA1,b.jpg,3\n", r"has no file 40K/b\.jpg"),
        ("worker,imagePair,score\n", "no client has 1 to 290 pictures; the numbers are 0 to 0"),
        ("", "Unknown column 'worker'. Known: none"),
    ],
)
def test_bad_tables_of_pictures_are_refused(data: Path, pillow: str, table: str, message: str) -> None:
    write(data / "flickr_aes" / FLICKR_FILE, table)
    with pytest.raises(PartitaError, match=message):
        flickr_aes(smallest=1)


def test_gldv2(data: Path, pillow: str) -> None:
    write(data / "gldv2" / "federated_train.csv", "user_id,image_id,class\n7,abcd,2\n7,abce,0\n3,xyz0,1\n")
    for name, grey in (("a/b/c/abcd", 1), ("a/b/c/abce", 2), ("x/y/z/xyz0", 3)):
        write(data / "gldv2" / "train" / f"{name}.jpg", ppm(plain_colour(grey, 0, 0, size=8)))
    pool = gldv2(size=8, smallest=1, normalization="imagenet")
    assert (pool.classes, pool.targets.tolist(), owners(pool)) == (3, [2, 0, 1], ["7", "7", "3"])
    assert inputs_of(pool)[:, 0, 0, 0].tolist() == [1, 2, 3]
    assert owners(gldv2(size=8, smallest=2)) == ["7", "7"]
    with pytest.raises(PartitaError, match="no client has 3 to any number of pictures; the numbers are 1 to 2"):
        gldv2(size=8, smallest=3)


# Text


AG_NEWS = '"3","Wall St. \\\\ Bears","Short-sellers, see green."\n"1","A ""title""","Second\\line"\n'


@pytest.mark.parametrize("folder", ["ag_news", "ag_news_csv"])
def test_ag_news(data: Path, folder: str) -> None:
    write(data / folder / "train.csv", AG_NEWS)
    write(data / folder / "test.csv.gz", gzip.compress(b'"4","Test","row"\n'))
    pool = ag_news()
    assert (pool.kind, pool.classes, pool.targets.tolist()) == ("classification", 4, [2, 0, 3])
    assert official(pool) == [False, False, True]
    assert texts_of(pool) == ["wall st . bears short sellers , see green .", "a title second line", "test row"]


def test_a_head_of_ag_news_is_skipped(data: Path) -> None:
    write(data / "ag_news" / "train.csv", "Class Index,Title,Description\n1,a,b\n")
    write(data / "ag_news" / "test.csv", "2,c,d\n")
    assert ag_news().targets.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b'"5","a","b"', r"test\.csv, line 1: '5' is not a whole number from 1 to 4"),
        (b'"1","a"', "line 1: 2 values, not label, title and description"),
        (b'"1","a","\xff"', "cannot be read as text: 'utf-8' codec"),
        (b"1,a," + b"b" * 140_000, "line 1: field larger than field limit"),
    ],
    ids=["label", "columns", "encoding", "long"],
)
def test_bad_rows_of_ag_news_are_named(data: Path, row: bytes, message: str) -> None:
    write(data / "ag_news" / "train.csv", AG_NEWS)
    write(data / "ag_news" / "test.csv", row)
    with pytest.raises(PartitaError, match=message):
        ag_news()


def test_texts_of_any_table(tmp_path: Path) -> None:
    path = write(tmp_path / "mail.csv", "who,subject,body,kind\nann,Hi,there,spam\nbob,Lo,here,ham\n")
    test = write(tmp_path / "more.csv", "kind,who,body,subject\nham,ann,x,y\n")
    pool = csv_text(
        path=str(path),
        text_columns=("subject", "body"),
        label_column="kind",
        client_column="who",
        test_path=str(test),
    )
    assert (pool.name, pool.classes, pool.targets.tolist()) == ("mail", 2, [1, 0, 0])
    assert texts_of(pool) == ["hi there", "lo here", "y x"]
    assert (owners(pool), official(pool)) == (["ann", "bob", "ann"], [False, False, True])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mail.csv", "client,text,label\nann,a,1\nbob,b,2\n"),
        ("mail.jsonl", '{"text": "a", "label": 1, "client": "ann"}\n{"text": "b", "label": 2, "client": "bob"}\n'),
    ],
)
def test_a_column_of_clients_need_not_be_named(tmp_path: Path, name: str, content: str) -> None:
    path = str(write(tmp_path / name, content))
    assert owners(csv_text(path=path)) == ["ann", "bob"]
    assert csv_text(path=path, label_column="client").clients is None, "it is of labels here"
    assert csv_text(path=path, text_columns=("client",)).clients is None
    assert csv_text(path=str(write(tmp_path / "plain.csv", "text,label\na,1\n"))).clients is None
    lacking = str(write(tmp_path / "more.csv", "text,label\nc,1\n"))
    with pytest.raises(PartitaError, match="the client id of row 2 is empty"):
        csv_text(path=path, test_path=lacking)


def test_labels_are_numbered_by_value(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "text,label\na,10\nb,9\nc,-1\n")
    pool = csv_text(path=str(path))
    assert (pool.targets.tolist(), pool.class_names) == ([2, 1, 0], ("-1", "9", "10"))


def test_labels_that_are_the_same_number_keep_their_order(tmp_path: Path) -> None:
    """Also in another process: that of a set differs between them."""
    path = write(tmp_path / "a.csv", "text,label\na,nan\nb,1.0\nc,1\nd,1.00\n")
    assert csv_text(path=str(path)).class_names == ("1", "1.0", "1.00", "nan")


CLASS_NAMES = {
    "ag_news": {0: "World", 3: "Sci/Tech"},
    "cifar10": {0: "airplane", 3: "cat", 9: "truck"},
    "cifar100": {0: "apple", 19: "cattle", 41: "lawn mower", 99: "worm"},
    "emnist": {9: "9", 10: "A", 35: "Z", 36: "a", 38: "d", 46: "t"},
    "femnist": {9: "9", 10: "A", 35: "Z", 36: "a", 61: "z"},
    "hapt": {0: "walking", 5: "laying"},
    "mnist": {0: "0", 9: "9"},
    "mnist_writers": {0: "0", 9: "9"},
}
"""By number, as the publishers list them."""


@pytest.mark.parametrize("name", CLASS_NAMES)
def test_classes_have_the_names_of_the_publishers(data: Path, name: str) -> None:
    shape = {"hapt": (6, 128), "cifar10": (32, 32, 3), "cifar100": (32, 32, 3)}.get(name, (28, 28))
    inputs = (
        np.array(["a", "b"])
        if name == "ag_news"
        else np.zeros((2, *shape), dtype=np.float32 if name == "hapt" else np.uint8)
    )
    file = "emnist_balanced" if name == "emnist" else name
    np.savez(data / f"{file}.npz", x=inputs, y=np.array([0, 1]))
    pool = NAMED[name]()
    assert len(pool.class_names) == pool.classes
    assert {number: pool.class_names[number] for number in CLASS_NAMES[name]} == CLASS_NAMES[name]


def test_text_labels_in_a_file_are_the_names(data: Path) -> None:
    """Numbered in another order than the publisher's, they must not be called by his names."""
    labels = np.array(["World", "Sports", "Business", "Sci/Tech"])
    np.savez(data / "ag_news.npz", x=np.array(list("abcd")), y=labels)
    pool = ag_news()
    assert [pool.class_names[label] for label in pool.targets] == labels.tolist()
    assert pool.class_names[0] == "Business"
    with pytest.raises(PartitaError, match="2 class names for 4 classes"):
        replace(pool, class_names=("a", "b"))
    with pytest.raises(PartitaError, match="two classes are called 'a'"):
        replace(pool, class_names=("a", "b", "c", "a"))


def test_texts_without_labels_are_for_the_next_word(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": "a b", "n": 1}\n\n{"text": "c"}\n')
    pool = csv_text(path=str(path), label_column=None)
    assert (pool.kind, texts_of(pool), pool.clients, pool.official_test) == ("next_word", ["a b", "c"], None, None)
    assert texts_of(csv_text(path=str(path), label_column=None, text="characters"), "") == ["a b", "c"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"text,label\n", "has no rows"),
        ("a.csv", b"texts,label\na,1\n", r"a\.csv: Unknown column 'text'. Did you mean 'texts'"),
        ("a.csv", b"text,label\na,1,2\n", "line 2: 3 values for 2 columns"),
        ("a.csv.gz", gzip.compress(b"text,label\na,1\n")[:-4], r"a\.csv\.gz cannot be read as a gzip file"),
        ("a.jsonl", b'{"text": "a", "label": 1}\n{"text"', r"a\.jsonl, line 2 is not JSON"),
        ("a.jsonl", b"[1]\n", r"a\.jsonl, line 1 is not an object with text, label"),
        ("a.jsonl", b'{"text": "a"}\n', "line 1: Unknown column 'label'"),
    ],
    ids=["no rows", "column", "values", "gzip", "json", "no object", "no label"],
)
def test_bad_tables_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(PartitaError, match=message):
        csv_text(path=str(write(tmp_path / name, content)))


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(PartitaError, match=r"There is no file .*none\.csv"):
        csv_text(path=str(tmp_path / "none.csv"))
    with pytest.raises(PartitaError, match="text_columns is empty"):
        csv_text(path=str(tmp_path / "none.csv"), text_columns=())


ROWS = [("u2", "Hello world", "train"), ("u1", "a b", "test"), ("u2", "c", "test")]


@pytest.mark.parametrize("form", ["jsonl", "csv", "csv.gz"])
def test_stackoverflow(data: Path, form: str) -> None:
    if form == "jsonl":
        content = "".join(
            json.dumps({"user": u, "text": t, "split": s, "score": 3}) + "\n" for u, t, s in ROWS
        ).encode()
    else:
        content = "".join(
            f"{u},{s},{t}\n" for u, s, t in [("user", "split", "text"), *((u, s, t) for u, t, s in ROWS)]
        ).encode()
    write(data / f"stackoverflow.{form}", gzip.compress(content) if form.endswith("gz") else content)
    pool = stackoverflow()
    assert (pool.kind, texts_of(pool), owners(pool)) == ("next_word", ["hello world", "a b", "c"], ["u2", "u1", "u2"])
    assert official(pool) == [False, True, True]


def test_stackoverflow_without_splits(data: Path) -> None:
    write(data / "stackoverflow" / "stackoverflow.csv", "owner,body\n1,x y\n2,z\n")
    pool = stackoverflow(user_column="owner", text_column="body")
    assert (owners(pool), pool.official_test) == (["1", "2"], None)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("u,a,held_out\n", "line 2: the split 'held_out' is neither train nor test"),
        ("u,a,train\nu,b,\n", "line 3: no split, but other lines have one"),
    ],
)
def test_strange_splits_are_refused(data: Path, rows: str, message: str) -> None:
    write(data / "stackoverflow.csv", f"user,text,split\n{rows}")
    with pytest.raises(PartitaError, match=message):
        stackoverflow()


# LEAF


def leaf(users: dict[str, tuple[list[Any], list[Any]]]) -> str:
    return json.dumps(
        {
            "users": list(users),
            "num_samples": [len(y) for _, y in users.values()],
            "user_data": {name: {"x": x, "y": y} for name, (x, y) in users.items()},
        }
    )


def grey(*levels: int) -> list[list[float]]:
    return [[level / 255] * 784 for level in levels]


@pytest.mark.parametrize("folder", ["femnist", "femnist/data", "leaf/data/femnist/data"])
def test_femnist(data: Path, folder: str) -> None:
    write(data / folder / "train" / "a.json", leaf({"f2": (grey(1, 2), [0, 61])}))
    write(data / folder / "train" / "b.json", leaf({"f1": (grey(3), [5]), "empty": ([], [])}))
    write(data / folder / "test" / "a.json", leaf({"f1": (grey(4), [6]), "f2": (grey(255), [7])}))
    pool = femnist(normalization="none")
    assert (pool.classes, pool.targets.tolist()) == (62, [0, 61, 5, 6, 7])
    assert inputs_of(pool).shape == (5, 1, 28, 28)
    assert inputs_of(pool)[:, 0, 9, 9].tolist() == [1, 2, 3, 4, 255]
    assert owners(pool) == ["f2", "f2", "f1", "f1", "f2"]
    assert official(pool) == [False, False, False, True, True]
    made = federate(pool, natural(smallest_train=1), validation=0.0)
    assert made.names == ["f1", "f2"]


def test_pixels_between_the_grey_levels_stay(data: Path) -> None:
    between = [[0.1234] * 784]
    write(data / "femnist" / "all_data" / "a.json", leaf({"a": (between, [0]), "b": (grey(51), [1])}))
    pool = femnist(normalization="none")
    assert pool.official_test is None
    torch.testing.assert_close(inputs_of(pool)[:, 0, 0, 0], torch.tensor([0.1234, 0.2]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"a\.json cannot be read as JSON"),
        ("[]", r"a\.json is not of LEAF's form: an object with users"),
        ('{"users": ["u"], "num_samples": [1]}', "is not of LEAF's form"),
        ('{"users": ["u"], "user_data": {}}', r"a\.json, user u: user_data has no lists x and y"),
        ('{"users": [["u"]], "user_data": {}}', r"a\.json, user \['u'\]: user_data has no lists x and y"),
        ("[" * 200_000, r"a\.json cannot be read as JSON"),
        ('{"users": ["u"], "user_data": {"u": {"x": [], "y": [1]}}}', r"user u: 0 inputs, but 1 targets"),
        (leaf({"u": (grey(1), [62])}), "user u: label 62 of row 0 is not a number from 0 to 61"),
        (leaf({"u": (grey(1), ["a"])}), "user u: label 'a' of row 0"),
        (leaf({"u": ([[0.5] * 783], [1])}), "user u cannot be read as rows of 784 numbers"),
        (leaf({"u": ([["a"] * 784], [1])}), "user u cannot be read as rows of 784 numbers"),
        (leaf({"u": ([[1.5] * 784], [1])}), "user u: pixels must be numbers from 0 to 1"),
        (leaf({"u": ([[float("nan")] * 784], [1])}), "user u: pixels must be numbers from 0 to 1"),
    ],
    ids=lambda value: value[:40],
)
def test_json_of_another_form_is_refused(data: Path, content: str, message: str) -> None:
    write(data / "femnist" / "train" / "a.json", content)
    write(data / "femnist" / "test" / "a.json", leaf({"u": (grey(4), [6])}))
    with pytest.raises(PartitaError, match=message):
        femnist()


def test_an_empty_leaf_folder_is_named(data: Path) -> None:
    (data / "femnist" / "train").mkdir(parents=True)
    with pytest.raises(PartitaError, match=r"femnist.train has no \.json file"):
        femnist()


def windows(text: str, width: int) -> tuple[list[str], list[str]]:
    """LEAF's samples: every stretch of so many characters, and the next one."""
    starts = range(len(text) - width)
    return [text[at : at + width] for at in starts], [text[at + width] for at in starts]


def test_shakespeare_in_leafs_form_is_running_text_again(data: Path) -> None:
    speech, other = "To be, or not to be: that is the question.", "But soft! what light"
    (x, y), (x2, y2) = windows(speech, 10), windows(other, 10)
    write(data / "shakespeare" / "train" / "a.json", leaf({"HAMLET": (x, y), "ROMEO": (x2, y2)}))
    write(data / "shakespeare" / "test" / "a.json", leaf({"HAMLET": (x2[:3] + x[:2], y2[:3] + y[:2])}))
    pool = shakespeare(window=25)
    assert texts_of(pool, "") == [speech[:25], speech[25:], other, other[:13], speech[:12]]
    assert owners(pool) == ["HAMLET", "HAMLET", "ROMEO", "HAMLET", "HAMLET"]
    assert official(pool) == [False, False, False, True, True]
    assert (pool.kind, pool.rows_identify) == ("next_word", False)


def test_shakespeare_from_npz_is_cut_likewise(data: Path) -> None:
    np.savez(data / "shakespeare.npz", x=np.array(["abcdefg", "Ay.", ""]), client=np.array([5, 3, 5]))
    pool = shakespeare(window=3)
    assert texts_of(pool, "") == ["abc", "def", "g", "Ay.", ""]
    assert owners(pool) == ["5", "5", "5", "3", "5"]
    with pytest.raises(PartitaError, match="window is 1, but must be at least 2"):
        shakespeare(window=1)


def test_labelled_speeches_are_refused(data: Path) -> None:
    np.savez(data / "shakespeare.npz", x=np.array(["a", "b"]), y=np.array([0, 1]))
    with pytest.raises(PartitaError, match=r"shakespeare\.npz must hold speeches as text x, without y"):
        shakespeare()


def test_samples_that_are_no_text_are_refused(data: Path) -> None:
    write(data / "shakespeare" / "all_data" / "a.json", leaf({"u": ([[1, 2]], ["a"])}))
    with pytest.raises(PartitaError, match="user u: row 0 is not a text and its next character"):
        shakespeare()


# TensorFlow Federated's databases


def field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer whose length is written before it."""
    return bytes([number << 3 | 2]) + number_bytes(len(content)) + content


def number_bytes(value: int) -> bytes:
    """Seven bits at a time, the lowest first."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number_bytes(value >> 7)


def example(**features: bytes | int | Sequence[float]) -> bytes:
    entries = b""
    for name, value in features.items():
        if isinstance(value, bytes):
            values = field(1, field(1, value))
        elif isinstance(value, int):
            values = field(3, field(1, number_bytes(value)))
        else:
            values = field(2, field(1, struct.pack(f"<{len(value)}f", *value)))
        entries += field(1, field(1, name.encode()) + field(2, values))
    return field(1, entries)


def database(path: Path, rows: Sequence[tuple[str, str, bytes]], packed: bool = True) -> Path:
    """As TensorFlow Federated publishes them: two tables, compressed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB)")
        made.execute("CREATE TABLE client_metadata (client_id TEXT, split_name TEXT, num_examples INTEGER)")
        made.executemany("INSERT INTO examples VALUES (?, ?, ?)", rows)
        made.execute(
            "INSERT INTO client_metadata SELECT client_id, split_name, COUNT(*) FROM examples GROUP BY 1, 2 ORDER BY 2"
        )
    if packed:
        archive = path.with_name(path.name + ".lzma")
        archive.write_bytes(lzma.compress(path.read_bytes(), lzma.FORMAT_ALONE))
        path.unlink()
        return archive
    return path


def femnist_rows() -> list[tuple[str, str, bytes]]:
    return [
        ("all_test", "f2", example(label=61, pixels=grey(255)[0])),
        ("all_train", "f2", example(label=0, pixels=grey(1)[0])),
        ("digits_only_train", "f2", example(label=1, pixels=grey(9)[0])),
        ("all_train", "f1", example(label=5, pixels=grey(3)[0])),
        ("all_train", "f2", example(label=36, pixels=grey(2)[0])),
    ]


def check_femnist(pool: Pool) -> None:
    assert (pool.targets.tolist(), owners(pool)) == ([5, 0, 36, 61], ["f1", "f2", "f2", "f2"])
    assert inputs_of(pool)[:, 0, 27, 27].tolist() == [3, 1, 2, 255]
    assert official(pool) == [False, False, False, True]


def test_an_example_is_parsed_as_tensorflow_writes_it() -> None:
    """The bytes of an example in TensorFlow's own guide: goat, 4, 0.9876 and False."""
    written = (
        b"\nR\n\x14\n\x08feature2\x12\x08\n\x06\n\x04goat\n\x11\n\x08feature1\x12\x05\x1a\x03\n\x01\x04"
        b"\n\x14\n\x08feature3\x12\x08\x12\x06\n\x04[\xd3|?\n\x11\n\x08feature0\x12\x05\x1a\x03\n\x01\x00"
    )
    features = parse_example(written)
    assert features["feature2"] == [b"goat"]
    assert [float(features["feature3"][0]), int(features["feature1"][0])] == [pytest.approx(0.9876), 4]
    assert features["feature0"].tolist() == [0]  # type: ignore[union-attr]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("folder", ["femnist", "."])
def test_femnist_from_the_database(data: Path, folder: str, packed: bool, capsys: pytest.CaptureFixture[str]) -> None:
    made = database(data / folder / "emnist_all.sqlite", femnist_rows(), packed)
    check_femnist(femnist(normalization="none"))
    assert (data / folder / "emnist_all.sqlite").is_file()
    assert sorted(each.name for each in made.parent.iterdir()) == ["emnist_all.sqlite", *[made.name] * packed]
    assert capsys.readouterr().err == ("emnist_all.sqlite is unpacked: 0.0 MB\n" if packed else "")
    check_femnist(femnist(normalization="none"))
    assert capsys.readouterr().err == ""


SPEECHES = [
    ("train", "LEAR_FOOL", example(snippets=b"Nuncle, give me an egg.")),
    ("train", "ROMEO", example(snippets="But soft \u2013".encode())),
    ("test", "LEAR_FOOL", example(snippets=b"Ay.")),
]


def test_shakespeare_from_the_database(data: Path) -> None:
    database(data / "shakespeare.sqlite", SPEECHES)
    pool = shakespeare(window=12)
    assert texts_of(pool, "") == ["Nuncle, give", " me an egg.", "But soft \u2013", "Ay."]
    assert owners(pool) == ["LEAR_FOOL", "LEAR_FOOL", "ROMEO", "LEAR_FOOL"]
    assert official(pool) == [False, False, False, True]


def questions(**counts: tuple[int, int]) -> list[tuple[str, str, bytes]]:
    """So many training and test sequences of each user."""
    return [
        (split, user, example(tokens=f"{split} {user} {at}".encode(), score=at))
        for user, pair in counts.items()
        for split, count in zip(("train", "test"), pair, strict=True)
        for at in range(count)
    ]


def test_stackoverflow_from_the_database(data: Path) -> None:
    """b has too few to train with and c to test with; a has too many, of which the first 1000 are taken."""
    rows = questions(d=(100, 10), c=(200, 9), b=(99, 10), a=(1003, 11), e=(150, 20))
    database(data / "stackoverflow" / "stackoverflow.sqlite", rows, packed=False)
    pool = stackoverflow(users=2)
    assert [owners(pool).count(user) for user in "abcde"] == [1011, 0, 0, 110, 0]
    assert sum(official(pool)) == 21
    assert texts_of(pool)[999:1001] == ["train a 999", "test a 0"]
    assert set(owners(stackoverflow())) == {"a", "d", "e"}
    with pytest.raises(PartitaError, match="users is 0, but must be at least 1"):
        stackoverflow(users=0)


def test_users_with_too_little_are_no_data(data: Path) -> None:
    database(data / "stackoverflow.sqlite", questions(a=(99, 10)), packed=False)
    with pytest.raises(PartitaError, match=r"stackoverflow\.sqlite: no user has 100 training and 10 test sequences"):
        stackoverflow()


BAD_EXAMPLES = {
    "cut": (example(snippets=b"Ay.")[:-1], "ROMEO cannot be read as a TensorFlow example: it ends within a field"),
    "cut number": (b"\x0a\xff", "it ends within a number"),
    "another form": (b"\x0b", "a field of the unknown form 3"),
    "another feature": (example(tokens=b"Ay."), "it has no 'snippets'"),
    "no text": (example(snippets=b"\xff"), "a speech of ROMEO cannot be read as text"),
}


@pytest.mark.parametrize("case", BAD_EXAMPLES)
def test_damaged_examples_are_refused(data: Path, case: str) -> None:
    content, message = BAD_EXAMPLES[case]
    database(data / "shakespeare.sqlite", [*SPEECHES, ("train", "ROMEO", content)])
    with pytest.raises(PartitaError, match=message):
        shakespeare()


def test_damaged_databases_are_refused(data: Path) -> None:
    archive = database(data / "shakespeare.sqlite", SPEECHES)
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(PartitaError, match=r"shakespeare\.sqlite\.lzma cannot be read as an LZMA file"):
        shakespeare()
    assert not (data / "shakespeare.sqlite").exists()
    archive.write_bytes(b"plain")
    with pytest.raises(PartitaError, match=r"shakespeare\.sqlite\.lzma cannot be read as an LZMA file"):
        shakespeare()
    write(data / "shakespeare.sqlite", b"plain" * 999)
    with pytest.raises(PartitaError, match=r"cannot be read as a database of TensorFlow Federated: file is not a data"):
        shakespeare()


# Ratings and sensors


RATINGS = "userId,movieId,rating,timestamp\n7,50,4.5,1\n7,10,0.5,2\n2,50,3.0,3\n"


@pytest.mark.parametrize("place", ["ml-latest-small/ratings.csv", "movielens/ratings.csv", "ml-latest-small.zip"])
def test_movielens(data: Path, place: str) -> None:
    if place.endswith("zip"):
        zipped(data / place, {"ml-latest-small/ratings.csv": RATINGS.encode()})
    else:
        write(data / place, RATINGS)
    pool = movielens()
    assert (pool.kind, pool.classes, pool.rows_identify, pool.facts) == ("regression", 1, False, {"items": 2})
    assert inputs_of(pool).tolist() == [1, 0, 1]
    assert (pool.targets.tolist(), owners(pool)) == ([4.5, 0.5, 3.0], ["7", "7", "2"])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("7,50,good,1", r"ratings\.csv, line 2: could not convert string to float: 'good'"),
        ("7,50.5,1,1", r"ratings\.csv, line 2: invalid literal"),
        ("7,50,nan,1", r"ratings\.csv: movielens: targets: row 0"),
        ("7,50", r"ratings\.csv, line 2: 2 values for 4 columns"),
    ],
)
def test_bad_ratings_are_named(data: Path, row: str, message: str) -> None:
    write(data / "movielens" / "ratings.csv", f"userId,movieId,rating,timestamp\n{row}\n")
    with pytest.raises(PartitaError, match=message):
        movielens()


def test_films_must_be_numbered(data: Path) -> None:
    np.savez(data / "movielens.npz", x=np.array([-1, 2]), y=np.array([0.5, 1.0]))
    with pytest.raises(PartitaError, match=r"movielens\.npz: x must be numbers of films"):
        movielens()


def hapt_files(rows: int = 300) -> dict[str, str]:
    """One recording: acceleration counts upwards, angular velocity downwards."""
    steps = [(at, at + 0.25, at + 0.5) for at in range(rows)]
    lines = "".join("{} {} {}\n".format(*step) for step in steps)
    turned = "".join("{} {} {}\n".format(*(-value for value in step)) for step in steps)
    return {
        "acc_exp01_user07.txt": lines,
        "gyro_exp01_user07.txt": turned,
        "labels.txt": "1 7 5 1 256\n1 7 8 257 290\n1 7 1 100 227\n1 7 2 100 226\n",
    }


@pytest.mark.parametrize("place", ["RawData", "hapt/RawData", "HAPT Data Set/RawData"])
def test_hapt_from_raw_data(data: Path, place: str) -> None:
    """Windows of 128 at 0, 64 and 128 of the first stretch; one of the third, which just has room; none of others."""
    for name, content in hapt_files().items():
        write(data / place / name, content)
    pool = hapt()
    assert (pool.classes, pool.targets.tolist(), owners(pool)) == (6, [4, 4, 4, 0], ["7"] * 4)
    assert (inputs_of(pool).shape, inputs_of(pool).dtype) == ((4, 6, 128), torch.float32)
    assert inputs_of(pool)[:, 0, 0].tolist() == [0, 64, 128, 99]
    assert inputs_of(pool)[1, :, 1].tolist() == [65, 65.25, 65.5, -65, -65.25, -65.5]


@pytest.mark.parametrize("inner", ["RawData/", "HAPT Data Set/RawData/"])
def test_hapt_from_its_archive(data: Path, inner: str) -> None:
    members = {f"{inner}{name}": content.encode() for name, content in hapt_files().items()}
    zipped(data / "hapt" / "HAPT Data Set.zip", {"activity_labels.txt": b"1 WALKING\n", **members})
    assert inputs_of(hapt())[:, 0, 0].tolist() == [0, 64, 128, 99]
    zipped(data / "hapt" / "HAPT Data Set.zip", {"../labels.txt": b"", "activity_labels.txt": b""})
    with pytest.raises(PartitaError, match=r"HAPT Data Set\.zip has no file RawData/labels\.txt"):
        hapt()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "labels.txt",
            "1 7 13 1 256\n",
            r"labels\.txt, row 1: \[1, 7, 13, 1, 256\] must be an experiment.* an activity from 1 to 12",
        ),
        ("labels.txt", "1 7 1 1 301\n", "row 1: 301 is after the end of the recording"),
        ("labels.txt", "1 7 1 1\n", r"labels\.txt cannot be read as rows of 5 numbers: it has 1 rows and 4 columns"),
        ("labels.txt", "", r"labels\.txt cannot be read as rows of 5 numbers"),
        ("labels.txt", "1 7 1 1 100\n", "has no stretch of an activity that is 128 samples long"),
        ("labels.txt", "2 7 1 1 200\n", r"RawData has no file acc_exp02_user07\.txt"),
        ("acc_exp01_user07.txt", "1 2 x\n", r"acc_exp01_user07\.txt cannot be read as rows of 3 numbers"),
        ("gyro_exp01_user07.txt", "1 2 3\n", r"gyro_exp01_user07\.txt has 1 rows, but acc_exp01_user07\.txt has 300"),
    ],
)
def test_bad_recordings_are_named(data: Path, name: str, content: str, message: str) -> None:
    for each, right in {**hapt_files(), name: content}.items():
        write(data / "RawData" / each, right)
    with pytest.raises(PartitaError, match=message):
        hapt()


def test_a_missing_value_of_a_sensor_is_refused(data: Path) -> None:
    files = hapt_files()
    files["acc_exp01_user07.txt"] = files["acc_exp01_user07.txt"].replace("70 70.25", "nan 70.25")
    for name, content in files.items():
        write(data / "RawData" / name, content)
    with pytest.raises(PartitaError, match=r"hapt: inputs: row 0 holds a value that is not a finite number \(2 such"):
        hapt()


def test_mnist_by_writer(data: Path) -> None:
    np.savez(
        data / "mnist_writers.npz",
        x_train=DIGITS[:3],
        y_train=np.array([7, 0, 9]),
        client_train=np.array([2, 2, 1]),
        x_test=DIGITS[3:],
        y_test=np.array([1, 2]),
        client_test=np.array([10, 10]),
    )
    pool = mnist_writers()
    assert (owners(pool), pool.official_test) == (["2", "2", "1", "10", "10"], None)
    assert official(mnist_writers(official=True)) == [False] * 3 + [True] * 2


def writer_files() -> dict[str, bytes]:
    """QMNIST's tables of eight columns: the digit first, the writer third; more rows of the test set than MNIST has."""

    def table(*rows: tuple[int, int]) -> bytes:
        values = [(digit, 0, writer, 0, 0, 0, 0, 0) for digit, writer in rows]
        return gzip.compress(b"\0\0\x0c\x02" + struct.pack(">2I", len(rows), 8) + np.array(values, ">i4").tobytes())

    return {
        "qmnist-train-labels-idx2-int.gz": table((7, 2154), (0, 0), (9, 2154)),
        "qmnist-test-labels-idx2-int.gz": table((1, 326), (2, 2599), (3, 5)),
    }


@pytest.mark.parametrize("folder", ["mnist_writers", "qmnist", "."])
def test_mnist_by_writer_from_the_published_labels(data: Path, folder: str) -> None:
    for name, content in MNIST.items():
        write(data / "mnist" / name, content)
    for name, content in writer_files().items():
        write(data / folder / name, content)
    pool = mnist_writers(official=True, normalization="none")
    assert torch.equal(inputs_of(pool), torch.from_numpy(DIGITS)[:, None])
    assert owners(pool) == ["2154", "0", "2154", "326", "2599"]
    assert official(pool) == [False] * 3 + [True] * 2


BAD_WRITERS = {
    "of the other part": (writer_files()["qmnist-test-labels-idx2-int.gz"], "its digits are not those of MNIST"),
    "bytes": (gzip.compress(idx(np.zeros((3, 8)))), "is not an IDX file of whole numbers with 2 dimensions"),
    "cut": (
        gzip.compress(gzip.decompress(writer_files()["qmnist-train-labels-idx2-int.gz"])[:-4]),
        "should hold 96 bytes .*, but it holds 92",
    ),
}


@pytest.mark.parametrize("case", BAD_WRITERS)
def test_other_tables_of_writers_are_refused(data: Path, case: str) -> None:
    for name, content in {**MNIST, **writer_files(), "qmnist-train-labels-idx2-int.gz": BAD_WRITERS[case][0]}.items():
        write(data / name, content)
    with pytest.raises(PartitaError, match=rf"qmnist-train-labels-idx2-int\.gz.*{BAD_WRITERS[case][1]}"):
        mnist_writers()


# All of them


@pytest.mark.parametrize("name", NAMED)
def test_an_absent_set_says_which_file_to_put_where(data: Path, name: str) -> None:
    with pytest.raises(PartitaError, match=rf"[Pp]ut .*into {data}") as caught:
        NAMED[name]()
    assert "PARTITA_DATA" in str(caught.value)


@pytest.mark.parametrize("name", [*NAMED, "csv_text", "folder", "pfllib", "flbench", "huggingface", "npz"])
def test_sources_are_listed_with_a_summary(name: str) -> None:
    assert name in registry.names("data")
    assert registry.get("data", name).__name__ == name
    assert 20 < len(registry.summary(registry.get("data", name))) <= 120


def test_helpers_are_not_listed() -> None:
    assert not [name for name in registry.names("data") if name.startswith("_")]


@pytest.mark.parametrize(
    "name", ["cifar10", "cifar100", "mnist", "emnist_balanced", "femnist", "hapt", "tiny_imagenet"]
)
def test_rows_of_another_shape_are_refused(data: Path, name: str) -> None:
    np.savez(data / f"{name}.npz", x=np.zeros((2, 5, 5), dtype=np.uint8), y=np.array([0, 1]))
    with pytest.raises(PartitaError, match=rf"{name}\.npz: rows of .* have shape .*, but these have \(1, 5, 5\)"):
        NAMED[name.removesuffix("_balanced")]()


@pytest.mark.parametrize("name", ["cifar10", "mnist", "femnist", "ag_news", "hapt"])
def test_labels_out_of_range_name_the_file(data: Path, name: str) -> None:
    inputs = np.array(["a", "b"]) if name == "ag_news" else np.zeros((2, 3, 32, 32), dtype=np.uint8)
    np.savez(data / f"{name}.npz", x=inputs, y=np.array([0, 99]))
    with pytest.raises(PartitaError, match=rf"{name}\.npz: {name}: the label of row 1 is 99, outside"):
        NAMED[name]()


def test_settings_reach_source_and_division(data: Path) -> None:
    np.savez(data / "cifar100.npz", x=some_pixels(40), y=np.arange(40) % 10)
    settings = {"name": "cifar100", "normalization": "published", "split": {"name": "iid", "clients": 2}}
    pool, division = undivided(settings, "data")
    assert pool.preparation.mean is not None
    assert len(federate(pool, **division)) == 2
    with pytest.raises(PartitaError, match=r"Unknown value 'fin'\. Did you mean 'fine'"):
        undivided({"name": "cifar100", "labels": "fin"}, "data")


def test_columns_can_be_set_in_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "a,b,label\nx,y,0\nz,w,1\n")
    pool, _ = undivided({"name": "csv_text", "path": str(path), "text_columns": ["a", "b"]}, "data")
    assert texts_of(pool) == ["x y", "z w"]
    assert convert(tuple[str, ...], ["a", "b"], "text_columns") == ("a", "b")


def test_only_files_below_a_folder_are_read(tmp_path: Path) -> None:
    write(tmp_path / "secret", b"x")
    write(tmp_path / "set" / "a", b"y")
    with Tree(tmp_path / "set") as tree:
        assert tree.read("a") == b"y"
        assert tree.files(".") == ["./a"]
        assert tree.files("none") == []
        for name in ("../secret", str(tmp_path / "secret"), "a/../../secret", "", "..\\secret"):
            with pytest.raises(PartitaError, match="which is not a path below"):
                tree.read(name)
    assert plain("a/b..c", "here") == "a/b..c"
    with pytest.raises(PartitaError, match="There is no file"):
        read_bytes(tmp_path / "none")


def test_people_agree_on_digits_and_not_on_their_labels() -> None:
    digit, own = digits(), personal_digits()
    assert own.clients is not None
    assert torch.equal(inputs_of(own), inputs_of(digit))
    orders = set()
    for person in range(len(own.client_names)):
        rows = own.clients == person
        pairs = set(zip(digit.targets[rows].tolist(), own.targets[rows].tolist(), strict=True))
        assert len(pairs) == len({value for value, _ in pairs}) == len({label for _, label in pairs})
        orders.add(frozenset(pairs))
    assert (len(own.client_names), len(orders)) == (30, 30)
