"""The command line. Torch is imported only by the commands that need it, so that help is quick."""

import errno
import sys
import warnings
from typing import Annotated

import typer

from ..errors import PartitaError
from . import (
    data,
    estimate,
    evaluate,
    export,
    federate,
    guard,
    inform,
    node,
    node_report,
    onboard,
    operator,
    options,
    predict,
    recipe,
    report,
    run,
    serve,
    services,
    show,
    start,
    sweep,
    terminal,
    verify,
)

ADVICE = {
    errno.EMFILE: " Allow more open files: ulimit -n 1024",
    errno.ENOSPC: " Make room on the disk.",
}
app = typer.Typer(
    name="partita",
    help="Personalized federated learning: numbers you can believe, models you can use.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Show data sources and divide data among clients.", no_args_is_help=True)
app.add_typer(data_app, name="data")
node_app = typer.Typer(help="Run and inspect a site of a real federation.", no_args_is_help=True)
app.add_typer(node_app, name="node")
federate_app = typer.Typer(help="Plan and run a federation of sites that keep their data.", no_args_is_help=True)
app.add_typer(federate_app, name="federate")
recipe_app = typer.Typer(help="Repeat the experiments of papers, and judge the results.", no_args_is_help=True)
app.add_typer(recipe_app, name="recipe")


@app.callback(invoke_without_command=True)
def common(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=options.tell_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Personalized federated learning: numbers you can believe, models you can use."""
    if context.invoked_subcommand is None:
        start.first_steps(options.installed_version())


app.command()(start.new)
app.command()(run.run)
app.command()(run.resume)
app.command()(sweep.sweep)
app.command()(show.show)
app.command("runs")(show.list_runs)
app.command()(export.export)
app.command()(predict.predict)
app.command()(onboard.onboard)
app.command()(show.compare)
app.command()(guard.guard)
app.command()(evaluate.evaluate)
app.command()(report.report)
app.command()(verify.verify)
app.command()(serve.serve)
app.command("list")(inform.list_)
app.command()(inform.describe)
app.command()(inform.demo)
app.command()(estimate.estimate)
app.command()(start.schema)
app.command()(start.doctor)
data_app.command("list")(data.data_list)
data_app.command("show")(data.data_show)
data_app.command("split")(data.data_split)
node_app.command("run")(node.run)
node_app.command("connect")(services.connect)
node_app.command("approve")(node.approve)
node_app.command("log")(node.log)
node_app.command("check")(node.check)
node_app.command("report")(node_report.report)
node_app.command("backup")(node.backup)
node_app.command("restore")(node.restore)
recipe_app.command("list")(recipe.list_recipes)
recipe_app.command("show")(recipe.show_recipe)
recipe_app.command("run")(recipe.run)
recipe_app.command("check")(recipe.check)
recipe_app.command("page")(recipe.page)
federate_app.command("plan")(node.plan)
federate_app.command("server")(federate.server)
federate_app.command("up")(federate.up)
federate_app.command("superlink")(services.superlink)
federate_app.command("init")(operator.init)
federate_app.command("enrol")(operator.enrol)
federate_app.command("revoke")(operator.revoke)
federate_app.command("rotate")(operator.rotate)
federate_app.command("status")(operator.status)
for each in (app, data_app, node_app, federate_app, recipe_app):
    for command in each.registered_commands:
        command.help = options.help_of(command.callback)


def main() -> None:
    """The entry point. It shows errors as messages, without a traceback."""
    warnings.showwarning = terminal.show_warning
    try:
        app()
    except PartitaError as problem:
        terminal.tell(str(problem), "bold red", "Error")
        raise SystemExit(2) from None
    except BrokenPipeError:
        # The reader of the output has closed it, as in `partita list algorithms | head`.
        sys.stderr.close()
        raise SystemExit(1) from None
    except OSError as problem:
        where = f" ({problem.filename})" if problem.filename else ""
        terminal.tell(f"{problem.strerror or problem}{where}.{ADVICE.get(problem.errno or 0, '')}", "bold red", "Error")
        # What could not be written is not tried again at the end.
        sys.stdout = None
        raise SystemExit(2) from None
