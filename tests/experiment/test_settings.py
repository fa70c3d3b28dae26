"""Settings become values by the signature of what they are for, or errors that say what was meant.

One file, since all errors are about the arguments of one example.
"""

from dataclasses import dataclass
from typing import Any, Literal

import pytest
import torch

from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedbabu import fedbabu
from partita.core.algorithm import Algorithm
from partita.core.batching import Batching
from partita.core.optimizers import SGD, Adaptive, Optimizer
from partita.core.phases import Phase
from partita.core.schedules import DECAY, Schedule
from partita.core.selectors import BODY, HEAD, WEIGHTS, Selector
from partita.core.server import Aggregation, Mean, Server
from partita.core.task import Task
from partita.data.federation import Federation
from partita.data.splits.dirichlet import dirichlet
from partita.errors import PartitaError
from partita.experiment.settings.files import trusted
from partita.experiment.settings.settings import build, convert
from partita.experiment.tasks import Factory
from partita.randomness import Moment
from partita.servers.median import median
from toys import small_network

NAMES = Task(small_network()).network


@dataclass(frozen=True)
class Things:
    """A setting of every type."""

    count: int = 1
    rate: float = 0.5
    flag: bool = False
    word: str = "a"
    limit: int | None = 3
    choice: Literal["fast", "slow"] = "fast"
    part: Selector = HEAD
    other: Selector | None = None
    schedule: Schedule = DECAY
    batching: Batching = Batching(4, drop_last=True)
    numbers: tuple[float, ...] = ()
    optimizer: Optimizer = SGD(0.1, momentum=0.9)
    second: SGD | None = None
    either: int | Literal["all"] = 1


def things(**settings: object) -> Things:
    return build(Things, settings)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("count", 7, 7),
        ("rate", 2, 2.0),
        ("rate", 0.25, 0.25),
        ("flag", True, True),
        ("word", "hello", "hello"),
        ("limit", 5, 5),
        ("limit", "none", None),
        ("limit", None, None),
        ("choice", "slow", "slow"),
        ("other", "none", None),
        ("numbers", [1, 0.5], (1.0, 0.5)),
        ("batching", {"size": 8}, Batching(8, drop_last=True)),
        ("optimizer", {"lr": 1}, SGD(1.0, momentum=0.9)),
        ("optimizer", {"name": "sgd", "lr": 0.3}, SGD(0.3)),
        (
            "optimizer",
            {"name": "sgd", "lr": 0.3, "momentum": 0.5, "nesterov": True},
            SGD(0.3, momentum=0.5, nesterov=True),
        ),
        ("second", {"lr": 0.2}, SGD(0.2)),
        ("second", "none", None),
        ("either", "all", "all"),
        ("either", 4, 4),
    ],
)
def test_values_of_the_wanted_type(name: str, given: object, expected: object) -> None:
    value = getattr(things(**{name: given}), name)
    assert value == expected
    assert type(value) is type(expected)


