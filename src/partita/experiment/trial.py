"""Does the network work on these data? One pass forward and backward on two samples, before anything starts."""

import inspect
import warnings
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..core.client import Client
from ..core.samples import Samples
from ..core.signatures.kinds import shown
from ..core.task import Task
from ..data.federation import Federation
from ..errors import PartitaError
from ..formatting import listed
from ..randomness import seeded
from ..threads import one_thread

MOST_NAMES = 5


def need_module(made: object) -> nn.Module:
    """What a factory returned must be a module with weights."""
    if not isinstance(made, nn.Module):
        raise PartitaError(
            f"The function that makes the model returned {shown(made)}, not a torch.nn.Module. Return a module."
        )
    for name, tensor in (*made.named_parameters(), *made.named_buffers()):
        if torch.nn.parameter.is_lazy(tensor):
            raise PartitaError(
                f"The network has lazy layers: {name} has no shape yet. Call the network once on a batch before, or "
                "give layers their sizes."
            )
        if tensor.is_meta:
            raise PartitaError(
                f"The network is on the meta device: {name} has no values. Make it on the CPU, for instance by "
                "module.to_empty(device='cpu') and its initialisation."
            )
    return made


@one_thread()
def try_network(client: Client, data: Federation, *, own_loss: bool) -> list[str]:
    """Refuses a network that cannot learn from a client's samples; returns what is to be known of it.

    The pass is made on a copy: neither the network nor any random state is touched. With a loss of one's own, the form
    of the network's answer is left to that.
    """
    task, samples = client.task.copy(), client.train.take(slice(0, 2))
    with seeded(client.moment.seed, "trial"), warnings.catch_warnings():
        # Torch warns of what is refused here.
        warnings.simplefilter("ignore")
        for mode in (task.evaluate_, lambda: task.train_(frozenset(task.network.parameters))):
            mode()
            weights = {name: _leaf(tensor, name in task.network.parameters) for name, tensor in task.weights.items()}
            outputs = _forward(task, weights, samples, data)
            if not own_loss:
                _check_outputs(outputs, samples, data)
        return _backward(task, weights, outputs, samples)


def _leaf(tensor: Tensor, parameter: bool) -> Tensor:
    return tensor.detach().clone().requires_grad_(parameter and tensor.is_floating_point())


def _forward(task: Task, weights: dict[str, Tensor], samples: Samples, data: Federation) -> Tensor:
    _need_one_input(task.module)
    try:
        outputs: object = task.outputs(weights, samples.inputs)
    except PartitaError:
        raise
    except Exception as problem:
        raise PartitaError(
            f"The network cannot take inputs of shape {_shape(samples.inputs)} and type {_type(samples.inputs)}: "
            f"{_line(problem)}. {_way_out(samples.inputs, task, data)}"
        ) from problem
    if not isinstance(outputs, Tensor):
        inner = f" of {len(outputs)}" if isinstance(outputs, tuple | list | Mapping) else ""
        raise PartitaError(
            f"The network returns a {type(outputs).__name__}{inner}, not a tensor. Return the scores alone: put a "
            "module around it that does."
        )
    return outputs


def _need_one_input(module: nn.Module) -> None:
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind in (*positional, p.KEYWORD_ONLY)]
    takes = any(p.kind in (*positional, p.VAR_POSITIONAL) for p in parameters)
    if len(needed) > 1 or not takes:
        named = f" ({', '.join(needed)})" if needed else ""
        raise PartitaError(
            f"The network's forward takes {len(needed) or 'no'} inputs{named}, but is given one tensor. Put them into "
            "one tensor, and take it apart in forward."
        )


