"""How alike are clients' models? By layer: the cosine of their weights, and the alignment (CKA) of what they put out.

CKA on identical test samples as in Chen et al., 2024 (FLAYER), figure 2; the cosine as in Oh et al., 2022 (FedBABU),
figure 12.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ...core.samples import Samples
from ...errors import PartitaError
from ..representation import layer_cka, layer_similarity, network_similarity
from .subject import Subject


def similarity(subjects: Iterable[Subject], probe: Samples, batch: int = 512) -> dict[str, Any]:
    """Means and deviations over all pairs of clients, of the models that are meant to be used.

    None where weights are all 0, a layer's outputs do not vary, or the network does not call it as a module.
    """
    given = [(subject.client, subject.weights(subject.used)) for subject in subjects]
    if len(given) < 2:
        raise PartitaError("One client alone has nobody to be compared with.")
    task, weights = given[0][0].task, [each for _, each in given]
    cosines = layer_similarity(task, weights)
    alignments = layer_cka(task, weights, probe, batch)
    pairs = {
        "cosine": [_over_pairs(matrix) for matrix in cosines.values()],
        "cka": [_over_pairs(alignments[layer]) if layer in alignments else (None, None) for layer in cosines],
    }
    return {
        "clients": [client.id for client, _ in given],
        "samples": len(probe),
        "layers": list(cosines),
        **{name: [mean for mean, _ in each] for name, each in pairs.items()},
        **{f"{name}_std": [deviation for _, deviation in each] for name, each in pairs.items()},
        "matrix": network_similarity(task, weights).tolist(),
    }


def _over_pairs(matrix: Tensor) -> tuple[float | None, float | None]:
    """Mean and deviation of the entries above the diagonal; None where somebody is not even similar to itself."""
    if not bool((matrix.diagonal() > 0).all()):
        return None, None
    rows, columns = torch.triu_indices(len(matrix), len(matrix), offset=1)
    values = matrix[rows, columns]
    return float(values.mean()), float(values.std(correction=0))