def test_what_is_not_given_is_as_in_the_defaults() -> None:
    assert things() == Things()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"count": True}, "count: True is not a whole number"),
        ({"count": 1.5}, "count: 1.5 is not a whole number"),
        ({"count": "many"}, "count: 'many' is not a whole number"),
        ({"rate": "fast"}, "rate: 'fast' is not a number"),
        ({"rate": True}, "rate: True is not a number"),
        ({"flag": 1}, "flag: 1 is not true or false"),
        ({"flag": "yes"}, "flag: 'yes' is not true or false"),
        ({"word": 3}, "word: 3 is not text"),
        ({"limit": "few"}, "limit: 'few' is not a whole number"),
        ({"part": 3}, "part: 3 is not text"),
        ({"schedule": 0.5}, "schedule: 0.5 is not text"),
        ({"schedule": "sometimes"}, "Unknown schedule 'sometimes'"),
        ({"numbers": [1, "two"]}, "numbers[1]: 'two' is not a number"),
        ({"choice": "fats"}, "choice: Unknown value 'fats'. Did you mean 'fast'?"),
        ({"batching": {"size": "big"}}, "batching.size: 'big' is not a whole number"),
        ({"batching": {"sise": 3}}, "batching: Unknown setting 'sise'. Did you mean 'size'?"),
        ({"numbers": "two"}, "numbers: 'two' is not a list"),
        ({"batching": "large"}, "batching: 'large' is not the size of a batch. For example: batching.size = 32."),
        ({"optimizer": 0.1}, "optimizer: 0.1 is not an optimizer. For example: optimizer.lr = 0.1"),
        ({"optimizer": {"lr": "high"}}, "optimizer.lr: 'high' is not a number"),
        ({"optimizer": {"name": "adm", "lr": 0.1}}, "Did you mean 'adam'?"),
        ({"optimizer": {"name": "adam", "lr": 0.1, "momentum": 0.9}}, "Unknown setting 'momentum'"),
        ({"second": {"name": "adam", "lr": 0.1}}, "second is 'adam', but this method needs SGD"),
        ({"cuont": 3}, "Did you mean 'count'?"),
        ({"momentum": 0.5}, "Did you mean 'optimizer.momentum'?"),
        ({"drop_last": True}, "Did you mean 'batching.drop_last'?"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(settings: dict[str, object], words: str) -> None:
    with pytest.raises(PartitaError) as caught:
        things(**settings)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [{"batching": {"size": 0}}, {"optimizer": {"name": "adam"}}, {"second": {"momentum": 0.5}}],
    ids=["a value out of range", "a value missing", "a value missing without a default"],
)
def test_what_cannot_be_made_is_refused_by_name(settings: dict[str, object]) -> None:
    with pytest.raises(PartitaError, match=next(iter(settings))):
        things(**settings)


@pytest.mark.parametrize(("text", "meaning"), [("body", BODY), ("~head", BODY), ("weights", WEIGHTS)])
def test_selectors_are_text(text: str, meaning: Selector) -> None:
    names = frozenset(NAMES.names)
    assert things(part=text).part(NAMES, names) == meaning(NAMES, names)


def test_schedules_are_text_also_within_an_optimizer() -> None:
    made = things(schedule="step:2,0.5", optimizer={"schedule": "exponential:0.5", "decayed": "weights"})
    assert made.schedule(Moment(4, 10)) == 0.25
    assert isinstance(made.optimizer, SGD)
    assert (made.optimizer.schedule(Moment(2, 10)), made.optimizer.decayed) == (0.25, WEIGHTS)
    assert (made.optimizer.lr, made.optimizer.momentum) == (0.1, 0.9)


def test_rates_are_pairs_of_a_selector_and_a_factor() -> None:
    made = convert(SGD, {"lr": 0.1, "rates": [["head", 0.5], ["norm", 2]]}, "optimizer")
    assert [(str(selector), factor) for selector, factor in made.rates] == [("head", 0.5), ("norm", 2.0)]


@pytest.mark.parametrize(("name", "second"), [("adam", "adam"), ("yogi", "yogi"), ("adagrad", "adagrad")])
def test_optimizers_by_name(name: str, second: str) -> None:
    made = things(optimizer={"name": name, "lr": 0.01, "beta1": 0.5}).optimizer
    assert isinstance(made, Adaptive)
    assert (made.lr, made.beta1, made.second) == (0.01, 0.5, second)


def algorithm(settings: object) -> Algorithm:
    made: Algorithm = convert(Algorithm, trusted(settings), "algorithm")
    return made


def setting(made: Algorithm, *path: str) -> Any:
    """A setting of the algorithm by its path, through the algorithms it is built on."""
    value: Any = made
    for part in path:
        value = value.settings[part] if isinstance(value, Algorithm) else getattr(value, part)
    return value


def test_an_algorithm_by_its_name() -> None:
    made = algorithm("fedbabu")
    assert (made.name, made.settings) == ("fedbabu", fedbabu().settings)


