"""Laws over all algorithms: a client's model answers as the engine's own evaluation did, also from exported files."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from laws.methods import ALGORITHMS
from partita import PartitaError, load_exported, run
from partita.core.batching import Batching
from partita.core.optimizers import SGD
from partita.evaluation.onboarding import Onboarding, answers, donors_of, onboard
from partita.evaluation.population import ClientModels
from partita.experiment.simulate import simulate
from partita.randomness import seeded
from partita.serving.export import export_models
from partita.serving.together import obstacle, together
from toys import small_federation, small_network

BATCHING = Batching(size=3)


def of_the_engine(models: ClientModels) -> torch.Tensor:
    """The logits of the test samples, as evaluation computes them."""
    used, client = models.used, models.client
    client.task.evaluate_()
    with torch.no_grad(), seeded(client.moment.seed, "evaluation", client.moment.round, client.id):
        return models.algorithm.outputs(used, models.test.inputs, client)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_model_answers_as_in_evaluation_and_after_reloading(name: str, tmp_path: Path) -> None:
    """Also where one module holds the personal parts of all clients, whose graph is exported."""
    algorithm, data = ALGORITHMS[name], small_federation((8, 6, 6))
    made = run(
        algorithm,
        small_network(),
        data,
        rounds=1,
        batching=BATCHING,
        participation=0.6,
        folder=tmp_path / "run",
        baselines=False,
        on="inline",
    )
    loaded = made._loaded
    export_models(loaded, tmp_path / "models")
    exported = load_exported(tmp_path / "models", network=small_network(), algorithm=algorithm)
    assert exported.verify() == []
    assert obstacle(exported) is None
    all_clients = together(exported)
    for record in made.stored.tested().values():
        models = loaded.population[record.client]
        expected, model = of_the_engine(models), made.model(record.client)
        inputs = models.test.inputs
        assert not model.training
        assert torch.equal(model.outputs(inputs), expected)
        assert int((expected.argmax(1) == models.test.targets).sum()) == record.correct
        again = exported.model(record.client)
        assert torch.equal(again.outputs(inputs), expected)
        assert {key: value.tolist() for key, value in again.state_dict().items()} == {
            key: value.tolist() for key, value in model.state_dict().items()
        }
        assert exported.entry(record.client)["score"]["correct"] == record.correct
        place = torch.tensor([exported.clients.index(exported.client(record.client))])
        client = place if all_clients.takes == "one" else place.expand(len(inputs))
        moment = models.client.moment
        with torch.no_grad(), seeded(moment.seed, "evaluation", moment.round, record.client):
            torch.testing.assert_close(all_clients(inputs, client), expected)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_new_client_trains_its_personal_part_and_nothing_else(name: str) -> None:
    algorithm, data = ALGORITHMS[name], replace(small_federation((8, 6, 6)), newcomers=frozenset({2}))
    result = simulate(algorithm, small_network(), data, rounds=1, batching=BATCHING, on="inline")
    population = result._population
    settings = Onboarding(start="initial", epochs=1, optimizer=SGD(0.5))
    donors = donors_of(population, settings)
    models = population[2]
    tensors = onboard(models, donors, settings)
    network = models.client.task.network
    part = donors.part(network, frozenset(network.names))
    before = models.before if algorithm.predict else models.weights(models.before)
    moved = {each for each in network.names if not torch.equal(tensors[each], before[each])}
    assert moved
    assert moved <= part
    assert torch.isfinite(answers(models, tensors, models.test.inputs)).all()


def test_the_variants_of_a_model() -> None:
    result = simulate(
        ALGORITHMS["fedbabu"], small_network(), small_federation((8, 6)), rounds=1, batching=BATCHING, on="inline"
    )
    inputs = result.data[0].test.inputs
    before, tuned = (result.model(0, which).outputs(inputs) for which in ("before_local", "after_finetune"))
    assert torch.equal(result.model(0).outputs(inputs), tuned)
    assert not torch.equal(before, tuned)
    assert result.model(0).about.variant == "after_finetune"
    with pytest.raises(PartitaError, match="no model 'after_local'"):
        result.model(0, "after_local")
    with pytest.raises(PartitaError, match="numbered from 0 to 1"):
        result.model(2)


def test_the_global_model_is_the_one_that_all_receive() -> None:
    data = small_federation((8, 6))
    shared = simulate(ALGORITHMS["fedavg"], small_network(), data, rounds=1, batching=BATCHING, on="inline")
    model = shared.global_model()
    weights = shared.network_weights()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.network.state_dict().items())
    assert model.about.client is None
    partial = simulate(ALGORITHMS["fedper"], small_network(), data, rounds=1, batching=BATCHING, on="inline")
    with pytest.raises(PartitaError, match="shares only a part"):
        partial.global_model()
