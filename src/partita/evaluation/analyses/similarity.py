"""How alike are clients' models? By layer: the cosine of their weights, and the alignment (CKA) of their outputs.

CKA on identical test samples as in Chen et al., 2024 (FLAYER), figure 2; the cosine as in Oh et al., 2022 (FedBABU),
figure 12.
"""

import math
from collections.abc import Sequence
from statistics import fmean

import torch
from torch import Tensor

from ...formatting import listed
from ..analysis import Analysis, Findings, Result
from ..figures import Cells, Figure, Line, Lines, Table
from ..metric import Metric
from ..population import Population
from ..representation import layer_cka, layer_similarity, network_similarity
from ..seeds import Numbers
from ._common import common_test

CLIENTS = 50
"""What is held in memory grows with clients, layers and samples squared."""
SAMPLES = 200
KINDS = {"cosine": "Cosine of parameters", "cka": "Alignment (CKA) of outputs"}
ALL_BUT_ONE = 1 - 1e-6
"""A cosine above this is one but for rounding."""


def similarity(*, clients: int = CLIENTS, samples: int = SAMPLES) -> Analysis:
    """Cosine of weights and CKA of outputs by layer, over pairs of clients; and a matrix of clients."""
    return Analysis(
        name="similarity",
        title="How alike clients' layers are",
        compute=lambda population: _similarities(population, clients, samples),
        obstacle=_needs_pairs,
        tables=_tables,
        figures=_figures,
        numbers=_numbers,
        place=40,
    )


def _needs_pairs(population: Population) -> str | None:
    return None if len(population.sample(2)) > 1 else "One client alone cannot be compared."


def _similarities(population: Population, most: int, samples: int) -> Result:
    """Means and deviations over all pairs of clients, of the models that are meant to be used.

    None where weights are all 0, a layer's outputs do not vary, or the network does not call it as a module.
    """
    probe = common_test(population.data, samples).alone(device=population.task.device)
    given = [(models.client, models.weights(models.used), models.batch) for models in population.models(most)]
    task, weights = given[0][0].task, [each for _, each, _ in given]
    cosines = layer_similarity(task, weights)
    alignments = layer_cka(task, weights, probe, given[0][2])
    pairs = {
        "cosine": [_over_pairs(matrix) for matrix in cosines.values()],
        "cka": [_over_pairs(alignments[layer]) if layer in alignments else (None, None) for layer in cosines],
    }
    return {
        "clients": [client.id for client, _, _ in given],
        "samples": len(probe),
        "layers": list(cosines),
        **{name: [mean for mean, _ in each] for name, each in pairs.items()},
        **{f"{name}_std": [deviation for _, deviation in each] for name, each in pairs.items()},
        "cka_by_client": [_to_others(alignments[layer]) if layer in alignments else None for layer in cosines],
        "matrix": network_similarity(task, weights).tolist(),
    }


def _over_pairs(matrix: Tensor) -> tuple[float | None, float | None]:
    """Mean and deviation of the entries above the diagonal; None where a diagonal entry is not positive.

    A client's similarity to itself is 1, unless its weights are all 0 or its outputs do not vary.
    """
    if not bool((matrix.diagonal() > 0).all()):
        return None, None
    rows, columns = torch.triu_indices(len(matrix), len(matrix), offset=1)
    values = matrix[rows, columns]
    return float(values.mean()), float(values.std(correction=0))


def _to_others(matrix: Tensor) -> list[float] | None:
    """The mean similarity of each client to the others; None where one is not similar to itself."""
    if not bool((matrix.diagonal() > 0).all()):
        return None
    means: list[float] = ((matrix.sum(1) - matrix.diagonal()) / (len(matrix) - 1)).tolist()
    return means


def _tables(result: Result, metric: Metric) -> list[Table]:
    rows = []
    for at, layer in enumerate(result["layers"]):
        cells = ((result[name][at], result[f"{name}_std"][at]) for name in KINDS)
        rows.append([layer, *("-" if mean is None else f"{mean:.3f} ± {std:.3f}" for mean, std in cells)])
    note = f"Mean ± spread over pairs of {len(result['clients']):,} clients."
    return [Table(["layer", "cosine of weights", "alignment (CKA)"], rows, note=note)]


def _numbers(result: Result) -> Numbers:
    """Where outputs do not vary there is no alignment."""
    cells = {
        str(layer): {
            name: value if (value := result[kind][at]) is not None and math.isfinite(value) else None
            for kind, name in (("cosine", "cosine of weights"), ("cka", "alignment (CKA)"))
        }
        for at, layer in enumerate(result["layers"])
    }
    return Numbers(cells, of="similarity")


def _figures(findings: Sequence[Findings], metric: Metric) -> list[Figure]:
    same = [each.method for each in findings if _least(each.results[0]) > ALL_BUT_ONE]
    figures: list[Figure] = [chart for kind, title in KINDS.items() for chart in _by_layer(findings, kind, title)]
    figures += [_matrix(each) for each in findings if each.method not in same]
    return figures + ([f"{listed(same)}: all clients hold the same network."] if same else [])


def _least(result: Result) -> float:
    return min(float(value) for row in result["matrix"] for value in row)


def _by_layer(findings: Sequence[Findings], kind: str, title: str) -> list[Lines]:
    names = list(
        dict.fromkeys(str(layer) for each in findings for result in each.results for layer in result["layers"])
    )
    known = [(each, means) for each in findings if (means := _means(names, each.results, kind))]
    if not known:
        return []
    lines = [Line(each.method, [(place, mean) for place, mean, _ in means], each.number) for each, means in known]
    rows = [
        [each.method, names[place], f"{mean:.3f}", f"{std:.3f}"] for each, means in known for place, mean, std in means
    ]
    table = Table(["method", "layer", "mean over pairs", "spread over pairs"], rows)
    note = "Mean over pairs of clients; 1: all clients alike."
    return [Lines(title, lines, "layer", table, y="similarity", categories=names, note=note)]


def _means(names: Sequence[str], results: Sequence[Result], kind: str) -> list[tuple[int, float, float]]:
    """Places of layers with the mean and the spread over pairs, of all runs, without layers that were not measured."""
    found = []
    for place, layer in enumerate(names):
        pairs = [
            pair
            for result in results
            for name, *pair in zip(result["layers"], result[kind], result[f"{kind}_std"], strict=True)
            # Where outputs do not vary there is no alignment.
            if name == layer and pair[0] is not None and math.isfinite(pair[0])
        ]
        if pairs:
            found.append((place, fmean(mean for mean, _ in pairs), fmean(std for _, std in pairs)))
    return found


def _matrix(findings: Findings) -> Cells:
    """The matrix of the first run."""
    result = findings.results[0]
    return Cells(
        title=f"{findings.method}: pairs of clients",
        names=[findings.name_of(client) for client in result["clients"]],
        values=result["matrix"],
        of="client",
        note="Cosine of whole networks.",
    )
