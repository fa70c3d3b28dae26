"""Which shortcuts may compute a phase? Those that know everything about the phase, the network and the samples."""

from dataclasses import dataclass
from enum import Enum

import torch
from torch.nn import functional as F

from ..core.batching import Batching
from ..core.client import Client
from ..core.gradients import PLAIN_GRADIENT
from ..core.phases import Phase
from ..core.samples import Samples
from ..core.task import Task
from ..core.views import View
from ..tensors import Tensors, network_name
from .chain import Chains
from .eligibility import handles, plain_modules, plain_parameters
from .stacked import can_stack, suits
from .steps import descends_by_rows, descends_fused


class Shortcut(Enum):
    """A faster way to compute the same numbers."""

    STACKED = "many clients in one matrix product"
    BY_HAND = "a backward pass without autograd"
    FEATURES = "frozen layers computed once for each sample"
    RESUMED = "frozen layers computed once where the network is no chain"
    SPARSE = "sparse gradients of embeddings"
    FUSED = "SGD in one fused step"


Shortcuts = frozenset[Shortcut]
ALL: Shortcuts = frozenset(Shortcut)


@dataclass(frozen=True)
class Case:
    """Everything about a client that affects how a phase is computed. Most clients of a round have the same."""

    task: Task
    names: tuple[str, ...]
    """The names of the client's tensors."""
    kind: tuple[torch.Size, torch.dtype, torch.Size, torch.dtype]
    """The shapes and types of its samples."""
    fixed: bool
    """Whether every epoch has the same inputs."""
    whole: bool
    """Whether the phase lasts for an epoch or longer."""
    again: bool
    """Whether samples are seen more than once."""
    labels: bool
    """Whether every target is the number of a class."""
    familiar: bool
    """Whether samples and batches are of the classes that shortcuts know."""


def case_of(phase: Phase, client: Client, tensors: Tensors) -> Case:
    samples = phase.samples(client)
    epochs, steps = phase.length(client)
    per_epoch = client.batches_per_epoch(len(samples))
    return Case(
        task=client.task,
        names=tuple(tensors),
        kind=samples.kind,
        fixed=samples.fixed,
        whole=epochs != 0 and (steps is None or steps >= per_epoch),
        again=epochs not in (0, 1) and (steps is None or steps > per_epoch),
        labels=client.task.loss is F.cross_entropy and _labels(samples),
        familiar=type(samples) is Samples and type(client.batching) is Batching,
    )


def _labels(samples: Samples) -> bool:
    """Cross-entropy also takes probabilities, and ignores targets of -100; shortcuts do neither."""
    _, _, shape, dtype = samples.kind
    return dtype == torch.int64 and not shape and (not len(samples) or bool(samples.targets.min() >= 0))


def obstacle(phase: Phase) -> str | None:
    """Why a phase is computed by the reference; None if it need not be."""
    if phase.objective:
        return "an objective of its own"
    if phase.on_epoch:
        return "a look at every epoch"
    if phase.gradient != PLAIN_GRADIENT:
        return f"a gradient by {type(phase.gradient).__name__}"
    if not phase.view.direct:
        return f"weights by {phase.view.text}"
    return None if _handled(phase) else "a setting that the fast engine does not know"


def _handled(phase: Phase) -> bool:
    names = ("train", "optimizer", "epochs", "steps", "until", "penalty", "view", "project", "samples", "carry")
    return handles(phase, Phase, *names) and handles(phase.view, View, "text", "weights", "place", "direct")


def eligible(phase: Phase, case: Case, tensors: Tensors, chains: Chains) -> Shortcuts | None:
    """The shortcuts that know everything about a case; None if even training in place would differ."""
    task, network = case.task, case.task.network
    trained = phase.trained(network, frozenset(tensors))
    in_view = trained <= set(phase.view.sources(tensors, network).values())
    if obstacle(phase) or not in_view or type(task) is not Task or not plain_parameters(task.module):
        return None
    found = {Shortcut.FUSED} if descends_fused(phase) else set()
    if not case.familiar or not plain_modules(task.module):
        return frozenset(found)
    if descends_by_rows(phase):
        found.add(Shortcut.SPARSE)
    if case.fixed and case.whole:
        found.add(Shortcut.FEATURES)
        if case.again:
            # What it takes to find out how a network is resumed costs as much as part of an epoch.
            found.add(Shortcut.RESUMED)
    if case.labels:
        found.add(Shortcut.BY_HAND)
        if case.fixed and can_stack(phase, task):
            # What the forward pass is may depend on the mode.
            task.train_(frozenset(map(network_name, trained)))
            chain = chains.of(task.module)
            if chain and suits(chain, 1 + len(case.kind[0])):
                found.add(Shortcut.STACKED)
    return frozenset(found)