def _way_out(inputs: Tensor, task: Task, data: Federation) -> str:
    weight = next((each for each in task.weights.values() if each.is_floating_point()), None)
    if not inputs.is_floating_point():
        return (
            "These are whole numbers, of words or things: begin the network with an embedding, or give the data as "
            "floating-point numbers."
        )
    if weight is not None and weight.dtype != inputs.dtype:
        kind = str(weight.dtype).removeprefix("torch.")
        return f"The weights are of type {kind}: give both one type."
    if inputs.dim() == 4 and inputs.shape[-1] in (1, 3, 4):
        return "If the channels come last, put them first: inputs.transpose(0, 3, 1, 2)."
    return f"Build the network for inputs of shape {_sizes(data.shape)}: a factory may ask for shape and classes."


def _check_outputs(outputs: Tensor, samples: Samples, data: Federation) -> None:
    count, targets = len(samples), samples.targets
    if not outputs.is_floating_point():
        raise PartitaError(
            f"The network's outputs are of type {_type(outputs)}. Return scores, before argmax or rounding."
        )
    if data.kind == "regression":
        wanted = [tuple(targets.shape), *([(count, 1)] if targets.dim() == 1 else [])]
        if tuple(outputs.shape) not in wanted:
            raise PartitaError(
                f"The network returns shape {_sizes(outputs.shape)} for {count} inputs, but the targets have shape "
                f"{_sizes(targets.shape)}. Give the network {data.classes} output{'s' if data.classes > 1 else ''}."
            )
        return
    words = data.kind == "next_word"
    before = tuple(targets.shape) if words else (count,)
    if outputs.dim() != len(before) + 1 or tuple(outputs.shape[:-1]) != before:
        unit = "each word of a text" if words else "each sample, as in (batch, classes)"
        raise PartitaError(
            f"The network returns shape {_sizes(outputs.shape)} for {count} inputs. Return a row of scores for {unit}."
        )
    highest = int(targets.max()) if targets.numel() else 0
    needed = max(data.classes if not data.label_sets else 0, highest + 1)
    if outputs.shape[-1] < needed:
        raise PartitaError(
            f"The network has {outputs.shape[-1]} outputs, but the data have {needed} classes. Give it {needed}."
        )


def _backward(task: Task, weights: dict[str, Tensor], outputs: Tensor, samples: Samples) -> list[str]:
    leaves = {
        name: tensor for name, tensor in weights.items() if tensor.requires_grad and name not in task.network.frozen
    }
    try:
        loss = task.loss(outputs, samples.targets)
    except PartitaError:
        raise
    except Exception as problem:
        raise PartitaError(
            f"The loss of outputs of shape {_shape(outputs)} and targets of shape {_shape(samples.targets)} fails: "
            f"{_line(problem)}. Check the network's last layer and the loss."
        ) from problem
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        raise PartitaError("The loss is not one number in a tensor. Return the mean over the samples.")
    if not loss.requires_grad or not leaves:
        return _none_trained(task)
    try:
        gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    except Exception as problem:
        raise PartitaError(
            f"The backward pass fails: {_line(problem)}. Avoid operations in place (x += y, inplace=True) on values "
            "that a gradient needs."
        ) from problem
    unused = [name for name, gradient in zip(leaves, gradients, strict=True) if gradient is None]
    if len(unused) == len(leaves):
        return _none_trained(task)
    if not unused:
        return []
    some = listed(unused[:MOST_NAMES]) if len(unused) <= MOST_NAMES else f"{', '.join(unused[:MOST_NAMES])}, ..."
    return [
        f"{len(unused)} of {len(leaves)} parameters of the network get no gradient and stay as they are: {some}. "
        "The forward pass does not use them, or detaches what they make."
    ]


def _none_trained(task: Task) -> list[str]:
    if not set(task.network.parameters) - task.network.frozen:
        # The method itself says that there is nothing to train.
        return []
    raise PartitaError(
        "The loss has no gradient with respect to any weight of the network. Does forward detach its result, use "
        "torch.no_grad, argmax or numpy?"
    )


def _line(problem: Exception) -> str:
    """The first sentence of an error of torch."""
    text = " ".join(str(problem).split("\n")[0].split()).partition(". ")[0].removesuffix(".")
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


def _shape(tensor: Tensor) -> str:
    return _sizes(tensor.shape)


def _sizes(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "()"


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
