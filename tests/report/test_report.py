"""The report: one file that needs nothing else, with true numbers, harmless and readable in a real browser.

One file, since all parts are read from the reports of the same runs.
"""

import math
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from browser import Browser
from partita.cli.main import main
from partita.errors import PartitaError
from partita.evaluation.metric import Metric
from partita.experiment.events import Event
from partita.formatting import MINUS, signed
from partita.report.charts.histogram import bins
from partita.report.charts.lines import APART, apart
from partita.report.charts.violin import Violin, violins
from partita.report.markup import Html, tag
from partita.report.report import report, write_report
from partita.report.sampling import evenly
from partita.report.scale import Axis, Scale, axis, size_axis, ticks, whole_axis
from partita.report.sections.curves import curve
from partita.report.study import study
from partita.runs.session import Session
from partita.runs.stored import read_run
from partita.runs.target import Spent, reached, spent
from studies import SETTINGS, experiment_of, keep, made, make_runs, write_run

SECTIONS = [
    *("headline", "overview", "paired", "curves", "clients", "gains", "hurt", "guard", "labels", "network"),
    *("analyses", "cost", "provenance"),
]
VOID = {"meta", "link", "br"}
numbers = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 4))


class Page(HTMLParser):
    """Checks that every element is closed in turn, and gathers what the page consists of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)

    @property
    def sections(self) -> list[str | None]:
        return [given["id"] for name, given in self.elements if name == "section"]


def page(*folders: Path) -> Page:
    return Page(report(study(folders)))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """All methods, two seeds, everything analysed."""
    return make_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def folders(runs: dict[str, list[Path]]) -> list[Path]:
    return [folder for several in runs.values() for folder in several]


# Parts.


def test_text_is_escaped_and_html_is_not() -> None:
    assert tag("p", "<b>", Html("<i></i>"), title='"&') == '<p title="&quot;&amp;">&lt;b&gt;<i></i></p>'
    assert tag("meta", charset="utf-8", name=None) == '<meta charset="utf-8">'


@given(st.lists(numbers, min_size=1, max_size=5), st.integers(3, 20))
def test_ticks_are_round_and_surround_the_values(values: list[float], most: int) -> None:
    low, high = min(values), max(values)
    found = ticks(low, high, most)
    step = found[1] - found[0]
    assert 2 <= len(found) <= most
    assert found[0] <= low + 1e-6 * step
    assert found[-1] >= high - 1e-6 * step
    leading = round(step / 10 ** math.floor(math.log10(step * 1.0000001)), 6)
    assert leading in (1, 2, 2.5, 5)


def test_a_scale_goes_from_end_to_end() -> None:
    scale = Scale(Axis("", 10, 20, ()), 100, 0)
    assert [scale(10), scale(15), scale(20)] == [100, 50, 0]
    assert Scale(Axis("", 1, 100, (), logarithmic=True), 0, 2)(10) == pytest.approx(1)


def test_axes_stay_within_what_scores_can_be() -> None:
    found = axis("", [0.41, 0.97], within=(0.0, 1.0))
    assert [found.low, found.high] == pytest.approx([0.4, 1.0])
    assert axis("", [0.02, 1.0], within=(0.0, 1.0)).ticks == pytest.approx((0, 0.2, 0.4, 0.6, 0.8, 1))
    assert whole_axis("", 1, 4).ticks == (1, 2, 3, 4)
    assert size_axis("", [10, 100]).logarithmic is False
    assert size_axis("", [9, 1000]).ticks == (10, 100, 1000)
    assert size_axis("", [15, 400], few=True).ticks == (20, 100, 200)


@given(st.lists(numbers, min_size=1, max_size=60))
def test_bins_hold_every_value_once_and_never_mix_gain_with_loss(values: list[float]) -> None:
    found = bins(values)
    assert sum(each.count for each in found) == len(values)
    assert sum(each.count for each in found if each.high <= 1e-9) == sum(value < 0 for value in values)
    assert not any(each.low < -1e-9 and each.high > 1e-9 * max(map(abs, values)) + 1e-9 for each in found)


def test_who_neither_gains_nor_loses_is_not_among_those_who_lose() -> None:
    assert [(each.low, each.count) for each in bins([-2, -1, 0, 0], 2)] == [(-2, 1), (-1, 1), (0, 2)]


@given(st.lists(st.floats(0, 200), max_size=10))
def test_names_of_lines_do_not_overlap(heights: list[float]) -> None:
    found = apart(sorted(heights), 0, 200)
    assert all(below - above >= APART - 1e-6 for above, below in pairwise(found))
    assert all(each <= 200 for each in found)


@given(st.integers(1, 50), st.integers(2, 20))
def test_samples_are_spread_from_first_to_last(count: int, most: int) -> None:
    found = evenly(range(count), most)
    assert len(found) == min(count, most)
    assert found == sorted(set(found))
    assert (found[0], found[-1]) == (0, count - 1)


def test_an_outline_is_widest_where_most_values_are() -> None:
    """Four values at 0 and one at 1: the outline is highest at its left end, and low at its right end."""
    drawn = violins("", axis("", [0, 1]), [Violin("a", [0.0, 0.0, 0.0, 0.0, 1.0], 0)])
    [path] = re.findall(r'<path d="M([^"]*)Z"', drawn)
    heights = [float(point.split()[1]) for point in path.split("L")]
    upper, lower = heights[: len(heights) // 2], heights[len(heights) // 2 :][::-1]
    widths = [low - high for high, low in zip(upper, lower, strict=True)]
    assert widths[0] == max(widths) > 20
    assert widths[-1] < widths[0] / 2


def test_gains_are_positive_where_it_is_better() -> None:
    assert Metric("accuracy").gain(0.9, 0.8) == pytest.approx(0.1)
    assert Metric("RMSE").gain(0.9, 0.8) == pytest.approx(-0.1)
    assert Metric("accuracy").change(-0.1234) == f"{MINUS}12.3"
    assert signed(-0.0001, 2) == "0.00"


# What is said of runs.


def test_gains_and_clients_hurt_are_paired_by_client(tmp_path: Path) -> None:
    write_run(tmp_path / "local", {1: [0.5, 0.6, 0.7, 0.8]}, label="local")
    write_run(tmp_path / "fedper", {1: [0.7, 0.6, 0.6, 0.9]})
    found = study([tmp_path / "local", tmp_path / "fedper"])
    alone, method = found.methods
    assert found.references == ("local",)
    assert method.hurt_count("local") == (1, 4)
    assert method.mean_gain("local") == pytest.approx((0.2 + 0 - 0.1 + 0.1) / 4)
    assert alone.mean_gain("local") is None


def test_less_error_is_a_gain(tmp_path: Path) -> None:
    write_run(tmp_path / "local", {1: [0.5, 0.6]}, label="local", metric="RMSE")
    write_run(tmp_path / "fedper", {1: [0.3, 0.7]}, metric="RMSE")
    found = study([tmp_path / "local", tmp_path / "fedper"])
    assert found.methods[1].hurt_count("local") == (1, 2)
    assert found.methods[1].mean_gain("local") == pytest.approx(0.05)
    shown = page(tmp_path / "local", tmp_path / "fedper")
    assert "labels" not in shown.sections
    assert "Less is better" in shown.text


def test_a_baseline_that_a_run_names_is_read_and_one_that_is_gone_is_told(tmp_path: Path) -> None:
    write_run(tmp_path / "base", {1: [0.5, 0.5]}, label="local")
    named = {"name": "local", "variant": "before_local", "label": "local"}
    gone = {"name": "global", "run": "../gone", "variant": "before_local", "label": "fedavg"}
    write_run(tmp_path / "fedper", {1: [0.7, 0.4]}, analyses={"baselines": [{**named, "run": "../base"}, gone]})
    found = study([tmp_path / "fedper"])
    assert [method.name for method in found.baselines] == ["local"]
    assert found.methods[0].hurt_count("local") == (1, 2)
    shown = page(tmp_path / "fedper")
    assert (
        f"The baseline global of {tmp_path / 'fedper'} cannot be read. {tmp_path / 'gone'} holds no run" in shown.text
    )
    assert "local (baseline) 50.0 ± 0.0 %" in shown.text
    assert "fedper 55.0 ± 15.0 % 55.0 % 40.0 % +5.0 1 of 2" in shown.text


def test_a_target_costs_what_was_spent_until_it_was_reached(tmp_path: Path) -> None:
    run = write_run(tmp_path, {2: [0.2, 0.4], 4: [0.5, 0.7], 6: [0.6, 0.8]})
    [method] = study([run]).methods
    points = curve(list(method.replicas), "before_local", "test")
    assert [at for at, _, _ in points] == [2, 4, 6]
    assert [mean for _, mean, _ in points] == pytest.approx([0.3, 0.6, 0.7])
    assert reached(read_run(run), 0.55) == spent(read_run(run), 4) == Spent(4, 4.0, 1200)
    assert "at least 60.0 % at least 70.0 % fedper" in page(run).text
    assert "round 4, 4 s, 1.2 kB round 6, 6 s, 1.8 kB" in page(run).text


def test_runs_that_differ_in_the_seed_alone_belong_together(tmp_path: Path) -> None:
    for rate in (0.1, 0.2):
        for seed in (0, 1):
            description = experiment_of("fedper", lr=rate, seed=seed)
            write_run(tmp_path / str(rate) / f"seed-{seed}", {1: [rate, 0.5]}, experiment=description, seed=seed)
    found = study(sorted(path.parent for path in tmp_path.rglob("run.sqlite")))
    assert [(method.name, len(method.replicas)) for method in found.methods] == [
        ("fedper lr=0.1", 2),
        ("fedper lr=0.2", 2),
    ]
    assert [replica.run.seed for replica in found.methods[0].replicas] == [0, 1]


def test_different_metrics_or_no_runs_are_refused(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", {1: [0.5]})
    other = write_run(tmp_path / "other", {1: [0.5]}, metric="RMSE")
    with pytest.raises(PartitaError, match="different metrics"):
        study([one, other])
    with pytest.raises(PartitaError, match="at least one run"):
        study([])
    with pytest.raises(PartitaError, match="No runs in"):
        study([tmp_path / "nothing"])


def test_other_divisions_are_not_compared(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {1: [0.5, 0.6]}, label="fedavg")
    write_run(tmp_path / "b", {1: [0.6, 0.7]}, fingerprint="another")
    shown = page(tmp_path / "a", tmp_path / "b")
    assert "Not all runs have the same data and division" in shown.text
    assert "Fewer than two of these methods are finished on the same clients" in shown.text


def test_sizes_are_those_of_training_data_where_they_are_known(tmp_path: Path) -> None:
    counts = {
        "classes": 2,
        "clients": [0, 1],
        "train": [[3, 4], [1, 0]],
        "validation": [[0, 0]] * 2,
        "test": [[1, 1]] * 2,
    }
    run = write_run(tmp_path / "a", {1: [0.5, 0.6]}, analyses={"labels": counts})
    write_run(tmp_path / "local", {1: [0.4, 0.4]}, label="local", samples=30)
    assert (
        "method client seed training samples gain fedper 0 0 7 +10.0 fedper 1 0 1 +20.0"
        in page(run, tmp_path / "local").text
    )
    bare = write_run(tmp_path / "b", {1: [0.5, 0.6]}, samples=30)
    assert read_run(bare).sample_counts == ("held out", {0: 60, 1: 60})
    assert "by data size" not in page(bare, tmp_path / "local").text, "sizes that are alike explain nothing"


def test_labels_are_called_by_name_where_the_run_knows_it(tmp_path: Path) -> None:
    counts: dict[str, Any] = {role: [[3, 4], [1, 0]] for role in ("train", "validation", "test")}
    found = {"classes": 2, "clients": [0, 1], **counts}
    old = write_run(tmp_path / "a", {1: [0.5, 0.6]}, analyses={"labels": found})
    new = write_run(tmp_path / "b", {1: [0.5, 0.6]}, analyses={"labels": {**found, "names": ["cat", "<dog>"]}})
    assert "client label 0 label 1 0 9 12 1 3 0" in page(old).text
    assert "client label cat label <dog> 0 9 12 1 3 0" in page(new).text


def test_a_row_of_several_labels_has_the_name_of_the_first(tmp_path: Path) -> None:
    counts = {role: [[1] * 120, [2] * 120] for role in ("train", "validation", "test")}
    found = {"classes": 120, "clients": [0, 1], "names": [f"kind {label}" for label in range(120)], **counts}
    shown = page(write_run(tmp_path, {1: [0.5, 0.6]}, analyses={"labels": found}))
    assert "Of 120 labels, 3 in succession share a row, which has the name of the first." in shown.text
    assert " kind 0 kind 6 kind 12 " in shown.text
    assert " label kind 0 to kind 2 label kind 3 to kind 5 " in shown.text


def test_a_map_names_labels_as_the_data_do(tmp_path: Path) -> None:
    counts: dict[str, Any] = {role: [[3, 4], [1, 0]] for role in ("train", "validation", "test")}
    places = {"x": list(range(40)), "y": list(range(40)), "label": [0, 1] * 20, "client": [0] * 40}
    labels = {"classes": 2, "clients": [0, 1], "names": ["approved", "rejected"], **counts}
    shown = page(write_run(tmp_path, {1: [0.5, 0.6]}, analyses={"labels": labels, "embedding": places}))
    assert "Colour and shape: the label. approved rejected Numbers client label x y 0 approved 0.0 0.0" in shown.text


def test_names_that_differ_at_their_ends_stay_apart(tmp_path: Path) -> None:
    names = [f"Hospital of the Holy Spirit, ward {ward}" for ward in (1, 2)]
    counts: dict[str, Any] = {role: [[3, 4], [1, 0]] for role in ("train", "validation", "test")}
    labels = {"classes": 2, "clients": [0, 1], **counts}
    shown = page(write_run(tmp_path, {1: [0.5, 0.6]}, names=names, analyses={"labels": labels}))
    assert "Hospita…ward 1 Hospita…ward 2 0 1 label client Numbers" in shown.text


def test_shades_that_hardly_differ_are_told_with_more_digits(tmp_path: Path) -> None:
    alike = {"clients": [0, 1], "layers": ["one"], "cosine": [0.999], "cosine_std": [0.0], "cka": [0.999]}
    analyses = {"similarity": {**alike, "cka_std": [0.0], "matrix": [[1, 0.9987], [0.9987, 1]]}}
    assert "Light 0.999, dark 1.000." in page(write_run(tmp_path, {1: [0.5, 0.6]}, analyses=analyses)).text


def test_no_change_of_anyone_is_a_sentence_and_no_empty_chart(tmp_path: Path) -> None:
    write_run(tmp_path / "local", {1: [0.5, 0.6]}, label="local")
    write_run(tmp_path / "fedper", {1: [0.5, 0.6]})
    shown = page(tmp_path / "local", tmp_path / "fedper")
    assert "Gain over local No client's score differs." in shown.text


def test_a_run_is_linked_to_its_report_or_that_of_its_seeds(tmp_path: Path) -> None:
    for name, where in (("one", "one/seed-0"), ("two", "two"), ("three", "three/seed-0")):
        write_run(tmp_path / name / "seed-0", {1000: [0.5, 0.6]}, label=name)
        if name != "three":
            (tmp_path / where / "report.html").touch()
    made = Page(write_report([tmp_path], tmp_path / "report.html").read_text(encoding="utf-8"))
    links = {given["href"] for name, given in made.elements if name == "a"}
    assert {link for link in links if link and link.endswith(".html")} == {"one/seed-0/report.html", "two/report.html"}
    assert str(tmp_path) not in made.text, "folders are told from that of the report on"
    assert "done 1,000 of 1,000 1,000 (55.0 % on test)" in made.text


def test_two_models_of_a_run_can_be_two_baselines_but_not_its_own(tmp_path: Path) -> None:
    names = (("global", "before_local"), ("global + fine-tune", "after_finetune"))
    entries = [{"name": name, "run": ".", "variant": variant, "label": "fedavg"} for name, variant in names]
    run = write_run(tmp_path, {1: [0.5, 0.6]}, label="fedavg", analyses={"baselines": entries})
    assert study([run]).references == ("global + fine-tune",)


def test_what_was_not_measured_leaves_a_gap_and_no_error(tmp_path: Path) -> None:
    parts = {"head": {"macro": [0.5, None], "std": [0.1, None], "micro": [0.5, None]}}
    tuned = {"clients": [0, 1], "epochs": [0, 1], "parts": parts}
    alike = {"clients": [0, 1], "layers": ["one"], "cosine": [0.5], "cosine_std": [0.0], "matrix": [[1, 0.5], [0.5, 1]]}
    analyses = {"finetuning": tuned, "similarity": {**alike, "cka": [None], "cka_std": [None]}}
    shown = page(write_run(tmp_path, {1: [0.5, 0.6]}, analyses=analyses))
    assert "head 0 50.0 ± 10.0 %" in shown.text
    assert "Cosine of parameters" in shown.text
    assert "Alignment" not in shown.text


# The file.


def test_all_sections_are_there_and_every_chart_has_its_table(folders: list[Path]) -> None:
    shown = page(*folders)
    assert shown.sections == SECTIONS
    charts = [given for name, given in shown.elements if name == "svg" and given.get("class") == "chart"]
    assert 20 < shown.count("figure") < len(charts)
    assert shown.count("table") > len(charts)
    assert all(given["aria-label"] and given["tabindex"] == "0" for given in charts)
    assert "missing" not in {given.get("class") for _, given in shown.elements}
    assert "On training samples method before local training of the model used local" in shown.text
    assert all(f"#{name}" in {given.get("href") for _, given in shown.elements} for name in SECTIONS)


def test_numbers_of_the_headline_are_those_of_the_runs(runs: dict[str, list[Path]]) -> None:
    views = [read_run(folder) for folder in runs["fedper"]]
    summaries = [each.summaries()["before_local"] for each in views]
    mean, std = (sum(values) / 2 for values in zip(*((each.macro, each.std) for each in summaries), strict=True))
    assert f"fedper {100 * mean:.1f} ± {100 * std:.1f} %" in page(*runs["fedper"]).text


def test_nothing_is_loaded_from_elsewhere(folders: list[Path]) -> None:
    text = report(study(folders))
    shown = Page(text)
    links = {given[key] for _, given in shown.elements for key in ("href", "src") if key in given}
    assert {link for link in links if link and not link.startswith("#")} == {"data:,"}
    assert not re.search(r"https?://|@import|url\((?!#)", text)


def test_the_same_runs_give_the_same_file(folders: list[Path]) -> None:
    assert report(study(folders)) == report(study(folders))


def test_nobody_hurt_is_a_sentence_and_no_empty_chart(tmp_path: Path) -> None:
    means = {"macro_personal": 0.7, "macro_guarded": 0.7, "difference": 0.0, "low": 0.0, "high": 0.0}
    guarded = {"weights": [0, 1], "clients": [0, 1], "chosen": [1, 1], "hurt_before": 0, "hurt_after": 0, **means}
    baselines = [
        {"name": name, "run": f"../{place}", "variant": "before_local", "label": name}
        for name, place in (("local", "local"), ("global", "shared"))
    ]
    write_run(tmp_path / "local", {1: [0.5, 0.9]}, label="local")
    write_run(tmp_path / "shared", {1: [0.5, 0.6]}, label="fedavg")
    run = write_run(tmp_path / "run", {1: [0.6, 0.8]}, analyses={"baselines": baselines, "guard": guarded})
    shown = page(run)
    charts = {given["aria-label"] for name, given in shown.elements if name == "svg" and given.get("class") == "chart"}
    assert "Clients hurt, against local: share by method" in charts
    assert "No client is hurt against global." in shown.text
    assert "Who is worse than local (1)" in shown.text
    assert "Who is worse than global" not in shown.text
    assert "No client is hurt, with the guard or without it." in shown.text
    assert charts.isdisjoint(
        {"Clients hurt, against global: share by method", "Clients hurt with and without the guard"}
    )


def test_accuracy_without_the_head_says_of_which_models_it_is(folders: list[Path]) -> None:
    assert "All scores are of models before fine-tuning." in page(*folders).text


def test_missing_analyses_say_which_command_adds_them(tmp_path: Path) -> None:
    shown = page(write_run(tmp_path, {1: [0.5, 0.6]}))
    assert shown.sections == [name for name in SECTIONS if name != "paired"]
    assert shown.text.count("partita evaluate RUN") == 6
    assert shown.text.count("It is recorded when a run starts: partita run") == 3
    assert shown.text.count("A run makes its baselines unless you turn them off") == 3
    assert "partita guard RUN" in shown.text


@pytest.mark.parametrize("scores", [{}, {1: [0.5, 0.6]}])
def test_an_unfinished_run_gives_a_partial_report(tmp_path: Path, scores: dict[int, list[float]]) -> None:
    shown = page(write_run(tmp_path, scores, rounds=5))
    assert "Partial report: not all runs are finished." in shown.text
    assert f"{max(scores, default=0)} of 5 rounds (interrupted). Continue with: partita resume {tmp_path}" in shown.text
    assert ("Nothing was evaluated yet." in shown.text) == (not scores)


def test_a_failed_run_can_be_reported(tmp_path: Path) -> None:
    def fail(event: Event) -> None:
        raise PartitaError("enough")

    experiment = made({**SETTINGS, "algorithm": "fedavg", "rounds": 3})
    with (
        Session.start(experiment, tmp_path / "run", on="inline") as session,
        pytest.raises(PartitaError, match="enough"),
    ):
        session.run(fail)
    assert "(failed: enough)" in page(tmp_path / "run").text


def test_results_that_saw_test_data_are_marked(tmp_path: Path) -> None:
    shown = page(write_run(tmp_path, {1: [0.5, 0.6]}, oracle_validation=True))
    assert "Oracle. fedper: test data were used as validation data." in shown.text
    assert "fedper (oracle)" in shown.text
    assert "which are used for no training" not in shown.text


def test_new_clients_are_told_apart(tmp_path: Path) -> None:
    shown = page(write_run(tmp_path, {1: [0.5, 0.7, 0.1]}, newcomers=[2]))
    assert "fedper 60.0 ± 10.0 %" in shown.text
    assert "fedper, new clients 10.0 ± 0.0 %" in shown.text


def test_a_sample_of_clients_is_told(tmp_path: Path) -> None:
    assert "tested on 2 of 5,000 clients" in page(write_run(tmp_path, {1: [0.5, 0.7]}, clients=5000)).text


def test_changes_of_the_last_rounds_participants_are_told_from_those_of_all_clients(tmp_path: Path) -> None:
    told = "Trained: only the clients that took part in the last round."
    keep(made({**SETTINGS, "algorithm": "fedper", "participation": 0.5}), tmp_path / "some")
    keep(made({**SETTINGS, "algorithm": "fedper", "participation": 1.0}), tmp_path / "all")
    assert told in page(tmp_path / "some").text
    assert told not in page(tmp_path / "all").text


def test_names_from_outside_are_harmless(tmp_path: Path) -> None:
    evil = "</style><script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    analyses = {"network": _network(evil), "labels": None}
    text = report(study([write_run(tmp_path, {1: [0.5, 0.6]}, label=evil, data=evil, status=evil, analyses=analyses)]))
    shown = Page(text)
    assert shown.count("script") == shown.count("style") == 1
    assert shown.count("img") == 0
    assert not any(key.startswith("on") for _, given in shown.elements for key in given)


def _network(name: str) -> dict[str, Any]:
    row = {"name": name, "shape": [2, 3], "parameters": 6, "shared": True, "kept": False, "trained_in": [1]}
    counts = {"parameters": 6, "shared": 6, "personal": 0, "frozen": 0, "bytes_down": 24, "bytes_up": 24}
    return {"algorithm": name, "stages": [name], "finetune": [], "rows": [row], **counts}


def test_a_second_network_is_personal_in_the_table_as_in_the_chart(tmp_path: Path) -> None:
    """Six values are received and six stay with the client, two of them as they were drawn."""
    rows = [
        {"name": "w", "shape": [6], "parameters": 6, "shared": True, "kept": False, "trained_in": [1]},
        {"name": "personal/w", "shape": [4], "parameters": 4, "shared": False, "kept": True, "trained_in": [1]},
        {"name": "personal/b", "shape": [2], "parameters": 2, "shared": False, "kept": True, "trained_in": []},
    ]
    shown = page(write_run(tmp_path, {1: [0.5, 0.6]}, analyses={"network": {**_network("ditto"), "rows": rows}}))
    assert "up, at most fedper 12 6 6 2 24 B 24 B" in shown.text
    tips = {given.get("data-tip") for _, given in shown.elements}
    assert {"fedper: 6 values shared", "fedper: 4 values personal"} <= tips
    assert "fedper: 2 values personal, not trained in a round" in tips


def test_a_thousand_clients_make_no_huge_file(tmp_path: Path) -> None:
    count = 1000
    counts = [[(client * label) % 7 for label in range(100)] for client in range(count)]
    analyses = {
        "labels": {
            "classes": 100,
            "clients": list(range(count)),
            "train": counts,
            "validation": counts,
            "test": counts,
        },
        "similarity": {
            "clients": list(range(200)),
            "layers": ["one", "two"],
            "cosine": [0.5, 0.6],
            "cosine_std": [0.1, 0.1],
            "cka": [0.5, math.nan],
            "cka_std": [0.1, math.nan],
            "matrix": [[1.0 if row == column else 0.3 for column in range(200)] for row in range(200)],
        },
        "embedding": {
            "x": [float(place % 71) for place in range(5000)],
            "y": [float(place % 37) for place in range(5000)],
            "label": [place % 100 for place in range(5000)],
            "client": [0] * 5000,
        },
    }
    for number, label in enumerate(("local", "fedavg", "fedper", "fedbabu", "ditto", "apfl")):
        for seed in (0, 1):
            shift = 11 * number + seed
            scores = {at: [((client * 37 + shift + at) % 100) / 100 for client in range(count)] for at in (10, 20)}
            description = experiment_of(label, seed=seed)
            place = tmp_path / label / str(seed)
            write_run(place, scores, label=label, experiment=description, seed=seed, analyses=analyses)
    path = write_report(sorted(each.parent for each in tmp_path.rglob("run.sqlite")), tmp_path / "report.html")
    assert path.stat().st_size < 2_000_000
    shown = Page(path.read_text(encoding="utf-8"))
    assert "80 of 2,000 points of a method are shown" in shown.text
    assert re.search(r"\d+ of 1,000 clients are shown", shown.text)


def test_the_file_is_put_in_place_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "run", {1: [0.5, 0.6]})
    place = tmp_path / "deep" / "report.html"
    assert write_report([run], place) == place
    before = place.read_text(encoding="utf-8")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(PartitaError, match="No space left"):
        write_report([run], place)
    assert place.read_text(encoding="utf-8") == before
    assert list(place.parent.iterdir()) == [place]
    with pytest.raises(PartitaError, match="Cannot write the report"):
        write_report([run], place / "below" / "report.html")


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs" / "a", {1: [0.5, 0.6]}, label="fedavg")
    write_run(tmp_path / "runs" / "b", {1: [0.6, 0.7]})

    def ask(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["partita", "report", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capsys.readouterr().err

    assert ask("runs/a")[0] == 0
    assert Path("runs/a/report.html").is_file()
    assert ask("runs")[0] == 0
    assert "2 methods on digits" in Path("runs/report.html").read_text(encoding="utf-8")
    assert ask("runs", "--output", "mine/own.html")[0] == 0
    assert Path("mine/own.html").is_file()
    code, told = ask("nowhere")
    assert code == 2
    assert "No runs in nowhere" in told


# In a browser.


@pytest.fixture(scope="module")
def files(
    folders: list[Path], runs: dict[str, list[Path]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("reports")
    bare = write_run(place / "bare", {}, rounds=5)
    return {
        "several": write_report(folders, place / "several.html"),
        "one": write_report(runs["fedper"][:1], place / "one.html"),
        "unfinished": write_report([bare], place / "unfinished.html"),
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.parametrize("name", ["several", "one", "unfinished"])
def test_the_page_fits_and_nothing_goes_wrong(
    shown: Browser, files: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    shown.open(files[name], width=width, scheme=scheme, touch=width < 1000)
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    # With every table open it still fits.
    shown.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.problems == []
    assert shown.requested == [files[name].as_uri()]


def test_sections_are_seen(shown: Browser, files: dict[str, Path]) -> None:
    shown.open(files["several"])
    heights = shown.evaluate(
        "Object.fromEntries([...document.querySelectorAll('section')].map(each => [each.id, each.offsetHeight]))"
    )
    assert list(heights) == SECTIONS
    assert min(heights.values()) > 60
    charts = shown.evaluate(
        "[...document.querySelectorAll('svg.chart')].map(each => each.getBoundingClientRect().width)"
    )
    assert min(charts) > 180


TIP = "(tip => [tip.classList.contains('shown'), tip.textContent])(document.getElementById('tip'))"
MARK = """(() => {
    const mark = document.querySelector('#curves svg.chart circle[data-tip]');
    mark.scrollIntoView({block: 'center', behavior: 'instant'});
    const box = mark.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2, mark.dataset.tip];
})()"""
SETTLED = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def test_a_tip_appears_under_the_pointer_and_goes_with_it(shown: Browser, files: dict[str, Path]) -> None:
    shown.open(files["several"])
    x, y, said = shown.evaluate(MARK)
    # The scroll itself puts tips away; it must be over before the pointer comes.
    shown.evaluate(SETTLED)
    shown.move(x + 2, y + 2)
    assert shown.evaluate(TIP) == [True, said]
    box = shown.evaluate("(box => [box.left, box.top, box.right, box.bottom])(tip.getBoundingClientRect())")
    assert 0 <= box[0] < box[2] <= 1280
    assert 0 <= box[1] < box[3] <= 900
    shown.move(2, 2)
    assert shown.evaluate(TIP)[0] is False


def test_a_tip_appears_by_touch(shown: Browser, files: dict[str, Path]) -> None:
    shown.open(files["several"], width=375, height=700, touch=True)
    x, y, said = shown.evaluate(MARK)
    shown.evaluate(SETTLED)
    shown.tap(x, y)
    assert shown.evaluate(TIP) == [True, said]


def test_tips_can_be_walked_with_the_keyboard(shown: Browser, files: dict[str, Path]) -> None:
    shown.open(files["several"])
    tips = shown.evaluate(
        "(chart => { chart.scrollIntoView({behavior: 'instant'});"
        "return [...chart.querySelectorAll('[data-tip]')].map(each => each.dataset.tip) })"
        "(document.querySelector('#headline svg.chart'))"
    )
    shown.evaluate(SETTLED)
    shown.evaluate("document.querySelector('#headline svg.chart').focus({preventScroll: true})")
    shown.press("ArrowRight")
    shown.press("Home")
    assert shown.evaluate(TIP) == [True, tips[0]]
    shown.press("ArrowRight")
    assert shown.evaluate(TIP) == [True, tips[1]]
    shown.press("End")
    assert shown.evaluate(TIP) == [True, tips[-1]]
    shown.press("Escape")
    assert shown.evaluate(TIP)[0] is False


def test_dark_and_light_differ_and_can_be_switched(shown: Browser, files: dict[str, Path]) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    seen, pictures = {}, {}
    for scheme in ("light", "dark"):
        shown.open(files["one"], scheme=scheme)
        seen[scheme] = shown.evaluate(colour)
        pictures[scheme] = shown.screenshot()
    assert seen["light"] != seen["dark"]
    assert pictures["light"] != pictures["dark"]
    shown.evaluate("document.getElementById('theme').click()")
    assert shown.evaluate(colour) == seen["light"]
    assert shown.evaluate("document.getElementById('theme').textContent") == "Dark"


def brightness(colour: str) -> float:
    """Relative luminance of rgb(...), as contrast is defined on."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(shown: Browser, files: dict[str, Path], scheme: str) -> None:
    shown.open(files["several"], scheme=scheme)
    words = shown.evaluate(
        "[...document.querySelectorAll('p, td, th, li, h2, summary, figcaption *, .chart text')]"
        ".map(each => each.tagName === 'text' ? getComputedStyle(each).fill : getComputedStyle(each).color)"
    )
    behind = shown.evaluate(
        "[document.body, document.querySelector('figure')].map(each => getComputedStyle(each).backgroundColor)"
    )
    for one in set(words):
        for other in set(behind):
            light, dark = sorted((brightness(one), brightness(other)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, f"{one} on {other}"


def test_it_can_be_printed_with_tables_open(shown: Browser, files: dict[str, Path]) -> None:
    """All but those of more than 60 rows or nine columns, which are left out."""
    shown.open(files["one"], scheme="dark")
    large = shown.evaluate(
        "[...document.querySelectorAll('details')].filter(each => each.querySelectorAll('tr').length > 60"
        " || each.querySelectorAll('thead th').length > 9).length"
    )
    shown.evaluate(
        "window.opened = -1; addEventListener('beforeprint', () => {"
        "window.opened = document.querySelectorAll('details:not([open])').length })"
    )
    made = shown.pdf()
    assert made.startswith(b"%PDF")
    assert len(made) > 20_000
    assert shown.evaluate("window.opened") == large
    assert shown.evaluate("document.querySelectorAll('details[open]').length") == 0
    shown.ask("Emulation.setEmulatedMedia", media="print")
    assert shown.evaluate("getComputedStyle(document.querySelector('details')).display") == "none"
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert shown.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    # The name of a small chart stands on the same page as the chart.
    assert shown.evaluate("getComputedStyle(document.querySelector('.small')).breakInside") == "avoid"


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Long names of clients, and baselines of other budgets, which are told apart by long names."""
    place = tmp_path_factory.mktemp("wide")
    names = [f"Hospital of the Holy Spirit, ward {ward}" for ward in range(3)]
    for epochs, label in ((1, "fedper"), (4, "ditto")):
        for other in ("local", "fedavg", "finetune"):
            write_run(place / f"{other}-{epochs}", {1: [0.5] * 3}, label=other, names=names)
        baselines = [
            {"name": name, "run": f"../{other}-{epochs}", "variant": "before_local", "label": other}
            | {"budget": {"rounds": 1, "epochs": epochs}}
            for name, other in (("local", "local"), ("global", "fedavg"), ("global + fine-tune", "finetune"))
        ]
        write_run(place / label, {1: [0.6] * 3}, label=label, names=names, analyses={"baselines": baselines})
    return write_report([place / "fedper", place / "ditto"], place / "report.html")


TABLE = "document.querySelector('#clients table')"


def test_upright_names_stay_within_their_line_on_paper(shown: Browser, wide: Path) -> None:
    shown.open(wide, width=740)
    shown.ask("Emulation.setEmulatedMedia", media="print")
    assert shown.evaluate(f"{TABLE}.className") == "upright"
    assert "global + fine-tune, 1 local epoch (baseline)" in shown.evaluate(f"{TABLE}.tHead.textContent")
    assert shown.evaluate(
        f"[...{TABLE}.tHead.querySelectorAll('th')].every(each => {{ const words = document.createRange();"
        "words.selectNodeContents(each);"
        "return words.getBoundingClientRect().top >= each.getBoundingClientRect().top - 1 })"
    )


def test_names_leave_room_for_numbers_on_a_phone(shown: Browser, wide: Path) -> None:
    shown.open(wide, width=390, touch=True)
    widths = shown.evaluate(
        "['#clients tbody th', '.text tbody th'].map(each => document.querySelector(each).offsetWidth)"
    )
    assert max(widths) <= 150


def test_a_name_with_a_script_does_not_run(shown: Browser, tmp_path: Path) -> None:
    evil = "<script>window.harm = 1</script><img src=x onerror='window.harm = 1'>"
    shown.open(write_report([write_run(tmp_path / "run", {1: [0.5, 0.6]}, label=evil)], tmp_path / "report.html"))
    assert shown.evaluate("window.harm") is None
    assert shown.problems == []
    # Even a script that got in would be held back by the page's own policy.
    shown.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.harm = 1'}))"
    )
    assert shown.evaluate("window.harm") is None
