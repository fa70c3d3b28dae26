"""Activities by smartphone sensors, raw. Reyes-Ortiz et al., 2016 (UCI, HAPT)."""

import io
import warnings

import numpy as np

from ...errors import PartitaError
from ..arrays import reading
from ..download import Remote, obtain
from ..pool import Array, Pool, pool
from ..source import source
from ._files import Tree
from ._named import locate, stored

# UCI publishes no checksum: the first download's is kept.
ARCHIVE = Remote(
    "hapt/HAPT Data Set.zip",
    "https://archive.ics.uci.edu/static/public/341/"
    "smartphone+based+recognition+of+human+activities+and+postural+transitions.zip",
)
FOLDERS = ("RawData", "HAPT Data Set/RawData")
WINDOW, STEP = 128, 64
ACTIVITIES = ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "laying")
"""Activities 7 to 12 are changes of posture, which are too short for a window."""


@source
def hapt() -> Pool:
    """HAPT: accelerometer and gyroscope of 30 people, 6 channels x 128 samples at 50 Hz, 6 activities.

    From hapt.npz, or from UCI's archive or its folder RawData: each labelled stretch is cut into windows that overlap
    by half.
    """
    found = stored("hapt", classes=len(ACTIVITIES), shape=(6, WINDOW))
    if found is not None:
        return found.named(ACTIVITIES)
    with Tree(locate("hapt", *FOLDERS, "HAPT Data Set.zip") or obtain([ARCHIVE])[0]) as tree:
        inner = "" if tree.path.is_dir() else next((f"{each}/" for each in FOLDERS if tree.files(each)), "RawData/")
        return _read(tree, inner).named(ACTIVITIES)


def _read(tree: Tree, inner: str) -> Pool:
    where = f"{tree.path}: {inner}labels.txt"
    windows: list[Array] = []
    labels: list[int] = []
    people: list[int] = []
    signals: dict[tuple[int, int], Array] = {}
    for row, values in enumerate(_table(tree, f"{inner}labels.txt", 5).astype(int).tolist(), 1):
        experiment, person, activity, first, last = values
        if not 1 <= activity <= 2 * len(ACTIVITIES) or not 1 <= first <= last:
            raise PartitaError(
                f"{where}, row {row}: {values} must be an experiment, a person, an activity from 1 to "
                f"{2 * len(ACTIVITIES)}, its first and its last sample."
            )
        if (experiment, person) not in signals:
            signals[experiment, person] = _signals(tree, inner, experiment, person)
        signal = signals[experiment, person]
        if last > signal.shape[1]:
            raise PartitaError(f"{where}, row {row}: {last} is after the end of the recording.")
        if activity <= len(ACTIVITIES):
            # Samples are numbered from 1, and the last belongs to the stretch.
            starts = range(first - 1, last - WINDOW + 1, STEP)
            windows += [signal[:, start : start + WINDOW] for start in starts]
            labels += [activity - 1] * len(starts)
            people += [person] * len(starts)
    if not windows:
        raise PartitaError(f"{tree.path} has no stretch of an activity that is {WINDOW} samples long.")
    return pool("hapt", np.stack(windows), np.array(labels), classes=len(ACTIVITIES), clients=np.array(people))


def _signals(tree: Tree, inner: str, experiment: int, person: int) -> Array:
    """Six channels: acceleration and angular velocity."""
    files = [f"{inner}{sensor}_exp{experiment:02d}_user{person:02d}.txt" for sensor in ("acc", "gyro")]
    parts = [_table(tree, file, 3) for file in files]
    if len(parts[0]) != len(parts[1]):
        raise PartitaError(f"{tree.path}: {files[1]} has {len(parts[1])} rows, but {files[0]} has {len(parts[0])}.")
    return np.concatenate(parts, axis=1, dtype=np.float32).T


def _table(tree: Tree, file: str, columns: int) -> Array:
    content = tree.read(file)
    with reading(f"{tree.path}: {file}", f"rows of {columns} numbers"):
        with warnings.catch_warnings():
            # An empty file is an error here, and needs no further warning.
            warnings.simplefilter("ignore")
            values: Array = np.loadtxt(io.BytesIO(content), dtype=np.float64, ndmin=2)
        if values.shape[1] != columns or not len(values):
            raise ValueError(f"it has {len(values)} rows and {values.shape[1]} columns")
    return values
