"""What answers for one run or one exported folder? A network that its clients share, and what each has of its own."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from ..errors import PartitaError
from ..evaluation.prediction.inputs import Inputs
from ..evaluation.prediction.model import About, ClientModel
from ..tensors import Tensors
from .held import Held, Own, Shared, held, held_global

Load = Callable[[], ClientModel]
"""Loads a client's model."""

NOBODY: Mapping[str, Load] = MappingProxyType({})


class Models(Protocol):
    """A loaded run, or exported models."""

    @property
    def clients(self) -> Sequence[str]: ...

    @property
    def inputs(self) -> Inputs: ...

    def model(self, client: str, *, guarded: bool = True) -> ClientModel: ...

    def global_model(self) -> ClientModel: ...


@runtime_checkable
class Parts(Protocol):
    """Models whose personal tensors can be had without the network around them, as exported ones can."""

    def personal(self, client: str) -> Tensors: ...

    def about(self, client: str) -> About: ...

    def classes(self, client: str) -> tuple[str, ...]: ...


class Served:
    """Models of which the shared part is in memory once."""

    def __init__(self, models: Models, newcomers: Mapping[str, Load] = NOBODY) -> None:
        """`newcomers` are clients that the models themselves do not have."""
        self.models = models
        self._added = dict(newcomers)
        self._names: frozenset[str] | None = None
        self.inputs = models.inputs
        self.shared = Shared(models.model(models.clients[0], guarded=False))
        self.common: Shared | None = None
        self._global: ClientModel | None = None
        self.no_global = ""
        """The reason why there is no global model; empty if there is one."""
        try:
            self._global = models.global_model()
            self.common = Shared(self._global)
        except PartitaError as problem:
            self.no_global = str(problem)

    def load(self, client: str | None) -> Held:
        """The model of a client, or the global one."""
        if client is None:
            if self._global is None or self.common is None:
                raise PartitaError(self.no_global)
            return held_global(self._global, self.common)
        if quick := self._quick(client):
            return quick
        added = self._added.get(client)
        return held(self.models.model(client) if added is None else added(), self.shared, self.common)

    def _quick(self, client: str) -> Held | None:
        """A head alone, without a network around it; None where it may be more than that."""
        head = self.shared.head
        if self.shared.separation is None or client in self._added or not isinstance(self.models, Parts):
            return None
        about = self.models.about(client)
        if about.guarded or not self._first_names(self.models) <= head:
            return None
        tensors, classes = self.models.personal(client), self.models.classes(client)
        if tensors.keys() != head:
            return None
        weight, bias = self.shared.separation.head(tensors)
        width = self.shared.separation.head(dict(self.shared.network.state_dict()))[0].shape[1]
        if weight.shape != (len(classes), width) or (bias is not None and bias.shape != (len(classes),)):
            return None
        return Held(classes, str(about), False, Own("head", tensors))

    def _first_names(self, parts: Parts) -> frozenset[str]:
        """What the first client, whose network is the shared one, has of its own."""
        if self._names is None:
            self._names = frozenset(parts.personal(self.models.clients[0]))
        return self._names

    def add(self, client: str, load: Load) -> None:
        """A client that came later."""
        self._added[client] = load

    def signature(self) -> dict[str, Any]:
        """What a page needs to know to make an input."""
        inputs = self.inputs
        shape = list(inputs.shape)
        image = len(shape) == 3 and shape[0] in (1, 3) and min(shape[1:]) >= 4 and inputs.type != "indices"
        kind = "text" if inputs.words is not None else "image" if image else "numbers"
        # Where the data hold pictures as numbers, they go from 0 to 1.
        return {
            "kind": kind,
            "shape": shape,
            "type": inputs.type,
            "range": [0, 255] if inputs.type == "bytes" else [0, 1] if image else None,
            "takes": str(inputs),
        }
