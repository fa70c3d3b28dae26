"""How do rounds get into a store? They are collected, and committed at an interval."""

from dataclasses import replace

from ..experiment.events import RoundEnded
from .commit import Commit
from .states import States
from .store import Store


class Recorder:
    """Collects rounds and commits them every `interval` rounds, at the end, or when the memory budget is used up."""

    def __init__(self, store: Store, stage: str, states: States, interval: int) -> None:
        self._store, self._states, self._interval = store, states, interval
        self._nothing = Commit(stage)
        # Replaced as a whole, so that an interruption never leaves part of a round.
        self._pending = self._nothing

    def add(self, ended: RoundEnded) -> None:
        before = self._pending
        self._pending = replace(
            before,
            round=ended.round,
            state=ended.state,
            own={**before.own, **ended.own},
            rounds=(*before.rounds, (ended.round, ended.seconds, ended.participants)),
            records=(*before.records, *ended.records),
            traffic=(*before.traffic, *ended.traffic),
            left_out=(*before.left_out, *ended.left_out),
            outcomes=(*before.outcomes, *ended.outcomes),
        )
        if ended.round % self._interval == 0 or ended.round == ended.rounds or self._states.over_budget:
            self.commit()

    def commit(self) -> None:
        """Write what is pending, if anything is."""
        if self._pending.rounds:
            self._store.commit(self._pending)
            self._pending = self._nothing
            self._states.committed()
