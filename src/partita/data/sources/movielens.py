"""MovieLens. Harper and Konstan, 2015, https://grouplens.org/datasets/movielens"""

from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import Tensor

from ...errors import PartitaError
from ..arrays import naming
from ..download import Remote, obtain
from ..pool import Pool, pool
from ..source import source
from ..tables import Rows, csv_rows, rows_of, text_stream
from ._files import Tree
from ._named import locate, stored

# TensorFlow Datasets lists size and SHA-256 (url_checksums/movielens.txt).
ARCHIVE = Remote(
    "movielens/ml-latest-small.zip",
    "https://files.grouplens.org/datasets/movielens/ml-latest-small.zip",
    sha256="696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436",
    size=978_202,
)
COLUMNS = ("userId", "movieId", "rating")


@source
def movielens() -> Pool:
    """MovieLens: 100,836 ratings of 9,724 films by 610 people (ml-latest-small); the rating is predicted."""
    found = stored("movielens", kind="regression")
    if found is None:
        path = locate("movielens", "ml-latest-small/ratings.csv", "ml-latest-small.zip", "ratings.csv")
        found = _read(path or obtain([ARCHIVE])[0])
    if not isinstance(found.inputs, Tensor) or found.inputs.is_floating_point() or bool((found.inputs < 0).any()):
        raise PartitaError("movielens.npz: x must be numbers of films, from 0.")
    # Many people rate the same film.
    return replace(found, facts={"items": int(found.inputs.max()) + 1}, rows_identify=False)


def _read(path: Path) -> Pool:
    if path.suffix == ".zip":
        with Tree(path) as tree:
            stream = text_stream(tree.read("ml-latest-small/ratings.csv"))
        return _pool(path, csv_rows(stream, path, COLUMNS))
    return _pool(path, rows_of(path, COLUMNS))


def _pool(path: Path, rows: Rows) -> Pool:
    people, films, ratings = [], [], []
    for line, (person, film, rating) in rows:
        try:
            people.append(int(person))
            films.append(int(film))
            ratings.append(float(rating))
        except ValueError as problem:
            raise PartitaError(f"{path}, line {line}: {problem}.") from problem
    numbers = np.unique(np.array(films, dtype=np.int64), return_inverse=True)[1]
    with naming(path):
        return pool("movielens", numbers, np.array(ratings), kind="regression", clients=np.array(people))
