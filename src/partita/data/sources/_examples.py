"""How are TensorFlow Federated's data sets read? As SQLite databases of examples by client, without TensorFlow.

The table `examples` has split_name, client_id and serialized_example_proto: a protocol buffer of named lists of bytes,
numbers or whole numbers. The table `client_metadata` has client_id, split_name and num_examples.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from ...errors import PartitaError
from ..arrays import reading
from ..download import Remote, obtain
from ._files import unpacked
from ._named import locate

Values = list[bytes] | np.ndarray
"""Bytes, numbers of four bytes, or whole numbers."""
Example = dict[str, Values]


def find_database(name: str, remote: Remote) -> Path:
    """The database of a data set, unpacked from its archive if needed, which is fetched if needed."""
    archive = Path(remote.name).name
    found = locate(name, archive.removesuffix(".lzma"), archive) or obtain([remote])[0]
    return found if found.suffix == ".sqlite" else unpacked(found)


def read_examples(
    path: Path, split: str, wanted: Sequence[str], client: str | None = None
) -> Iterator[tuple[str, list[Values]]]:
    """Client and the wanted features of every example of a split, client by client; or those of one client."""
    query = "SELECT client_id, serialized_example_proto FROM examples WHERE split_name = ?"
    one = "" if client is None else "AND client_id = ?"
    given = [split] if client is None else [split, client]
    for owner, message in ask(path, f"{query} {one} ORDER BY client_id, rowid", given):
        with reading(f"{path}, an example of {owner}", "a TensorFlow example"):
            features = parse_example(message)
            if lacking := [name for name in wanted if name not in features]:
                raise ValueError(f"it has no {lacking[0]!r}")
        yield str(owner), [features[name] for name in wanted]


def ask(path: Path, query: str, values: Sequence[object]) -> Iterator[tuple[Any, ...]]:
    """The rows that a query gives; the database is not written to."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as database:
            yield from database.execute(query, values)
    except sqlite3.Error as problem:
        raise PartitaError(
            f"{path} cannot be read as a database of TensorFlow Federated: {problem}. Is it damaged or truncated? Then "
            "remove it and get it again."
        ) from problem


def parse_example(message: bytes) -> Example:
    """The features of an example by name."""
    features: Example = {}
    for _, outer in _fields(message):
        for _, entry in _fields(outer):
            parts = dict(_fields(entry))
            features[parts[1].decode()] = _values(parts.get(2, b""))
    return features


def _values(feature: bytes) -> Values:
    for kind, content in _fields(feature):
        if kind == 1:
            return [value for _, value in _fields(content)]
        # Lists of numbers are one run of bytes, or one field for each.
        joined = b"".join(value for _, value in _fields(content))
        if kind == 2:
            return np.frombuffer(joined, dtype="<f4")
        if kind == 3:
            return np.array(_whole_numbers(joined), dtype=np.int64)
    return []


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each field of a protocol buffer."""
    at = 0
    while at < len(message):
        key, at = _whole_number(message, at)
        form = key & 7
        if form == 2:
            width, at = _whole_number(message, at)
        elif form in (1, 5):
            width = 8 if form == 1 else 4
        elif form == 0:
            width = _whole_number(message, at)[1] - at
        else:
            raise ValueError(f"a field of the unknown form {form}")
        if at + width > len(message):
            raise ValueError("it ends within a field")
        yield key >> 3, message[at : at + width]
        at += width


def _whole_numbers(content: bytes) -> list[int]:
    numbers, at = [], 0
    while at < len(content):
        number, at = _whole_number(content, at)
        # Negative ones are stored as their complement.
        numbers.append(number - (1 << 64) if number >> 63 else number)
    return numbers


def _whole_number(content: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first; and where it ends."""
    number = shift = 0
    while at < len(content) and shift < 64:
        byte = content[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
    raise ValueError("it ends within a number")
