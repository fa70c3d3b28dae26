"""Which models did a run leave? Every client as it is after the last round, made again from what was stored."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ..core.algorithm import Algorithm, enter
from ..data.federation import Federation
from ..errors import PartitaError
from ..evaluation.analyses.subject import Subject
from ..randomness import Moment
from ..simulation.setup import Setup, fixed_sample
from ..tensors import Tensors
from .session import Session


@dataclass(frozen=True, eq=False)
class StoredClients(Mapping[int, Subject]):
    """The clients of a run by number, each made when it is asked for, so that few of them are in memory at a time."""

    setup: Setup
    moment: Moment
    """After the last round that was committed."""
    state: Tensors
    """The server's."""
    own: Mapping[int, Tensors]
    ids: range | tuple[int, ...]

    @property
    def algorithm(self) -> Algorithm:
        return self.setup.algorithm

    @property
    def data(self) -> Federation:
        return self.setup.data

    def __getitem__(self, number: int) -> Subject:
        if number not in self.ids:
            raise KeyError(number)
        received = self.setup.download(self.state, number, self.moment)
        client = self.setup.with_state(number, self.own.get(number, {}), received, self.moment)
        classes = self.data.label_sets[number] if self.data.label_sets else None
        test = self.data[number].test.alone(client.task.layout, client.task.device)
        return Subject(self.algorithm, enter(self.algorithm, client), test, classes)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def sample(self, most: int) -> "StoredClients":
        """Those who train, or of more than `most` a sample, the same for every run on the same clients."""
        trainers = [number for number in self.ids if number not in self.data.newcomers]
        return replace(self, ids=tuple(fixed_sample(trainers, most)))


def stored_clients(session: Session) -> StoredClients:
    """All clients of a run, newcomers too, with what they keep and receive after the last committed round."""
    stage = session.experiment.stages[-1]
    found = session.store.server(stage.name)
    if found is None:
        raise PartitaError(f"{session.folder} has no round yet. Continue it with: partita resume {session.folder}")
    done, state = found
    setup = session.setup()
    return StoredClients(setup, setup.moment(done), state, session.states(), range(len(session.experiment.data)))
