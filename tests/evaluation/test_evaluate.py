"""Analyses of stored runs: all that apply, with the settings they take, kept in the run, shown and reported."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from partita import registry
from partita.errors import PartitaError
from partita.evaluation.analyses.embedding import embedding
from partita.evaluation.analyses.finetuning import finetuning
from partita.evaluation.analyses.similarity import similarity
from partita.evaluation.analysis import Analysis, choose_analyses, declared
from partita.evaluation.variants import Variant
from partita.experiment.events import Analysed, OnEvent, ignore
from partita.report.report import found_sections, report
from partita.report.study import study
from partita.runs.evaluate import Evaluated, evaluate
from partita.runs.session import Session
from partita.runs.store import Store
from partita.runs.stored import read_run
from runs.kept import OWN_LABELS, REGRESSION
from studies import SETTINGS, keep, made

ASKED = ["finetuning", "without_head", "training", "inside_outside", "similarity", "embedding"]
"""Without onboarding, which is about clients that never train."""
SHORT: dict[str, Any] = {
    **SETTINGS,
    "data": {"name": "digits", "split": {"name": "iid", "clients": 4}},
    "algorithm": {"name": "fedper", "epochs": 1},
    "rounds": 2,
}


def run(folder: Path, **changes: Any) -> Path:
    keep(made({**SHORT, **changes}), folder)
    return folder


def look(folder: Path, analyses: list[Analysis] | None = None, on_event: OnEvent = ignore) -> Evaluated:
    with Session.open(folder, trust=True, on_event=on_event) as session:
        return evaluate(session, analyses)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("evaluate") / "run")


@pytest.fixture
def copied(done: Path, tmp_path: Path) -> Path:
    """For tests that add to it."""
    return shutil.copytree(done, tmp_path / "run")


# What is declared.


def test_every_file_declares_one_analysis() -> None:
    assert list(declared("asked")) == [*ASKED, "onboarding"]
    assert set(declared("start")) == {"floor", "labels", "network"}
    assert set(declared("end")) == {"guard"}
    assert sorted(declared()) == registry.names("analyses")
    for name, analysis in declared().items():
        assert analysis.name == name
        assert analysis.title
        assert registry.described("analyses", name).endswith(".")


def test_every_section_that_an_analysis_names_is_there() -> None:
    sections = [section.__name__ for section in found_sections()]
    assert {analysis.section for analysis in declared().values()} <= set(sections)
    assert len(sections) == len(set(sections))


def test_settings_are_taken_by_those_who_know_them() -> None:
    chosen = choose_analyses(["finetuning", "similarity"], {"clients": 3, "epochs": 2})
    assert [each.name for each in chosen] == ["finetuning", "similarity"]
    assert [each.name for each in choose_analyses(None, {"epochs": 2})] == [*ASKED, "onboarding"]
    with pytest.raises(PartitaError, match="None of the analyses takes lr: similarity takes clients, samples"):
        choose_analyses(["similarity"], {"lr": 0.1})
    with pytest.raises(PartitaError, match=r"Unknown analysis 'finetunin'\. Did you mean 'finetuning'"):
        choose_analyses(["finetunin"], {})


# On stored runs.


def test_all_that_applies_is_found_and_kept(done: Path) -> None:
    seen: list[tuple[str, int, int]] = []

    def on_event(event: object) -> None:
        assert isinstance(event, Analysed)
        seen.append((event.analysis, event.done, event.total))

    found = look(done, on_event=on_event)
    assert found.left_out.keys() == {"onboarding"}
    assert list(found.found) == ASKED
    kept = read_run(done).analyses
    assert {name: kept[name] for name in ASKED} == json.loads(json.dumps(found.found, allow_nan=False))
    assert seen == [(name, number, 4) for name in ASKED for number in (1, 2, 3, 4)]
    assert look(done).found == found.found, "the same again"
    used = read_run(done).summaries()["before_local"]
    for value in (found.found["without_head"]["with_head"], at(found.found["finetuning"], "head", 0)):
        assert (value["macro"], value["std"], value["micro"]) == (used.macro, used.std, used.micro)


def at(found: Any, part: str, epoch: int) -> dict[str, float]:
    return {name: found["parts"][part][name][epoch] for name in ("macro", "std", "micro")}


@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_finetuning_ends_where_the_method_itself_does(tmp_path: Path, engine: str) -> None:
    """FedBABU tunes all for five epochs: the same steps, statistics and momentum, and so the same scores."""
    run(tmp_path / "run", algorithm="fedbabu", engine=engine)
    found = look(tmp_path / "run", [finetuning()]).found["finetuning"]
    own = read_run(tmp_path / "run").summaries()
    ends: tuple[tuple[Variant, int], ...] = (("before_local", 0), ("after_finetune", 5))
    for variant, epoch in ends:
        expected = {name: getattr(own[variant], name) for name in ("macro", "std", "micro")}
        assert at(found, "full", epoch) == expected
    validation = read_run(tmp_path / "run").summaries(role="validation")["after_finetune"]
    assert found["parts"]["full"]["validation"][5] == validation.macro


def test_how_much_is_looked_at_is_a_setting(tmp_path: Path) -> None:
    run(tmp_path / "run")
    made = look(tmp_path / "run", [finetuning(clients=3, epochs=2, lr=0.5), similarity(clients=3)])
    assert made.found["finetuning"]["epochs"] == [0, 1, 2]
    assert made.found["finetuning"]["lr"] == 0.5
    assert len(made.found["finetuning"]["clients"]) == len(made.found["similarity"]["clients"]) == 3
    assert read_run(tmp_path / "run").analyses.keys() & set(ASKED) == {"finetuning", "similarity"}
    with pytest.raises(PartitaError, match="The number of clients is 0, but must be at least 1"):
        look(tmp_path / "run", [finetuning(clients=0)])


@pytest.mark.filterwarnings("ignore:.*with test samples mostly of classes")
def test_what_does_not_apply_says_why(tmp_path: Path) -> None:
    run(tmp_path / "run", data=REGRESSION)
    found = look(tmp_path / "run")
    assert found.found.keys() == {"finetuning", "training", "similarity"}
    assert "no newcomers" in found.left_out.pop("onboarding")
    assert set(found.left_out.values()) == {"numbers has no classes."}
    assert "labels" not in read_run(tmp_path / "run").analyses
    with pytest.raises(PartitaError, match="embedding does not apply: numbers has no classes"):
        look(tmp_path / "run", [embedding()])
    run(tmp_path / "own", data=OWN_LABELS)
    others = look(tmp_path / "own")
    assert others.found.keys() == {"finetuning", "without_head", "training", "embedding"}
    assert "its own classes" in others.left_out["inside_outside"]
    assert "networks differ" in others.left_out["similarity"]
    assert max(others.found["embedding"]["label"]) == 9


def test_a_run_that_is_not_done(tmp_path: Path) -> None:
    run(tmp_path / "run")
    with Store.open(tmp_path / "run", write=True) as store:
        store.note(status="interrupted")
    with pytest.raises(PartitaError, match="partita resume"):
        look(tmp_path / "run")


def test_a_method_that_does_not_fit_is_refused_before_anything_is_kept(tmp_path: Path) -> None:
    odd = {"name": "fedsim", "personal": "layer99"}
    with pytest.raises(PartitaError):
        run(tmp_path / "run", algorithm=odd)
    assert not (tmp_path / "run").exists()


# On the command line and in reports.


def test_the_command(done: Path, told: Callable[..., str]) -> None:
    printed = told("evaluate", str(done), "--clients", "2")
    for text in ("after epoch", "euclidean", "classes trained on", "layer1", "map of representations"):
        assert text in printed
    found = json.loads(told("evaluate", str(done), "--what", "finetuning", "--epochs", "1", "--json"))
    assert found["analyses"]["finetuning"]["epochs"] == [0, 1]
    assert (found["left_out"], found["names"]) == ({}, [])
    help_ = " ".join(told("evaluate", "--help").split())
    assert "partita evaluate runs/" in help_, "an example"
    listed = json.loads(told("list", "analyses", "--json"))
    assert set(listed) == set(declared())


MINE = '''
"""A third of the clients."""
from partita.evaluation.analysis import Analysis
from partita.evaluation.figures import Table


def loners(*, clients: int = 7) -> Analysis:
    """How many clients there are."""
    return Analysis(
        name="loners",
        title="Lone clients",
        compute=lambda population: {"count": len(population.sample(clients))},
        obstacle=lambda population: None if len(population) > 1 else "There is one client.",
        tables=lambda result, metric: [Table(["loners"], [[f"{result['count']} [b]of them"]], note="A note.")],
    )


def broken():
    return 3


def fails():
    return 1 / 0
'''


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Installs entry points of the group `partita.analyses`."""

    def install(**points: str) -> None:
        (tmp_path / "mine_of_tests.py").write_text(MINE)
        information = tmp_path / "mine_of_tests-0.1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: mine-of-tests\nVersion: 0.1.0\n")
        lines = [f"{name} = {target}" for name, target in points.items()]
        (information / "entry_points.txt").write_text("\n".join(["[partita.analyses]", *lines, ""]))
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "mine_of_tests", raising=False)

    return install


