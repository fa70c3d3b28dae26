"""A new experiment file says what the defaults are: with its comments removed it is the same experiment."""

import inspect
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from partita import registry
from partita.data.federation import federate
from partita.experiment.experiment import Experiment
from partita.experiment.settings.description import describe_experiment, plain
from partita.experiment.settings.files import make, read
from partita.experiment.settings.settings import arguments, named
from partita.experiment.settings.template import template

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def text_of(algorithm: str = "fedper", model: str = "mlp", data: str = "digits", **others: str) -> str:
    return template(algorithm, model, data, file="new.toml", **others)


def uncommented(text: str) -> dict[str, Any]:
    """What the file says when every default is written out."""
    return tomllib.loads(re.sub(r"^#(?=[a-z\[])", "", text, flags=re.MULTILINE))


def test_it_is_the_experiment_without_a_file(tmp_path: Path) -> None:
    file = tmp_path / "new.toml"
    file.write_text(text_of())
    everything = {key: each for key, each in uncommented(text_of()).items() if key != "pretrain"}
    default = make(read(None))
    for settings in (read(file), everything):
        made = make(settings)
        described = describe_experiment(made)
        # Networks and data are described by what was given.
        assert {**described, "data": 0, "model": 0} == {**describe_experiment(default), "data": 0, "model": 0}
        assert made.data.fingerprint == default.data.fingerprint
        assert str(made.model(shape=(64,), classes=10)) == str(default.model(shape=(64,), classes=10))


def test_every_setting_of_an_experiment_is_there() -> None:
    only_python = {"loss", "measure", "weights", "groups"}
    assert set(Experiment.__dataclass_fields__) - only_python - {"server"} == set(uncommented(text_of()))
    assert uncommented(text_of(server="median"))["server"]["name"] == "median"


@pytest.mark.parametrize("name", registry.names("algorithms"))
def test_every_method(name: str) -> None:
    written = tomllib.loads(text_of(algorithm=name))["algorithm"]
    assert written == {"name": name}
    method = registry.get("algorithms", name)()
    full = uncommented(text_of(algorithm=name))["algorithm"]
    # Only Python can give a penalty.
    assert set(full) == {"name", *(set(method.settings) - {"penalty"})}
    assert plain(named("algorithms", full, "algorithm")) == plain(method)


@pytest.mark.parametrize("name", registry.names("models"))
def test_every_network(name: str) -> None:
    section = uncommented(text_of(model=name))["model"]
    make = registry.get("models", section.pop("name"))
    arguments(make, {key: each for key, each in section.items() if each != "..."}, "model", complete=False)


@pytest.mark.parametrize("name", registry.names("data"))
def test_every_source(name: str) -> None:
    section = uncommented(text_of(data=name))["data"]
    make = registry.get("data", section.pop("name"))
    own = inspect.signature(make).parameters
    assert own.keys() <= section.keys()
    arguments(make, {key: each for key, each in section.items() if key in own}, "data")
    arguments(federate, {key: each for key, each in section.items() if key not in own}, "data", complete=False)


@pytest.mark.parametrize("name", registry.names("splits"))
def test_every_split(name: str) -> None:
    section = uncommented(text_of(split=name))["data"]["split"]
    made = named("splits", {key: each for key, each in section.items() if each != "none"}, "split")
    assert made.name == name
