"""AG News. Zhang, Zhao, LeCun, 2015, https://arxiv.org/abs/1509.01626"""

import re
from pathlib import Path

import numpy as np

from ...errors import PartitaError
from ..arrays import reading
from ..download import Remote, find, obtain
from ..pool import Pool
from ..source import source
from ..tables import open_text, plain_rows, whole
from ..text import text_pool
from ._named import stored

HOME = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/"
FILES = {"train.csv": "b1a00f826fdfbd249f79597b59e1dc12", "test.csv": "d52ea96a97a2d943681189a97654912d"}
NAMES = ("World", "Sports", "Business", "Sci/Tech")


@source
def ag_news() -> Pool:
    """AG News: the title and first lines of 127,600 articles of 4 classes (world, sports, business, science)."""
    return (stored("ag_news", classes=4) or _read()).named(NAMES)


def _read() -> Pool:
    texts: list[str] = []
    labels: list[int] = []
    tested: list[bool] = []
    for file, md5 in FILES.items():
        # Never from a data folder itself: too many files have these names.
        known = [f"{folder}/{file}{end}" for folder in ("ag_news", "ag_news_csv") for end in ("", ".gz")]
        path = find(*known) or obtain([Remote(f"ag_news/{file}", HOME + file, md5)])[0]
        _append_(path, texts, labels)
        tested += [file == "test.csv"] * (len(texts) - len(tested))
    return text_pool("ag_news", texts, np.array(labels), classes=4, official_test=np.array(tested))


def _append_(path: Path, texts: list[str], labels: list[int]) -> None:
    with reading(path, "text"), open_text(path) as stream:
        for line, row in plain_rows(stream, path):
            if len(row) != 3:
                raise PartitaError(f"{path}, line {line}: {len(row)} values, not label, title and description.")
            if line == 1 and row[0].strip().lower() == "class index":
                continue
            labels.append(whole(row[0], path, line, 1, 4) - 1)
            # Line breaks were written as backslashes.
            texts.append(re.sub(r"[\\\s]+", " ", f"{row[1]} {row[2]}").strip())
