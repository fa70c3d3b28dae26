"""A report of twelve methods: charts with names, small ones instead of a page for each, and nothing told twice."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from browser import PAPER, Browser
from partita.evaluation.analyses.training import training
from partita.report.charts.frame import wrapped
from partita.report.report import report, write_report
from partita.report.results import result_rows, titles
from partita.report.sections import analyses
from partita.report.study import study
from studies import TWELVE, experiment_of, write_run

CLIENTS = 4
LONG = "fedper_of_a_long_name optimizer.lr=0.01"


def _analyses(base: float) -> dict[str, Any]:
    curve = {"macro": [base, base + 0.01], "std": [0.1, 0.1], "micro": [base, base]}
    scores = {"macro": base, "std": 0.1, "micro": base, "clients": CLIENTS}
    guarded = {"macro_personal": 0.7, "macro_guarded": 0.7, "difference": 0.0, "low": 0.0, "high": 0.0}
    chosen = {"weights": [0, 1], "clients": list(range(CLIENTS)), "chosen": [1] * CLIENTS}
    return {
        "finetuning": {"clients": list(range(CLIENTS)), "epochs": [0, 1], "parts": {"head": curve, "full": curve}},
        "training": {"clients": list(range(CLIENTS)), "before_local": scores, "used": {**scores, "macro": base + 0.2}},
        "similarity": {
            "clients": [0, 1],
            "layers": ["one", "two"],
            **{"cosine": [0.9, 0.5], "cosine_std": [0.0, 0.0], "cka": [0.9, 0.5], "cka_std": [0.0, 0.0]},
            "matrix": [[1, base], [base, 1]],
        },
        "guard": {**chosen, **guarded, "hurt_before": 0, "hurt_after": 0},
    }


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Twelve methods under two seeds with baselines of two budgets; the first method hurts clients."""
    place = tmp_path_factory.mktemp("many") / ("in_a_folder_of_a_long_name_" * 4)
    floor = {"clients": list(range(CLIENTS)), "score": [0.5] * CLIENTS, "micro": 0.5, "macro": 0.5}
    names = ["anna", "ben", "cleo", "Hospital of the Holy Spirit, ward 6"]
    made = []
    for seed in (0, 1):
        for epochs, score in ((1, 0.4), (10, 0.45)):
            for name, other in (("local", 0.6), ("global", score), ("global + fine-tune", 0.65)):
                folder = place / f"{name}-{epochs}-{seed}"
                experiment = experiment_of(name, seed=seed, epochs=epochs)
                about: dict[str, Any] = {"seed": seed, "names": names, "experiment": experiment}
                write_run(folder, {1: [other] * CLIENTS}, label=name, analyses={"floor": floor}, **about)
        for number, method in enumerate(TWELVE):
            epochs = 10 if number == 1 else 1
            baselines = [
                {"name": name, "run": f"../{name}-{epochs}-{seed}", "variant": "before_local", "label": name}
                | {"budget": {"rounds": 1, "epochs": epochs}}
                for name in ("local", "global", "global + fine-tune")
            ]
            found = {**_analyses(0.5 + 0.1 * seed), "baselines": baselines}
            if number == 0:
                found["guard"] |= {"hurt_before": 2, "hurt_after": 1}
            experiment = experiment_of(method, seed=seed)
            about = {"seed": seed, "names": names, "experiment": experiment}
            scores = {1: [0.3 if number == 0 else 0.7] * CLIENTS}
            made.append(write_run(place / f"{method}-{seed}", scores, label=method, analyses=found, **about))
    return made


@pytest.fixture(scope="module")
def page(runs: list[Path]) -> str:
    return unescape(report(study(runs)))


def figure(page: str, title: str) -> str:
    [found] = re.findall(rf"<figure[^>]*><figcaption><strong>{re.escape(title)}</strong>.*?</figure>", page)
    return str(found)


@pytest.mark.parametrize("title", ["Cosine of parameters", "Alignment (CKA) of outputs"])
def test_lines_without_names_at_their_ends_have_a_legend(page: str, title: str) -> None:
    legend = re.findall(r'<ul class="key">(.*?)</ul>', figure(page, title))
    assert len(legend) == 1
    assert all(f"</svg>{method}</li>" in legend[0] for method in TWELVE)


