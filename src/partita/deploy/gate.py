"""What does a site allow? It decides itself which plans run, what may leave, and what its data must look like."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch

from ..core.server import Update
from ..data.federation import Federation
from ..errors import PartitaError
from ..parsing import parse_json
from ..tensors import Tensors
from .plan import Plan
from .privacy import Privacy
from .replies import distance


@dataclass(frozen=True)
class Policy:
    """Plans that run without a separate approval: those whose names are all allowed. By default none."""

    algorithms: tuple[str, ...] = ()
    """Names or patterns, as in `fed*`; what a method is built on, and its server, must be allowed too."""
    models: tuple[str, ...] = ()
    least_sites: int = 2
    """The least number of sites that take part in a plan and in each round, for every plan, approved or not."""
    secure: bool = False
    """Updates must leave with masks, so that the server learns only their sum, for every plan, approved or not."""

    def allows(self, plan: Plan) -> bool:
        settings = plan.experiment
        names = [*_names(settings.get("algorithm")), *_names(settings.get("server"))]
        return all(_matches(name, self.algorithms) for name in names) and all(
            _matches(name, self.models) for name in _names(settings.get("model"))
        )


@dataclass(frozen=True)
class Leaving:
    """What may leave the site in one reply. A plan cannot change it."""

    tensors: tuple[str, ...] = ("*",)
    """Names or patterns."""
    most_bytes: int | None = None
    most_norm: float | None = None
    """The largest norm of the difference between what was received and what is sent."""
    metrics: bool = True
    """Whether scores of the site's models on its own held-out samples leave."""
    privacy: Privacy | None = None
    """With a privacy budget, updates leave with noise, and metrics do not leave."""

    @property
    def with_metrics(self) -> bool:
        return self.metrics and self.privacy is None

    def need(self, update: Update, before: Tensors) -> None:
        if barred := [name for name in update.values if not _matches(name, self.tensors)]:
            raise PartitaError(f"This site does not let {barred[0]} leave: it allows {', '.join(self.tensors)}.")
        size = sum(tensor.nbytes for tensor in update.values.values())
        if self.most_bytes is not None and size > self.most_bytes:
            raise PartitaError(
                f"This site lets at most {self.most_bytes} bytes leave in a round, and this would be {size}."
            )
        found = distance(update.values, update.mask, before)
        if self.most_norm is not None and not found <= self.most_norm:
            raise PartitaError(
                f"This site lets changes of a norm up to {self.most_norm:g} leave, and this has {found:.4g}."
            )


@dataclass(frozen=True)
class Contract:
    """Requirements on the site's data, checked before anything runs on them."""

    shape: tuple[int, ...] | None = None
    classes: int | None = None
    labels: tuple[int, ...] | None = None
    """No sample may have another label."""
    least_samples: int = 1
    """The least number of training samples."""
    most_overlap: float = 1.0
    """The largest share of test samples whose input is also that of a training sample."""
    schema: str = ""
    """The version of the data's schema, in the words of those who share it: a plan must say the same."""

    def need(self, data: Federation) -> None:
        """`data` are of one client."""
        for name, expected in (("shape", self.shape), ("classes", self.classes)):
            if expected is not None and getattr(data, name) != expected:
                raise PartitaError(
                    f"The data do not fit their contract: {name} is {getattr(data, name)}, and must be {expected}."
                )
        if data.sizes[0] < self.least_samples:
            raise PartitaError(
                f"The data do not fit their contract: {data.sizes[0]} training samples, and at least "
                f"{self.least_samples} are needed."
            )
        if self.labels is not None:
            found = set(torch.unique(data.samples.targets).tolist())
            if other := sorted(found - set(self.labels)):
                raise PartitaError(f"The data do not fit their contract: there are labels {other}.")
        if self.most_overlap < 1 and (share := overlap(data)) > self.most_overlap:
            raise PartitaError(
                f"The data do not fit their contract: {100 * share:.3g} % of the test samples are training samples "
                f"too, and at most {100 * self.most_overlap:.3g} % may be."
            )

    def need_schema(self, plan: Plan) -> None:
        if plan.schema != self.schema:
            raise PartitaError(
                f"The plan is for data of the schema {plan.schema or '(none)'!r}, and the contract of this site says "
                f"{self.schema or '(none)'!r}. Make the plan with the schema of the sites' contracts (--schema)."
            )


def overlap(data: Federation) -> float:
    """The share of the test samples of one client whose input is also that of one of its training samples."""
    rows = data[0]
    known, tested = ([row.numpy().tobytes() for row in part.inputs] for part in (rows.train, rows.test))
    learned = set(known)
    return sum(row in learned for row in tested) / max(len(tested), 1)


def facts_of(data: Federation) -> dict[str, object]:
    """The facts of one client's data that a contract can check."""
    return {
        "shape": list(data.shape),
        "classes": data.classes,
        **{role: len(rows) for role, rows in data.roles[0].items()},
        **({"labels": torch.unique(data.samples.targets).tolist()} if data.kind == "classification" else {}),
        "overlap": overlap(data),
    }


@dataclass(frozen=True)
class Gate:
    """All rules of a site. Approvals are read again for each order, so they can change while the site runs."""

    policy: Policy = Policy()
    leaving: Leaving = Leaving()
    contract: Contract = Contract()
    approvals: Path | None = None

    def need_plan(self, plan: Plan) -> None:
        least = self.policy.least_sites
        if len(plan.sites) < least:
            raise PartitaError(
                f"This site takes part where there are at least {least} sites; the plan has {len(plan.sites)}."
            )
        self.contract.need_schema(plan)
        if self.policy.secure and not plan.secure:
            raise PartitaError("This site takes part only in secure sums. Make the plan with --secure.")
        if not self.policy.allows(plan) and plan.hash not in self.approved:
            raise PartitaError(
                f"The plan {plan.hash[:12]} is not approved at this site. Approve it with: partita node approve"
            )

    def need_round(self, taking_part: int) -> None:
        if taking_part < self.policy.least_sites:
            raise PartitaError(
                f"This site takes part in rounds of at least {self.policy.least_sites} sites; in this one are "
                f"{taking_part}."
            )

    @property
    def approved(self) -> dict[str, str]:
        """Hashes of approved plans, with the time of approval."""
        if self.approvals is None or not self.approvals.exists():
            return {}
        try:
            found = parse_json(self.approvals.read_text(encoding="utf-8"))
            if not isinstance(found, dict):
                raise ValueError("it holds no hashes")
        except (OSError, ValueError) as problem:
            raise PartitaError(f"Cannot read the approvals in {self.approvals}: {problem}.") from problem
        return found


def write_approvals(path: Path, approved: Mapping[str, str]) -> None:
    """Write all approvals or none; only the site's user may change the file."""
    new = path.with_suffix(".new")
    with open(os.open(new, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
        json.dump(dict(approved), file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def _names(settings: Any) -> Iterator[str]:
    """The names of an object and of all its parts."""
    if isinstance(settings, Mapping):
        if "name" in settings:
            yield str(settings["name"])
        for key, value in settings.items():
            if key in ("on", "algorithm"):
                yield from _names(value)
    elif isinstance(settings, str):
        yield settings


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
