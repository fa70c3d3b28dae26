"""Set-ups that make no sense are refused or warned of, and the message says what to do instead."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest
import torch

from partita.algorithms.apfl import apfl
from partita.algorithms.ditto import ditto
from partita.algorithms.fedamp import fedamp
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedbabu import fedbabu
from partita.algorithms.fedbn import fedbn
from partita.algorithms.fedper import fedper
from partita.algorithms.fedprox import fedprox
from partita.algorithms.fedsim import fedsim
from partita.algorithms.per_fedavg import per_fedavg
from partita.algorithms.pfedme import pfedme
from partita.core.algorithm import Algorithm
from partita.core.batching import Batching
from partita.core.samples import Samples
from partita.core.selectors import NETWORK, NOTHING, where
from partita.core.task import Task
from partita.data.federation import Federation
from partita.errors import DegenerateWarning, DivergedError, PartitaError
from partita.experiment.executor import CarryOut
from partita.experiment.experiment import Pretraining
from partita.experiment.result import Result
from partita.experiment.settings.describe import describe
from partita.experiment.setup import Setup
from partita.experiment.simulate import simulate
from partita.servers.averaging import averaging
from toys import exploding, small_federation, small_network

SIZES = (12, 7)


def run(algorithm: Algorithm, sizes: Sequence[int] = SIZES, *, norm: bool = False, **more: Any) -> Result:
    return simulate(
        algorithm, small_network(norm), small_federation(sizes), **{"rounds": 1, "batching": Batching(4), **more}
    )


class NoTraining:
    """An executor for set-ups that are to be refused before anyone waits for them."""

    def open(self, setup: Setup) -> AbstractContextManager[CarryOut]:
        pytest.fail("it was trained before it was refused")


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        (fedsim(personal=NOTHING), "nothing is personal, so this is FedAvg. Choose a part to keep personal"),
        (fedper(blocks=0), "nothing is personal, so this is FedAvg. Choose a part to keep personal"),
        (fedsim(personal=NETWORK), "everything is personal, so this is local training. Choose a part to share"),
        (fedper(blocks=3), "everything is personal, so this is local training. Choose a part to share"),
    ],
    ids=["nothing", "no blocks", "everything", "all blocks"],
)
def test_a_personal_part_of_nothing_or_everything_is_warned_of(algorithm: Algorithm, words: str) -> None:
    with pytest.warns(DegenerateWarning, match=f"{algorithm.name}: {words}"):
        run(algorithm)
    with pytest.warns(DegenerateWarning, match=words):
        describe(algorithm, Task(small_network(norm=False)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fedprox(mu=0), r"mu = 0 is fedavg\. Set mu > 0"),
        (lambda: fedprox(mu=0, on=fedper()), r"mu = 0 is fedper\. Set mu > 0"),
        (lambda: ditto(strength=0), r"strength = 0 is local training\. Set strength > 0"),
        (lambda: fedamp(strength=0), r"strength = 0 is local training\. Set strength > 0"),
        (lambda: per_fedavg(alpha=0), r"alpha = 0 is FedAvg"),
        (lambda: apfl(alpha=0, adaptive=False), r"alpha = 0 uses the FedAvg model\. Set alpha > 0"),
    ],
    ids=["fedprox", "fedprox on fedper", "ditto", "fedamp", "per_fedavg", "apfl"],
)
def test_a_method_without_its_essence_is_warned_of(make: Callable[[], Algorithm], words: str) -> None:
    with pytest.warns(DegenerateWarning, match=words) as caught:
        make()
    assert caught[0].filename == __file__, "the warning names the line that asked for it"


@pytest.mark.parametrize("settings", [{"beta": 0.0}, {"strength": 0.0}])
def test_pfedme_that_never_moves_is_refused(settings: dict[str, float]) -> None:
    with pytest.raises(PartitaError, match=r"never moves its shared weights\. Set both above 0"):
        pfedme(**settings)  # type: ignore[arg-type]


def test_fedamp_with_too_much_attention_is_warned_of() -> None:
    with pytest.warns(DegenerateWarning, match=r"Keep alpha / sigma below 1 / 2"):
        run(fedamp(alpha=2.0, sigma=1.0), (5, 5, 5))


def test_fedbn_needs_a_norm_layer() -> None:
    with pytest.raises(PartitaError, match=r"'norm' matches no tensor.*layer1\.weight.*name a group"):
        run(fedbn())


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        (fedper(blocks=9), r"the network has 3 blocks"),
        (fedbabu(finetune_part=where("nowhere")), r"'nowhere' matches no tensor"),
        (fedsim(personal=where("nowhere")), r"'nowhere' matches no tensor"),
    ],
    ids=["blocks", "finetune part", "personal part"],
)
def test_parts_that_the_network_lacks_are_found_before_the_first_round(algorithm: Algorithm, words: str) -> None:
    with pytest.raises(PartitaError, match=words):
        run(algorithm, on=NoTraining())


@pytest.mark.parametrize(
    ("sizes", "more", "words"),
    [
        ((12, 0, 3, 0), {}, r"2 clients \(1, 3\) without training samples\. Split with a minimum size"),
        ((12, 0), {}, r"1 client \(1\) without training samples"),
        ((0,) * 12, {}, r"12 clients \(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, \.\.\.\)"),
        (
            (12, 3),
            {"batching": Batching(4, drop_last=True)},
            r"1 client \(1\) with fewer than 4 samples would not train at all\. Set drop_last to false",
        ),
        ((12, 7), {"norm": True, "batching": Batching(1)}, r"Batch norm cannot train.*larger batches or group norm"),
        ((12, 1), {"norm": True}, r"1 client \(1\) with one training sample.*minimum size of 2, or use group norm"),
        ((12, 7), {"rounds": 0}, r"rounds is 0, but must be at least 1"),
        ((12, 7), {"rounds": -1}, r"rounds is -1, but must be at least 1"),
        ((12, 7), {"participation": 0.0}, r"participation is 0\.0, but must be above 0 and at most 1"),
        ((12, 7), {"participation": 1.5}, r"participation is 1\.5, but must be above 0 and at most 1"),
        ((12, 7), {"participation": -0.5}, r"participation is -0\.5, but must be above 0 and at most 1"),
        ((12, 7), {"participation": math.nan}, r"participation is nan, but must be above 0 and at most 1"),
        ((12, 7), {"evaluation_batch": 0}, r"evaluation_batch is 0, but must be at least 1"),
        ((12, 7), {"evaluation_clients": 0}, r"evaluation_clients is 0, but must be at least 1"),
        ((12, 7), {"evaluate_every": -1}, r"evaluate_every is -1, but must be at least 0"),
        ((12, 7), {"pretrain": Pretraining(fedavg(), 0)}, r"pretrain.rounds is 0, but must be at least 1"),
        ((), {}, r"client"),
    ],
)
def test_a_run_that_cannot_be_is_refused(sizes: tuple[int, ...], more: dict[str, Any], words: str) -> None:
    with pytest.raises(PartitaError, match=words):
        run(fedavg(), sizes, on=NoTraining(), **more)


@pytest.mark.parametrize(
    ("sizes", "more"),
    [
        ((12, 1), {}),
        ((12, 4), {"batching": Batching(4, drop_last=True)}),
        ((12, 2), {"norm": True}),
        ((12, 5), {"norm": True}),
        ((12, 7), {"batching": Batching(1)}),
        ((12, 7), {"participation": 0.01}),
    ],
)
def test_what_is_small_but_sound_runs_without_a_word(sizes: tuple[int, ...], more: dict[str, Any]) -> None:
    assert run(fedavg(), sizes, **more).records


def test_one_client_alone_is_warned_of() -> None:
    with pytest.warns(DegenerateWarning, match="Only one client trains: it has no other client to learn with"):
        run(fedavg(), (12,))


def test_per_fedavg_on_clients_of_one_batch_is_warned_of() -> None:
    with pytest.warns(DegenerateWarning, match=r"a step needs 2 batches; 1 client \(1\) with fewer.*smaller batches"):
        run(per_fedavg(), (8, 4))
    run(per_fedavg(), (8, 5))


@pytest.mark.parametrize("epochs", [0, -1])
def test_training_for_no_epoch_is_refused_or_warned_of(epochs: int) -> None:
    with pytest.raises((PartitaError, DegenerateWarning), match="epoch"):
        run(fedavg(epochs=epochs))


def poisoned(value: float, client: int) -> Federation:
    """One client's training inputs are not numbers."""
    data = small_federation((8, 8, 8))
    inputs = data.samples.inputs.clone()
    inputs[data.roles[client]["train"]] = value
    return replace(data, samples=Samples(inputs, data.samples.targets))


