"""The command that reports a site's gain from taking part, and what left the site."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PartitaError
from . import terminal
from .node import NodeFile
from .options import AsJson, use_one_thread

if TYPE_CHECKING:
    from ..deploy.benefit import Benefit, Left

VERDICTS = {"not": "not hurt", "perhaps": "perhaps hurt", "surely": "surely hurt"}


def report(
    node: NodeFile,
    plan: Annotated[
        str | None, typer.Option(metavar="HASH", help="The first letters of a plan's hash; by default all plans.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the weights of the site's own network to this file (safetensors)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare a site's model with local training and with global models, and list what left the site.

    The command trains the local model now, on the site's data alone, and sends nothing. The site may be running.

    Examples:

    partita node report node.toml

    partita node report node.toml --plan 3f6c --model ours.safetensors
    """
    from ..deploy.benefit import benefit, left, network_weights
    from ..deploy.node import Node

    use_one_thread()
    site = Node.read(node)
    name, privacy = site.settings.name, site.gate.leaving.privacy
    with site.store(write=False) as store:
        hashes = [each for each in store.evaluated if each.startswith(plan or "")]
        if not hashes:
            known = ", ".join(each[:12] for each in store.evaluated) or "none"
            raise PartitaError(
                f"No plan {f'that begins with {plan} ' if plan else ''}was evaluated at {name} (known: {known}). A "
                "plan is evaluated after its last round at the latest."
            )
        if model and len(hashes) > 1:
            raise PartitaError(f"{name} has models of {len(hashes)} plans. Choose one: --plan {hashes[0][:12]}")
        data = site.load()
        with terminal.busy("Training on the site's data alone", show=not as_json):
            found = [(benefit(each, store, name, data), left(site.log, each)) for each in hashes]
        spent = privacy.spent(store.releases) if privacy else None
        if model:
            from safetensors.torch import save_file

            weights = network_weights(hashes[0], store, name, data)
            save_file({key: tensor.contiguous() for key, tensor in weights.items()}, model)
    if as_json:
        parts = [{"benefit": asdict(one), "left": asdict(other)} for one, other in found]
        print(json.dumps({"site": name, "plans": parts, "epsilon": spent}))
        return
    for one, other in found:
        _print_benefit(name, one)
        _print_left(other)
    if privacy and spent is not None:
        terminal.say(f"Privacy: epsilon = {spent:.3g} of {privacy.epsilon:g} is spent (delta = {privacy.delta:g}).")


def _print_benefit(site: str, found: "Benefit") -> None:
    from ..evaluation.metric import Metric
    from ..formatting import MINUS, amount

    metric = Metric(found.metric)
    terminal.say(
        (f"{site} in the plan {found.plan[:12]}", "bold"),
        f": {found.label} with {found.network}, {amount(found.sites, 'site')}, after round {found.round} of "
        f"{found.rounds}, on {amount(found.samples, 'test sample')}",
    )
    rows = [("its model", metric.text(found.score), "", "")]
    for each in found.gains:
        change = metric.change_within(each.gains[0], each.intervals[0]).replace(MINUS, "-")
        rows.append((each.over, metric.text(each.others[0]), change, VERDICTS[each.verdict(0)]))
    width = max(len(name) for name, *_ in rows)
    for name, score, change, verdict in rows:
        terminal.say(f"  {name:{width}}  {score:>8}  {change}{': ' if verdict else ''}{verdict}")
    tried = ", ".join(f"{rate:g}" for rate in found.rates)
    how = f"the best on validation data of {tried}" if tried else "there are no validation data to choose it on"
    terminal.say(f"  Local training has the same rounds and epochs, at the rate {found.rate:g}: {how}.")
    if len(found.gains) == 1:
        terminal.say(
            "  No global model is known here, because no plan shared a whole network. A plan of fedavg with the same "
            "sites gives one."
        )


def _print_left(found: "Left") -> None:
    from ..formatting import amount, byte_text

    names = ", ".join(found.tensors) or "no tensor"
    terminal.say(
        f"  Left the site: {byte_text(found.bytes)} with {amount(found.updates, 'update')} of {names}"
        f"{' (with masks, for secure sums)' if found.masked else ''}; "
        f"{amount(found.metrics, 'metric')}; {'its numbers of samples' if found.facts else 'no numbers of samples'}."
    )
    for reason, count in (found.refused or {}).items():
        terminal.say(f"  Refused, {amount(count, 'time')}: {reason}")
