"""The command that looks into a finished run."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..evaluation.metric import Metric
from . import terminal
from .options import AsJson, Folder, Trust, use_one_thread

if TYPE_CHECKING:
    from ..runs.evaluate import Evaluated


def evaluate(
    run: Folder,
    what: Annotated[
        str | None,
        typer.Option(help="finetuning, without_head, inside_outside, similarity, embedding; by default what applies."),
    ] = None,
    clients: Annotated[int, typer.Option(help="At most so many clients; of more a fixed sample.")] = 100,
    epochs: Annotated[int | None, typer.Option(help="Epochs of fine-tuning; by default the method's, or 5.")] = None,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate of fine-tuning; by default the method's, or 0.001.")
    ] = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Look into a finished run with the evaluations of the papers, and keep what is found in the run for its report.

    finetuning: scores after every epoch of fine-tuning the head, the body or all. without_head: accuracy by the nearest
    template. inside_outside: accuracy on classes that a client trained on and on others. similarity: of clients'
    layers. embedding: a map of representations.

    Examples:

    partita evaluate runs/fedper-digits-1

    partita evaluate runs/fedper-digits-1 --what finetuning,without_head --clients 20 --epochs 10 --lr 0.01
    """
    from ..runs.evaluate import Scope, evaluate as look
    from ..runs.session import Session

    use_one_thread()
    names = [name.strip() for name in what.split(",")] if what else None
    with (
        terminal.show_events(not as_json) as on_event,
        Session.open(run, trust=trust, on_event=on_event) as session,
    ):
        found = look(session, names, Scope(clients, epochs, lr))
        metric = session.record.metric
    if as_json:
        print(json.dumps({"run": str(run), "analyses": found.found, "left_out": found.left_out}))
    else:
        _print(found, metric)


def _print(evaluated: "Evaluated", metric: str) -> None:
    found = evaluated.found
    if "finetuning" in found:
        _print_finetuning(found["finetuning"], metric)
    if "without_head" in found:
        _print_rows(metric, {name.replace("_", " "): found["without_head"][name] for name in _HEADS})
    if "inside_outside" in found:
        sides = found["inside_outside"]
        rows = {"classes trained on": sides["inside"], "other classes": sides["outside"]}
        if sides["before_local"]:
            rows["before fine-tuning: trained on"] = sides["before_local"]["inside"]
            rows["before fine-tuning: other"] = sides["before_local"]["outside"]
        _print_rows(metric, rows)
    if "similarity" in found:
        _print_similarity(found["similarity"])
    if "embedding" in found:
        terminal.output.print(f"A map of {len(found['embedding']['x'])} test samples is kept for the report.")
    for name, reason in evaluated.left_out.items():
        terminal.tell(f"{name} does not apply: {reason}")


_HEADS = ("with_head", "cosine", "euclidean")


def _print_finetuning(found: dict[str, Any], metric: str) -> None:
    rows = terminal.table(f"test {metric} after epoch", *map(str, found["epochs"]))
    for part, curve in found["parts"].items():
        rows.add_row(part, *("-" if value is None else terminal.score(value, metric) for value in curve["macro"]))
    terminal.output.print(rows)
    terminal.output.print(f"Mean over {len(found['clients'])} clients, at a learning rate of {found['lr']:g}.\n")


def _print_rows(metric: str, summaries: dict[str, dict[str, float] | None]) -> None:
    rows = terminal.table(f"test {metric}", "mean ± spread", "all samples", "clients")
    for name, summary in summaries.items():
        if summary:
            spread = Metric(metric).spread(summary["macro"], summary["std"])
            rows.add_row(name, spread, terminal.score(summary["micro"], metric), f"{summary['clients']}")
    terminal.output.print(rows, "")


def _print_similarity(found: dict[str, Any]) -> None:
    rows = terminal.table("layer", "cosine of weights", "alignment (CKA)")
    for at, layer in enumerate(found["layers"]):
        cells = ((found[name][at], found[f"{name}_std"][at]) for name in ("cosine", "cka"))
        rows.add_row(layer, *("-" if mean is None else f"{mean:.3f} ± {std:.3f}" for mean, std in cells))
    terminal.output.print(rows)
    terminal.output.print(f"Mean ± spread over pairs of {len(found['clients'])} clients.\n")
