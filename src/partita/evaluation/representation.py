"""What has a body learned? Accuracy without the head, how alike clients' layers are, and a map of features."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..core.network import BATCH_NORMS, Names
from ..core.objectives import Measures
from ..core.samples import Samples
from ..core.task import Task
from ..errors import DivergedError, PartitaError, unknown
from ..formatting import amount
from ..randomness import generator
from ..tensors import Tensors

Similarity = Literal["cosine", "euclidean"]


def templates(features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The mean feature of each class that is present, and these classes in order."""
    if not len(targets) or targets.ndim != 1 or targets.is_floating_point():
        raise PartitaError(
            "Templates need one class for each sample, "
            f"but targets are {targets.dtype} of shape {tuple(targets.shape)}."
        )
    classes, place, counts = torch.unique(targets, return_inverse=True, return_counts=True)
    flat = features.flatten(1)
    sums = flat.new_zeros(len(classes), flat.shape[1], dtype=torch.float64).index_add(0, place, flat.double())
    return (sums / counts[:, None]).to(features.dtype), classes


def similarities(features: Tensor, templates: Tensor, similarity: Similarity = "cosine") -> Tensor:
    """The similarity of each feature (row) to each template (column): the cosine, or the negative distance."""
    flat = features.flatten(1)
    if similarity == "cosine":
        return F.normalize(flat) @ F.normalize(templates).T
    if similarity == "euclidean":
        # Distances by way of a product lose digits where features are far from zero and near each other.
        return -torch.cdist(flat, templates, compute_mode="donot_use_mm_for_euclid_dist")
    raise PartitaError(unknown("similarity", similarity, get_args(Similarity)))


def nearest_template(features: Tensor, templates: Tensor, classes: Tensor, similarity: Similarity = "cosine") -> Tensor:
    """The class of the most similar template; a class without a template is never the answer."""
    return classes[similarities(features, templates, similarity).argmax(1)]


def without_head(
    task: Task,
    weights: Tensors,
    train: Samples,
    test: Samples,
    similarity: Similarity = "cosine",
    batch: int = 512,
    draw: torch.Generator | None = None,
) -> Measures:
    """The number of a client's test samples, and how many of them its body alone classifies correctly.

    Each sample is answered by the most similar template. Templates come from the client's training samples, without
    augmentation. `draw` shuffles the batches of a network that normalises by the batch.
    """
    known, classes = templates(body_features(task, weights, train, batch, draw), train.targets)
    answers = nearest_template(body_features(task, weights, test, batch, draw), known, classes, similarity)
    return {"count": len(test), "correct": int((answers == test.targets).sum())}


def body_features(
    task: Task, weights: Tensors, samples: Samples, batch: int = 512, draw: torch.Generator | None = None
) -> Tensor:
    """The inputs of the head, flattened, in the order of the samples. The network stays as it is."""
    task.evaluate_()
    parts = _batches(task, len(samples), batch, draw)
    with torch.no_grad():
        found = torch.cat([task.features(weights, samples.take(part).inputs).flatten(1) for part in parts])
    if not found.isfinite().all():
        raise DivergedError("Features are not finite. Lower the learning rate, or clip the gradient.")
    return found[torch.cat(parts).argsort()]


def layer_similarity(task: Task, weights: Sequence[Tensors]) -> dict[str, Tensor]:
    """For each layer, the cosine of every two clients' parameters, (clients, clients); 0 where all parameters are 0."""
    return {layer: _cosines(weights, names) for layer, names in _layers(task).items()}


def network_similarity(task: Task, weights: Sequence[Tensors]) -> Tensor:
    """The cosine of every two clients' parameters, all layers together: (clients, clients)."""
    return _cosines(weights, task.network.parameters)


def layer_cka(
    task: Task, weights: Sequence[Tensors], probe: Samples, batch: int = 512, draw: torch.Generator | None = None
) -> dict[str, Tensor]:
    """For each layer, the linear CKA of every two clients' outputs on common inputs: (clients, clients).

    It is 1 if outputs differ by rotation, scale and shift only, and NaN where one of them does not vary. With fewer
    samples than features it is large even by chance.

    The output of a layer with norms is that of the module that runs last. A layer that the network does not call as a
    module is left out. Memory grows with clients x layers x samples squared: use a probe of a few hundred samples.
    """
    if len(probe) < 2:
        raise PartitaError(f"The probe has {amount(len(probe), 'sample')}, but needs at least 2.")
    task.evaluate_()
    # One order for all clients: what differs is then the network and not its company.
    parts = _batches(task, len(probe), batch, draw)
    each = [_alignments(task, own, probe, parts) for own in weights]
    stacks = {layer: torch.stack([own[layer].flatten() for own in each]) for layer in each[0]}
    return {layer: stack @ stack.T for layer, stack in stacks.items()}


