"""A federation is a run: it is kept, shown, and goes on after an interruption with the same bits."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from bits import digest
from deploy.federations import DATA, experiment, sites_of
from partita.algorithms.fedper import fedper
from partita.api.kept import report_of
from partita.api.run import keep
from partita.deploy.plan import Plan
from partita.deploy.server import Limits, Sites, introduced
from partita.models.mlp import mlp
from partita.runs.store import Store
from partita.simulation.executors.inline import Inline
from partita.simulation.simulate import run_stages


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
