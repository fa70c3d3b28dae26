"""What is to be run in a federation? A plan: settings that name what is installed at every site. Code never travels."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from typing import Any

from ..algorithms.fedavg import fedavg
from ..core.objectives import Problem
from ..data.federation import Federation
from ..errors import PartitaError, in_one_line
from ..experiment.experiment import Experiment
from ..experiment.settings.description import describe_experiment, differences, fingerprints, rebuild
from ..experiment.settings.flat import PYTHON
from ..experiment.settings.settings import build
from ..models.mlp import mlp
from ..parsing import parse_json
from .summable import weights_of_sum

FORMAT = 1


@dataclass(frozen=True)
class DataFacts:
    """What every site's data have in common, so that all build the same network."""

    kind: Problem
    classes: int
    shape: tuple[int, ...]
    facts: Mapping[str, int]
    own_labels: bool
    """Whether each site numbers only the classes that it has."""
    class_names: tuple[str, ...] = ()
    """The names of the classes, in their order, where they are known."""

    @classmethod
    def of(cls, data: Federation) -> "DataFacts":
        return cls(
            data.kind, data.classes, data.shape, dict(data.facts), bool(data.label_sets), tuple(data.class_names)
        )

    def need(self, data: Federation) -> None:
        """Refuse data that are of another form, or whose classes have other names; a site may know none."""
        found, expected = asdict(DataFacts.of(data)), asdict(self)
        if not (found["class_names"] and expected["class_names"]):
            del expected["class_names"]
        if changed := [key for key in expected if found[key] != expected[key]]:
            words = "; ".join(f"{key} is {found[key]}, and the plan says {expected[key]}" for key in changed)
            raise PartitaError(f"The data of this site do not fit the plan: {words}.")


@dataclass(frozen=True)
class Plan:
    """An experiment without its data, and the sites that take part; a site's place is its number as a client."""

    experiment: Mapping[str, Any]
    data: DataFacts
    sites: tuple[str, ...]
    partita: str = field(default_factory=lambda: version("partita"))
    format: int = FORMAT
    schema: str = ""
    """The version of the schema that all sites' data must have, as their contracts say it."""
    secure: bool = False
    """Whether sites send updates with masks, of which the server learns the sum alone."""

    @classmethod
    def of(
        cls, experiment: Experiment, sites: Sequence[str] | None = None, *, schema: str = "", secure: bool = False
    ) -> "Plan":
        """The plan of an experiment, whose clients are the sites unless others are named."""
        data = experiment.data
        _refuse(experiment)
        # One site of many must not be able to end the run of all.
        settings = _settings(replace(experiment, on_sick_client=experiment.on_sick_client or "leave_out"))
        if objects := [key for key, (_, _, kind) in fingerprints(settings).items() if kind == PYTHON]:
            raise PartitaError(
                f"A federation cannot use objects that settings cannot name: {', '.join(objects)}. Code does not "
                "travel to sites: name what is installed there."
            )
        names = tuple(sites or [data.name_of(at) for at in range(len(data))])
        _need_names(names)
        if secure:
            weights_of_sum(experiment.stages[-1].algorithm)
        return cls(settings, DataFacts.of(data), names, schema=schema, secure=secure)

    @property
    def hash(self) -> str:
        """SHA-256 of the plan's text: what a site approves."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def text(self) -> str:
        """The plan as JSON; equal plans have equal texts."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @classmethod
    def read(cls, text: str) -> "Plan":
        """Read a plan from its text; a plan of another version is refused."""
        try:
            values = parse_json(text)
            if (found := values["format"]) != FORMAT or values["partita"] != version("partita"):
                raise PartitaError(
                    f"The plan was made by partita {values['partita']} (format {found}), but this is partita "
                    f"{version('partita')} (format {FORMAT}). Install the same version at the server and all sites."
                )
            plan: Plan = build(cls, values, "the plan")
            # What is no JSON, or what has fingerprints that are no text, is refused before anything is made of it.
            _ = plan.text, fingerprints(plan.experiment)
        except (KeyError, TypeError, ValueError) as problem:
            raise PartitaError(
                f"This is not a plan of a federation ({in_one_line(problem)}). Make one with: partita federate plan"
            ) from problem
        _need_names(plan.sites)
        return plan

    def number_of(self, site: str) -> int:
        if site not in self.sites:
            raise PartitaError(f"The plan has no site called {site!r}: it names {', '.join(self.sites)}.")
        return self.sites.index(site)

    def experiment_on(self, data: Federation) -> Experiment:
        """The experiment, with the data of a site or those that the server knows of."""
        self.data.need(data)
        made = rebuild(self.experiment, Experiment(fedavg(), mlp, data))
        if changed := differences(self.experiment, _settings(made)):
            raise PartitaError(
                f"The packages installed here differ from those of the plan: {'; '.join(changed)}. Install the same, "
                "or make a new plan."
            )
        _refuse(made)
        return made


def _need_names(sites: Sequence[str]) -> None:
    if len(set(sites)) != len(sites) or not all(sites):
        raise PartitaError(f"The sites are {list(sites)}. Give each a name of its own.")


def _settings(experiment: Experiment) -> dict[str, Any]:
    """All that a description says but for the data, as JSON gives it back."""
    described = describe_experiment(experiment)
    settings: dict[str, Any] = json.loads(json.dumps({key: each for key, each in described.items() if key != "data"}))
    return settings


def _refuse(experiment: Experiment) -> None:
    """Refuse what cannot run in a federation."""
    label = experiment.algorithm.label
    if experiment.stages[-1].algorithm.refinement:
        raise PartitaError(
            f"{label} trains on the server with a sample of all clients' data, and the server of a federation holds "
            "none. Choose the method without the server's training."
        )
    if experiment.pretrain or experiment.weights:
        raise PartitaError(
            "A federation starts from the network's own initial weights: leave out pretrain and weights, or run the "
            "pretraining as a plan of its own."
        )
    if experiment.data.newcomers:
        raise PartitaError("A federation has no newcomers: every site of a plan takes part. Set newcomers = 0.")
    if experiment.oracle_validation:
        raise PartitaError("A federation does not hand out test data: set oracle_validation = false.")
