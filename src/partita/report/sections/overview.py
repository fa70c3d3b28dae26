"""What was run? In words."""

from collections.abc import Mapping

from ...evaluation.variants import VARIANTS
from ...experiment.samplers import named_sampler
from ...formatting import amount, listed
from ...runs.record import RunRecord
from ..figure import Section, paragraph, section
from ..markup import Html, join, tag
from ..study import Study

PLACE = 15


def overview(study: Study) -> Section:
    first = study.runs[0].record
    several = len(study.methods) > 1
    oracle = any(each.record.oracle_validation for each in study.runs)
    names = [method.name for method in study.methods]
    sentences = [
        (f"{amount(len(names), 'method')}, {listed(names)}, were" if several else f"{names[0]} was")
        + f" trained on {_data(study)}.",
        _length(study),
        _seeds(study),
        _model(study),
        f"All scores are {study.metric.name} on test data"
        + ("." if oracle else ", which are used for no training and no choice."),
    ]
    if first.newcomers:
        sentences.append(f"{amount(len(first.newcomers), 'client')} never trained and are shown separately.")
    return section("overview", "What was run", paragraph(" ".join(filter(None, sentences))), *_notes(study))


def _data(study: Study) -> str:
    described = dict.fromkeys(_division(each.record) for each in study.runs)
    return listed(list(described))


def _division(record: RunRecord) -> str:
    clients = amount(record.clients, "client")
    split = record.origin.get("split")
    if not isinstance(split, Mapping):
        return f"{record.data}, {clients}"
    name, alpha = split.get("name"), split.get("alpha")
    how = f"{name}, alpha {alpha:g}" if isinstance(alpha, int | float) else str(name).replace("_", " ")
    return f"{record.data}, divided among {clients} ({how})"


def _length(study: Study) -> str:
    rounds = sorted({each.record.rounds for each in study.runs})
    networks = dict.fromkeys(_name(each.record.experiment["model"]) for each in study.runs)
    samplers = dict.fromkeys(_who(each.record.experiment["participation"]) for each in study.runs)
    who = f"{listed(list(samplers))} take"
    number = listed([f"{count:,}" for count in rounds])
    unit = "round" if rounds == [1] else "rounds"
    return f"The network is {listed(list(networks))}; {who} part in each of {number} {unit}."


def _who(participation: object) -> str:
    if isinstance(participation, Mapping):
        return f"clients that {_name(participation)} chooses"
    return named_sampler(str(participation)).who


def _seeds(study: Study) -> str:
    seeds = study.seeds
    if len(seeds) == 1:
        return f"The seed is {seeds[0]}: one seed says nothing of how much chance matters."
    return f"Each is repeated under {len(seeds)} seeds ({listed([str(seed) for seed in seeds])})."


def _model(study: Study) -> str:
    used: dict[str, list[str]] = {}
    for method in study.methods:
        used.setdefault(VARIANTS[method.run.record.variant], []).append(method.name)
    if len(used) == 1:
        return f"What is tested is each client's model {next(iter(used))}."
    return (
        "What is tested is each client's model "
        + "; ".join(f"{model} for {listed(names)}" for model, names in used.items())
        + "."
    )


def _name(setting: object) -> str:
    return str(setting.get("name")) if isinstance(setting, Mapping) else str(setting)


def _notes(study: Study) -> list[Html]:
    notes = [*study.notes, *map(str, study.skipped), *_sampled(study)]
    return [tag("ul", join(tag("li", note) for note in notes), class_="notes")] if notes else []


def _sampled(study: Study) -> list[str]:
    """Large populations are evaluated on a fixed sample."""
    found = []
    for method in study.methods:
        record = method.run.record
        tested = max((len(each.last) for each in method.replicas), default=0)
        if 0 < tested < record.clients - len(record.newcomers):
            found.append(f"{method.name} was tested on {tested:,} of {record.clients:,} clients.")
    return found