NAMES = ("anna", "ben", "cleo")


@pytest.mark.parametrize(
    ("data", "more", "words"),
    [
        (poisoned(math.nan, 1), {}, r"loss of client ben became nan in round 1"),
        (small_federation((8, 0, 8)), {}, r"1 client \(ben\) without training samples"),
        (small_federation((8, 1, 8)), {}, r"1 client \(ben\) with one training sample .* batch norm"),
        (
            small_federation((8, 8, 8)),
            {"server": averaging(weights="uploaded")},
            r"update of client anna has no weight",
        ),
    ],
    ids=["diverged", "empty", "batch norm", "no weight"],
)
def test_errors_call_clients_by_their_names(data: Federation, more: dict[str, Any], words: str) -> None:
    with pytest.raises(PartitaError, match=words):
        simulate(fedavg(), small_network("norm" in words), replace(data, names=NAMES), rounds=1, on="inline", **more)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("client", [0, 2])
def test_samples_that_are_not_numbers_name_the_client_and_the_round(value: float, client: int) -> None:
    with pytest.raises(DivergedError, match=rf"client {client} became nan in round 1 .*samples that are not numbers"):
        simulate(fedavg(), small_network(norm=False), poisoned(value, client), rounds=2)


def test_a_learning_rate_that_explodes_is_named() -> None:
    words = r"The loss of client \d became (nan|inf) in round \d .*learning rate of 1e\+200\. Lower the learning rate"
    with pytest.raises(DivergedError, match=words):
        run(fedavg(optimizer=exploding(1e200)), rounds=5)


