"""The report's table of clients: who is hurt by which method, readable with twelve methods on 1,280 pixels."""

import re
from pathlib import Path

import pytest

from browser import PAPER, Browser
from partita.formatting import MINUS
from partita.report.report import report, write_report
from partita.report.sections.clients import MOST_PRINTED, SIGNS
from partita.report.study import study
from studies import TWELVE, experiment_of, write_run

NAMED = [{"name": "global", "run": "../base", "variant": "before_local", "label": "fedavg"}]


def runs(folder: Path, methods: tuple[str, ...] = TWELVE, clients: int = 3, others: float = 0.6) -> list[Path]:
    """The first client is surely hurt by the first method, the second perhaps, the others not at all."""
    names = [f"writer {number:03d}" for number in range(clients)]
    base = {1: [0.8, 0.8, *[0.5] * (clients - 2)]}
    write_run(folder / "base", base, label="global", experiment=experiment_of("global"), names=names)
    made = []
    for number, method in enumerate(methods):
        scores = [0.2, 0.79] if number == 0 else [0.9, 0.9 + number / 1000]
        made.append(
            write_run(
                folder / method,
                {1: [*scores, *[others] * (clients - 2)]},
                label=method,
                experiment=experiment_of(method),
                names=names,
                analyses={"baselines": NAMED},
            )
        )
    return made


def cells(page: str) -> list[list[str]]:
    [found] = re.findall(r'aria-label="Test accuracy by client">(.*?)</table>', page)
    rows = (re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall("<tr>(.*?)</tr>", found))
    return [[re.sub("<[^>]*>", "", cell) for cell in row] for row in rows]


def test_signs_and_counts(tmp_path: Path) -> None:
    titles, *rows = cells(report(study(runs(tmp_path, TWELVE[:2]))))
    assert titles == ["client", "test samples", "global (baseline)", "apfl", "ditto", "hurt, against global"]
    assert rows == [
        ["writer 000", "100", "80.0", f"20.0{SIGNS['surely']}", "90.0", "surely by 1"],
        ["writer 001", "100", "80.0", f"79.0{SIGNS['perhaps']}", "90.0", "perhaps by 1"],
        ["writer 002", "100", "50.0", "60.0", "60.0", "by none"],
    ]


def test_a_single_method_has_the_interval(tmp_path: Path) -> None:
    """Of totals here, since no answers are stored: 20 and 80 of 100, and 79 and 80."""
    titles, *rows = cells(report(study(runs(tmp_path, TWELVE[:1]))))
    assert titles[-1] == "gain over global (95 %), hurt"
    said = [row[-1].replace(MINUS, "-") for row in rows]
    assert re.fullmatch(r"-60\.0 \(-69\.\d to -47\.\d\), surely", said[0])
    assert re.fullmatch(r"-1\.0 \(-12\.\d to \+10\.\d\), perhaps", said[1])
    assert said[2].endswith(", not")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_twelve_methods_fit(shown: Browser, tmp_path: Path, scheme: str) -> None:
    folders = runs(tmp_path, clients=40, others=1.0)
    shown.open(write_report(folders, tmp_path / "report.html"), width=1280, scheme=scheme)
    table = 'document.querySelector("#clients .scroll")'
    assert shown.evaluate(f"{table}.scrollWidth <= {table}.clientWidth")
    wide = f"[...{table}.querySelectorAll('thead th')].every(each => each.scrollWidth <= each.clientWidth + 1)"
    assert shown.evaluate(wide), "no name is cut off"


def test_twelve_methods_fit_on_paper(shown: Browser, tmp_path: Path) -> None:
    """With every table open that is printed; of many clients the first sixty."""
    path = write_report(runs(tmp_path, clients=100), tmp_path / "report.html")
    shown.open(path, width=PAPER)
    shown.evaluate("dispatchEvent(new Event('beforeprint'))")
    shown.ask("Emulation.setEmulatedMedia", media="print")
    assert shown.evaluate("document.querySelectorAll('details[open]').length") > 0
    assert shown.evaluate("document.documentElement.scrollWidth") <= PAPER
    visible = "[...document.querySelectorAll('#clients tbody tr')].filter(each => each.offsetHeight > 0).length"
    assert shown.evaluate(visible) == MOST_PRINTED
    assert f"On paper, the first {MOST_PRINTED}." in path.read_text(encoding="utf-8")