def embedding(features: Tensor, seed: int = 0, perplexity: float = 30.0) -> Tensor:
    """Coordinates of features in the plane by t-SNE, (samples, 2); the perplexity is lowered for few samples."""
    if len(features) < 2:
        raise PartitaError(f"The map has {amount(len(features), 'sample')}, but needs at least 2.")
    from sklearn.manifold import TSNE

    flat = features.detach().flatten(1).double().cpu().numpy()
    # About three neighbours for each of perplexity are looked at, and principal components need two columns.
    most = min(perplexity, (len(flat) - 1) / 3)
    begin = "pca" if min(flat.shape) > 1 and flat.std(0).any() else "random"
    found: Tensor = torch.from_numpy(TSNE(perplexity=most, init=begin, random_state=seed).fit_transform(flat))
    return found


def _batches(task: Task, count: int, batch: int, draw: torch.Generator | None) -> list[Tensor]:
    """Batches of nearly the same size: batch statistics of a single left-over sample would be meaningless, or fail."""
    if not count or batch < 1:
        raise PartitaError(f"{amount(count, 'sample')} in batches of {batch}: both numbers must be at least 1.")
    order = torch.arange(count)
    if _by_batch(task.module):
        order = torch.randperm(count, generator=draw or generator(0, "representation"))
    return list(order.tensor_split(math.ceil(count / batch)))


def _by_batch(module: nn.Module) -> bool:
    """Whether an output depends on the other samples of its batch. Batches sorted by class would reveal the class."""
    return any(isinstance(part, BATCH_NORMS) and part.running_mean is None for part in module.modules())


def _layers(task: Task) -> dict[str, Names]:
    """Parameters by layer, named by the module that holds the first of them."""
    network = task.network
    own = (tuple(name for name in unit if name not in network.buffers) for unit in network.units)
    return {names[0].rpartition(".")[0] or names[0]: names for names in own if names}


def _cosines(weights: Sequence[Tensors], names: Names) -> Tensor:
    rows = F.normalize(torch.stack([_joined(each, names, weights[0]) for each in weights]))
    return (rows @ rows.T).clamp(-1, 1)


def _joined(weights: Mapping[str, Tensor], names: Names, first: Mapping[str, Tensor]) -> Tensor:
    for name in names:
        if name not in weights or name not in first or weights[name].shape != first[name].shape:
            raise PartitaError(f"The clients' networks differ in {name}; compare clients of the same network.")
    return torch.cat([weights[name].detach().flatten().double() for name in names])


def _centred(features: Tensor) -> Tensor:
    """Features minus their mean, scaled to norm 1; NaN where only rounding errors are left."""
    flat = features.detach().flatten(1)
    wide = flat.double()
    centred = wide - wide.mean(0)
    norm = torch.linalg.norm(centred)
    rounding = 4 * torch.finfo(flat.dtype).eps * torch.linalg.norm(wide)
    return centred / norm if norm > rounding else torch.full_like(centred, math.nan)


def _alignment(centred: Tensor) -> Tensor:
    """The Gram matrix, scaled to norm 1: the alignment of two features is the inner product of theirs."""
    products = centred @ centred.T
    return F.normalize(products.flatten(), dim=0).view_as(products)


def _alignments(task: Task, weights: Tensors, probe: Samples, parts: Sequence[Tensor]) -> Tensors:
    outputs: dict[str, list[Tensor]] = {}
    with torch.no_grad():
        for part in parts:
            with _watched(task) as seen:
                task.outputs(weights, probe.take(part).inputs)
            for layer, output in seen.items():
                outputs.setdefault(layer, []).append(output.flatten(1))
    return {layer: _alignment(_centred(torch.cat(found))) for layer, found in outputs.items()}


@contextmanager
def _watched(task: Task) -> Iterator[Tensors]:
    """Records the output of each layer during a pass: that of its module that ran last."""
    seen: Tensors = {}

    def note(layer: str, _: nn.Module, __: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple | list) else output
        if isinstance(first, Tensor):
            # What follows may work in place.
            seen[layer] = first.clone()

    handles = [
        owner.register_forward_hook(partial(note, layer))
        for layer, names in _layers(task).items()
        for owner in dict.fromkeys(task.network.owners[name] for name in names)
    ]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
