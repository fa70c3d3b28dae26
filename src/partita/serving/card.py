"""What does a folder of models say of itself? A card: what it is, how it was made, how good it is."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from ..evaluation.gains import hurt_text
from ..evaluation.metric import Metric
from ..evaluation.variants import VARIANTS, Variant
from ..experiment.settings.flat import PYTHON
from ..formatting import MINUS, NONE, amount
from ..runs.gains import gains_of
from .card_files import FORMAT, PREPARATION
from .facts import SCORED, scores_told
from .loaded import LoadedRun

MOST_CLASSES, MOST_CLIENTS = 50, 20
"""The most classes and clients that the text lists; the JSON has all."""


def card_of(
    run: LoadedRun,
    which: Variant | None,
    clients: Mapping[str, dict[str, Any]],
    personal: Sequence[str],
    tensors: Sequence[str],
    licence: str | None,
) -> dict[str, Any]:
    """All that is known of the models, as JSON can hold it, without the files."""
    record, data = run.stored.record, run.experiment.data
    algorithm = run.population.algorithm
    return {
        "format": FORMAT,
        "partita": version("partita"),
        "method": {
            "label": record.label,
            "settings": record.experiment["algorithm"],
            "predicts": algorithm.predict is not None,
        },
        "network": record.experiment["model"],
        "facts": run.facts(0),
        "groups": {name: list(names) for name, names in run.population.task.network.groups.items()},
        "buffers": run.experiment.buffers,
        "variant": which or record.variant,
        "kind": data.kind,
        "metric": record.metric,
        "inputs": run.inputs.as_dict(),
        "classes": [] if data.kind != "classification" else list(run.class_names),
        "licence": licence,
        "run": {
            "folder": run.folder.name,
            "rounds": run.stored.done,
            "seed": record.seed,
            "started": record.started,
            "ended": record.ended,
            "partita": record.partita,
            "environment": record.environment,
            "oracle_validation": record.oracle_validation,
        },
        "data": {"name": record.data, "origin": record.origin, "fingerprint": record.fingerprint},
        "scores": _scores(run, which),
        "personal": list(personal),
        "tensors": list(tensors),
        "clients": dict(clients),
    }


def _scores(run: LoadedRun, which: Variant | None) -> dict[str, Any]:
    """The summary over clients on test data, the floor and the baselines."""
    stored = run.stored
    summary = stored.summaries().get(which or stored.record.variant)
    guard = stored.analyses.get("guard") if which is None else None
    return {
        "round": stored.last,
        "test": asdict(summary) if summary else None,
        "guarded": {"macro": guard["macro_guarded"], "hurt": guard["hurt_after"]} if guard else None,
        "compared": [
            {
                "with": gain.over,
                "macro": gain.macro,
                "gain": gain.mean,
                "hurt": len(gain.hurt),
                "surely": len(gain.surely) if gain.has_intervals else None,
                "of": len(gain.clients),
            }
            for gain in gains_of(stored)
        ]
        if which in (None, stored.record.variant)
        else [],
    }


def card_text(card: Mapping[str, Any]) -> str:
    """The card in Markdown."""
    run, data, scores, metric = card["run"], card["data"], card["scores"], Metric(card["metric"])
    lines = [
        f"# {_plain(card['method']['label'])} on {_plain(data['name'])}",
        "",
        f"{_models_text(card)}, by personalized federated learning "
        f"({_plain(card['method']['label'])}, {run['rounds']} rounds, seed {run['seed']}), written by partita "
        f"{card['partita']} from the run `{_plain(run['folder'])}`.",
        "",
        f"- Network: `{_plain(card['network']['name'])}`",
        f"- Licence: {_plain(card['licence'] or 'not stated')}",
        f"- Inputs: {_inputs_text(card['inputs'], PREPARATION in card['files'])}",
        f"- Outputs: {_outputs_text(card)}",
        f"- Personal tensors: {', '.join(f'`{_plain(name)}`' for name in card['personal']) or 'none'}",
        f"- Data: {_plain(data['name'])}, divided by {_plain(_split(data['origin']))}; fingerprint "
        f"`{data['fingerprint'][:16]}`",
    ]
    if run["oracle_validation"]:
        lines.append("- Test data were handed out as validation data: compare with no other result.")
    lines += ["", "## Scores", ""]
    if scores["test"]:
        test = scores["test"]
        lines += [
            f"Test {metric.name} after round {scores['round']}, mean ± spread over {test['clients']} clients of the "
            f"run: {metric.spread(test['macro'], test['std'])}; worst tenth of the clients: "
            f"{metric.text(test['worst_decile'])}.",
            "",
        ]
    if scores["guarded"]:
        lines += [f"With what the guard chose for each client: {metric.text(scores['guarded']['macro'])}.", ""]
    if scores["compared"]:
        lines += [f"| compared with | its {metric.name} | gain | clients hurt |", "|---|---|---|---|"]
        lines += [
            f"| {_plain(each['with'])} | {metric.text(each['macro'])} | "
            f"{metric.change(each['gain']).replace(MINUS, '-')} | "
            f"{hurt_text(each['hurt'], each['surely'] or 0, each['of'], known=each['surely'] is not None)} |"
            for each in scores["compared"]
        ]
        lines.append("")
    lines += _clients_text(card["clients"], metric)
    lines += [
        "## Use",
        "",
        "```python",
        "import partita",
        "",
        *_load_text(card["network"]),
        f"model = models.model({next(iter(card['clients']))!r})",
        "labels, probabilities = model.predict(inputs)",
        "```",
        "",
        "`shared.safetensors` holds what clients have in common, `clients/` what each has of its own, `card.json` all "
        "of this and the SHA-256 of every file.",
        "",
        *(line for form, graph in card.get("graphs", {}).items() for line in (_graph_text(form, graph), "")),
        "## Files",
        "",
        *(
            f"- `{_plain(name)}`, {entry['bytes']:,} bytes"
            for name, entry in list(card["files"].items())[:MOST_CLIENTS]
        ),
    ]
    if (more := len(card["files"]) - MOST_CLIENTS) > 0:
        lines.append(f"- and {more} more")
    return "\n".join(lines) + "\n"


def _load_text(network: Mapping[str, Any]) -> list[str]:
    """The line that loads the models; a class of the author's own must be given, since no code is in the folder."""
    if PYTHON not in network and ":" not in network["name"]:
        return ['models = partita.load_exported("THIS FOLDER")']
    name = _plain(network["name"].rpartition(":")[2])
    return [
        f"# {name} is the class of the network, whose code is not in this folder: get it from the author.",
        f'models = partita.load_exported("THIS FOLDER", network={name})',
    ]


