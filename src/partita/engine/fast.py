"""The fast engine: it trains the module itself, in place, by shortcuts that agree with the reference up to rounding."""

from collections.abc import Hashable, Sequence

from ..core.client import Client
from ..core.phases import Phase
from ..core.task import Task
from ..tensors import Tensors, network_name
from . import reference
from .chain import Chains
from .features import Features
from .shortcuts import ALL, Case, Shortcut, Shortcuts, case_of, eligible
from .stacked import run_stacked
from .training import train
from .verification import likeness, verified


class FastEngine:
    """Carries out the phases of one simulation, and caches what it learns about networks and clients.

    A shortcut is used only if it knows everything about the phase, the network and the samples, and only after it has
    agreed with the reference. A copy of an engine in another process starts with empty caches.
    """

    def __init__(self, shortcuts: Shortcuts = ALL, keep_features: bool = True) -> None:
        """With `keep_features`, the outputs of frozen layers are kept for later phases that need them again."""
        self._permitted = shortcuts
        self._chains = Chains()
        self._features = Features() if keep_features else None
        self._verified: dict[Hashable, Shortcuts | None] = {}

    def __reduce__(self) -> tuple[type["FastEngine"], tuple[Shortcuts, bool]]:
        return FastEngine, (self._permitted, self._features is not None)

    def __call__(self, phase: Phase, clients: Sequence[Client], tensors: Sequence[Tensors]) -> list[Tensors]:
        """Each client's tensors after a phase; the given ones are left as they are."""
        done: dict[int, Tensors] = {}
        together: dict[Task, list[int]] = {}
        found: dict[Case, Shortcuts | None] = {}
        for at, (client, own) in enumerate(zip(clients, tensors, strict=True)):
            if not phase.trained(client.task.network, frozenset(own)):
                done[at] = own
                continue
            case = case_of(phase, client, own)
            if case not in found:
                found[case] = self._shortcuts(phase, case, own)
            shortcuts = found[case]
            if shortcuts is None:
                [done[at]] = reference.run_phase(phase, [client], [own])
            elif Shortcut.STACKED in shortcuts:
                together.setdefault(client.task, []).append(at)
            else:
                done[at] = train(phase, client, own, shortcuts, self._chains, self._features)
        for places in together.values():
            trained = _stacked(phase, [clients[at] for at in places], [tensors[at] for at in places], self._chains)
            done.update(zip(places, trained, strict=True))
        return [done[at] for at in range(len(clients))]

    def _shortcuts(self, phase: Phase, case: Case, tensors: Tensors) -> Shortcuts | None:
        """The shortcuts that may be used; None if the reference must be used."""
        possible = eligible(phase, case, tensors, self._chains)
        if possible is None:
            return None
        wanted, like = possible & self._permitted, likeness(phase)
        key = like, case, wanted
        if key not in self._verified:
            self._verified[key] = verified(like, case, wanted, _try)
        return self._verified[key]


def _try(phase: Phase, client: Client, tensors: Tensors, shortcuts: Shortcuts) -> Tensors:
    # The network of a trial is a copy, which must not be kept.
    chains = Chains()
    if Shortcut.STACKED not in shortcuts:
        return train(phase, client, tensors, shortcuts, chains, None)
    [trained] = _stacked(phase, [client], [tensors], chains)
    return trained


def _stacked(phase: Phase, clients: Sequence[Client], tensors: Sequence[Tensors], chains: Chains) -> list[Tensors]:
    task = clients[0].task
    task.train_(frozenset(map(network_name, phase.trained(task.network, frozenset(tensors[0])))))
    chain = chains.of(task.module)
    assert chain is not None, "STACKED is only among the shortcuts of a chain"
    return run_stacked(phase, clients, tensors, chain)
