"""Commands of a site of a real federation, and the command that makes a plan for sites."""

import datetime
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PartitaError
from ..formatting import amount
from . import terminal
from .options import AsJson, ExperimentFile, Overrides, Trust, file_and_changes, use_one_thread

if TYPE_CHECKING:
    from ..deploy.plan import Plan

NodeFile = Annotated[Path, typer.Argument(metavar="NODE.toml", help="The site's settings.")]
Secure = Annotated[
    bool, typer.Option("--secure", help="Use secure sums: the server learns the mean of updates, and no single update.")
]
PlanFile = Annotated[Path, typer.Argument(metavar="PLAN.json", help="A plan, written by: partita federate plan")]


def plan(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")],
    sites: Annotated[
        str, typer.Option(metavar="NAMES", help="The sites, separated by commas, as in --sites anna,ben,cleo")
    ] = "",
    schema: Annotated[
        str, typer.Option(metavar="VERSION", help="The version of the data's schema that sites' contracts require.")
    ] = "",
    secure: Secure = False,
    experiment: ExperimentFile = None,
    overrides: Overrides = None,
    trust: Trust = False,
) -> None:
    """Write the plan of a federation: method, settings, network and sites. Sites approve it by its hash.

    Without --sites, the sites are the clients of the experiment's data.

    Example: partita federate plan experiment.toml rounds=20 --sites anna,ben,cleo --output plan.json
    """
    from ..deploy.plan import Plan
    from ..experiment.settings.files import make, read

    file, changes = file_and_changes(experiment, overrides)
    names = [name.strip() for name in sites.split(",")] if sites else None
    made = Plan.of(make(read(file, changes, trust=trust)), names, schema=schema, secure=secure)
    output.write_text(made.text, encoding="utf-8")
    terminal.tell(f"The plan for {len(made.sites)} sites is in {output}. Its hash: {made.hash}")


def approve(
    node: NodeFile,
    plan: PlanFile,
    revoke: Annotated[bool, typer.Option("--revoke", help="Withdraw the approval.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Show a plan and approve it, so that the site accepts its orders. The site may run meanwhile.

    Example: partita node approve node.toml plan.json
    """
    from ..deploy.gate import write_approvals
    from ..deploy.node import APPROVALS, Node

    site = Node.read(node)
    shown = plan_of(plan)
    shown.number_of(site.settings.name)
    print(json.dumps({"hash": shown.hash, **json.loads(shown.text)}, indent=1))
    if not yes and not typer.confirm("Withdraw the approval?" if revoke else "Approve this plan?"):
        raise typer.Exit(1)
    approved = dict(site.gate.approved)
    if revoke:
        approved.pop(shown.hash, None)
    else:
        approved[shown.hash] = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    site.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_approvals(site.folder / APPROVALS, approved)
    terminal.tell(f"Approved at {site.settings.name}: {amount(len(approved), 'plan')}.")


def log(
    node: NodeFile,
    check: Annotated[
        bool, typer.Option("--verify", help="Check the chain of hashes, and print the last hash.")
    ] = False,
    last: Annotated[
        str | None, typer.Option(metavar="HASH", help="A hash noted earlier; with --verify, it must be in the log.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what arrived at a site and what left it, or check that the log is unchanged.

    Examples:

    partita node log node.toml

    partita node log node.toml --verify --last 3f6c...
    """
    from ..deploy.audit import entries_of, verify
    from ..deploy.node import Node

    path = Node.read(node).log
    if check:
        count, found = verify(path, last)
        if as_json:
            print(json.dumps({"entries": count, "last": found}))
        else:
            terminal.tell(f"{count} entries, unchanged. The last hash: {found}")
        return
    for entry in entries_of(path):
        if as_json:
            print(json.dumps(entry))
            continue
        hidden = ("line", "time", "event", "previous", "hash", "sha256")
        facts = ", ".join(f"{key} {value}" for key, value in entry.items() if key not in hidden)
        terminal.write(f"{entry['line']} {entry['time']} {entry['event']}: {facts}")


def run(node: NodeFile) -> None:
    """Run a site: load its data, and answer orders from its socket until it is interrupted.

    Example: partita node run node.toml
    """
    from ..deploy.node import Node
    from ..deploy.wire import listening, serve
    from .options import interruptible

    use_one_thread()
    site = Node.read(node)
    with (
        interruptible(f"partita node run {node}"),
        site.open() as opened,
        listening(site.socket, site.settings.group) as listener,
    ):
        terminal.tell(f"Site {opened.name} answers at {site.socket}.")
        serve(listener, opened.answer)


def check(node: NodeFile, as_json: AsJson = False) -> None:
    """Load the data of a site and check them against its contract, without answering orders.

    Example: partita node check node.toml
    """
    from ..deploy.gate import facts_of
    from ..deploy.node import Node

    site = Node.read(node)
    data = site.load()
    found = facts_of(data)
    if as_json:
        print(json.dumps(found))
    else:
        terminal.print_facts(found)
    site.gate.contract.need(data)
    terminal.tell(f"The data of {site.settings.name} fit their contract.")


def backup(
    node: NodeFile, file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file for the copy.")]
) -> None:
    """Copy the whole personal state of a site, also while the site is running.

    If the site has a key, the copy is encrypted with it: keep the key elsewhere. To restore the copy, stop the site,
    replace personal.sqlite with the copy, and see: partita node restore --help

    Example: partita node backup node.toml /backup/anna.sqlite
    """
    from ..deploy.node import Node

    with Node.read(node).store(write=False) as store:
        store.copy_to(file)
    terminal.tell(f"The personal state is copied to {file}.")


def restore(
    node: NodeFile,
    plan: PlanFile,
    round: Annotated[
        int, typer.Option(help="The round from which the server continues; the site's refusal names it.", min=1)
    ],
) -> None:
    """Continue with an older personal state, or with none, after the last one was lost and the server is ahead.

    Stop the site first. It then uses its last state of the plan as the state of the given round, as if it had not
    trained in between.

    Example: partita node restore node.toml plan.json --round 7
    """
    from contextlib import closing

    from ..deploy.audit import AuditLog
    from ..deploy.node import Node

    site, hash = Node.read(node), plan_of(plan).hash
    with site.store() as store, closing(AuditLog(site.log)) as log:
        held = store.restore(hash, round)
        log.add("restored", plan=hash, round=round, held=held)
    what = f"the state of round {held}" if held else "no state: the personal part starts again from its initial values"
    terminal.tell(f"{site.settings.name} continues from round {round} of {hash[:12]} with {what}.")


def plan_of(path: Path) -> "Plan":
    """The plan in a file."""
    from ..deploy.plan import Plan

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise PartitaError(f"Cannot read {path}: {reason}. Make a plan with: partita federate plan") from problem
    return Plan.read(text)
