"""How are the many numbers of a run read? Round by round, or as sums that the database makes.

So the memory that a command takes does not grow with the rounds of a run.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..evaluation.scores import HeldOut, Record
from ..evaluation.variants import Variant
from ..experiment.traffic import Traffic
from .schema import columns_of
from .store import Store

ROOT_OR_SHARE = "avg(CASE WHEN correct IS NULL THEN root(loss / count) ELSE 1.0 * correct / count END)"
"""The mean over clients of what `Record.score` is of one."""
NEXT_ROUNDS = """
WITH RECURSIVE evaluated (round) AS (
    SELECT min(round) FROM metrics WHERE stage = 'run'
    UNION ALL
    SELECT (SELECT min(round) FROM metrics WHERE stage = 'run' AND metrics.round > evaluated.round)
    FROM evaluated WHERE round IS NOT NULL
)
SELECT round FROM evaluated WHERE round <= ?
"""
"""From one round to the next by the index, past all rows of a round."""
OF_ROUND = f"SELECT {columns_of('metrics')} FROM metrics WHERE stage = 'run' AND round = ? ORDER BY rowid"


@dataclass(frozen=True)
class Numbers:
    """The metrics and traffic of a run up to a round. Commits only add rounds, so what is read later belongs to it."""

    folder: Path
    until: int
    evaluated: list[int]
    """The rounds that have metrics."""
    at_last: list[Record]
    """The metrics of the last of them: nearly all that is shown of a run needs them."""

    @classmethod
    def of(cls, store: Store, until: int) -> "Numbers":
        evaluated = [round for (round,) in store.select(NEXT_ROUNDS, until)]
        at_last = [Record(*row) for row in store.select(OF_ROUND, evaluated[-1])] if evaluated else []
        return cls(store.folder, until, evaluated, at_last)

    def rows(self, query: str, *values: object) -> Iterator[Any]:
        with Store.connected(self.folder) as store:
            yield from store.stream(query, *values)

    def at(self, round: int) -> list[Record]:
        """The metrics of one round."""
        if self.evaluated and round == self.evaluated[-1]:
            return self.at_last
        return [Record(*row) for row in self.rows(OF_ROUND, round)]

    def records(self) -> Iterator[Record]:
        """All metrics, one at a time, in the order of rounds."""
        query = f"SELECT {columns_of('metrics')} FROM metrics WHERE stage = 'run' AND round <= ? ORDER BY round, rowid"
        return (Record(*row) for row in self.rows(query, self.until))

    def traffic(self) -> Iterator[Traffic]:
        """All traffic, one row at a time, in the order of rounds."""
        query = f"SELECT {columns_of('traffic')} FROM traffic WHERE stage = 'run' AND round <= ? ORDER BY round, rowid"
        return (Traffic(*row) for row in self.rows(query, self.until))

    def means(self, variant: Variant, role: HeldOut, without: Collection[int]) -> dict[int, float]:
        """The mean score over clients with samples after each evaluated round, without some clients."""
        # The condition is tested for each row, and most runs leave no client out.
        others = " AND client NOT IN (SELECT value FROM json_each(?))" if without else ""
        query = (
            f"SELECT round, {ROOT_OR_SHARE} FROM metrics WHERE stage = 'run' AND round <= ? AND variant = ? "
            f"AND role = ? AND count > 0{others} GROUP BY round"
        )
        return dict(self.rows(query, self.until, variant, role, *([json.dumps(sorted(without))] if without else [])))

    def bytes_by_round(self) -> dict[int, int]:
        """Sent down and up by all clients together."""
        query = "SELECT round, sum(down + up) FROM traffic WHERE stage = 'run' AND round <= ? GROUP BY round"
        return dict(self.rows(query, self.until))

    def bytes_by_group(self) -> dict[str, tuple[int, int]]:
        """Sent down and up in all rounds, by part of the network."""
        query = (
            "SELECT \"group\", sum(down), sum(up) FROM traffic WHERE stage = 'run' AND round <= ? "
            'GROUP BY "group" ORDER BY "group"'
        )
        return {group: (down, up) for group, down, up in self.rows(query, self.until)}
