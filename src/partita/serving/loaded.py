"""Which models of a run can be used? Each client's, guarded, and the global one."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from ..errors import PartitaError
from ..evaluation.analyses.guard import shares_everything
from ..evaluation.population import Population
from ..evaluation.prediction.clients import Chosen, client_model, global_model
from ..evaluation.prediction.inputs import Inputs
from ..evaluation.prediction.model import ClientModel
from ..evaluation.variants import Variant
from ..experiment.experiment import Experiment
from ..experiment.setup import Setup
from ..experiment.tasks import facts_for
from ..runs.clients import stored_clients
from ..runs.database import DATABASE
from ..runs.session import Session
from ..runs.stored import StoredRun
from ..tensors import Tensors
from .card_files import CARD


class LoadedRun:
    """The models of a run that is done. Its data and networks are loaded once, its store is closed again."""

    def __init__(self, session: Session) -> None:
        session.need_done()
        self.folder = session.folder
        self.experiment: Experiment = session.experiment
        self.stored: StoredRun = session.stored
        self.population: Population = stored_clients(session)
        self.setup: Setup = session.setup()
        _, self.state = session.store.server(self.setup.stage.name) or (0, {})
        self.shared: Tensors = self.setup.server_tensors(self.state)
        """The tensors of a client that the server has too."""
        self._trust = session.trust

    @property
    def clients(self) -> Sequence[str]:
        """The names of all clients."""
        data = self.experiment.data
        return [data.name_of(number) for number in range(len(data))]

    @property
    def class_names(self) -> Sequence[str]:
        """The names of all classes of the data, also where a client knows only some of them."""
        data = self.experiment.data
        return list(data.class_names) or [str(number) for number in range(data.classes)]

    @cached_property
    def inputs(self) -> Inputs:
        return Inputs.of(self.experiment.data)

    @cached_property
    def weights(self) -> Mapping[int, float]:
        """The weight of its personal model that the guard chose for each client, where the run was guarded."""
        found = self.stored.analyses.get("guard")
        return dict(zip(found["clients"], found["chosen"], strict=True)) if found else {}

    def model(self, client: int | str, which: Variant | None = None, *, guarded: bool = True) -> ClientModel:
        """A client's model, by the client's name or number, as a module in evaluation mode.

        It is the one that the method is meant to be used with, or what the guard chose instead, and says which. With
        `which`, it is another variant, and with `guarded=False` the personal model whatever the guard chose.
        """
        data = self.experiment.data
        number = data.client(client)
        chosen = self.chosen(number) if guarded and which is None else None
        return client_model(self.population[number], data, self.inputs, which, chosen)

    def global_model(self) -> ClientModel:
        """The model that is the same for all: the method's own where it shares the whole network, or its baseline's."""
        return global_model(self.common, self.inputs)

    def facts(self, number: int) -> dict[str, Any]:
        """The arguments of the network's factory for a client; none where the network is a module."""
        model = self.experiment.model
        if isinstance(model, nn.Module):
            return {}
        found = facts_for(model, self.experiment.data, number)
        return {name: list(fact) if isinstance(fact, tuple) else fact for name, fact in found.items()}

    def chosen(self, number: int) -> Chosen | None:
        """The choice of the guard for a client; None if the run was not guarded."""
        weight = self.weights.get(number)
        return None if weight is None else Chosen(weight, self.common[number])

    @cached_property
    def common(self) -> Population:
        """The clients of the run whose network is the global one: this run, or the one that the guard fell back to."""
        guard = self.stored.analyses.get("guard")
        if guard:
            place = guard["global_run"]
        elif shares_everything(self.population) or "global" not in self.population.baselines:
            place = "."
        else:
            place = str(self.population.baselines["global"])
        folder = Path(self.folder, place)
        if folder.resolve() == self.folder.resolve():
            return self.population
        with Session.open(folder, like=self.experiment, write=False, trust=self._trust) as session:
            session.need_done()
            return stored_clients(session)


def load(run: Path | str, *, experiment: Experiment | None = None, trust: bool = False) -> LoadedRun:
    """The models of a run: `partita.load("runs/mine").model("anna")`.

    A run that was made from objects needs them: take `partita.run(...).model(...)`. With `trust`, functions that the
    run names by their path are imported.
    """
    folder = Path(run)
    if (folder / CARD).exists() and not (folder / DATABASE).exists():
        raise PartitaError(f"{folder} holds exported models. Load them with partita.load_exported.")
    with Session.open(folder, experiment, write=False, trust=trust) as session:
        return LoadedRun(session)
