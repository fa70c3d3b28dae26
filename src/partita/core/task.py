"""What is to be learned? A network, a loss and a measure, independent of clients and rounds."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from ..errors import PartitaError
from ..tensors import Tensors, only
from .buffers import Snapshot
from .network import BATCH_NORMS, NORMS, Network, network_of, tensors_of
from .objectives import Loss, Measure, classification
from .samples import Samples
from .selectors import matches

Buffers = Literal["follow", "local", "batch"]
_CHECKPOINTS = (
    "The network uses gradient checkpointing or other hooks on tensors saved for the backward pass, with which its "
    "gradients would be wrong: clients' weights are in the network during the forward pass alone. Turn it off."
)


class Task:
    """A functional network: its weights are arguments, and the module's own values do not matter.

    `buffers` controls running statistics: `follow` (shared or personal like their layer), `local` (never sent) or
    `batch` (none; the statistics of the batch are used, in evaluation too). `frozen_norm` controls norm layers that a
    phase does not train: they keep updating their statistics (`train`) or not (`eval`).
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        loss: Loss = F.cross_entropy,
        measure: Measure = classification,
        groups: Mapping[str, str | tuple[str, ...]] | None = None,
        buffers: Buffers = "follow",
        frozen_norm: Literal["train", "eval"] = "train",
        device: str = "cpu",
    ) -> None:
        self.module = _copy(module)
        self.device = torch.device(device)
        if self.device.type != "cpu":
            self.module.to(self.device)
        if buffers == "batch":
            _without_running_statistics_(self.module)
        self.loss = loss
        self.measure = measure
        self.buffers = buffers
        self.frozen_norm = frozen_norm
        self.network = network_of(self.module, matches, groups or {})
        self.weights: Tensors = {
            name: tensor.detach().clone(memory_format=torch.contiguous_format)
            for name, tensor in tensors_of(self.module).items()
        }
        self._held = _held(self.module)
        """The name of the tensor by module and attribute; a tied weight is held by several modules."""
        self._others = Snapshot(self.module, except_for=self.weights)
        self.renormalized = _renormalized(self.network)
        """Weights that a forward pass may change in place."""
        self.layout = _layout(self.module)
        for tensor in self.module.parameters():
            if tensor.dim() == 4:
                tensor.data = tensor.data.contiguous(memory_format=self.layout)

    def outputs(self, weights: Tensors, inputs: Tensor) -> Tensor:
        """The network's answer, in the mode last set. Running statistics among the weights are updated in place."""
        self._need_all(weights)
        if not self.module.training:
            weights = weights | {name: weights[name].clone() for name in self.renormalized}
        return self.part_outputs(self.module, weights, inputs)

    def part_outputs(self, part: nn.Module, weights: Tensors, inputs: Tensor) -> Tensor:
        """The output of a part of the network, given the weights of the whole network."""
        places = {
            f"{prefix}.{own}" if prefix else own: name
            for prefix, owner in part.named_modules()
            for own, name in self._held.get(owner, {}).items()
        }
        used = {place: weights[name] for place, name in places.items()}
        with _without_checkpoints():
            # Places are those of tied weights too. Torch would find them itself, but if a module is registered under
            # two names it would not put the module's own weights back.
            result: Tensor = functional_call(part, used, (inputs,), tie_weights=False)
        for place, name in places.items():
            if used[place] is not weights[name]:
                # The forward pass assigned another tensor to a buffer.
                weights[name].copy_(used[place].detach())
        return result

    def copy(self) -> "Task":
        """A task with a module of its own. Initial weights, loss and measure are shared with this one."""
        return deepcopy(self, {id(each): each for each in (self.weights, self.loss, self.measure)})

    def place(self, tensors: Tensors) -> Tensors:
        """The tensors on the network's device."""
        return {name: tensor.to(self.device) for name, tensor in tensors.items()}

    def load_(self, weights: Tensors) -> Tensors:
        """Puts values into the module itself, to be used in place; returns its own tensors by name."""
        self._need_all(weights)
        held = only(dict(self.module.named_parameters()) | dict(self.module.named_buffers()), weights)
        with torch.no_grad():
            for name, tensor in held.items():
                tensor.copy_(weights[name])
        return held

    def module_with(self, weights: Tensors) -> nn.Module:
        """A module of its own with these weights, in evaluation mode."""
        self.evaluate_()
        self.load_(weights)
        return _copy(self.module)

    def features(self, weights: Tensors, inputs: Tensor) -> Tensor:
        """The inputs of the head."""
        seen: list[Tensor] = []
        handle = self.head.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
        try:
            self.outputs(weights, inputs)
        finally:
            handle.remove()
        return seen[0]

    def head_outputs(self, weights: Tensors, features: Tensor) -> Tensor:
        """The outputs of the head for features."""
        own = {name.rpartition(".")[2] for name in self.network.groups["head"]}
        if own != {name for name, _ in self.head.named_parameters()}:
            raise PartitaError(
                "The head shares weights with another layer, and this method needs a head of its own. Untie the "
                "weights, or choose another method."
            )
        return self.part_outputs(self.head, weights, features)

    @property
    def head(self) -> nn.Module:
        names = self.network.groups["head"]
        modules = {id(owner): owner for owner in (self.network.owners[name] for name in names)}
        if len(modules) != 1:
            raise PartitaError(
                f"The head ({', '.join(names)}) spans {len(modules)} modules; this method needs one. "
                "Define it: groups={'head': 'NAME.*'}."
            )
        return next(iter(modules.values()))

    def train_(self, trained: frozenset[str]) -> None:
        """Training mode; norm layers whose parameters are not trained are frozen if the task says so."""
        self._others.restore_()
        self.module.train()
        if self.frozen_norm == "eval":
            moving = {id(self.network.owners[name]) for name in trained if name in self.network.owners}
            for name in self.network.parameters:
                owner = self.network.owners[name]
                if isinstance(owner, BATCH_NORMS) and id(owner) not in moving:
                    owner.eval()

    def evaluate_(self) -> None:
        """Evaluation mode."""
        self._others.restore_()
        self.module.eval()

    def accuracy(self, weights: Tensors, samples: Samples, batch: int = 512) -> float:
        """The share of correct answers, without a change of state."""
        self.evaluate_()
        with torch.no_grad():
            sums = [
                self.measure(self.outputs(weights, part.inputs), part.targets)
                for part in (samples.take(slice(at, at + batch)) for at in range(0, len(samples), batch))
            ]
        if any("correct" not in each for each in sums):
            raise PartitaError("This method needs an accuracy, and a regression has none. Choose another method.")
        return sum(each["correct"] for each in sums) / sum(each["count"] for each in sums)

    def _need_all(self, weights: Tensors) -> None:
        """Refuse missing weights: the module's own values are those of its last use, and must not be used."""
        missing = [name for name in self.weights if name not in weights]
        if missing:
            raise PartitaError(
                f"The network has no value for {', '.join(missing)}. A method must give a client every tensor of the "
                "network: by default Algorithm(expand=...) makes them from client.task.weights."
            )


