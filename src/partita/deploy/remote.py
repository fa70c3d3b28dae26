"""What does the server know of data that it does not hold? The numbers of samples that sites send.

The result is a federation whose clients have sizes, and no samples: to look at one is an error.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from ..core.samples import Samples
from ..data.federation import Federation
from ..data.split import ROLES
from ..errors import PartitaError
from .messages import MOST
from .plan import Plan


def remote_federation(plan: Plan, introductions: Mapping[int, Mapping[str, int]]) -> Federation:
    """All sites of a plan, by what they said in their introductions."""
    if missing := [name for number, name in enumerate(plan.sites) if number not in introductions]:
        raise PartitaError(
            f"{len(missing)} of {len(plan.sites)} sites have not introduced themselves: {', '.join(missing)}. Their "
            "numbers of samples are needed before the first round: start them, or make a plan without them."
        )
    facts = [_checked(plan.sites[number], introductions[number]) for number in range(len(plan.sites))]
    shape = plan.data.shape
    return Federation(
        samples=Samples(torch.empty(0, *shape), torch.empty(0, dtype=torch.int64)),
        roles=[{role: _so_many(each[role]) for role in ROLES} for each in facts],
        classes=plan.data.classes,
        name="federation",
        kind=plan.data.kind,
        facts=plan.data.facts,
        label_sets=[_so_many(each["classes"]) for each in facts] if plan.data.own_labels else (),
        names=plan.sites,
        class_names=plan.data.class_names,
        origin={"sites": {name: dict(each) for name, each in zip(plan.sites, facts, strict=True)}},
    )


def _so_many(count: int) -> Tensor:
    """Rows that are counted and are nowhere; they take no memory."""
    return torch.zeros(1, dtype=torch.int64).expand(count)


def _checked(site: str, facts: Mapping[str, int]) -> Mapping[str, int]:
    for name in (*ROLES, "classes"):
        value = facts.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
            raise PartitaError(f"Site {site} says {value!r} of {name} in its introduction: it must be a number.")
    return facts