def test_charts_of_one_kind_are_small_ones_with_one_legend_and_one_table(page: str) -> None:
    shown = figure(page, "Test accuracy by epoch")
    assert re.findall(r'<div class="small"><b>(.*?)</b>', shown) == list(TWELVE)
    assert shown.count('class="key"') == shown.count("<table") == 1
    assert f"Mean over {CLIENTS} clients and 2 seeds." in shown
    assert '<th scope="row">apfl</th><td>head</td><td>0</td><td>55.0 ± 10.0 %</td>' in shown


def test_scores_on_training_samples_are_one_table_of_means_over_seeds(page: str) -> None:
    assert page.count("before local training</th>") == 1
    assert '<th scope="row">ditto</th><td>55.0 ± 10.0 %</td><td>75.0 ± 10.0 %</td>' in page


def test_the_guard_draws_those_who_hurt(page: str) -> None:
    shown = figure(page, "Clients hurt")
    assert shown.count('class="bar') == 2
    assert '<th scope="row">apfl</th><td>4</td><td>2</td>' in shown
    assert "ditto" not in shown


def test_a_baseline_at_the_floor_is_told_from_others_of_its_name(page: str) -> None:
    said = "The baseline global, {} is no better than the floor ({} under seed 0, {} under seed 1)"
    for epochs, score in (("1 local epoch", "40.0 %"), ("10 local epochs", "45.0 %")):
        assert said.format(epochs, *[f"{score} against 50.0 %"] * 2) in page


def test_gains_over_different_baselines_have_no_best(tmp_path: Path) -> None:
    for label, score in (("short", 0.5), ("long", 0.6)):
        write_run(tmp_path / label, {1: [score] * 2}, label="local", experiment=experiment_of(label))
    for label, other, epochs in (("fedper", "short", 1), ("fedrep", "short", 1), ("ditto", "long", 10)):
        named = {"name": "local", "run": f"../{other}", "variant": "before_local", "label": "local"}
        score = {"fedper": 0.7, "fedrep": 0.65, "ditto": 0.72}[label]
        baselines = [{**named, "budget": {"rounds": 1, "epochs": epochs}}]
        write_run(tmp_path / label, {1: [score] * 2}, label=label, analyses={"baselines": baselines})
    alike, unlike = (study([tmp_path / each for each in some]) for some in (("fedper", "fedrep"), ("fedper", "ditto")))
    gain = titles(alike).index("gain over local")
    assert [gain in row.best for row in result_rows(alike) if row.kind == "method"] == [True, False]
    assert not any(gain in row.best for row in result_rows(unlike))
    assert {row.cells[0]: 1 in row.best for row in result_rows(unlike) if row.kind == "method"} == {
        "fedper": False,
        "ditto": True,
    }


def test_who_has_other_baselines_is_not_among_all_others(tmp_path: Path) -> None:
    """A method that serves as baseline of some; one has baselines of another budget."""
    for label, score in (("local", 0.5), ("longer", 0.6)):
        write_run(tmp_path / label, {1: [score] * 2}, label=label, experiment=experiment_of(label))
    for label, other, epochs in (("fedper", "local", 1), ("fedrep", "local", 1), ("ditto", "longer", 10)):
        named = {"name": "local", "run": f"../{other}", "variant": "before_local", "label": "local"}
        baselines = [{**named, "budget": {"rounds": 1, "epochs": epochs}}]
        write_run(tmp_path / label, {1: [0.7] * 2}, label=label, analyses={"baselines": baselines})
    shown = unescape(report(study([tmp_path / each for each in ("local", "fedper", "fedrep", "ditto")])))
    assert "<td>fedper, fedrep</td>" in shown
    assert "all others" not in shown


