"""What the first sentence of a report says, and how sure it is."""

from collections.abc import Callable
from pathlib import Path

import pytest

from partita.experiment.left_out import LeftOut
from partita.report.conclusion import conclusions
from partita.report.study import study
from studies import experiment_of, write_run

LOCAL = [{"name": "local", "run": "../base", "variant": "before_local", "label": "local"}]


@pytest.mark.parametrize(("clients", "sure"), [(2, "not surely different from"), (12, "surely better than")])
def test_a_difference_is_sure_only_if_there_are_clients_to_tell(tmp_path: Path, clients: int, sure: str) -> None:
    """Every client gains 20 points: of two clients the interval has no width, and a test has p = 0.5 at best."""
    write_run(tmp_path / "base", {1: [0.5] * clients}, label="local", clients=clients, evaluated=clients)
    write_run(
        tmp_path / "mine", {1: [0.7] * clients}, analyses={"baselines": LOCAL}, clients=clients, evaluated=clients
    )
    [said] = conclusions(study([tmp_path / "mine"]))
    assert f", {sure} its best baseline, local (50.0 %): +20.0 (95 % interval +20.0 to +20.0" in said
    assert ("; but p = 0.5: with so few, it may be chance)" in said) == (clients == 2)


def test_a_method_that_is_worse_is_said_to_be(tmp_path: Path) -> None:
    write_run(tmp_path / "base", {1: [0.7] * 12}, label="local", clients=12, evaluated=12)
    write_run(tmp_path / "mine", {1: [0.5] * 12}, analyses={"baselines": LOCAL}, clients=12, evaluated=12)
    [said] = conclusions(study([tmp_path / "mine"]))
    assert ", surely worse than its best baseline, local (70.0 %)" in said


@pytest.mark.parametrize(
    ("scores", "samples", "said"),
    [
        ([0.2] * 12, 10, "It is no better than a constant answer (30.0 %)."),
        ([0.31] * 12, 100, "It is hardly better than a constant answer (30.0 %)."),
        ([0.5, 0.2], 10, "It is not surely better than a constant answer (30.0 %)."),
        ([0.5] * 12, 10, ""),
        # Two clients alone tell nothing, but each has a thousand samples.
        ([0.5] * 2, 1000, ""),
    ],
)
def test_a_method_that_is_not_surely_above_the_floor_is_said_to_be(
    tmp_path: Path, scores: list[float], samples: int, said: str
) -> None:
    count = len(scores)
    floor = {"clients": list(range(count)), "score": [0.3] * count, "micro": 0.3, "macro": 0.3}
    place = write_run(tmp_path, {1: scores}, analyses={"floor": floor}, clients=count, evaluated=count, samples=samples)
    [found] = conclusions(study([place]))
    assert found.endswith(f"no baseline to compare it with.{said and ' ' + said}")


def test_a_single_run_is_said_to_be_at_the_floor_too(tmp_path: Path, told: Callable[..., str]) -> None:
    floor = {"clients": [0, 1], "score": [0.6, 0.6], "micro": 0.6, "macro": 0.6}
    place = write_run(tmp_path, {1: [0.5, 0.6]}, analyses={"floor": floor})
    assert "The model * is no better than a constant answer (60.0 %)." in told("show", str(place))


def test_a_difference_of_fewer_seeds_than_the_means_is_said_to_be(tmp_path: Path) -> None:
    """One seed of the best method is lost: 60 % and 40 % over seeds, but under the seed of both, 60 % and 30 %."""
    for label, scores in (("fedper", {0: 0.3, 1: 0.5}), ("ditto", {0: 0.6})):
        for seed, score in scores.items():
            place = tmp_path / label / f"seed-{seed}"
            write_run(place, {1: [score] * 3}, label=label, seed=seed, experiment=experiment_of(label, seed=seed))
    methods = [tmp_path / "fedper" / "seed-0", tmp_path / "fedper" / "seed-1", tmp_path / "ditto" / "seed-0"]
    [said] = conclusions(study(methods))
    assert said.startswith("Of 2 methods ditto is best: 60.0 % over clients; there is no baseline")
    alone = [write_run(tmp_path / f"local-{seed}", {1: [0.2] * 3}, label="local", seed=seed) for seed in (0, 1)]
    [said] = conclusions(study([*methods, *alone]))
    assert "ahead of the next, fedper (+30.0, 3 clients, one seed that both have)" in said


def test_unfinished_methods_are_not_counted(tmp_path: Path) -> None:
    for label, rounds in (("fedper", 1), ("ditto", 1), ("fedrep", 5)):
        write_run(tmp_path / label, {1: [0.5] * 3}, label=label, rounds=rounds)
    [said] = conclusions(study([tmp_path]))
    assert said.startswith("Of 2 finished methods ")


def test_clients_that_were_left_out_are_named(tmp_path: Path) -> None:
    place = write_run(tmp_path / "mine", {1: [0.5] * 3}, names=["anna", "ben", "cleo"])
    [said] = conclusions(study([place]))
    assert "Left out" not in said
    absent = (LeftOut(1, 1, "ben", 1, "The loss became nan."), LeftOut(1, 2, "cleo", 1, "The loss became nan."))
    place = write_run(tmp_path / "without", {1: [0.5] * 3}, names=["anna", "ben", "cleo"], left_out=absent)
    [said] = conclusions(study([place]))
    assert said.endswith("Left out of rounds of fedper: ben and cleo.")


def test_a_better_baseline_of_others_is_not_that_of_the_best_method(tmp_path: Path) -> None:
    """Baselines of two budgets stand on the page; each method is measured against its own."""
    for label, score, epochs in (("base", 0.5, 1), ("longer", 0.9, 10)):
        experiment = experiment_of("local", epochs=epochs)
        write_run(tmp_path / label, {1: [score] * 12}, label="local", experiment=experiment)
    for label, score, other, epochs in (("fedper", 0.7, "base", 1), ("fedbabu", 0.6, "longer", 10)):
        baselines = [{**LOCAL[0], "run": f"../{other}", "budget": {"rounds": 1, "epochs": epochs}}]
        write_run(tmp_path / label, {1: [score] * 12}, label=label, analyses={"baselines": baselines})
    [said] = conclusions(study([tmp_path / "fedper", tmp_path / "fedbabu"]))
    assert "fedper is best: 70.0 % over clients, surely better than its best baseline, local" in said
    assert "(50.0 %): +20.0" in said
