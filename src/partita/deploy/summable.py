"""Does a server need only the sum of updates? Then no single update is seen. Updates become whole numbers and back."""

import torch

from ..core.algorithm import Algorithm
from ..core.server import Aggregation, Mean, Update, Weights, weight_of
from ..errors import PartitaError
from ..tensors import Tensors

SCALE = 2.0**30
"""A change of 1, with weight 1, is this whole number."""


def weights_of_sum(algorithm: Algorithm) -> Weights:
    """What updates are weighted by, for methods whose server needs a weighted sum; others are refused."""
    server = algorithm.server
    if algorithm.sees_single_models or not isinstance(server, Aggregation) or not isinstance(server.rule, Mean):
        raise PartitaError(
            f"The server of {algorithm.label} needs more than the sum of updates, so that it cannot be computed "
            "securely. Choose a method that averages, such as fedavg, fedper or fedrep."
        )
    if server.rule.weights == "uploaded" or algorithm.weight:
        raise PartitaError(
            f"{algorithm.label} weighs updates by what sites send, so that its sum cannot be computed securely. Choose "
            "a method that weighs by numbers of samples, such as fedavg, fedper or fedrep."
        )
    return server.rule.weights


def whole_numbers(update: Update, before: Tensors, weights: Weights, sites: int) -> Tensors:
    """The weighted change as whole numbers, small enough that the sum over `sites` fits into 64 bits."""
    if update.mask:
        raise PartitaError(
            "An update that sends a part of its entries cannot be summed securely. Choose a method that sends all of "
            "them."
        )
    found, most = {}, 2.0**62 / sites
    for name, tensor in update.values.items():
        change = (tensor.double() - before[name].double()) * weight_of(update, weights) * SCALE
        if not bool((change.abs() < most).all()):
            raise PartitaError(
                f"The change of {name} is too large for a secure sum. Lower the learning rate, or clip the gradient."
            )
        found[name] = change.round().to(torch.int64)
    return found


def mean_of(total: Tensors, before: Tensors, weight: float) -> Tensors:
    """What all sites have on average, in double precision, from the sum of their whole numbers and weights."""
    return {name: before[name].double() + tensor.double() / (SCALE * weight) for name, tensor in total.items()}