@contextmanager
def _without_checkpoints() -> Iterator[None]:
    """Gradient checkpointing calls layers again in the backward pass, when the weights are no longer in the module."""
    if not torch.is_grad_enabled():
        yield
        return
    try:
        with torch.autograd.graph.disable_saved_tensors_hooks(_CHECKPOINTS):
            yield
    except RuntimeError as error:
        if str(error) != _CHECKPOINTS:
            raise
        raise PartitaError(_CHECKPOINTS) from error


def _copy(module: nn.Module) -> nn.Module:
    """A copy of a module with everything that was added to it, such as hooks; an error if that is impossible."""
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            raise PartitaError(
                f"The parameter {name} has a hook on its gradient. Clients train weights of their own, which never "
                "pass through the module's parameters, so the hook would never be called. Register a hook on the "
                "module that owns the parameter, or a parametrization."
            )
    # Pruning and the older weight norm keep a weight that every call computes again. Torch does not copy such tensors.
    computed = {
        id(value): value.detach().clone()
        for part in module.modules()
        for value in vars(part).values()
        if isinstance(value, Tensor) and not value.is_leaf
    }
    return deepcopy(module, computed)


def _held(module: nn.Module) -> dict[nn.Module, dict[str, str]]:
    names = {id(tensor): name for name, tensor in tensors_of(module).items()}
    return {
        owner: {own: names[id(tensor)] for own, tensor in _own(owner) if id(tensor) in names}
        for owner in module.modules()
    }


def _own(owner: nn.Module) -> list[tuple[str, Tensor]]:
    return [*owner.named_parameters(recurse=False), *owner.named_buffers(recurse=False)]


def _renormalized(network: Network) -> frozenset[str]:
    """The weights of embeddings with `max_norm`."""
    return frozenset(name for name, owner in network.owners.items() if getattr(owner, "max_norm", None) is not None)


def _layout(module: nn.Module) -> torch.memory_format:
    """How images lie in memory: convolutions are fastest with the channels of a pixel side by side.

    Not with other norms than batch norm, for which torch's gradients in that layout cannot be relied on: with 2.13,
    group norm crashes if all layers before it are frozen, and instance norm is wrong for a batch of one image.
    """
    convolutions = any(isinstance(part, nn.Conv2d) for part in module.modules())
    others = any(isinstance(part, NORMS) and not isinstance(part, BATCH_NORMS) for part in module.modules())
    return torch.channels_last if convolutions and not others else torch.contiguous_format


def _without_running_statistics_(module: nn.Module) -> None:
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._NormBase):
            part.track_running_stats = False
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                part.register_buffer(name, None)