def test_a_divergence_in_the_very_last_step_is_noticed_too() -> None:
    """One batch and one round: no later loss is there to tell, so the model itself must be looked at."""
    with pytest.raises(DivergedError):
        run(fedavg(optimizer=exploding(1e308)), batching=Batching(50))


def test_fine_tuning_that_diverges_is_named() -> None:
    tuned = fedbabu(epochs=1, finetune_optimizer=exploding(1e200), finetune_part=NETWORK)
    with pytest.raises(DivergedError, match=r"client 0 .*learning rate of 1e\+200"):
        run(tuned)


def without_role(role: str) -> Federation:
    data = small_federation(SIZES)
    roles = [{**each, role: torch.arange(0)} for each in data.roles]
    return replace(data, roles=roles)


def test_data_without_a_test_are_refused() -> None:
    with pytest.raises(PartitaError, match="test"):
        simulate(fedavg(), small_network(), without_role("test"), rounds=1, on=NoTraining())


def test_data_without_validation_are_fine() -> None:
    records = simulate(fedavg(), small_network(), without_role("validation"), rounds=1).records
    assert {record.role for record in records} == {"test"}


def test_batch_statistics_need_two_samples_in_evaluation_too() -> None:
    """Five at a time of six test samples leave one alone."""
    with pytest.raises(PartitaError, match=r"[Bb]atch norm|batch statistics"):
        run(fedavg(), norm=True, buffers="batch", evaluation_batch=5, on=NoTraining())


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(
        PartitaError, match=r"weights: head\.weight has the shape \(2, 2\), but in the network \(3, 5\)"
    ):
        run(fedavg(), weights={"head.weight": torch.zeros(2, 2)})
    with pytest.raises(PartitaError, match=r"weights: Unknown tensor 'nowhere'"):
        run(fedavg(), weights={"nowhere": torch.zeros(2, 2)})


def test_a_network_is_tried_and_trained_in_one_thread() -> None:
    network, before, seen = small_network(), torch.get_num_threads(), set()
    network.register_forward_pre_hook(lambda *_: seen.add(torch.get_num_threads()))
    torch.set_num_threads(2)
    try:
        simulate(fedavg(), network, small_federation(SIZES), rounds=1, on="inline")
        assert (seen, torch.get_num_threads()) == ({1}, 2)
    finally:
        torch.set_num_threads(before)
