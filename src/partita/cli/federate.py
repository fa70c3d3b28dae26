"""Commands that run a plan: with the sites of a real federation, or with all sites on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PartitaError
from . import terminal
from .interrupts import interrupted_once
from .node import PlanFile, Secure, plan_of
from .options import AsJson, ExperimentFile, Overrides, Trust, file_and_changes, interruptible, use_one_thread
from .progress import report_on, shown
from .show import print_kept

if TYPE_CHECKING:
    from ..deploy.deployment import Deployment

Federation = Annotated[
    Path,
    typer.Option(
        "--federation", "-f", metavar="FOLDER", help="The operator's folder, written by: partita federate init"
    ),
]
Seconds = Annotated[float, typer.Option(help="The seconds within which a site must answer.")]
Replies = Annotated[int, typer.Option(help="The least number of updates in a round.", min=1)]
Absent = Annotated[float, typer.Option(help="The seconds after which a round continues without an absent site.")]
Norm = Annotated[float | None, typer.Option(help="The largest norm of an update; by default no bound.")]


def server(
    plan: PlanFile,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FOLDER", help="The folder of the run; an existing run is continued."),
    ],
    federation: Federation = Path(),
    seconds: Seconds = 600.0,
    replies: Replies = 1,
    absent: Absent = 60.0,
    norm: Norm = None,
    as_json: AsJson = False,
) -> None:
    """Run a plan with the enrolled sites. Start this command on the SuperLink's machine.

    The same command, or partita resume, continues a run that was interrupted or killed.

    Examples:

    partita federate server plan.json --federation hospitals --output runs/ours

    partita federate server plan.json --output runs/ours --seconds 1800 --replies 5
    """
    from ..deploy.deployment import Deployment
    from ..deploy.server import Limits

    run_deployment(Deployment(plan_of(plan), Limits(seconds, replies, norm, absent), federation), output, as_json)


def up(
    experiment: ExperimentFile = None,
    overrides: Overrides = None,
    nodes: Annotated[
        int | None, typer.Option(help="The number of sites; the same as data.split.clients=COUNT.", min=1)
    ] = None,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FOLDER", help="The folder for the run, the sites and the SuperLink."),
    ] = Path("federation"),
    port: Annotated[int, typer.Option(help="The SuperLink's port; 0 takes a free one.", min=0, max=65535)] = 0,
    seconds: Seconds = 600.0,
    replies: Replies = 1,
    absent: Absent = 60.0,
    norm: Norm = None,
    secure: Secure = False,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Try a federation on this machine: a SuperLink and a site for each client, over loopback.

    The same command with the same folder continues an interrupted run.

    Examples:

    partita federate up experiment.toml rounds=5 --nodes 3 --output trial

    partita federate status trial/run --web
    """
    from ..deploy.deployment import Deployment, Trial
    from ..deploy.plan import Plan
    from ..deploy.server import Limits
    from ..experiment.settings.description import describe_experiment
    from ..experiment.settings.files import make, read

    file, changes = file_and_changes(experiment, overrides)
    count = [] if nodes is None else [f"data.split.clients={nodes}"]
    made = make(read(file, [*changes, *count], trust=trust))
    data = describe_experiment(made)["data"]
    if not isinstance(data, dict) or "name" not in data:
        raise PartitaError("The data cannot be named in the files of sites. Choose a data source by its name.")
    limits = Limits(seconds, replies, norm, absent)
    run_deployment(Deployment(Plan.of(made, secure=secure), limits, Trial(data, port)), output / "run", as_json)


def run_deployment(deployment: "Deployment", folder: Path, as_json: bool) -> None:
    """Run a federation to its end, from its last committed round."""
    from ..api.run import keep
    from ..deploy.deployment import Trial
    from ..deploy.secure_sum import executor_of_sites

    use_one_thread()
    count = len(deployment.plan.sites)
    trial = isinstance(deployment.place, Trial)
    if not as_json:
        doing = f"Starting a SuperLink and {count} sites" if trial else f"Waiting for {count} sites"
        terminal.tell(f"{doing}. Watch them with: partita federate status {folder}")
    again = f"partita resume {folder}"
    with (
        shown(folder, as_json, again) as on_event,
        interrupted_once(again),
        deployment.open(folder, terminal.tell) as (made, sites),
    ):
        kept = keep(made, folder, baselines=None, on=executor_of_sites(sites), on_event=on_event)
    with interruptible(again):
        report_on(folder, tell=not as_json)
    print_kept(kept.stored, kept.baselines, as_json)
