"""Real data by name. They are not part of the project: where they are absent, these tests are skipped."""

import gzip
import hashlib
import importlib.util
import os
import shutil
import struct
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor

from partita.data import text
from partita.data.duplicates import row_hashes
from partita.data.federation import federate
from partita.data.pool import Pool, Texts
from partita.data.sources.ag_news import ag_news
from partita.data.sources.cifar10 import cifar10
from partita.data.sources.cifar100 import cifar100
from partita.data.sources.hapt import hapt
from partita.data.sources.mnist import mnist
from partita.data.sources.mnist_writers import mnist_writers
from partita.data.sources.movielens import movielens
from partita.data.sources.shakespeare import shakespeare
from partita.data.splits.dirichlet import dirichlet
from partita.data.splits.iid import iid
from partita.data.splits.natural import natural

Export = Callable[[str], Path]


def shared_folder() -> Path | None:
    """The folder that holds export.py: named by PARTITA_SHARED, or beside this repository."""
    given = os.environ.get("PARTITA_SHARED")
    base = Path(given) if given else Path(__file__).resolve().parents[3] / "shared"
    return next((each for each in (base, base / "data") if (each / "export.py").is_file()), None)


@pytest.fixture(scope="module")
def exporter() -> ModuleType:
    folder = shared_folder()
    if folder is None:
        pytest.skip("real data: no export.py in ../shared/data nor in PARTITA_SHARED")
    spec = importlib.util.spec_from_file_location("export", folder / "export.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def export(exporter: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Export]:
    """Writes a set as NAME.npz into the data folder, once."""
    folder = tmp_path_factory.mktemp("real")

    def write(name: str) -> Path:
        path = folder / "data" / f"{name}.npz"
        if not path.exists():
            if name.startswith("cifar"):
                pytest.importorskip("PIL.Image", reason="real data: export.py needs Pillow for CIFAR")
            path.parent.mkdir(exist_ok=True)
            with warnings.catch_warnings():
                # That the exporter leaves files open is not what is tested here.
                warnings.simplefilter("ignore", ResourceWarning)
                arrays = exporter.SETS[name]()
            np.savez(path, **arrays)
        return path

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARTITA_DATA", str(folder / "data"))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield write
    # Hundreds of megabytes that pytest would keep.
    shutil.rmtree(folder)


def inputs_of(pool: Pool) -> Tensor:
    assert isinstance(pool.inputs, Tensor)
    return pool.inputs


def texts_of(pool: Pool) -> Texts:
    assert isinstance(pool.inputs, Texts)
    return pool.inputs


def sizes(pool: Pool) -> tuple[int, int]:
    """The number of training and of test rows."""
    return len(pool.rows(test=False)), len(pool.rows(test=True))


def duplicates(pool: Pool) -> int:
    return len(pool) - len(np.unique(row_hashes(pool)))


def test_cifar10(export: Export) -> None:
    export("cifar10")
    pool = cifar10()
    made = federate(pool, dirichlet(clients=20))
    assert (len(made), made.classes, made.shape, sum(made.sizes) > 30_000) == (20, 10, (3, 32, 32), True)
    assert sizes(pool) == (50_000, 10_000)
    assert torch.bincount(pool.targets).tolist() == [6000] * 10
    assert pool.targets[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert inputs_of(pool)[0, :, 0, 0].tolist() == [59, 62, 63]
    mean = inputs_of(pool)[:50_000].to(torch.float32).mean((0, 2, 3)) / 255
    torch.testing.assert_close(mean, torch.tensor([0.4914, 0.4822, 0.4465]), atol=1e-3, rtol=0)
    assert duplicates(pool) == 0


def test_cifar100_has_duplicates(export: Export) -> None:
    export("cifar100")
    pool = cifar100()
    assert (sizes(pool), pool.classes) == ((50_000, 10_000), 100)
    assert torch.bincount(pool.targets).tolist() == [600] * 100
    assert pool.targets[:5].tolist() == [19, 29, 0, 11, 1]
    assert duplicates(pool) == 26
    notes = federate(pool, iid(clients=20)).origin["notes"]
    assert isinstance(notes, list)
    (note,) = (note for note in notes if "equal a training row" in note)
    assert 1 <= int(note.split()[0]) <= 60


def test_mnist_by_writer(export: Export) -> None:
    export("mnist_writers")
    pool = mnist_writers(official=True)
    assert (sizes(pool), len(pool.client_names), inputs_of(pool).shape[1:]) == ((60_000, 10_000), 836, (1, 28, 28))
    made = federate(mnist_writers())
    assert len(made) == 836
    assert min(made.sizes) >= 5


def test_mnist_in_its_official_form(export: Export) -> None:
    """The images, written as IDX, are the published files to the bit; read again they are the same images."""
    with np.load(export("mnist_writers")) as arrays:
        images = np.concatenate([arrays["x_train"], arrays["x_test"]])
        labels = np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(np.uint8)
    folder = Path(os.environ["PARTITA_DATA"]) / "mnist"
    folder.mkdir(exist_ok=True)
    for part, rows in (("train", slice(0, 60_000)), ("t10k", slice(60_000, 70_000))):
        count = rows.stop - rows.start
        pixels = struct.pack(">4B3I", 0, 0, 8, 3, count, 28, 28) + images[rows].tobytes()
        (folder / f"{part}-images-idx3-ubyte").write_bytes(pixels)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(
            struct.pack(">4BI", 0, 0, 8, 1, count) + labels[rows].tobytes()
        )
        if part == "train":
            assert hashlib.md5(pixels, usedforsecurity=False).hexdigest() == "6bbc9ace898e44ae57da46a324031adb"
    pool = mnist()
    assert sizes(pool) == (60_000, 10_000)
    assert torch.equal(inputs_of(pool)[:, 0], torch.from_numpy(images))


def test_hapt(export: Export) -> None:
    export("hapt")
    pool = hapt()
    assert (len(pool), len(pool.client_names), inputs_of(pool).shape[1:]) == (10_411, 30, (6, 128))
    assert torch.bincount(pool.targets).tolist() == [1722, 1544, 1407, 1801, 1979, 1958]
    assert len(federate(pool)) == 30


def test_ag_news(export: Export) -> None:
    export("ag_news")
    pool = ag_news()
    assert (sizes(pool), pool.classes) == ((19_855, 7_600), 4)
    assert torch.bincount(pool.targets[pool.rows(test=True)]).tolist() == [1900] * 4
    made = federate(pool, iid(clients=20), vocabulary=5000, length=50)
    assert (made.shape, made.facts["vocabulary"]) == ((50,), 5004)


def test_shakespeare_is_tokenised_once(export: Export, monkeypatch: pytest.MonkeyPatch) -> None:
    with np.load(export("shakespeare")) as arrays:
        lengths = np.char.str_len(arrays["x"])
    pool = shakespeare()
    assert (len(lengths), len(pool.client_names)) == (30_913, 1346)
    assert len(pool) == np.maximum(np.ceil(lengths / 80), 1).sum()
    assert len(texts_of(pool).tokens) == lengths.sum() > 4_000_000
    made = federate(pool, natural(test=0.25, smallest_train=20), length=80)
    assert len(made) > 200
    assert made.shape == (80,)

    def refuse(*_: object, **__: object) -> Texts:
        raise AssertionError("tokenised again")

    monkeypatch.setattr(text, "tokenize", refuse)
    assert np.array_equal(texts_of(shakespeare()).tokens, texts_of(pool).tokens)


def test_movielens(export: Export) -> None:
    export("movielens")
    pool = movielens()
    assert (len(pool), len(pool.client_names), pool.facts) == (100_836, 610, {"items": 9724})
    assert (pool.kind, float(pool.targets.min()), float(pool.targets.max())) == ("regression", 0.5, 5.0)
    assert len(federate(pool)) == 610


def test_movielens_in_its_official_form(exporter: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packed = Path(str(exporter.HERE)) / "movielens" / "ml-latest-small_ratings.csv.gz"
    (tmp_path / "ml-latest-small").mkdir()
    (tmp_path / "ml-latest-small" / "ratings.csv").write_bytes(gzip.decompress(packed.read_bytes()))
    monkeypatch.setenv("PARTITA_DATA", str(tmp_path))
    pool, arrays = movielens(), exporter.movielens()
    assert np.array_equal(inputs_of(pool).numpy(), arrays["x"])
    assert np.array_equal(pool.targets.numpy(), arrays["y"].astype(np.float32))
    assert pool.clients is not None
    assert [int(pool.client_names[each]) for each in pool.clients] == arrays["client"].tolist()
