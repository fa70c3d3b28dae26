"""How does a simulation get into a store? Round by round, committed every so many."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..evaluation.scores import Record
from ..simulation.result import Progress
from ..simulation.traffic import Traffic
from ..tensors import Tensors
from .states import States
from .store import Store


@dataclass(frozen=True)
class _Pending:
    """Whole rounds that are not committed yet. Replaced at once, so that an interruption leaves no half of one."""

    round: int = 0
    state: Tensors = field(default_factory=dict)
    own: Mapping[int, Tensors] = field(default_factory=dict)
    rounds: tuple[tuple[int, float, int], ...] = ()
    records: tuple[Record, ...] = ()
    traffic: tuple[Traffic, ...] = ()


class Recorder:
    """Takes in what each round made, and commits it every `interval` rounds, at the end, or when memory runs short."""

    def __init__(self, store: Store, stage: str, states: States, interval: int) -> None:
        self._store, self._stage, self._states, self._interval = store, stage, states, interval
        self._pending = _Pending()

    def __call__(self, progress: Progress) -> None:
        before = self._pending
        self._pending = replace(
            before,
            round=progress.round,
            state=progress.result.state,
            own={**before.own, **progress.own},
            rounds=(*before.rounds, (progress.round, progress.seconds, progress.participants)),
            records=(*before.records, *progress.records),
            traffic=(*before.traffic, *progress.traffic),
        )
        due = progress.round % self._interval == 0 or progress.round == progress.rounds
        if due or self._states.over_budget:
            self.commit()

    def commit(self) -> None:
        """Write what is pending, if anything is."""
        pending = self._pending
        if not pending.rounds:
            return
        self._store.commit(
            self._stage, pending.round, pending.state, pending.own, pending.rounds, pending.records, pending.traffic
        )
        self._pending = _Pending()
        self._states.committed()