def test_a_baseline_is_no_method_of_its_name(tmp_path: Path) -> None:
    """Local training with settings of one's own beside tuned local training: two names, and each its own numbers."""
    named = {"name": "local", "run": "../base", "variant": "before_local", "label": "local"}
    write_run(tmp_path / "base", {1: [0.5] * 2}, label="local", experiment=experiment_of("local", lr=0.1))
    for label, score in (("local", 0.6), ("fedper", 0.7)):
        baselines = [{**named, "chosen": "tuned", "tried": []}]
        write_run(tmp_path / label, {1: [score] * 2}, label=label, analyses={"baselines": baselines})
    found = study([tmp_path / "local", tmp_path / "fedper"])
    assert [each.name for each in found.baselines] == ["local, tuned"]
    assert found.served == {}
    shown = unescape(report(found))
    assert "its best baseline, local, tuned (50.0 %)" in shown
    assert "which is one of the methods" not in shown
    titles = ["client", "test samples", "local, tuned (baseline)", "local", "fedper", "hurt, against local"]
    assert "".join(f'<th scope="col">{title}</th>' for title in titles) in shown
    assert '<th scope="row">0</th><td>100</td><td>50.0</td><td>60.0' in shown


def test_settings_that_methods_have_in_common_are_told_once(page: str) -> None:
    titles = re.findall("<summary>(Settings.*?)</summary>", page)
    assert titles[0] == "Settings, data and machine that all methods have in common"
    assert titles[1:] == [f"Settings of {method}" for method in TWELVE]
    assert page.count(">data.name</th>") == 1


def test_what_has_no_drawing_of_its_own_is_of_the_first_seed(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyses, "declared", lambda: {"training": replace(training(), figures=None)})
    assert "fedper, the first of 2 seeds:</p>" in report(study(runs))


def test_a_name_takes_three_lines_before_it_loses_its_middle() -> None:
    assert wrapped("fedper optimizer.lr=0.1, trained", 180) == ["fedper", "optimizer.lr=0.1,", "trained"]
    assert wrapped(f"{LONG}, fine-tuned", 180) == ["fedper_of_…long_name", "optimizer.…ine-tuned"]


def test_few_of_many_who_are_hurt_can_be_seen(tmp_path: Path) -> None:
    write_run(tmp_path / "local", {1: [0.5] * 500}, label="local")
    write_run(tmp_path / "fedper", {1: [0.1, 0.1, *[0.6] * 498]})
    shown = figure(report(study([tmp_path / "local", tmp_path / "fedper"])), "Clients hurt, against local")
    assert "<td>2 of 500 (2 surely)</td><td>0.4 %</td>" in shown
    [bar] = re.findall(r'<rect [^>]*width="([^"]*)"[^>]*class="bar hurt"', shown)
    assert float(bar) > 20


@pytest.mark.parametrize("width", [1280, PAPER])
def test_no_table_scrolls_without_need(shown: Browser, runs: list[Path], tmp_path: Path, width: int) -> None:
    """Baselines of two budgets stand beside twelve methods, and a target costs more than a line can tell."""
    shown.open(write_report(runs, tmp_path / "report.html"), width=width)
    if width == PAPER:
        shown.evaluate("dispatchEvent(new Event('beforeprint'))")
        shown.ask("Emulation.setEmulatedMedia", media="print")
    wide = shown.evaluate(
        "[...document.querySelectorAll('.scroll')].filter(each => !each.closest('details') &&"
        " each.scrollWidth > each.clientWidth + 1).map(each => each.getAttribute('aria-label'))"
    )
    assert wide == []


def test_words_of_names_are_whole_where_the_table_scrolls(shown: Browser, tmp_path: Path) -> None:
    """Twelve methods with baselines of three budgets do not fit; what names the rows keeps its room."""
    names, made = ["Maximiliane von Hohenstein", "Hospital of the Holy Spirit, ward 7"], []
    for epochs in (1, 4, 10):
        for name in ("local", "global", "global + fine-tune"):
            experiment = experiment_of(name, epochs=epochs)
            write_run(tmp_path / f"{name}-{epochs}", {1: [0.5] * 2}, label=name, experiment=experiment, names=names)
    for number, method in enumerate(TWELVE):
        epochs = (1, 4, 10)[number % 3]
        baselines = [
            {"name": name, "run": f"../{name}-{epochs}", "variant": "before_local", "label": name}
            | {"budget": {"rounds": 1, "epochs": epochs}}
            for name in ("local", "global", "global + fine-tune")
        ]
        scores = {1: [0.4] * 2}
        made.append(write_run(tmp_path / method, scores, label=method, names=names, analyses={"baselines": baselines}))
    shown.open(write_report(made, tmp_path / "report.html"), width=1280)
    lines = shown.evaluate(
        "[...document.querySelectorAll('#clients tbody th')].map(each => { const words = document.createRange();"
        "words.selectNodeContents(each); return words.getClientRects().length })"
    )
    assert all(count <= len(name.split()) for count, name in zip(lines, names, strict=True))


