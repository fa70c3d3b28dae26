"""Where are the files of a shared folder of Google Drive? Drive lists them in a page made for embedding."""

import html
import re
from collections.abc import Sequence

from ...errors import PartitaError
from ..download import Remote, by_hand, read_page

FOLDER = "https://drive.google.com/embeddedfolderview?id="
# The confirmation that Drive asks for where a file is too large for its search for viruses.
FILE = "https://drive.usercontent.google.com/download?export=download&confirm=t&id="
ENTRY = re.compile(r'<a href="https://drive\.google\.com/file/d/([\w-]+)/[^>]*>(.*?)</a>', re.DOTALL)
TAG = re.compile("<[^>]*>")


def shared_files(name: str, folder: str, files: Sequence[str]) -> list[Remote]:
    """These files of a shared folder, to be fetched into the data set's folder. Their hashes are not published."""
    places = [f"{name}/{file}" for file in files]
    page = read_page(FOLDER + folder, places)
    listed = {html.unescape(TAG.sub("", entry)).strip(): number for number, entry in ENTRY.findall(page)}
    if lacking := [file for file in files if file not in listed]:
        raise PartitaError(f"{FOLDER}{folder} does not list {' and '.join(lacking)}. {by_hand(places)}")
    return [Remote(place, FILE + listed[file]) for place, file in zip(places, files, strict=True)]
