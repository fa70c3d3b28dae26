"""Activities by smartphone sensors, raw. Reyes-Ortiz et al., 2016 (UCI, HAPT)."""

import warnings
from pathlib import Path

import numpy as np

from ..arrays import reading
from ..errors import PartitaError
from ..pool import Array, Pool, pool
from ._named import absent, locate, stored

WINDOW, STEP = 128, 64
ACTIVITIES = 6
"""Numbers 7 to 12 are changes of posture, which last too short."""


def hapt() -> Pool:
    """HAPT: accelerometer and gyroscope of 30 people, 6 channels x 128 samples at 50 Hz, 6 activities.

    From hapt.npz, or from UCI's RawData: each labelled stretch is cut into windows that overlap by half.
    """
    found = stored("hapt", classes=ACTIVITIES, shape=(6, WINDOW))
    if found is not None:
        return found
    folder = locate("hapt", "RawData", "HAPT Data Set/RawData")
    if folder is None:
        raise absent("hapt", "the folder RawData of UCI's archive (acc_exp..., gyro_exp... and labels.txt)")
    return _read(folder)


def _read(folder: Path) -> Pool:
    windows: list[Array] = []
    labels: list[int] = []
    people: list[int] = []
    signals: dict[tuple[int, int], Array] = {}
    for row, values in enumerate(_table(folder / "labels.txt", 5).astype(int).tolist(), 1):
        experiment, person, activity, first, last = values
        if not 1 <= activity <= 2 * ACTIVITIES or not 1 <= first <= last:
            raise PartitaError(
                f"{folder / 'labels.txt'}, row {row}: {values} is no activity 1..12 with first and last."
            )
        if (experiment, person) not in signals:
            signals[experiment, person] = _signals(folder, experiment, person)
        signal = signals[experiment, person]
        if last > signal.shape[1]:
            raise PartitaError(f"{folder / 'labels.txt'}, row {row}: {last} is after the end of the recording.")
        if activity <= ACTIVITIES:
            # Samples are numbered from 1, and the last belongs to the stretch.
            starts = range(first - 1, last - WINDOW + 1, STEP)
            windows += [signal[:, start : start + WINDOW] for start in starts]
            labels += [activity - 1] * len(starts)
            people += [person] * len(starts)
    if not windows:
        raise PartitaError(f"{folder} has no stretch of an activity that is {WINDOW} samples long.")
    return pool("hapt", np.stack(windows), np.array(labels), classes=ACTIVITIES, clients=np.array(people))


def _signals(folder: Path, experiment: int, person: int) -> Array:
    """Six channels: acceleration and angular velocity."""
    files = [folder / f"{sensor}_exp{experiment:02d}_user{person:02d}.txt" for sensor in ("acc", "gyro")]
    parts = [_table(file, 3) for file in files]
    if len(parts[0]) != len(parts[1]):
        raise PartitaError(f"{files[1]} has {len(parts[1])} rows, but {files[0].name} has {len(parts[0])}.")
    return np.concatenate(parts, axis=1, dtype=np.float32).T


def _table(file: Path, columns: int) -> Array:
    with reading(file, f"rows of {columns} numbers"):
        with warnings.catch_warnings():
            # An empty file is an error here, and needs no warning beside.
            warnings.simplefilter("ignore")
            values: Array = np.loadtxt(file, dtype=np.float64, ndmin=2)
        if values.shape[1] != columns or not len(values):
            raise ValueError(f"it has {len(values)} rows and {values.shape[1]} columns")
    return values
