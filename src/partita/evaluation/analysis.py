"""What is an analysis? A way to look into a run that says when it applies, what it computes, and how that is shown.

An analysis is one file in the folder `analyses`, or an entry point of the group `partita.analyses`: a function that
takes the analysis's settings as keyword arguments and returns an `Analysis`. What was found is shown without torch: an
analysis that a run makes by itself imports what it computes with when it computes.
"""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .. import registry
from ..errors import PartitaError, warn
from .figures import Figure, Table
from .metric import Metric
from .seeds import Mean, Numbers, over_seeds

if TYPE_CHECKING:
    from .population import Population

Result = Mapping[str, Any]
"""What an analysis found for one run: numbers, texts, lists and dictionaries, as JSON can hold."""
When = Literal["start", "end", "asked"]


class NotApplicable(PartitaError):
    """An analysis does not apply to a run."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} does not apply: {reason}")
        self.reason = reason


@dataclass(frozen=True)
class Findings:
    """What an analysis found for one method of a report."""

    method: str
    number: int
    """Decides the colour of the method."""
    results: Sequence[Result]
    """One for each run: the same experiment under several seeds."""
    name_of: Callable[[int], str]
    """The name of a client."""
    label_of: Callable[[int], str] = str
    """The name of a class."""


def applies_always(population: "Population") -> str | None:
    """There is no obstacle."""
    return None


def needs_samples(population: "Population") -> str | None:
    """The data must be here, and not at sites that keep them."""
    return None if population.data.held else "The data are at the sites of a federation."


def needs_classes(population: "Population") -> str | None:
    """The data must be here, and those of a classification."""
    classes = population.data.kind == "classification"
    return needs_samples(population) if classes else f"{population.data.name} has no classes."


@dataclass(frozen=True)
class Analysis:
    name: str
    title: str
    compute: "Callable[[Population], Result]"
    tables: Callable[[Result, Metric], Sequence[Table]]
    """The tables for the terminal."""
    obstacle: "Callable[[Population], str | None]" = applies_always
    """The reason why it does not apply to a run; None where it does."""
    when: When = "asked"
    """When it is made: before the first round, after the last with the baselines, or when `partita evaluate` asks."""
    section: str = "analyses"
    """The section of the report that shows it. `analyses` draws `figures`; others draw what they know of."""
    figures: Callable[[Sequence[Findings], Metric], Sequence[Figure]] | None = None
    """The figures of the report, all methods together; by default the tables of each method's first run."""
    numbers: Callable[[Result], Numbers] | None = None
    """What has a mean over several seeds; without it, what is found under each seed stands alone."""
    of_newcomers: bool = False
    """Whether it is about clients that were held out, so that a report of runs without any does not miss it."""
    place: int = 100
    """Where it stands among others: the smallest comes first."""

    def __call__(self, population: "Population") -> Result:
        """Compute the result; an error where the analysis does not apply."""
        if reason := self.obstacle(population):
            raise NotApplicable(self.name, reason)
        return self.compute(population)


def declared(*when: When, among: Collection[str] | None = None) -> dict[str, Analysis]:
    """The analyses that are made at some moments, by default all, by name and with their default settings.

    With `among`, no other is loaded.
    """
    found = []
    for name in registry.names("analyses"):
        if among is not None and name not in among:
            continue
        try:
            found.append(make_analysis(name))
        except Exception as problem:
            # Whatever is wrong with a plugin, it must not keep runs from being made and reported.
            warn(f"The analysis {name} is left out: {problem}", UserWarning)
    ordered = sorted(found, key=lambda analysis: (analysis.place, analysis.name))
    return {analysis.name: analysis for analysis in ordered if not when or analysis.when in when}


def make_analysis(name: str, settings: Mapping[str, object] | None = None) -> Analysis:
    """The analysis of that name, made with those of the settings that it takes."""
    make = registry.get("analyses", name)
    known = settings_of(name)
    made = make(**{key: value for key, value in (settings or {}).items() if key in known})
    if not isinstance(made, Analysis):
        raise PartitaError(f"{name} makes a {type(made).__name__}, not an Analysis.")
    return made


def settings_of(name: str) -> list[str]:
    """The settings that an analysis takes."""
    return list(inspect.signature(registry.get("analyses", name)).parameters)


def choose_analyses(names: Sequence[str] | None, settings: Mapping[str, object]) -> list[Analysis]:
    """The named analyses, or all that are made when asked for. A setting that none of them takes is an error."""
    chosen = list(names or declared("asked"))
    for key in settings:
        if not any(key in settings_of(name) for name in chosen):
            taken = "; ".join(f"{name} takes {', '.join(settings_of(name)) or 'no setting'}" for name in chosen)
            raise PartitaError(f"None of the analyses takes {key}: {taken}.")
    return [make_analysis(name, settings) for name in chosen]


def numbers_of(analysis: Analysis, several: Sequence[Mapping[str, Result]]) -> list[Numbers]:
    """What an analysis found under each seed, given all results of each; nothing if that has no mean."""
    if analysis.numbers is None:
        return []
    return [analysis.numbers(each[analysis.name]) for each in several if analysis.name in each]


def means_over_seeds(
    analyses: Sequence[Analysis], several: Sequence[Mapping[str, Result]]
) -> dict[str, dict[str, dict[str, Mean]]]:
    """The means over seeds of all analyses that have any, by name, row and column."""
    return {each.name: over_seeds(numbers) for each in analyses if (numbers := numbers_of(each, several))}
