"""What was run? In words."""

from collections.abc import Mapping
from typing import Any

from ...evaluation.metric import MODELS
from ...formatting import amount, listed
from ..figure import Section, paragraph, section
from ..markup import Html, join, tag
from ..study import Study


def overview(study: Study) -> Section:
    first = study.views[0].about
    several = len(study.methods) > 1
    oracle = any(each.about["oracle_validation"] for each in study.views)
    names = [method.name for method in study.methods]
    sentences = [
        (f"{amount(len(names), 'method')}, {listed(names)}, were" if several else f"{names[0]} was")
        + f" trained on {_data(study)}.",
        _length(study),
        _seeds(study),
        _model(study),
        f"All scores are {study.metric.name} on test data"
        + ("." if oracle else ", which no method sees and which choose nothing."),
    ]
    if first["newcomers"]:
        sentences.append(
            f"{amount(len(first['newcomers']), 'client')} never trained and are told apart as new clients."
        )
    return section("overview", "What was run", paragraph(" ".join(filter(None, sentences))), *_notes(study))


def _data(study: Study) -> str:
    described = dict.fromkeys(_division(each.about) for each in study.views)
    return listed(list(described))


def _division(about: Mapping[str, Any]) -> str:
    clients = amount(about["clients"], "client")
    origin = about.get("origin") or {}
    split = origin.get("split") if isinstance(origin, Mapping) else None
    if not isinstance(split, Mapping):
        return f"{about['data']}, {clients}"
    name, alpha = split.get("name"), split.get("alpha")
    how = f"{name}, alpha {alpha:g}" if isinstance(alpha, int | float) else str(name)
    return f"{about['data']}, divided among {clients} ({how})"


def _length(study: Study) -> str:
    rounds = sorted({each.about["rounds"] for each in study.views})
    networks = dict.fromkeys(_name(each.about["settings"].get("model", "mlp")) for each in study.views)
    shares = sorted({each.about["settings"].get("participation", 1.0) for each in study.views})
    who = (
        "all clients take"
        if shares == [1.0]
        else f"{listed([f'{100 * share:g} %' for share in shares])} of clients take"
    )
    number = listed([f"{count:,}" for count in rounds])
    unit = "round" if rounds == [1] else "rounds"
    return f"The network is {listed(list(networks))}; {who} part in each of {number} {unit}."


def _seeds(study: Study) -> str:
    seeds = study.seeds
    if len(seeds) == 1:
        return f"The seed is {seeds[0]}: one seed says nothing of how much chance matters."
    return f"Each is repeated under {len(seeds)} seeds ({listed([str(seed) for seed in seeds])})."


def _model(study: Study) -> str:
    used: dict[str, list[str]] = {}
    for method in study.methods:
        used.setdefault(MODELS[method.view.about["model"]], []).append(method.name)
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
    notes = [*study.notes, *_sampled(study)]
    return [tag("ul", join(tag("li", note) for note in notes), class_="notes")] if notes else []


def _sampled(study: Study) -> list[str]:
    """Large populations are evaluated on a fixed sample."""
    found = []
    for method in study.methods:
        about = method.view.about
        tested = max((len(each.last) for each in method.replicas), default=0)
        if 0 < tested < about["clients"] - len(about["newcomers"]):
            found.append(f"{method.name} was tested on {tested:,} of {about['clients']:,} clients.")
    return found
