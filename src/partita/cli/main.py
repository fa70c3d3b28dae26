"""The command line. Torch is imported only by the commands that need it, so that help is quick."""

import gc
import sys
import warnings

import typer

from ..errors import PartitaError
from . import (
    data,
    estimate,
    evaluate,
    export,
    guard,
    inform,
    onboard,
    predict,
    report,
    run,
    serve,
    show,
    terminal,
    verify,
)

app = typer.Typer(
    name="partita",
    help="Personalized federated learning: numbers you can believe, models you can use.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Look at data and how they are divided among clients.", no_args_is_help=True)
app.add_typer(data_app, name="data")

app.command()(run.run)
app.command()(run.resume)
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
data_app.command("list")(data.data_list)
data_app.command("show")(data.data_show)
data_app.command("split")(data.data_split)


def main() -> None:
    """The entry point: errors in the user's words, without a traceback."""
    warnings.showwarning = terminal.show_warning
    try:
        app()
    except PartitaError as problem:
        terminal.tell(str(problem), "bold red", "Error")
        raise SystemExit(2) from None
    except BrokenPipeError:
        # Whoever read the output has gone, as in `partita list algorithms | head`.
        sys.stderr.close()
        raise SystemExit(1) from None
    finally:
        # All memory goes with the process. To look for garbage in it before would take longer than some commands.
        gc.freeze()
