"""What is known of a run beside its numbers? A typed record, kept by key, in a format with a version."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from ..errors import PartitaError
from ..evaluation.metric import Metric
from ..evaluation.variants import Variant

FORMAT = 4


@dataclass(frozen=True)
class RunRecord:
    """Of one run. What changes while it runs comes last and has defaults."""

    experiment: dict[str, Any]
    """Its description: every field of the experiment, from which it can be made again."""
    label: str
    """The method, with what it is built on."""
    variant: Variant
    """The model that the method is meant to be used with."""
    metric: str
    data: str
    origin: dict[str, Any]
    fingerprint: str
    """Of the data and their division."""
    division: str
    """`whole`, or why who has which rows is not kept."""
    clients: int
    names: list[str]
    """Of clients, where they are not just numbers."""
    newcomers: list[int]
    evaluated: int
    """How many clients are evaluated."""
    rounds: int
    seed: int
    oracle_validation: bool
    environment: dict[str, Any]
    started: str
    commit_every: int
    memory: int
    """Bytes of clients' states that are held in memory; beyond that they are read from the store."""
    baselines: str | None
    """Where the run's baselines are made, relative to its folder."""
    partita: str = field(default_factory=lambda: version("partita"))
    status: str = "running"
    ended: str | None = None
    trackers: dict[str, str] = field(default_factory=dict)
    """By which each tracker finds the run again."""

    @property
    def score(self) -> Metric:
        """What a score of this run is."""
        return Metric(self.metric)

    @property
    def done(self) -> bool:
        return self.status == "done"

    def name_of(self, client: int) -> str:
        return self.names[client] if self.names else str(client)

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str) -> "RunRecord":
        """From what a store holds."""
        found = values.get("format")
        if found != FORMAT:
            raise PartitaError(
                f"{where} was written in format {found} of partita {values.get('partita', 'before 0.2')}; this version "
                f"({version('partita')}) reads format {FORMAT}. Read it with the version that wrote it, or run the "
                "experiment again."
            )
        known = {each.name for each in dataclasses.fields(cls)}
        if missing := known - values.keys():
            raise ValueError(f"its record lacks {', '.join(sorted(missing))}")
        return cls(**{name: values[name] for name in known})
