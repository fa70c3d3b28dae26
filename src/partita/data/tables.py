"""How are tables read? Rows of csv or of JSON-lines, with errors that name file, row and column."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from ..errors import PartitaError, unknown
from ..parsing import parse_json
from .arrays import reading
from .sources._files import read_bytes

Rows = Iterator[tuple[int, list[str]]]
"""The number of the line, and the values of the columns asked for."""


def rows_of(path: Path, columns: Sequence[str], optional: Sequence[str] = ()) -> Rows:
    """The columns asked for of a .csv or .jsonl file, which may be compressed by gzip.

    Values of optional columns are empty where the file does not have them.
    """
    with reading(path, "text"), open_text(path) as stream:
        yield from (_json_rows if _is_json(path) else csv_rows)(stream, path, columns, optional)


def columns_of(path: Path) -> list[str]:
    """The names of all columns of a .csv file, or of the first row of a .jsonl file; none if it has no rows."""
    with reading(path, "text"), open_text(path) as stream:
        if not _is_json(path):
            return [name.strip() for name in next(plain_rows(stream, path), (1, []))[1]]
        return next((list(row) for _, row in _json_objects(stream, path, ["text"])), [])


def open_text(path: Path) -> TextIO:
    """A file of text, decompressed where its name ends in .gz."""
    return text_stream(read_bytes(path)) if path.suffix == ".gz" else path.open(encoding="utf-8-sig", newline="")


def csv_rows(stream: TextIO, path: Path | str, columns: Sequence[str], optional: Sequence[str] = ()) -> Rows:
    """The columns asked for, by the names in the first line."""
    lines = plain_rows(stream, path)
    _, head = next(lines, (1, []))
    names = [name.strip() for name in head]
    for column in columns:
        if column not in names:
            raise PartitaError(f"{path}: {unknown('column', column, names)}")
    places = [names.index(column) if column in names else None for column in (*columns, *optional)]
    for line, row in lines:
        if len(row) != len(names):
            raise PartitaError(f"{path}, line {line}: {len(row)} values for {len(names)} columns.")
        yield line, ["" if place is None else row[place] for place in places]


def plain_rows(stream: TextIO, path: Path | str) -> Rows:
    """Every row that is not empty, without regard to a head."""
    reader = csv.reader(stream)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except UnicodeDecodeError as problem:
        raise PartitaError(f"{path} cannot be read as text: {problem}, after line {reader.line_num}.") from problem
    except csv.Error as problem:
        raise PartitaError(f"{path}, line {reader.line_num}: {problem}.") from problem


def _is_json(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith((".jsonl", ".json"))


def _json_objects(stream: TextIO, path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, object]]]:
    for line, text in enumerate(stream, 1):
        if not text.strip():
            continue
        try:
            row = parse_json(text)
        except ValueError as problem:
            raise PartitaError(f"{path}, line {line} is not JSON: {problem}.") from problem
        if not isinstance(row, dict):
            raise PartitaError(f"{path}, line {line} is not an object with {', '.join(columns)}.")
        yield line, row


def _json_rows(stream: TextIO, path: Path, columns: Sequence[str], optional: Sequence[str]) -> Rows:
    for line, row in _json_objects(stream, path, columns):
        if lacking := [column for column in columns if row.get(column) is None]:
            raise PartitaError(f"{path}, line {line}: {unknown('column', lacking[0], row)}")
        values = [row.get(column) for column in (*columns, *optional)]
        yield line, ["" if value is None else str(value) for value in values]


def whole(text: str, path: Path | str, line: int, least: int, most: int) -> int:
    """A whole number of a column, within bounds."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not (value.is_integer() and least <= value <= most):
        raise PartitaError(f"{path}, line {line}: {text!r} is not a whole number from {least} to {most}.")
    return int(value)


def text_stream(content: bytes) -> TextIO:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
