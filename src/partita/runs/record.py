"""What is known about a run besides its numbers? A typed record, stored by key, with a format version."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import Any, Literal, get_type_hints

from ..core.signatures.stored import fits
from ..errors import PartitaError
from ..evaluation.metric import Metric
from ..evaluation.variants import Variant

FORMAT = 7
WHOLE = "whole"
"""A run keeps who has which rows."""
BaselinesPlace = Literal["../baselines", "../../baselines"]
"""Places beside the run, or beside the folder of its seeds. A record of another person may name no other place."""


@dataclass(frozen=True)
class RunRecord:
    """The record of one run. Fields that change while it runs come last and have defaults."""

    experiment: dict[str, Any]
    """The description of the experiment, from which it can be made again."""
    settings: dict[str, str]
    """Every setting that is not a default, and the whole optimizers, in words (`chosen_settings`)."""
    label: str
    """The method, and the method it is built on."""
    variant: Variant
    """The model that the method is meant to be used with."""
    metric: str
    data: str
    origin: dict[str, Any]
    fingerprint: str
    """The fingerprint of the data and their division."""
    division: str
    """`whole`, or why who has which rows is not kept."""
    clients: int
    names: list[str]
    """The clients' names, if they are not just numbers."""
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
    """Bytes of clients' states to hold in memory; the rest is read from the store."""
    baselines: BaselinesPlace | None
    """The folder of the run's baselines, relative to its own."""
    baseline_tuning: bool
    """Whether their learning rates are chosen on validation data."""
    notes: list[str] = field(default_factory=list)
    """Remarks on data and set-up that a reader of the numbers must know."""
    partita: str = field(default_factory=lambda: version("partita"))
    status: str = "running"
    ended: str | None = None
    trackers: dict[str, str] = field(default_factory=dict)
    """The id of the run in each tracker."""

    @property
    def score(self) -> Metric:
        """The metric of this run's scores."""
        return Metric(self.metric)

    @property
    def settings_text(self) -> str:
        """The settings in one line."""
        return ", ".join(f"{key}={value}" for key, value in self.settings.items())

    @property
    def done(self) -> bool:
        return self.status == "done"

    def name_of(self, client: int) -> str:
        return self.names[client] if self.names else str(client)

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str) -> "RunRecord":
        """Read a record from stored values. A missing value or one of another type means that the run is damaged."""
        if "format" not in values:
            raise ValueError("its record lacks the format")
        if (found := values["format"]) != FORMAT:
            newer = isinstance(found, int) and found > FORMAT
            way_out = (
                "Update partita" if newer else "Read it with the version that wrote it, or run the experiment again"
            )
            raise PartitaError(
                f"{where} holds a run in format {found}; this version of partita ({version('partita')}) reads format "
                f"{FORMAT}. {way_out}."
            )
        hints = _types()
        if missing := hints.keys() - values.keys():
            raise ValueError(f"its record lacks {', '.join(sorted(missing))}")
        for name, kind in hints.items():
            if not fits(values[name], kind):
                raise ValueError(f"its record has {values[name]!r} as {name}")
        return cls(**{name: values[name] for name in hints})


@cache
def _types() -> dict[str, Any]:
    """The types of a record's fields, which are looked up once for all runs that are read."""
    return get_type_hints(RunRecord)
