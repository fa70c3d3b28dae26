"""Texts in a table."""

from pathlib import Path

import numpy as np

from ...errors import PartitaError
from ..arrays import Units, naming
from ..pool import Pool
from ..source import source
from ..tables import rows_of
from ..text import text_pool

USUAL_CLIENT = "client"


@source
def csv_text(
    *,
    path: str,
    text_columns: tuple[str, ...] = ("text",),
    label_column: str | None = "label",
    client_column: str | None = None,
    test_path: str | None = None,
    text: Units = "words",
) -> Pool:
    """Texts of a .csv or .jsonl file, which may end in .gz; without a column of labels the next word is predicted.

    A column `client` names the client of each text, unless another column is given or this one holds texts or labels.
    """
    if not text_columns:
        raise PartitaError("text_columns is empty, but must name at least one column.")
    named = [column for column in (label_column, client_column) if column is not None]
    # A file that has this column needs no setting for it.
    usual = [USUAL_CLIENT] if client_column is None and USUAL_CLIENT not in (*text_columns, label_column) else []
    files = [Path(file) for file in (path, test_path) if file is not None]
    rows: list[list[str]] = []
    tested: list[bool] = []
    for number, file in enumerate(files):
        rows += [values for _, values in rows_of(file, [*text_columns, *named], usual)]
        tested += [number == 1] * (len(rows) - len(tested))
    if not rows:
        raise PartitaError(f"{path} has no rows.")
    has_clients = client_column is not None or any(row[-1] for row in rows if usual)
    with naming(path):
        return text_pool(
            files[0].name.split(".")[0],
            [" ".join(row[: len(text_columns)]) for row in rows],
            np.array([row[len(text_columns)] for row in rows], dtype=object) if label_column else None,
            characters=text == "characters",
            clients=np.array([row[-1] for row in rows]) if has_clients else None,
            official_test=np.array(tested) if test_path is not None else None,
        )
