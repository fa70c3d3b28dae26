"""The guard: a mixture per client by validation data alone, with shrinkage, and honest numbers on test data.

One file, since choice, outcome and stored runs are about the same clients.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from partita.core.client import Client
from partita.core.objectives import Measures
from partita.core.samples import Samples
from partita.data.pool import Pool, pool
from partita.errors import PartitaError
from partita.evaluation.analyses.guard import GuardSums, guard, outcome
from partita.evaluation.analysis import Result
from partita.evaluation.guard import EQUAL, PERSONAL_WEIGHTS, PRIOR, choose, mixture
from partita.evaluation.metric import Metric
from partita.evaluation.population import Population, apply_here
from partita.experiment.setup import Setup
from partita.randomness import Moment
from partita.report.report import report
from partita.report.study import study
from partita.runs import evaluate
from partita.runs.baselines import add_baselines
from partita.runs.clients import stored_clients
from partita.runs.complete import complete
from partita.runs.evaluate import analyse
from partita.runs.folders import BESIDE
from partita.runs.session import Session
from partita.runs.stored import read_run
from studies import made

SETTINGS: dict[str, Any] = {
    "algorithm": {"name": "fedper", "epochs": 1, "optimizer": {"lr": 0.1}},
    "model": {"name": "mlp", "hidden": 8},
    "data": {"name": "digits", "split": {"name": "dirichlet", "clients": 5, "alpha": 0.5}},
    "rounds": 3,
    "evaluate_every": 0,
}

# The choice.


def test_a_mixture_by_hand() -> None:
    personal, shared = torch.tensor([[0.8, 0.2]]).log() + 7, torch.tensor([[0.4, 0.6]]).log() - 3
    assert torch.allclose(mixture(personal, shared, 0.25, "classification").exp(), torch.tensor([[0.5, 0.5]]))
    assert torch.allclose(mixture(personal, shared, 0.75, "next_word").exp(), torch.tensor([[0.7, 0.3]]))
    numbers = mixture(torch.tensor([4.0]), torch.tensor([0.0]), 0.25, "regression")
    assert torch.equal(numbers, torch.tensor([1.0]))
    assert mixture(personal, shared, 0.0, "classification") is shared
    assert mixture(personal, shared, 1.0, "classification") is personal


def test_the_choice_by_hand() -> None:
    """Means over all six samples: 12/6 = 2, 9/6 = 1.5, 9.6/6 = 1.6."""
    losses = [[10.0, 8.0, 7.6], [2.0, 1.0, 2.0]]
    # First, prior 4: (10 + 8) / 8 = 2.25, (8 + 6) / 8 = 1.75, (7.6 + 6.4) / 8 = 1.75: equal, so the smaller weight.
    assert choose(losses, [4, 2], 4.0) == [1, 1]
    assert choose(losses, [4, 2], 3.0) == [2, 1]
    assert choose(losses, [4, 2], 0.0) == [2, 1]
    assert choose([*losses, [0.0, 0.0, 0.0]], [4, 2, 0], 0.0) == [2, 1, 1], "without own data, what is best for all"
    sick = [*losses, [float("nan"), float("inf"), 0.0]]
    assert choose(sick, [4, 2, 9], 0.0) == [2, 1, 1], "a sick client has no say, and takes what is best for all others"


def population(count: int) -> tuple[list[list[float]], list[int]]:
    """One client whose personal model is perfect on `count` samples, among twenty whose personal models are bad."""
    perfect = [count * (1 - weight) for weight in PERSONAL_WEIGHTS]
    bad = [[10 * (0.1 + 2 * weight) for weight in PERSONAL_WEIGHTS] for _ in range(20)]
    return [perfect, *bad], [count] + [10] * 20


def test_a_perfect_model_is_trusted_if_there_are_samples_to_tell() -> None:
    assert choose(*population(200)) == [4] + [0] * 20
    assert choose(*population(1)) == [0] * 21
    weights = [choose(*population(count))[0] for count in range(1, 60)]
    assert weights == sorted(weights), "the more samples, the more a client follows its own"


@given(st.integers(1, 6), st.integers(2, 8), st.data())
def test_the_choice_agrees_with_a_direct_computation(clients: int, weights: int, data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(0, 20), min_size=clients, max_size=clients).filter(any))
    means = data.draw(
        st.lists(st.lists(st.floats(0, 10), min_size=weights, max_size=weights), min_size=clients, max_size=clients)
    )
    sums = [[count * mean for mean in row] for count, row in zip(counts, means, strict=True)]
    prior = data.draw(st.floats(0.5, 50))
    chosen = choose(sums, counts, prior)
    common = [sum(row[place] for row in sums) / sum(counts) for place in range(weights)]
    for row, count, place in zip(means, counts, chosen, strict=True):
        shrunk = [(count * own + prior * other) / (count + prior) for own, other in zip(row, common, strict=True)]
        assert shrunk[place] <= min(shrunk) + 1.001 * EQUAL
        assert all(shrunk[before] > min(shrunk) + 0.999 * EQUAL for before in range(place))


def test_what_cannot_be_chosen() -> None:
    with pytest.raises(PartitaError, match=r"No client has validation data to choose by\. Set data\.validation"):
        choose([[0.0, 0.0]], [0])
    with pytest.raises(PartitaError, match="at least 0"):
        choose([[0.0, 1.0]], [1], -1.0)


# The outcome.


def sums(count: int, correct: list[int], loss: list[float]) -> list[Measures]:
    return [{"count": count, "correct": right, "loss": each} for right, each in zip(correct, loss, strict=True)]


def test_the_outcome_by_hand() -> None:
    """Validation says: the first keeps its personal model, the second takes the global one, the third is not tested."""
    nothing: list[Measures] = [{} for _ in PERSONAL_WEIGHTS]
    measured = {
        3: GuardSums(sums(9, [0] * 5, [9, 8, 7, 6, 0]), sums(4, [2, 2, 3, 3, 4], [1] * 5)),
        5: GuardSums(sums(9, [0] * 5, [0, 6, 7, 8, 9]), sums(4, [3, 3, 2, 2, 1], [1] * 5)),
        7: GuardSums(sums(9, [0] * 5, [0, 0, 0, 0, 0]), nothing),
    }
    found = outcome(measured, 1.0, Metric("accuracy"))
    assert (found["clients"], found["chosen"]) == ([3, 5], [1.0, 0.0])
    assert (found["global"], found["personal"], found["guarded"]) == ([0.5, 0.75], [1.0, 0.25], [1.0, 0.75])
    assert (found["hurt_before"], found["hurt_after"]) == (1, 0)
    assert (found["macro_personal"], found["macro_guarded"], found["difference"]) == (0.625, 0.875, 0.25)
    assert found["low"] <= 0.25 <= found["high"]


@given(st.lists(st.lists(st.integers(0, 9), min_size=5, max_size=5), min_size=4, max_size=4))
def test_test_data_have_no_say(right: list[list[int]]) -> None:
    validation = [sums(6, [0] * 5, [client, 3, 2, 1, 4 - client]) for client in range(4)]
    honest = {at: GuardSums(each, sums(9, [1, 2, 3, 4, 5], [1] * 5)) for at, each in enumerate(validation)}
    other = {at: GuardSums(each, sums(9, right[at], [9] * 5)) for at, each in enumerate(validation)}
    assert outcome(honest, PRIOR, Metric("accuracy"))["chosen"] == outcome(other, PRIOR, Metric("accuracy"))["chosen"]


# On stored runs.


def start(settings: dict[str, Any], folder: Path, *, guarded: bool = True) -> Path:
    """A run with baselines and guard, or without both."""
    with Session.start(made(settings), folder, baselines=BESIDE if guarded else None, on="inline") as session:
        session.run()
        complete(session)
    return folder


def add_guard(folder: Path, **settings: Any) -> Result:
    with Session.open(folder, on="inline", trust=True) as session:
        return analyse(session, guard(**settings))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start(SETTINGS, tmp_path_factory.mktemp("guard") / "run")


def test_personal_and_global_are_the_models_that_were_evaluated(run: Path) -> None:
    found = read_run(run).analyses["guard"]
    own = read_run(run).scores("before_local")
    [entry] = [each for each in read_run(run).analyses["baselines"] if each["name"] == "global"]
    assert found["global_run"] == entry["run"]
    assert dict(zip(found["clients"], found["personal"], strict=True)) == own
    shared = read_run(run / entry["run"]).scores("before_local")
    assert dict(zip(found["clients"], found["global"], strict=True)) == shared
    for place, weight in enumerate(found["chosen"]):
        if weight in (0.0, 1.0):
            assert found["guarded"][place] == found["personal" if weight else "global"][place]
    assert found["prior"] == PRIOR
    assert found["weights"] == list(PERSONAL_WEIGHTS)


def with_test_labels_moved(session: Session) -> Population:
    """The clients of a run, as if their test samples had other labels."""
    before = session.experiment
    rows = torch.cat([roles["test"] for roles in before.data.roles])
    samples = before.data.samples
    targets = samples.targets.clone()
    targets[rows] = (targets[rows] + 1) % before.data.classes
    moved = Samples(samples.stored, targets, preparation=samples._preparation)
    session.experiment = replace(before, data=replace(before.data, samples=moved))
    session._setups.clear()
    try:
        return stored_clients(session)
    finally:
        session.experiment = before
        session._setups.clear()


def test_other_test_labels_change_no_choice(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_run(run).analyses["guard"]
    monkeypatch.setattr(evaluate, "stored_clients", with_test_labels_moved)
    # Workers would have the labels of the run.
    monkeypatch.setattr(evaluate, "apply_in_workers", lambda session, *given: apply_here(*given))
    after = add_guard(run)
    monkeypatch.undo()
    assert after["chosen"] == before["chosen"]
    assert after["personal"] != before["personal"], "the labels are others"
    assert add_guard(run) == before


@pytest.mark.parametrize(("algorithm", "folders"), [("fedper", 2), ("ditto", 2)])
def test_each_client_is_built_once_and_only_those_that_are_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str, folders: int
) -> None:
    """In the run, and in its global baseline."""
    folder = start({**SETTINGS, "algorithm": algorithm, "rounds": 1, "evaluation_clients": 3}, tmp_path / "run")
    built: list[tuple[int, int]] = []
    make = Setup.client

    def counted(setup: Setup, number: int, moment: Moment) -> Client:
        built.append((id(setup), number))
        return make(setup, number, moment)

    monkeypatch.setattr(Setup, "client", counted)
    found = add_guard(folder)
    assert len(found["clients"]) == 3
    assert sorted(number for _, number in built) == sorted(found["clients"] * folders)
    assert len(set(built)) == len(built)


def test_a_global_run_on_other_clients_is_refused(run: Path, tmp_path: Path) -> None:
    other = {**SETTINGS, "algorithm": "fedavg", "seed": 1, "rounds": 1}
    start(other, tmp_path / "other", guarded=False)
    with pytest.raises(PartitaError, match="other clients"):
        add_guard(run, global_run=tmp_path / "other")


@pytest.mark.parametrize(
    ("algorithm", "own"),
    [
        ("fedavg", True),
        ("ditto", True),
        ({"name": "finetune", "epochs": 1}, True),
        ("fedbabu", False),
        ("fedcp", False),
    ],
    ids=str,
)
def test_it_works_after_any_method(tmp_path: Path, algorithm: object, own: bool) -> None:
    start({**SETTINGS, "algorithm": algorithm, "rounds": 1}, tmp_path / "run", guarded=False)
    if not own:
        with pytest.raises(PartitaError, match="--global RUN"):
            add_guard(tmp_path / "run")
        with Session.open(tmp_path / "run", on="inline") as session:
            add_baselines(session)
    found = add_guard(tmp_path / "run")
    assert (found["global_run"] == ".") == own
    assert found["personal"] == list(read_run(tmp_path / "run").scores().values())
    if algorithm == "fedavg":
        assert set(found["chosen"]) == {0.0}, "of equals the global one"
        assert (found["hurt_before"], found["hurt_after"]) == (0, 0)


def test_what_cannot_be_guarded_is_noted_and_shown(tmp_path: Path, told: Callable[..., str]) -> None:
    data = {**SETTINGS["data"], "validation": 0.0}
    start({**SETTINGS, "data": data, "rounds": 1}, tmp_path / "run")
    found = read_run(tmp_path / "run").analyses
    assert "guard" not in found
    assert found["guard_failed"].startswith("No client has validation data")
    shown = told("show", str(tmp_path / "run"))
    assert "No guard: No client has validation data to choose by." in shown
    assert "No guard for fedper: No client has validation data to choose by." in report(study([tmp_path / "run"]))


def test_a_regression_mixes_numbers(tmp_path: Path) -> None:
    chosen = {**SETTINGS, "data": f"{__name__}:line", "algorithm": "fedsim", "rounds": 2}
    start(chosen, tmp_path / "run")
    found = read_run(tmp_path / "run").analyses["guard"]
    assert found["personal"] == list(read_run(tmp_path / "run").scores("before_local").values())
    worse = sum(mine > theirs for mine, theirs in zip(found["personal"], found["global"], strict=True))
    assert found["hurt_before"] == worse, "of errors, more is worse"


def line() -> Pool:
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(90, 2)).astype(np.float32)
    owners = np.arange(90) % 3
    return pool("line", inputs, inputs.sum(1) + owners, kind="regression", clients=owners)


def test_the_command(run: Path, told: Callable[..., str]) -> None:
    found = json.loads(told("guard", str(run), "--json", "--prior", "2"))
    assert found == read_run(run).analyses["guard"]
    assert found["prior"] == 2
    shown = told("guard", str(run))
    assert "With the guard" in shown
    assert "worse off than with the global model" in shown


SHOWN = """
import sys
from partita.cli.main import main
for command in ("show", "runs"):
    sys.argv = ["partita", command, sys.argv[-1]]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
assert "torch" not in sys.modules and "numpy" not in sys.modules
"""


def test_it_is_shown_without_torch(run: Path) -> None:
    command = [sys.executable, "-c", SHOWN, str(run)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    assert "With the guard" in shown


def test_what_failed_for_want_of_a_baseline_is_made_with_it(tmp_path: Path) -> None:
    """As in a run whose baselines could not be made at first."""
    with Session.start(made(SETTINGS), tmp_path / "run", baselines=BESIDE, on="inline") as session:
        session.run()
        session.store.add_analysis("baselines_failed", [{"name": "global", "problem": "The disk was full."}])
        session.store.add_analysis("guard_failed", "There is no global model.")
        complete(session)
        found = session.store.analyses
    assert found["baselines_failed"] == []
    assert "guard" in found
    assert "guard_failed" not in found
