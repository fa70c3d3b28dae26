"""A site's own report: its model against local training and global models, and what left, by its log."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from deploy.federations import DATA, OPEN, experiment, federate, sites_of
from partita.algorithms.ditto import ditto
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedper import fedper
from partita.algorithms.local import local
from partita.core.optimizers import SGD
from partita.deploy.benefit import benefit, left, network_weights
from partita.deploy.gate import Leaving
from partita.deploy.personal import PersonalStore
from partita.deploy.plan import Plan
from partita.deploy.site import one_client
from partita.errors import PartitaError
from partita.experiment.executors.inline import Inline
from partita.experiment.simulate import run_stages
from partita.models.mlp import mlp

OPTIONS: dict[str, Any] = {"participation": "all", "rounds": 3, "model": partial(mlp, hidden=5)}
SITE, NUMBER = "d", 3


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Plan], dict[str, Any]]:
    """Three plans at the same sites; one site lets no norm of FedAvg's update leave in the end."""
    folder = tmp_path_factory.mktemp("sites")
    plans = {each.name: Plan.of(experiment(each, **OPTIONS)) for each in (fedper(epochs=2), ditto(), fedavg())}
    found = {}
    for name, plan in plans.items():
        with sites_of(plan, DATA, folder) as sites:
            found[name] = federate(plan, sites)
    strict = replace(OPEN, leaving=Leaving(most_bytes=1))
    with sites_of(plans["fedavg"], DATA, folder, gates={NUMBER: strict}) as sites:
        federate(Plan.of(experiment(fedavg(), **{**OPTIONS, "seed": 2})), sites)
    return folder, plans, found


def measured(found: Any, variant: str = "before_local") -> float:
    """As the site told the server after the last round."""
    [score] = [
        each.score
        for each in found.records
        if (each.client, each.round, each.variant, each.role) == (3, 3, variant, "test")
    ]
    return float(score)


@pytest.mark.filterwarnings("ignore::partita.DegenerateWarning")
def test_the_scores_are_those_that_the_server_has(made: Any) -> None:
    folder, plans, found = made
    data = one_client(DATA, NUMBER)
    with PersonalStore(folder / SITE, write=False) as store:
        told = benefit(plans["fedper"].hash, store, SITE, data)
    assert told.score == measured(found["fedper"])
    assert (told.label, told.round, told.rounds, told.sites) == ("fedper", 3, 3, 4)
    by_name = {each.over: each for each in told.gains}
    whole = {name: f"global model of {name} ({plan.hash[:12]})" for name, plan in plans.items()}
    assert by_name[whole["fedavg"]].others[0] == measured(found["fedavg"])
    assert whole["ditto"] in by_name, "it receives a whole network, and uses another"
    assert whole["fedper"] not in by_name, "its heads never meet"
    alone = experiment(local(epochs=2, optimizer=SGD(told.rate)), **{**OPTIONS, "data": data})
    records = run_stages(alone, Inline()).records
    [expected] = [e.score for e in records if (e.role, e.round, e.variant) == ("test", 3, "before_local")]
    assert by_name["local training"].others[0] == expected
    assert told.rate in told.rates
    for each in told.gains:
        assert each.gains[0] == pytest.approx(each.scores[0] - each.others[0])
        assert each.paired


def test_what_left_is_what_the_log_says(made: Any) -> None:
    folder, plans, found = made
    log = folder / SITE / "audit.log"
    told = left(log, plans["fedper"].hash)
    replies = [reply for number, _, reply in found["fedper"].messages if number == NUMBER]
    assert (told.updates, told.bytes) == (3, sum(map(len, replies)))
    assert told.tensors == ("layer1.bias", "layer1.weight")
    assert told.facts == {"train": 11, "validation": 4, "test": 6, "classes": 3}
    assert told.metrics > 0
    again = Plan.of(experiment(fedavg(), **{**OPTIONS, "seed": 2}))
    refused = left(log, again.hash).refused
    assert refused is not None
    [(reason, count)] = refused.items()
    assert "at most 1 bytes leave" in reason
    assert count == 3