def _models_text(card: Mapping[str, Any]) -> str:
    """A sentence on whose models these are, and how they were made."""
    entries = list(card["clients"].values())
    told = entries[0].get("onboarded")
    how = VARIANTS[card["variant"]]
    if told:
        epochs = amount(told["epochs"], "epoch")
        how = f"onboarded with {amount(told['samples'], 'sample')} ({epochs} from the start `{told['start']}`)"
    return f"{'Model' if len(entries) == 1 else 'Models'} of {amount(len(entries), 'client')}, {how}"


def _clients_text(clients: Mapping[str, Mapping[str, Any]], metric: Metric) -> list[str]:
    """A table of the first clients and their scores."""
    known = {name: scores_told(entry) for name, entry in list(clients.items())[:MOST_CLIENTS]}
    models = [model for model in SCORED if any(model in scores for scores in known.values())]
    if not models:
        return []
    rows = [
        f"| {_plain(name)} | "
        f"{' | '.join(metric.text(scores[model]) if model in scores else NONE for model in models)} |"
        for name, scores in known.items()
    ]
    more = len(clients) - len(known)
    return [
        f"Test {metric.name} of each client, by model:",
        "",
        f"| client | {' | '.join(models)} |",
        f"|---{'|---' * len(models)}|",
        *rows,
        "",
        *([f"`card.json` has {amount(more, 'client')} more.", ""] if more > 0 else []),
    ]


def _graph_text(form: str, graph: Mapping[str, Any]) -> str:
    """What a graph takes, or where each client's is."""
    if "file" not in graph:
        why = f": {graph['why']}" if "why" in graph else ""
        return f"`{form}/` has a {'folder' if 'folders' in graph else 'file'} for each client{why}."
    if graph["client"] is None:
        return f"`{graph['file']}` takes `inputs` and gives `logits`, the same for all clients."
    places = "one number" if graph["client"] == "one" else "a number for each row of `inputs`"
    return (
        f"`{graph['file']}` takes prepared `inputs`, and `client`: {places}, the place of the client in "
        f"`graphs.{form}.clients` of `card.json`, from 0. It gives `logits`. Any other number is an error in torch and "
        "in onnxruntime on a CPU; elsewhere check the number first."
    )


def _inputs_text(inputs: Mapping[str, Any], normalised: bool) -> str:
    """The shape and type of inputs, and how they are prepared."""
    if inputs["texts"] is not None:
        return (
            f"texts, of which {inputs['shape'][0]} {'characters' if inputs['texts']['characters'] else 'words'} count"
        )
    shape = " x ".join(map(str, inputs["shape"])) or "one"
    steps = [
        *(["divided by 255"] if inputs["type"] == "bytes" else []),
        *([f"normalised by `mean` and `std` in `{PREPARATION}`"] if normalised else []),
    ]
    return f"batches of {shape} {inputs['type']}; prepared: {', then '.join(steps) or 'as they are'}"


def _outputs_text(card: Mapping[str, Any]) -> str:
    if card["kind"] == "regression":
        return "numbers"
    if card["kind"] == "next_word":
        return "the next word"
    classes = [_plain(name) for name in card["classes"]]
    more = f" and {len(classes) - MOST_CLASSES} more" if len(classes) > MOST_CLASSES else ""
    return f"{len(classes)} classes: {', '.join(classes[:MOST_CLASSES])}{more}"


def _split(origin: Mapping[str, Any]) -> str:
    split = origin.get("split")
    if not isinstance(split, Mapping):
        return "hand"
    settings = ", ".join(f"{key} {value}" for key, value in split.items() if key != "name" and value is not None)
    return f"{split.get('name')}" + (f" ({settings})" if settings else "")


def _plain(text: object) -> str:
    """Other people's text, in one line, without what Markdown or HTML would read as its own."""
    kept = "".join(" " if character in "\r\n\t" else character for character in str(text))
    for mark in "\\`*_[]<>|#":
        kept = (
            kept.replace(mark, "\\" + mark)
            if mark not in "<>"
            else kept.replace(mark, "&lt;" if mark == "<" else "&gt;")
        )
    return kept
