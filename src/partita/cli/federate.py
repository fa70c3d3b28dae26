"""Commands of the server of a real federation, and of a whole one on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PartitaError
from . import terminal
from .node import PlanFile, plan_of
from .options import AsJson, ExperimentFile, Overrides, Trust, file_and_changes, use_one_thread
from .run import report_on, shown
from .show import print_kept

if TYPE_CHECKING:
    from ..deploy.plan import Plan
    from ..deploy.server import Limits
    from ..deploy.superlink import SuperLink

Seconds = Annotated[float, typer.Option(help="In which a site must answer.")]
Replies = Annotated[int, typer.Option(help="How many updates a round needs at least.")]


def server(
    plan: PlanFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the run; one that exists goes on.")],
    superlink: Annotated[str, typer.Option(help="Host and port of the SuperLink, on this machine.")],
    certificate: Annotated[Path, typer.Option(help="Of the authority that signed the SuperLink's certificate.")],
    seconds: Seconds = 600.0,
    replies: Replies = 1,
    norm: Annotated[float | None, typer.Option(help="How far an update may be from what was received.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a plan with sites that are connected to a Flower SuperLink, as a run like any other.

    The same command continues a run that was interrupted or killed.

    Example: partita federate server plan.json --superlink localhost:8000 --certificate authority.crt --output runs/ours
    """
    from ..deploy.server import Limits
    from ..deploy.superlink import SuperLink

    use_one_thread()
    _run(plan_of(plan), SuperLink(superlink, certificate), Limits(seconds, replies, norm), output, as_json)


def up(
    experiment: ExperimentFile = None,
    overrides: Overrides = None,
    nodes: Annotated[int | None, typer.Option(help="The same as data.split.clients=COUNT.", min=1)] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The folder for the run, the sites and the SuperLink.")
    ] = Path("federation"),
    port: Annotated[int, typer.Option(help="Of the SuperLink; by default one that is free.")] = 0,
    seconds: Seconds = 600.0,
    replies: Replies = 1,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Try a whole federation on this machine: a SuperLink, and for each client a site of its own, over loopback.

    The same command with the same folder continues what was interrupted.

    Example: partita federate up experiment.toml rounds=5 --nodes 3 --output trial
    """
    from ..deploy.loopback import loopback
    from ..deploy.plan import Plan
    from ..deploy.server import Limits
    from ..experiment.description import describe_experiment
    from ..experiment.files import make, read

    use_one_thread()
    file, changes = file_and_changes(experiment, overrides)
    count = [] if nodes is None else [f"data.split.clients={nodes}"]
    made = make(read(file, [*changes, *count], trust=trust))
    data = describe_experiment(made)["data"]
    if not isinstance(data, dict) or "name" not in data:
        raise PartitaError("The data cannot be named in the files of sites. Choose a data source by its name.")
    plan, limits = Plan.of(made), Limits(seconds, replies)
    terminal.tell(f"Starting a SuperLink and {len(plan.sites)} sites in {output}.")
    with loopback(plan, data, output, port) as superlink:
        _run(plan, superlink, limits, output / "run", as_json)


def _run(plan: "Plan", superlink: "SuperLink", limits: "Limits", folder: Path, as_json: bool) -> None:
    from ..api.run import keep
    from ..deploy.federated import federated

    with shown(folder, as_json, "the same command") as on_event, federated(plan, superlink, limits) as (made, sites):
        kept = keep(made, folder, baselines=None, on=sites, on_event=on_event)
    report_on(folder, tell=not as_json)
    print_kept(kept.stored, kept.baselines, as_json)
