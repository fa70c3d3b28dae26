"""Clients are made again from a stored run as they were, and what is found out about them is kept in it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from cli.test_cli import Ask, ask  # noqa: F401  (a fixture)
from partita.algorithms.finetune import finetune
from partita.errors import PartitaError
from partita.evaluation.analyses.embedding import embedding
from partita.evaluation.analyses.finetuning import finetuning
from partita.evaluation.analyses.similarity import similarity
from partita.evaluation.analysis import Analysis, declared
from partita.evaluation.measurement import measure
from partita.evaluation.population import Population
from partita.evaluation.scores import Record
from partita.evaluation.variants import Variant
from partita.experiment.events import Analysed, Event, ignore
from partita.runs.clients import stored_clients
from partita.runs.evaluate import Evaluated, evaluate
from partita.runs.session import Session
from partita.runs.store import Store
from partita.runs.stored import read_run
from runs import kept
from runs.kept import METHODS, OWN_LABELS, REGRESSION, SETTINGS, simulated, start
from studies import write_run

SHORT: dict[str, Any] = {**SETTINGS, "rounds": 3}
MORE: dict[str, dict[str, Any]] = {
    **METHODS,
    "newcomers": {"data": {**SETTINGS["data"], "newcomers": 1}},
    "oracle": {"oracle_validation": True, "algorithm": "flayer"},
    "own labels": {"data": OWN_LABELS},
    "scaffold": {"algorithm": "scaffold"},
    "apple": {"algorithm": "apple"},
    "fedala": {"algorithm": "fedala"},
    "gpfl": {"algorithm": "gpfl"},
    "regression": {"data": REGRESSION},
}


def opened(folder: Path) -> Session:
    return Session.open(folder, trust=True)


# Onboarding is about clients that never train.
ANALYSES = [name for name in declared("asked") if name != "onboarding"]


def looked_into(folder: Path, *given: Analysis, on_event: Any = ignore) -> Evaluated:
    with Session.open(folder, trust=True, on_event=on_event) as session:
        return evaluate(session, given or None)


def stored_records(stored: Population) -> list[Record]:
    """Of the models `before_local` and, where the method fine-tunes, of the tuned ones, as a run records them."""
    found = []
    for number, subject in stored.items():
        data = stored.data[number]
        models = {"before_local": subject.before}
        if stored.algorithm.finetune:
            models["after_finetune"] = subject.used
        for model, tensors in models.items():
            for role, samples in (("validation", data.validation), ("test", data.test)):
                sums = measure(stored.algorithm, subject.client, tensors, samples, 512) if len(samples) else None
                if sums:
                    right = int(sums["correct"]) if "correct" in sums else None
                    found.append(
                        Record(3, number, model, role, int(sums["count"]), right, sums["loss"])  # type: ignore[arg-type]
                    )
    return found


def in_order(records: list[Record]) -> list[Record]:
    return sorted(records, key=lambda record: (record.client, record.variant, record.role))


@pytest.mark.filterwarnings("ignore:.*with test samples mostly of classes")
@pytest.mark.parametrize("method", MORE)
def test_stored_models_score_as_they_did(tmp_path: Path, method: str) -> None:
    """Of all clients, participants or not, newcomers too."""
    start({**SHORT, **MORE[method]}, tmp_path / "run")
    result = simulated({**SHORT, **MORE[method]})
    expected = [
        each for each in result.records if each.round == 3 and each.variant in ("before_local", "after_finetune")
    ]
    with opened(tmp_path / "run") as session:
        stored = stored_clients(session)
        found, expected = in_order(stored_records(stored)), in_order(expected)
    assert [replace(each, loss=0.0) for each in found] == [replace(each, loss=0.0) for each in expected]
    # Together, models share passes through layers they have in common, which may change the last bits of a loss.
    assert [each.loss for each in found] == pytest.approx([each.loss for each in expected], rel=1e-5)
    assert stored.keys() == set(range(4))
    with pytest.raises(KeyError):
        stored[4]


def test_a_sample_of_clients_is_of_those_who_train_and_always_the_same(tmp_path: Path) -> None:
    start({**SHORT, **MORE["newcomers"]}, tmp_path / "one")
    start({**SHORT, **MORE["newcomers"], "algorithm": "fedavg"}, tmp_path / "two")
    with opened(tmp_path / "one") as first, opened(tmp_path / "two") as second:
        one, two = stored_clients(first), stored_clients(second)
        assert len(one.sample(100)) == 3
        assert not set(one.sample(100)) & one.data.newcomers
        assert len(one.sample(2)) == 2
        assert list(one.sample(2)) == list(two.sample(2))


def test_other_data_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start(SHORT, tmp_path / "run")
    monkeypatch.setattr(kept, "SEED", 4)
    with pytest.raises(PartitaError, match="The data are not those"):
        opened(tmp_path / "run")


def test_all_that_applies_is_found_and_kept(tmp_path: Path) -> None:
    start({**SHORT, **METHODS["norm"], "algorithm": {"name": "fedper", "epochs": 1}}, tmp_path / "run")
    seen: list[tuple[str, int, int]] = []

    def note(event: Event) -> None:
        assert isinstance(event, Analysed)
        seen.append((event.analysis, event.done, event.total))

    made = looked_into(tmp_path / "run", on_event=note)
    assert made.left_out.keys() == {"onboarding"}
    assert list(made.found) == ANALYSES
    analyses = read_run(tmp_path / "run").analyses
    assert {name: analyses[name] for name in ANALYSES} == json.loads(json.dumps(made.found, allow_nan=False))
    assert seen == [(name, done, 4) for name in ANALYSES for done in (1, 2, 3, 4)]
    assert looked_into(tmp_path / "run").found == made.found, "the same again"
    used = read_run(tmp_path / "run").summaries()["before_local"]
    for value in (made.found["without_head"]["with_head"], _at(made.found["finetuning"], "head", 0)):
        assert (value["macro"], value["std"], value["micro"]) == (used.macro, used.std, used.micro)


def _at(found: Mapping[str, Any], part: str, epoch: int) -> dict[str, float]:
    return {name: found["parts"][part][name][epoch] for name in ("macro", "std", "micro")}


def test_finetuning_ends_where_the_method_itself_does(tmp_path: Path) -> None:
    """FedBABU tunes all for five epochs: the same steps, statistics and momentum, and so the same scores."""
    start({**SHORT, **METHODS["babu"]}, tmp_path / "run")
    found = looked_into(tmp_path / "run", finetuning()).found["finetuning"]
    own = read_run(tmp_path / "run").summaries()
    epochs: dict[Variant, int] = {"before_local": 0, "after_finetune": 5}
    for model, epoch in epochs.items():
        summary = own[model]
        expected = {"macro": summary.macro, "std": summary.std, "micro": summary.micro}
        assert _at(found, "full", epoch) == expected
    validation = read_run(tmp_path / "run").summaries(role="validation")["after_finetune"]
    assert found["parts"]["full"]["validation"][5] == validation.macro


def test_how_much_is_looked_at_is_a_setting(tmp_path: Path) -> None:
    start(SHORT, tmp_path / "run")
    made = looked_into(tmp_path / "run", finetuning(clients=3, epochs=2, lr=0.5), similarity(clients=3))
    assert made.found["finetuning"]["epochs"] == [0, 1, 2]
    assert made.found["finetuning"]["lr"] == 0.5
    assert len(made.found["finetuning"]["clients"]) == len(made.found["similarity"]["clients"]) == 3
    assert read_run(tmp_path / "run").analyses.keys() & set(ANALYSES) == {"finetuning", "similarity"}


@pytest.mark.filterwarnings("ignore:.*with test samples mostly of classes")
def test_what_does_not_apply_says_why(tmp_path: Path) -> None:
    start({**SHORT, **MORE["regression"]}, tmp_path / "run")
    made = looked_into(tmp_path / "run")
    assert made.found.keys() == {"finetuning", "training", "similarity"}
    assert "no newcomers" in made.left_out.pop("onboarding")
    assert set(made.left_out.values()) == {"numbers has no classes."}
    with pytest.raises(PartitaError, match="no classes"):
        looked_into(tmp_path / "run", embedding())
    start({**SHORT, **MORE["own labels"]}, tmp_path / "own")
    others = looked_into(tmp_path / "own")
    assert others.found.keys() == {"finetuning", "without_head", "training", "embedding"}
    assert "its own classes" in others.left_out["inside_outside"]
    assert "networks differ" in others.left_out["similarity"]
    assert max(others.found["embedding"]["label"]) == 9


def test_a_run_that_is_not_done(tmp_path: Path) -> None:
    start(SHORT, tmp_path / "run")
    with Store.open(tmp_path / "run", write=True) as store:
        store.note(status="interrupted")
    with pytest.raises(PartitaError, match="partita resume"):
        looked_into(tmp_path / "run")


def test_at_least_one_client_is_looked_at(tmp_path: Path) -> None:
    start({**SHORT, "rounds": 1}, tmp_path)
    with pytest.raises(PartitaError, match="at least 1"):
        looked_into(tmp_path, finetuning(clients=0))


@pytest.mark.usefixtures("own_folder")
def test_the_command(ask: Ask) -> None:  # noqa: F811
    ask("run", "--algorithm", "fedbabu", "data.split=iid", "data.split.clients=3", "rounds=2", "--output", "mine")
    answer = ask("evaluate", "mine", "--clients", "2")
    assert answer.code == 0, answer.err
    assert "finetuning: 2 clients" in answer.err
    for text in ("after epoch", "euclidean", "classes trained on", "layer1", "map of representations"):
        assert text in answer.out
    told = json.loads(ask("evaluate", "mine", "--what", "finetuning", "--epochs", "1", "--json").out)
    assert told["analyses"]["finetuning"]["epochs"] == [0, 1]
    assert told["left_out"] == {}
    assert "partita evaluate runs/" in ask("evaluate", "--help").out, "an example"
    wrong = ask("evaluate", "mine", "--what", "heads")
    assert (wrong.code, wrong.out) == (2, "")
    assert "Unknown analysis 'heads'" in wrong.err


@pytest.mark.usefixtures("own_folder")
def test_show_tells_the_oracle_and_the_target_on_request_alone(ask: Ask) -> None:  # noqa: F811
    options = ("data.split=iid", "data.split.clients=4", "data.newcomers=1", "rounds=2", "evaluate_every=1")
    ask("run", "--algorithm", "fedavg", *options, "--output", "mine")
    plain = ask("show", "mine")
    assert "racle" not in plain.out
    assert "new clients *" in plain.out
    assert "oracle" not in json.loads(ask("show", "mine", "--json").out)
    assert "target" not in json.loads(ask("show", "mine", "--json").out)
    more = ask("show", "mine", "--oracle", "--target", "0.01")
    assert "Oracle: round" in more.out
    assert "was reached by round 1, " in more.out
    assert "was not reached in the 2 rounds" in ask("show", "mine", "--target", "1.0").out
    told = json.loads(ask("show", "mine", "--oracle", "--target", "0.01", "--json").out)
    scores = {at: each["before_local"]["macro"] for at, each in told["scores"].items()}
    assert told["oracle"]["scores"]["before_local"]["macro"] == max(scores.values())
    assert told["target"]["reached"]["round"] == 1
    assert told["target"]["reached"]["bytes"] == sum(
        each.down + each.up for each in read_run(Path("mine")).traffic if each.round == 1
    )
    assert told["newcomer_scores"]["before_local"]["clients"] == 1


def test_a_tuned_model_is_made_when_it_is_asked_for(tmp_path: Path) -> None:
    """And it is not that before tuning."""
    start(SHORT, tmp_path / "run")
    with opened(tmp_path / "run") as session:
        stored = stored_clients(session)
        tuned = replace(stored[0], algorithm=finetune(on=stored.algorithm))
    assert "used" not in vars(tuned)
    assert not torch.equal(tuned.used["head.weight"], tuned.before["head.weight"])


def test_what_is_shown_of_the_last_round_opens_a_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening costs as much as all that is then read of a small run, and a folder may hold many."""
    folder = write_run(tmp_path / "run", {1: [0.25, 0.5], 3: [0.5, 0.75]})
    places: list[Path] = []

    def noted(real: Callable[..., Store], place: Path, **more: bool) -> Store:
        places.append(place)
        return real(place, **more)

    monkeypatch.setattr(Store, "connected", partial(noted, Store.connected))
    run = read_run(folder)
    assert (run.evaluated, run.last, run.scores()) == ([1, 3], 3, {0: 0.5, 1: 0.75})
    assert run.summaries()["before_local"].macro == run.summaries(3)["before_local"].macro == 0.625
    assert places == [folder]
    assert run.summaries(1)["before_local"].macro == 0.375
    assert places == [folder, folder]
