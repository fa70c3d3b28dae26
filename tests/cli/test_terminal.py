"""What somebody else wrote is shown, and the terminal does not obey it."""

import io
from pathlib import Path

import pytest
from typer.testing import CliRunner

from partita.cli.main import app
from partita.cli.terminal import PlainConsole, columns
from partita.evaluation.figures import Table
from partita.formatting import visible
from partita.report.tables import table_text

ESCAPES = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202etxt\r"


def test_control_characters_become_signs() -> None:
    shown = visible(ESCAPES + "\n")
    assert shown.endswith("\n")
    assert not any(each in shown for each in "\x1b\x07\x9b\u202e\r")
    assert "red" in shown


def test_tables_and_lines_hold_no_escapes() -> None:
    written = io.StringIO()
    console = PlainConsole(file=written, width=200, force_terminal=True, color_system="standard")
    rows = columns("client", "score")
    rows.add_row(f"[red]{ESCAPES}[/red]", "1")
    console.print(rows)
    console.print(f"b[/red] {ESCAPES}", style="bold")
    text = written.getvalue()
    assert "[red]" in text
    assert "b[/red]" in text
    # The console's own colours are there still.
    assert "\x1b[1m" in text
    assert "\x1b[31m" not in text
    assert "\x1b]0" not in text
    assert "\x9b" not in text


@pytest.mark.parametrize("command", ["runs", "verify", "show", "report"])
def test_folders_with_odd_names(own_folder: Path, command: str) -> None:
    """Markup and escapes in the name of a folder that holds a damaged run."""
    place = own_folder / f"b[/red]{ESCAPES}"
    place.mkdir(parents=True)
    (place / "run.sqlite").write_bytes(b"garbage" * 1000)
    done = CliRunner().invoke(app, [command, str(place)])
    assert done.exit_code in (1, 2)
    assert "\x1b]0" not in done.output
    assert done.exception is None or "MarkupError" not in repr(done.exception)


def test_every_cell_of_markdown_is_plain() -> None:
    table = Table(["a", "b"], [["x", "[x](javascript:alert(1))"], ["<b>", "1|2"]])
    text = table_text(table, "markdown")
    assert "[x](" not in text
    assert "<b>" not in text
    assert len(text.splitlines()[2].replace("\\|", "").split("|")) == 4
