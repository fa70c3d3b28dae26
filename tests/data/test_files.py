"""Files that would fill memory or disk, and lists that are not text, are refused with a line that names them."""

import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from data.test_sources import RATINGS, data as data, tiny_files, write, zipped
from partita.data import arrays
from partita.data.arrays import load_npz
from partita.data.sources._files import Tree, read_bytes, read_tar, unpacked
from partita.data.sources._pickles import load_pickled_npz
from partita.data.sources.movielens import movielens
from partita.data.sources.tiny_imagenet import tiny_imagenet
from partita.data.tables import rows_of
from partita.errors import PartitaError

ZEROS = bytes(4 << 20)
"""More than 200 times what it is packed to, and more than the limit in these tests."""


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MOST_UNPACKED", 1 << 20)


def tarred(path: Path, name: str) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for each, content in (("before.bin", ZEROS), (name, b"here")):
            member = tarfile.TarInfo(each)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def gzip_in_zip(path: Path) -> None:
    zipped(path, {"a.gz": gzip.compress(ZEROS)})


BOMBS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "gzip": (lambda path: write(path, gzip.compress(ZEROS)), read_bytes),
    "a table": (lambda path: write(path, gzip.compress(ZEROS)), lambda path: list(rows_of(path, ["text"]))),
    "zip": (lambda path: zipped(path, {"a": ZEROS}), Tree),
    "zip of many": (lambda path: zipped(path, {str(each): ZEROS[: 1 << 19] for each in range(8)}), Tree),
    "gzip in zip": (gzip_in_zip, lambda path: Tree(path).read("a.gz")),
    "tar": (lambda path: tarred(path, "a"), lambda path: read_tar(path, ["a"])),
    "lzma": (lambda path: write(path, lzma.compress(ZEROS)), unpacked),
    "arrays": (lambda path: np.savez_compressed(path, x=np.zeros(1 << 19)), load_npz),
    "pickled arrays": (
        lambda path: zipped(path, {"data.npy": ZEROS}),
        lambda path: load_pickled_npz(path, "data"),
    ),
}
ENDINGS = {"gzip": ".gz", "a table": ".csv.gz", "lzma": ".sqlite.lzma", "arrays": ".npz", "pickled arrays": ".npz"}


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("form", BOMBS)
def test_small_files_that_unpack_to_very_much_are_refused(tmp_path: Path, form: str) -> None:
    make, read = BOMBS[form]
    path = tmp_path / f"bomb{ENDINGS.get(form, '.bin')}"
    make(path)
    message = (
        r"bomb\S*( a\.gz)? is refused: its \d+ bytes unpack to \d+ or more\. Files may unpack to 1 MB, or to 200 times"
    )
    with pytest.raises(PartitaError, match=message):
        read(path)
    assert not path.with_suffix("").exists()


@pytest.mark.usefixtures("limit")
def test_what_is_packed_as_usual_is_read(tmp_path: Path) -> None:
    """Random bytes cannot be packed: as large as they are, they are no bomb."""
    noise = np.random.default_rng(0).bytes(3 << 20)
    assert read_bytes(write(tmp_path / "a.gz", gzip.compress(noise))) == noise
    zipped(tmp_path / "a.zip", {"a": noise})
    with Tree(tmp_path / "a.zip") as tree:
        assert tree.read("a") == noise
    assert unpacked(write(tmp_path / "b.bin.lzma", lzma.compress(noise))).read_bytes() == noise


def test_limits_leave_room_for_published_sets() -> None:
    """TensorFlow Federated's FEMNIST is the one that unpacks to most: 28 times its 171 MB."""
    arrays.check_unpacked("femnist", 170_507_172, 4_700_000_000)
    arrays.check_unpacked("small", 1, 1 << 30)
    with pytest.raises(PartitaError, match="is refused"):
        arrays.check_unpacked("large", 1, (1 << 30) + 1)


def test_pictures_that_would_fill_the_memory_are_refused(data: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    name = "train/n01/images/n01_0.JPEG"
    for each, content in tiny_files().items():
        write(data / "tiny-imagenet-200" / each, content)
    stream = io.BytesIO()
    image.new("1", (20_000, 20_000)).save(stream, "PNG")
    write(data / "tiny-imagenet-200" / name, stream.getvalue())
    with pytest.raises(PartitaError, match=r"n01_0\.JPEG cannot be read as an image: Image size \(400000000 pixels\)"):
        tiny_imagenet()


LATIN = "n01\né".encode("latin1")


@pytest.mark.parametrize("name", ["wnids.txt", "val/val_annotations.txt"])
def test_lists_must_be_text(data: Path, name: str) -> None:
    for each, content in {**tiny_files(), name: LATIN}.items():
        write(data / "tiny-imagenet-200" / each, content)
    with pytest.raises(PartitaError, match=rf"{name} cannot be read as text in UTF-8: 'utf-8' codec can't decode"):
        tiny_imagenet()


def test_tables_within_archives_must_be_text(data: Path) -> None:
    content = RATINGS.encode() + "1,é,3\n".encode("latin1")
    zipped(data / "ml-latest-small.zip", {"ml-latest-small/ratings.csv": content})
    with pytest.raises(PartitaError, match=r"ml-latest-small\.zip cannot be read as text: .*utf-8.*, after line \d+"):
        movielens()


def test_json_that_is_nested_too_deep_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", "[" * 200_000 + "\n")
    with pytest.raises(PartitaError, match=r"a\.jsonl, line 1 is not JSON: "):
        list(rows_of(tmp_path / "a.jsonl", ["text"]))