def test_a_site_has_its_model(made: Any) -> None:
    """Its own head and the shared body, in an ordinary module, answer as the record says."""
    folder, plans, found = made
    data = one_client(DATA, NUMBER)
    with PersonalStore(folder / SITE, write=False) as store:
        weights = network_weights(plans["fedper"].hash, store, SITE, data)
    module = mlp(shape=data.shape, classes=data.classes, hidden=5)
    module.load_state_dict(weights)
    samples = data[0].test
    right = (module(samples.inputs).argmax(1) == samples.targets).float().mean()
    assert float(right) == pytest.approx(measured(found["fedper"]))


def test_a_report_is_for_plans_that_were_evaluated(made: Any, tmp_path: Path) -> None:
    with pytest.raises(PartitaError, match="the site has not run yet"):
        PersonalStore(tmp_path, write=False)
    with PersonalStore(tmp_path) as store, pytest.raises(PartitaError, match="was not introduced"):
        benefit("f" * 64, store, SITE, one_client(DATA, NUMBER))


def test_commands(told: Callable[..., str], own_folder: Path) -> None:
    """On digits, as a person of the site would."""
    from partita.deploy.node import Node
    from partita.deploy.server import Limits, Sites, introduced
    from partita.experiment.rounds import rounds
    from partita.experiment.setup import Setup

    sizes = ("data.split.clients=3", "data.split.alpha=0.5", "rounds=2", "algorithm=fedper")
    told("federate", "plan", *sizes, "--sites", "anna,ben,cleo", "--output", "plan.json")
    plan = Plan.read(Path("plan.json").read_text())
    nodes = []
    for number, name in enumerate(plan.sites):
        Path(f"{name}.toml").write_text(
            f'name = "{name}"\nfolder = "{name}"\nclient = "{number}"\n'
            '[data]\nname = "digits"\nsplit = { name = "dirichlet", clients = 3, alpha = 0.5 }\n'
            '[policy]\nalgorithms = ["fedper"]\nmodels = ["mlp"]\n'
        )
        nodes.append(Node.read(Path(f"{name}.toml")))
    facts = json.loads(told("node", "check", "ben.toml", "--json"))
    assert facts["shape"] == [1, 8, 8]
    assert facts["overlap"] == 0
    with nodes[0].open() as anna, nodes[1].open() as ben, nodes[2].open() as cleo:
        sites = (anna, ben, cleo)

        def exchange(orders: Any, seconds: float) -> Any:
            for at, order in orders.items():
                yield at, sites[at].answer(order)

        remote = plan.experiment_on(introduced(plan, exchange, Limits()))
        setup = Setup.of(remote, remote.stages[-1], {})
        receipts: dict[int, Any] = {}
        list(rounds(setup, Sites(plan, exchange), receipts))
        report = json.loads(told("node", "report", "ben.toml", "--model", "ben.safetensors", "--json"))
        told("node", "backup", "ben.toml", "copy.sqlite")
    [found] = report["plans"]
    assert found["benefit"]["samples"] == facts["test"]
    assert found["left"]["updates"] == 2
    assert set(load_file("ben.safetensors")) == {"layer1.weight", "layer1.bias", "head.weight", "head.bias"}
    text = told("node", "report", "ben.toml", "--plan", plan.hash[:8])
    assert "local training" in text
    assert "No global model is known here" in text
    assert "2 updates of layer1.bias, layer1.weight" in text
    # The disk was lost, and an older copy, or none, takes its place.
    Path("ben/personal.sqlite").unlink()
    told("node", "restore", "ben.toml", "plan.json", "--round", "2")
    with nodes[1].store() as store:
        assert store.own(plan.hash, 2) == {}
    Path("copy.sqlite").replace("ben/personal.sqlite")
    told("node", "restore", "ben.toml", "plan.json", "--round", "7")
    with nodes[1].store() as store:
        assert torch.is_tensor(store.own(plan.hash, 7)["head.weight"])
