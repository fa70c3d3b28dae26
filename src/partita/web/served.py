"""What answers for one run or one exported folder? A network that its clients share, and what each has of its own."""

from collections.abc import Sequence
from typing import Any, Protocol

from ..errors import PartitaError
from ..prediction.inputs import Inputs
from ..prediction.model import ClientModel
from .held import Held, Shared, held, held_global


class Models(Protocol):
    """A loaded run, or exported models."""

    @property
    def clients(self) -> Sequence[str]: ...

    @property
    def inputs(self) -> Inputs: ...

    def model(self, client: str, *, guarded: bool = True) -> ClientModel: ...

    def global_model(self) -> ClientModel: ...


class Served:
    """Models of which the shared part is in memory once."""

    def __init__(self, models: Models) -> None:
        self.models = models
        self._added: dict[str, ClientModel] = {}
        self.inputs = models.inputs
        self.shared = Shared(models.model(models.clients[0], guarded=False))
        self.common: Shared | None = None
        self._global: ClientModel | None = None
        self.no_global = ""
        """Why there is no global model, where there is none."""
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
        added = self._added.get(client)
        return held(self.models.model(client) if added is None else added, self.shared, self.common)

    def add(self, client: str, model: ClientModel) -> None:
        """A client that came later; its model stays in memory."""
        self._added[client] = model

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
