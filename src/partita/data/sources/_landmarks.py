"""How do the pictures of Google Landmarks v2 come here? Archive by archive; of each only the listed ones are kept.

They are a small part of a large collection, and no list says which archive holds which. An archive is removed when its
pictures are taken out, and a note says that it is done: an interrupted download continues where it stopped.
"""

import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from ...errors import PartitaError
from ..download import (
    Remote,
    Report,
    alone,
    cache_folder,
    data_folders,
    fetch,
    find,
    obtain,
    progress_lines,
    read_page,
    writing,
)
from ..tables import csv_rows, text_stream
from ._files import Tree, plain, tar_files

# TensorFlow Federated lists the MD5 (experiment/datasets/gldv2.py).
LISTS = Remote(
    "gldv2/landmarks-user-160k.zip",
    "https://storage.googleapis.com/gresearch/federated-vision-datasets/landmarks-user-160k.zip",
    "53c36bd7d5fc12f927af2820b7e4a57c",
)
TABLE, TEST, DONE = "federated_train.csv", "test.csv", "archives_done.txt"
# Described in https://github.com/cvdfoundation/google-landmark
HOME = "https://s3.amazonaws.com/google-landmark/"
ARCHIVES = 500
# About, in bytes: the home says 1 GB for each; the lists name one in 22 of the 4,132,914 pictures.
ARCHIVE_SIZE, KEPT_SIZE = 1_000_000_000, 44_000_000


def fetch_landmarks(allowed: bool) -> Path:
    """The table of training pictures; it gets its name when the pictures of all archives are there."""
    table = cache_folder() / "gldv2" / TABLE
    if not allowed:
        raise PartitaError(
            f"gldv2 is not here, and it is large: {_plan(_left(table.parent), table.parent)}. To start that, and to go "
            f"on with it after an interruption: partita data show gldv2 fetch=true. If you have it, put gldv2.npz, or "
            f"the folder gldv2 with {TABLE} and the pictures in train/a/b/c, into {data_folders()[0]}, or set "
            "PARTITA_DATA to their folder."
        )
    with alone(table):
        if not table.exists():
            _fetch_all(table)
    return table


def _fetch_all(table: Path) -> None:
    folder = table.parent
    left = _left(folder)
    _check_space(folder, len(left) * KEPT_SIZE + 2 * ARCHIVE_SIZE)
    print(f"gldv2: {_plan(left, folder)}.", file=sys.stderr)
    with Tree(obtain([LISTS])[0]) as lists:
        pictures = _listed(lists)
        report = progress_lines()
        for number in left:
            archive = _obtain_archive(number, report)
            _keep(archive, pictures, folder / "train")
            if folder in archive.parents:
                archive.unlink()
            with writing(folder / DONE), (folder / DONE).open("a", encoding="utf-8") as file:
                file.write(f"{_name(number)}\n")
        content = lists.read(_inside(TABLE))
    part = folder / f"{TABLE}.part"
    with writing(part):
        part.write_bytes(content)
        part.replace(table)


def _left(folder: Path) -> list[int]:
    """The archives whose pictures were not yet taken out."""
    note = folder / DONE
    done = set(note.read_text(encoding="utf-8", errors="replace").splitlines()) if note.exists() else set()
    return [number for number in range(ARCHIVES) if _name(number) not in done]


def _plan(left: list[int], folder: Path) -> str:
    return (
        f"{len(left)} of its {ARCHIVES} archives are to be downloaded, about {_gigabytes(len(left) * ARCHIVE_SIZE)}, "
        f"of which about {_gigabytes(len(left) * KEPT_SIZE)} of pictures are kept in {folder}"
    )


def file_of(image: str) -> str:
    """Pictures lie in folders by the first three characters of their names."""
    if len(image) < 3:
        raise PartitaError(f"gldv2: {image!r} is not the id of a picture.")
    return f"{image[0]}/{image[1]}/{image[2]}/{image}.jpg"


def _name(number: int) -> str:
    return f"images_{number:03d}.tar"


def _inside(table: str) -> str:
    return f"{PurePosixPath(LISTS.name).stem}/{table}"


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.0f} GB"


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise PartitaError(
            f"gldv2 needs about {_gigabytes(needed)} in {folder}, and that disk has {_gigabytes(free)} free. Make "
            "room, or set XDG_CACHE_HOME to a folder on a larger disk."
        )


def _listed(lists: Tree) -> dict[str, str]:
    """Every listed picture's path by its file name; also of test pictures, to spare another download for them."""
    pictures = {}
    for table in (TABLE, TEST):
        where = f"{lists.path}: {table}"
        for _, (image,) in csv_rows(text_stream(lists.read(_inside(table))), where, ["image_id"]):
            file = plain(file_of(image), where)
            pictures[PurePosixPath(file).name] = file
    return pictures


def _obtain_archive(number: int, report: Report) -> Path:
    """An archive that is already in a data folder, or else is fetched and checked."""
    name = f"gldv2/{_name(number)}"
    if found := find(name):
        return found

    def told(file: str, at_hand: int, total: int | None) -> None:
        report(f"{file}, archive {number + 1} of {ARCHIVES}", at_hand, total)

    address = f"{HOME}md5sum/train/md5.images_{number:03d}.txt"
    # As md5sum writes it, the hash comes first.
    published = re.match(r"[0-9a-f]{32}\b", read_page(address, [name]))
    if published is None:
        raise PartitaError(f"{address} does not begin with an MD5. Try again later.")
    return fetch(Remote(name, f"{HOME}train/{_name(number)}", published[0]), cache_folder(), told)


def _keep(archive: Path, pictures: Mapping[str, str], folder: Path) -> None:
    """Write the listed pictures of an archive to the paths in the lists; paths in the archive do not count."""
    for name, content in tar_files(archive, lambda name: PurePosixPath(name).name in pictures):
        target = folder / pictures[PurePosixPath(name).name]
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        except OSError as problem:
            raise PartitaError(f"Cannot write {target}: {problem}. Try again to continue this archive.") from problem
