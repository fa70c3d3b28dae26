"""How is the run of a federation continued? Its folder records its plan, limits and SuperLink."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import PartitaError
from ..experiment.experiment import Experiment
from . import DEPLOYMENT
from .federated import federated, introductions
from .loopback import loopback
from .operator import Operator
from .plan import Plan
from .processes import Tell
from .server import Limits, Sites


@dataclass(frozen=True)
class Trial:
    """A whole federation on this machine, beside the run."""

    data: Mapping[str, Any]
    """The data source, of whose clients each is a site."""
    port: int = 0


@dataclass(frozen=True)
class Deployment:
    """A federation to run: with an operator's folder, or as a trial."""

    plan: Plan
    limits: Limits
    place: Path | Trial

    @contextmanager
    def open(self, run: Path, tell: Tell = lambda text: None) -> Iterator[tuple[Experiment, Sites]]:
        """The experiment and its executor, in the folder of the run, which can then be resumed."""
        place = self.place
        if isinstance(place, Trial):
            self._write(run)
            with (
                loopback(self.plan, place.data, run.parent, place.port, tell) as superlink,
                federated(self.plan, superlink, self.limits, run) as made,
            ):
                yield made
            return
        operator = Operator(place)
        superlink = operator.superlink
        operator.need_enrolled(tuple(name for name in self.plan.sites if name not in introductions(run)))
        self._write(run)
        with federated(self.plan, superlink, self.limits, run, lambda: operator.keys) as made:
            yield made

    @classmethod
    def read(cls, run: Path) -> "Deployment":
        path = run / DEPLOYMENT
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            trial = found["trial"]
            place = Trial(**trial) if trial else Path(os.path.normpath(run / found["operator"]))
            return cls(Plan.read(found["plan"]), Limits(**found["limits"]), place)
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise PartitaError(f"Cannot read how the federation was started from {path}: {problem}.") from problem

    def _write(self, run: Path) -> None:
        trial = asdict(self.place) if isinstance(self.place, Trial) else None
        # As seen from the run, so that both can be moved together.
        operator = os.path.relpath(self.place, run) if isinstance(self.place, Path) else None
        said = {"plan": self.plan.text, "limits": asdict(self.limits), "operator": operator, "trial": trial}
        run.mkdir(parents=True, exist_ok=True)
        new = run / f"{DEPLOYMENT}.new"
        new.write_text(json.dumps(said, indent=1), encoding="utf-8")
        os.replace(new, run / DEPLOYMENT)
