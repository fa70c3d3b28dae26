"""Do equal rows stand in train and in test? Found by content, counted, and above a small share refused."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ..errors import PartitaError
from .pool import Pool, Texts
from .split import Role


def check_duplicates(pool: Pool, roles: Sequence[Mapping[Role, Tensor]], most: float) -> list[str]:
    """Count test rows that equal a training row, and return notes; more than the share `most` is an error."""
    if not pool.rows_identify:
        return []
    hashes = row_hashes(pool)
    learned = np.concatenate([hashes[rows.numpy()] for each in roles for role, rows in each.items() if role != "test"])
    tested = np.concatenate([hashes[each["test"].numpy()] for each in roles])
    known = int(np.isin(tested, learned).sum())
    share = known / len(tested)
    if share > most:
        raise PartitaError(
            f"{pool.name}: {known} of {len(tested)} test rows ({100 * share:.1f} %) equal a row of the training data. "
            "Was the test file given as training file? Remove duplicates, or raise most_duplicates if they are meant."
        )
    return [f"{known} of {len(tested)} test rows equal a training row"] if known else []


def row_hashes(pool: Pool) -> npt.NDArray[np.uint64]:
    """A hash of each row's input: equal rows have equal hashes; others differ, but for a chance of 1 in 2^64."""
    if isinstance(pool.inputs, Texts):
        weights = _odd(int(np.diff(pool.inputs.bounds).max(initial=0)) + 1)
        within = np.arange(len(pool.inputs.tokens)) - np.repeat(pool.inputs.bounds[:-1], np.diff(pool.inputs.bounds))
        terms = (pool.inputs.tokens.astype(np.uint64) + np.uint64(1)) * weights[within]
        sums = np.concatenate([[np.uint64(0)], np.cumsum(terms, dtype=np.uint64)])
        ends: npt.NDArray[np.uint64] = sums[pool.inputs.bounds]
        return np.diff(ends)
    rows = pool.inputs.reshape(len(pool.inputs), -1).contiguous().numpy().view(np.uint8).reshape(len(pool.inputs), -1)
    padded = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 8))) if rows.shape[1] % 8 else rows
    words = padded.view(np.uint64)
    weights = _odd(words.shape[1])
    hashes = np.zeros(len(words), dtype=np.uint64)
    for at in range(0, len(words), 4096):
        block = words[at : at + 4096]
        mixed = (block ^ (block >> np.uint64(29))) * weights
        hashes[at : at + 4096] = (mixed ^ (mixed >> np.uint64(32))).sum(1, dtype=np.uint64)
    return hashes


def _odd(count: int) -> npt.NDArray[np.uint64]:
    draw = np.random.default_rng(20221)
    return draw.integers(0, 2**63, count, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