def test_a_rate_alone_keeps_the_rest_of_the_optimizer() -> None:
    made = algorithm({"name": "fedbabu", "optimizer": {"lr": 0.05}})
    assert setting(made, "optimizer") == SGD(0.05, momentum=0.9, schedule=DECAY)
    phase = made.phases[0]
    assert isinstance(phase, Phase)
    assert phase.optimizer == SGD(0.05, momentum=0.9, schedule=DECAY)


@pytest.mark.parametrize(
    ("settings", "path", "expected"),
    [
        ({"name": "fedprox", "on": {"epochs": 3}}, ("on", "epochs"), 3),
        ({"name": "fedprox", "on": {"epochs": 3}}, ("on", "optimizer"), SGD(0.1)),
        ({"name": "fedprox", "on": "fedbabu"}, ("on", "epochs"), 10),
        ({"name": "fedprox", "on": {"name": "fedbabu", "epochs": 2}}, ("on", "epochs"), 2),
        ({"name": "flayer", "on": {"epochs": 2}}, ("on", "optimizer"), SGD(0.005)),
        ({"name": "flayer", "on": {"optimizer": {"momentum": 0.5}}}, ("on", "optimizer"), SGD(0.005, momentum=0.5)),
        ({"name": "finetune", "on": {"name": "fedprox", "on": {"epochs": 7}}}, ("on", "on", "epochs"), 7),
        ({"name": "finetune", "on": {"name": "fedprox", "on": "fedper"}}, ("on", "on", "blocks"), 1),
        ({"name": "fedalt", "personal_optimizer": {"lr": 0.2}}, ("personal_optimizer",), SGD(0.2)),
        ({"name": "fedbabu", "blocks": 2}, ("blocks",), 2),
        ({"name": "fedbabu", "blocks": "none"}, ("blocks",), None),
        ({"name": "fedsim", "personal": "last_blocks:2"}, ("personal", "text"), "last_blocks:2"),
    ],
)
def test_settings_within_settings(settings: dict[str, object], path: tuple[str, ...], expected: object) -> None:
    assert setting(algorithm(settings), *path) == expected


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("fedavgg", "Unknown algorithm 'fedavgg'. Did you mean 'fedavg'?"),
        ({"epochs": 2}, "has no name. For example: algorithm = 'NAME'"),
        ({"name": "fedavg", "lr": 0.1}, "Unknown setting 'lr' of algorithm. Did you mean 'optimizer.lr'?"),
        ({"name": "fedprox", "epochs": 2}, "Did you mean 'on.epochs'?"),
        ({"name": "fedprox", "lr": 2}, "Did you mean 'on.optimizer.lr'?"),
        ({"name": "fedprox", "on": {"lr": 2}}, "Unknown setting 'lr' of algorithm.on. Did you mean 'optimizer.lr'?"),
        ({"name": "fedper", "block": 2}, "Did you mean 'blocks'?"),
        ({"name": "fedper", "epochs": True}, "algorithm.epochs: True is not a whole number"),
        (
            {"name": "flayer", "variant": "offical"},
            "algorithm.variant: Unknown value 'offical'. Did you mean",
        ),
        ({"name": "finetune", "penalty": "strong"}, "algorithm.penalty"),
        (
            {"name": "fedbabu", "optimizer": {"name": "adam", "lr": 0.1}},
            "algorithm.optimizer is 'adam', but this method needs SGD",
        ),
        ({"name": "nowhere.at_all:thing"}, "Is the package installed, or its folder on PYTHONPATH?"),
        ({"name": ":thing"}, "Cannot load 'thing' of ''"),
        ({"name": ".here:thing"}, "Cannot load 'thing' of '.here'"),
        ({"name": "partita.core.task:nothing"}, "Cannot load 'nothing' of 'partita.core.task'"),
        ({"name": "partita.algorithms.apfl:ALPHA"}, "is a str, not a function"),
    ],
)
def test_errors_of_algorithms_say_what_was_meant(settings: object, words: str) -> None:
    with pytest.raises(PartitaError) as caught:
        algorithm(settings)
    assert words in str(caught.value)


