"""What does a simulation return? Metrics by client, the server's state, and every client's state."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from ..core.algorithm import Algorithm
from ..core.task import Task
from ..data.federation import Federation
from ..errors import PartitaError
from ..evaluation.population import Population
from ..evaluation.prediction.clients import client_model, global_model
from ..evaluation.prediction.inputs import Inputs
from ..evaluation.prediction.model import ClientModel
from ..evaluation.scores import HeldOut, Record, Summary, summarize, used_variant
from ..evaluation.variants import Variant
from ..tensors import Tensors
from .left_out import LeftOut
from .population import population_at
from .setup import Setup
from .traffic import Traffic


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a simulation: metrics by client, the server's state, and every client's state."""

    setup: Setup
    state: Tensors
    """The server's."""
    own: Mapping[int, Tensors]
    records: Sequence[Record]
    traffic: Sequence[Traffic]
    left_out: Sequence[LeftOut] = ()

    @property
    def algorithm(self) -> Algorithm:
        return self.setup.algorithm

    @property
    def data(self) -> Federation:
        return self.setup.data

    @property
    def task(self) -> Task:
        """The task of the first client."""
        return self.setup.tasks[0]

    @property
    def rounds(self) -> int:
        return self.setup.stage.rounds

    @property
    def variant(self) -> Variant:
        """The model that the method is meant to be used with."""
        return used_variant(self.algorithm)

    @property
    def metric(self) -> str:
        """What a score is: accuracy, or the root of the mean squared error (RMSE)."""
        return self.data.metric

    def select(
        self,
        variant: Variant | None = None,
        *,
        round: int | None = None,
        role: HeldOut = "test",
        newcomers: bool = False,
    ) -> list[Record]:
        """Records by client: by default of the model that the method is meant to be used with, after the last round.

        They are of the clients that train, or with `newcomers` of those that never train.
        """
        wanted = (variant or self.variant, self.rounds if round is None else round, role)
        found = [
            record
            for record in self.records
            if (record.variant, record.round, record.role) == wanted
            and (record.client in self.data.newcomers) == newcomers
        ]
        if not found:
            known = sorted({(record.variant, record.round) for record in self.records})
            raise PartitaError(f"Nothing was recorded for {wanted}. Recorded (variant, round): {known}.")
        return found

    def score(
        self,
        variant: Variant | None = None,
        *,
        round: int | None = None,
        role: HeldOut = "test",
        newcomers: bool = False,
    ) -> Summary:
        """The score over clients, in the units of `metric`."""
        chosen = self.select(variant, round=round, role=role, newcomers=newcomers)
        at = (chosen[0].variant, chosen[0].round)
        known = {each.client for each in self.records if (each.variant, each.round) == at}
        return summarize(chosen, (each for each in known if (each in self.data.newcomers) == newcomers))

    @property
    def bytes_per_round(self) -> float:
        """Bytes sent down and up, by all clients that took part."""
        return sum(each.down + each.up for each in self.traffic) / self.rounds

    def as_dict(self) -> dict[str, object]:
        """The result as JSON values: everything except tensors."""
        return {
            "algorithm": self.algorithm.label,
            "data": self.data.name,
            "rounds": self.rounds,
            "seed": self.setup.experiment.seed,
            "oracle_validation": self.setup.experiment.oracle_validation,
            "variant": self.variant,
            "metric": self.metric,
            "score": asdict(self.score()),
            "newcomers": asdict(self.score(newcomers=True)) if self.data.newcomers else None,
            "bytes_per_round": self.bytes_per_round,
            "left_out": [asdict(each) for each in self.left_out],
            "records": [asdict(record) for record in self.records],
        }

    def model(self, client: int | str, which: Variant | None = None) -> ClientModel:
        """A client's model, by the client's name or number, as a module in evaluation mode.

        It is the one that the method is meant to be used with (fine-tuned, where the method does so), unless `which`
        names another variant.
        """
        number = self.data.client(client)
        return client_model(self._population[number], self.data, self._inputs, which)

    def global_model(self) -> ClientModel:
        """The model that every client receives, where the method shares the whole network."""
        return global_model(self._population, self._inputs)

    @cached_property
    def _population(self) -> Population:
        return population_at(self.setup, self.setup.moment(self.rounds), lambda: self.state, self.own)

    @cached_property
    def _inputs(self) -> Inputs:
        return Inputs.of(self.data)

    def network_weights(self) -> Tensors:
        """The server's network. Parts that are never sent have their initial weights."""
        return self.setup.network_weights(self.state)