def test_an_analysis_is_one_file(copied: Path, told: Callable[..., str], plugin: Callable[..., None]) -> None:
    """It is listed, made with its settings, shown on the terminal and drawn in the report."""
    plugin(loners="mine_of_tests:loners")
    assert json.loads(told("list", "analyses", "--json"))["loners"] == "How many clients there are."
    assert "Lone clients: not measured. Add it with partita evaluate RUN --what loners" in plain(
        report(study([copied]))
    )
    printed = told("evaluate", str(copied), "--what", "loners", "--clients", "3")
    assert "3 [b]of them" in printed
    assert "A note." in printed
    text = report(study([copied]))
    assert "<h3>Lone clients</h3>" in text
    assert '<th scope="row">3 [b]of them</th>' in text
    assert read_run(copied).analyses["loners"] == {"count": 3}


def plain(text: str) -> str:
    return text.replace("<code>", "").replace("</code>", "")


def test_an_analysis_by_its_path(copied: Path, told: Callable[..., str], plugin: Callable[..., None]) -> None:
    plugin()
    assert "4 [b]of them" in told("evaluate", str(copied), "--what", "mine_of_tests:loners")


BROKEN = ["mine_of_tests:broken", "mine_of_tests:missing", "mine_of_tests:fails", "nowhere:loners"]


@pytest.mark.parametrize("target", BROKEN)
def test_a_broken_plugin_keeps_nobody_from_working(tmp_path: Path, plugin: Callable[..., None], target: str) -> None:
    plugin(loners=target)
    with pytest.warns(UserWarning, match="The analysis loners is left out"):
        assert "loners" not in declared()
    with pytest.warns(UserWarning, match="The analysis loners is left out"):
        folder = run(tmp_path / "run", rounds=1)
    with pytest.warns(UserWarning, match="The analysis loners is left out"):
        text = report(study([folder]))
    assert "Lone clients" not in text