def test_heads_that_are_turned_have_their_line(shown: Browser, runs: list[Path], tmp_path: Path) -> None:
    shown.open(write_report(runs, tmp_path / "report.html"), width=1280)
    assert shown.evaluate(
        "[...document.querySelectorAll('#clients thead th')].every(each => { const style = getComputedStyle(each);"
        "return style.boxShadow.includes(style.transform == 'none' ? ' 0px -1px' : ' 0px 1px') })"
    )


def test_names_do_not_run_into_numbers_on_paper(shown: Browser, runs: list[Path], tmp_path: Path) -> None:
    shown.open(write_report(runs, tmp_path / "report.html"), width=PAPER)
    shown.ask("Emulation.setEmulatedMedia", media="print")
    assert shown.evaluate(
        "[...document.querySelectorAll('#clients tbody th')].every(each => { const words = document.createRange();"
        "words.selectNodeContents(each);"
        "return words.getBoundingClientRect().right <= each.getBoundingClientRect().right + 1 })"
    )


def test_numbers_keep_their_signs_beside_them_on_paper(shown: Browser, runs: list[Path], tmp_path: Path) -> None:
    shown.open(write_report([runs[0], runs[4]], tmp_path / "report.html"), width=PAPER)
    shown.ask("Emulation.setEmulatedMedia", media="print")
    assert shown.evaluate("document.querySelectorAll('#clients table.upright').length") == 0
    assert shown.evaluate(
        "[...document.querySelectorAll('#clients .sign')].every(each => { const words = document.createRange();"
        "words.selectNodeContents(each.parentElement);"
        "return words.getBoundingClientRect().height < 2 * parseFloat(getComputedStyle(each.parentElement).fontSize) })"
    )


def test_a_dot_at_the_start_of_the_axis_does_not_touch_its_name(shown: Browser, tmp_path: Path) -> None:
    folders = [write_run(tmp_path / label, {1: [0.0] * 3}, label=label) for label in ("local", "fedper")]
    shown.open(write_report(folders, tmp_path / "report.html"), width=390, touch=True)
    gap = shown.evaluate(
        "(() => { const all = (what) => [...document.querySelector('figure .chart').querySelectorAll(what)];"
        "const dots = all('circle').map(each => each.getBoundingClientRect().left);"
        "const names = all('text[text-anchor=end]').map(each => each.getBoundingClientRect().right);"
        "return Math.min(...dots) - Math.max(...names) })()"
    )
    assert gap >= 3


def test_a_card_that_fits_on_a_page_is_not_torn(shown: Browser, runs: list[Path], tmp_path: Path) -> None:
    shown.open(write_report(runs, tmp_path / "report.html"), width=PAPER)
    shown.ask("Emulation.setEmulatedMedia", media="print")
    torn = "[...document.querySelectorAll('figure')].filter(each => getComputedStyle(each).breakInside != 'avoid')"
    printed = "[...each.querySelectorAll('tbody tr')].filter(row => row.checkVisibility()).length"
    assert shown.evaluate(f"{torn}.length") == 0, "no table is open yet"
    shown.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert shown.evaluate(f"{torn}.every(each => {printed} > 12)")


def test_a_name_is_on_the_page_of_its_table(shown: Browser, runs: list[Path], tmp_path: Path) -> None:
    shown.open(write_report(runs, tmp_path / "report.html"), width=PAPER)
    shown.ask("Emulation.setEmulatedMedia", media="print")
    after = "[...document.querySelectorAll('summary')].every(each => getComputedStyle(each).breakAfter == 'avoid')"
    assert shown.evaluate(after)


def test_words_on_a_phone_are_whole(shown: Browser, runs: list[Path], tmp_path: Path) -> None:
    shown.open(write_report(runs, tmp_path / "report.html"), width=390, touch=True)
    assert shown.evaluate("document.documentElement.scrollWidth") <= 390
    tables = "[...document.querySelectorAll('#paired tbody th')]"
    assert shown.evaluate(
        f"{tables}.every(each => each.offsetHeight < 3 * parseFloat(getComputedStyle(each).lineHeight))"
    )