def test_an_algorithm_of_ones_own_by_module_and_function() -> None:
    made = algorithm({"name": "partita.algorithms.fedavg:fedavg", "epochs": 4})
    assert setting(made, "epochs") == 4


def test_a_model_lacks_only_what_the_data_say() -> None:
    make: Factory = convert(Factory, {"name": "mlp", "hidden": 7}, "model")
    assert make(shape=(1, 2, 2), classes=3)(torch.zeros(5, 1, 2, 2)).shape == (5, 3)
    with pytest.raises(PartitaError, match="Unknown setting 'classes'"):
        convert(Factory, {"name": "mlp", "classes": 7}, "model")


def test_data_by_name_and_settings() -> None:
    settings = {"name": "digits", "split": {"name": "iid", "clients": 6}, "validation": 0, "newcomers": 2}
    made: Federation = convert(Federation, settings, "data")
    assert (len(made), len(made.newcomers), len(made[0].validation)) == (6, 2, 0)
    assert made.origin["split"] == {"name": "iid", "clients": 6, "test": 0.25}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"name": "digits", "splits": "iid"}, "Did you mean 'split'?"),
        ({"name": "digits", "clients": 5}, "Did you mean 'split.clients'?"),
        ({"name": "digits", "split": "idd"}, "Did you mean 'iid'?"),
        ({"name": "digits", "split": {"name": "iid", "client": 5}}, "data.split: Unknown setting 'client'"),
        ({"name": "digits", "split": {"name": "iid", "clients": "few"}}, "data.split.clients: 'few' is not a whole"),
        ({"name": "digits", "validation": "some"}, "data.validation: 'some' is not a number"),
        ({"name": "digits", "pool": 3}, "Unknown setting 'pool'"),
        ({"name": "npz"}, "path"),
    ],
)
def test_errors_of_data_say_what_was_meant(settings: dict[str, object], words: str) -> None:
    with pytest.raises(PartitaError) as caught:
        convert(Federation, settings, "data")
    assert words in str(caught.value)


def test_a_split_without_a_name_changes_the_default_one() -> None:
    made: Federation = convert(Federation, {"name": "digits", "split": {"clients": 6, "alpha": 1}}, "data")
    assert len(made) == 6
    assert made.origin["split"] == {"name": "dirichlet", **dirichlet(clients=6, alpha=1.0).settings}


def test_a_server_by_settings() -> None:
    made: Aggregation = convert(Server, {"weights": "uniform", "optimizer": {"name": "yogi", "lr": 0.1}}, "server")
    assert made.rule == Mean("uniform")
    assert isinstance(made.optimizer, Adaptive)
    momentum: Aggregation = convert(Server, {"optimizer": {"momentum": 0.9}}, "server")
    assert momentum.optimizer == SGD(1.0, momentum=0.9)
    assert convert(Server, "median", "server") == median()
    trimmed: Aggregation = convert(Server, {"name": "trimmed_mean", "fraction": 0.2}, "server")
    assert (trimmed.name, trimmed.settings["fraction"]) == ("trimmed_mean", 0.2)


def test_an_unknown_server_has_a_suggestion() -> None:
    with pytest.raises(PartitaError, match=r"Unknown server 'medain'\. Did you mean 'median'"):
        convert(Server, "medain", "server")


def test_a_setting_is_plain_whoever_vouched_for_it() -> None:
    made = algorithm({"name": "flayer", "variant": "official"})
    assert type(setting(made, "variant")) is str
    assert type(things(**trusted({"word": "hello"})).word) is str


def test_defaults_are_never_changed_by_settings() -> None:
    before = fedavg().settings
    algorithm({"name": "fedprox", "on": {"epochs": 9, "optimizer": {"lr": 9}}})
    assert fedavg().settings == before
    assert setting(algorithm("fedprox"), "on", "epochs") == 1
