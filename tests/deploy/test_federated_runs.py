"""A federation is a run: it is kept, shown, and goes on after an interruption with the same bits."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bits import digest
from deploy.federations import DATA, experiment, sites_of
from deploy.watched import made_run
from partita.algorithms.fedper import fedper
from partita.api.kept import report_of
from partita.api.run import keep
from partita.cli import run as command
from partita.cli.main import app
from partita.deploy.deployment import Deployment, Trial
from partita.deploy.federated import introductions
from partita.deploy.plan import Plan
from partita.deploy.server import Limits, Sites, introduced
from partita.errors import PartitaError
from partita.experiment.events import Event, RoundEnded
from partita.experiment.executors.inline import Inline
from partita.experiment.simulate import run_stages
from partita.models.mlp import mlp
from partita.report import REPORT
from partita.runs.store import Store
from partita.runs.stored import read_run


def test_a_run_that_is_interrupted_goes_on(tmp_path: Path) -> None:
    made = experiment(fedper(), model=partial(mlp, hidden=5), rounds=3)
    plan, expected, asked = Plan.of(made), run_stages(made, Inline()), list[int]()
    with sites_of(plan, DATA, tmp_path) as sites:

        def exchange(orders: Mapping[int, bytes], seconds: float) -> Iterator[tuple[int, bytes]]:
            for number, order in orders.items():
                asked.append(number)
                if len(asked) == 9:
                    raise KeyboardInterrupt
                yield number, sites[number].answer(order)

        def again() -> None:
            remote = plan.experiment_on(introduced(plan, exchange, Limits()))
            report_of(keep(remote, tmp_path / "run", baselines=None, on=Sites(plan, exchange)))

        with pytest.raises(KeyboardInterrupt):
            again()
        with Store.open(tmp_path / "run", write=False) as store:
            assert store.record.status == "interrupted"
        again()
    with Store.open(tmp_path / "run", write=False) as store:
        found = store.server("run")
        assert store.record.done
        assert "floor" not in store.analyses, "the server holds no samples"
    assert found is not None
    assert digest(found[1]) == digest(expected.state)


def test_a_run_goes_on_without_a_site_that_is_gone(tmp_path: Path) -> None:
    """What it said of itself when the run began is in the run."""
    made = experiment(fedper(), model=partial(mlp, hidden=5), rounds=3, participation="all", evaluate_every=0)
    plan, gone = Plan.of(made), list[int]()
    with sites_of(plan, DATA, tmp_path) as sites:

        def exchange(orders: Mapping[int, bytes], seconds: float) -> Iterator[tuple[int, bytes | PartitaError]]:
            for number, order in orders.items():
                here = number not in gone
                yield number, sites[number].answer(order) if here else PartitaError("the site is not connected")

        def stop(event: Event) -> None:
            if isinstance(event, RoundEnded) and not gone:
                gone.append(1)
                raise KeyboardInterrupt

        def again() -> None:
            known = introductions(tmp_path / "run")
            remote = plan.experiment_on(introduced(plan, exchange, Limits(), known=known))
            keep(remote, tmp_path / "run", baselines=None, on=Sites(plan, exchange), on_event=stop)

        with pytest.raises(KeyboardInterrupt):
            again()
        again()
    found = read_run(tmp_path / "run")
    assert found.record.done
    assert {(each.round, each.client, each.problem) for each in found.left_out} >= {
        (2, 1, "the site is not connected"),
        (3, 1, "the site is not connected"),
    }


def test_a_site_that_is_not_there_at_the_start(tmp_path: Path) -> None:
    plan = Plan.of(experiment(fedper(), model=partial(mlp, hidden=5)))

    def nobody(orders: Mapping[int, bytes], seconds: float) -> Iterator[tuple[int, bytes | PartitaError]]:
        yield 2, PartitaError("the site is not connected")

    with pytest.raises(PartitaError, match="Site c cannot take part: the site is not connected"):
        introduced(plan, nobody, Limits())
    with pytest.raises(PartitaError, match="4 of 4 sites have not introduced themselves: a, b, c, d"):
        introduced(plan, lambda orders, seconds: (), Limits())


def test_resume_before_the_sites_introduced_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no database yet, and the federation is started again."""
    started = list[Path]()
    monkeypatch.setattr(command, "run_deployment", lambda deployment, folder, as_json: started.append(folder))
    deployment = Deployment(Plan.of(experiment(fedper(), model=partial(mlp, hidden=5))), Limits(), Trial({}))
    deployment._write(tmp_path)
    assert CliRunner().invoke(app, ["resume", str(tmp_path)]).exit_code == 0
    assert started == [tmp_path]


def test_resume_of_a_federation_that_is_done_asks_no_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was interrupted may have been its report."""
    run = made_run(tmp_path, rounds=2)
    monkeypatch.setattr(command, "run_deployment", lambda *_: pytest.fail("it starts the federation again"))
    for _ in range(2):
        done = CliRunner().invoke(app, ["resume", str(run)])
        assert done.exit_code == 0, done.output
        assert (run / REPORT).exists()
