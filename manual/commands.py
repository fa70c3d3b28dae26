"""What does the page of commands say? The help of every command, as `--help` prints it."""

import inspect
import re
from collections.abc import Iterator

import click
import typer

from partita.cli.main import app

from .markdown import code, table

HEAD = """# Commands

`partita COMMAND --help` prints the same. `partita --install-completion` makes the shell complete commands and names.
With `--json` a command prints one JSON document to the standard output; messages and progress go to the standard error.
Exit codes: 0 for success, 1 where a check found something, 2 for a wrong input, 130 after Ctrl-C.
"""
HIDDEN = ("install_completion", "show_completion", "help")


def page() -> str:
    return "\n".join([HEAD, *(_section(name, command) for name, command in commands())])


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command by its full name, those of groups after the others."""
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    inner = [(name, each) for name, each in group.commands.items() if isinstance(each, click.Group)]
    yield from ((name, each) for name, each in group.commands.items() if not isinstance(each, click.Group))
    for name, each in inner:
        yield from ((f"{name} {below}", command) for below, command in each.commands.items())


def _section(name: str, command: click.Command) -> str:
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    usage = " ".join(["partita", name, *(each.make_metavar(click.Context(command)) for each in arguments)])
    options = [each for each in command.params if isinstance(each, click.Option) and each.name not in HIDDEN]
    rows = [(code(_metavar(each, command)), _told(each), "") for each in arguments]
    rows += [(code(", ".join([*each.opts, *each.secondary_opts])), _told(each), _default(each)) for each in options]
    parts = [f"## partita {name}\n", f"    {usage} [OPTIONS]\n", _help(command)]
    return "\n".join([*parts, table(("", "meaning", "default"), rows) if rows else ""])


def _metavar(argument: click.Argument, command: click.Command) -> str:
    return argument.make_metavar(click.Context(command))


def _told(parameter: click.Parameter) -> str:
    text = getattr(parameter, "help", None) or ""
    choices = getattr(parameter.type, "choices", None)
    named = f" One of {', '.join(code(str(getattr(each, 'value', each))) for each in choices)}." if choices else ""
    return f"{text}{named}"


def _default(option: click.Option) -> str:
    if option.default in (None, False) or callable(option.default):
        return ""
    return code(str(getattr(option.default, "value", option.default)))


def _help(command: click.Command) -> str:
    """The docstring; examples become code."""
    text = re.sub(r"^Example: (?=partita )", "Example:\n\n", inspect.cleandoc(command.help or ""), flags=re.MULTILINE)
    return re.sub(r"^(?=partita )", "    ", text, flags=re.MULTILINE) + "\n"
