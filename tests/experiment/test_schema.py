"""The schema of experiment files accepts what the reader of files accepts, and refuses what it refuses."""

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from partita import registry
from partita.core.signatures import Range
from partita.errors import PartitaError
from partita.experiment.settings.files import make, read
from partita.experiment.settings.schema import properties, schema
from partita.experiment.settings.settings import named

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

jsonschema = pytest.importorskip("jsonschema")
ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "examples").rglob("experiments/*.toml"))
SCHEMA = schema()


def accepted(settings: Mapping[str, Any]) -> bool:
    return bool(jsonschema.Draft7Validator(SCHEMA).is_valid(dict(settings)))


def test_it_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert accepted({})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_examples_are_accepted(path: Path) -> None:
    problems = jsonschema.Draft7Validator(SCHEMA).iter_errors(tomllib.loads(path.read_text()))
    assert not [problem.message[:200] for problem in problems]


GOOD = (
    "rounds=3",
    "participation=0.5",
    "participation=number:3",
    "participation=[[0, 1], [2]]",
    "batching=32",
    "batching.size=32",
    "algorithm=fedavg",
    "algorithm.epochs=2",
    "algorithm.optimizer.lr=1",
    "algorithm.optimizer={name='sgd', lr=0.1, momentum=0.9}",
    "algorithm.optimizer.clip=none",
    "algorithm=flayer",
    "algorithm={name='flayer', on='fedper'}",
    "algorithm={name='flayer', on={epochs=3}}",
    "algorithm={name='fedbabu', blocks='none'}",
    "model.hidden=8",
    "data={split={clients=5}}",
    "data={name='digits', split={name='iid', clients=5}, validation=0.1}",
    "server=median",
    "server.optimizer={name='adam', lr=0.1}",
    "pretrain={algorithm='fedavg', rounds=2}",
    "groups={mine=['head.*']}",
    "on_sick_client=leave_out",
    "max_update_norm=none",
)
BAD = (
    "round=3",
    "rounds=many",
    "rounds=2.5",
    "seed=true",
    "participation=[0, 1]",
    "batching=true",
    "batching.sizes=32",
    "algorithm=fedavgg",
    "algorithm.epoch=2",
    "algorithm.epochs=-1",
    "algorithm.optimizer.lr=-1",
    "algorithm.optimizer=0.1",
    "algorithm.optimizer={name='sgd'}",
    "algorithm.optimizer={name='adamw', lr=0.1}",
    "algorithm={name='flayer', on='nothing'}",
    "algorithm={name='flayer', variant='mine'}",
    "algorithm={name='apfl', optimizer={name='sgd', lr=0.1, moment=0.9}}",
    "model.hidden=0",
    "model=nothing",
    "data=nothing",
    "data={name='digits', path='x'}",
    "data={name='digits', split={name='iid', clients='many'}}",
    "server=mean",
    "pretrain={algorithm='fedavg'}",
    "on_sick_client=ignore",
    "max_update_norm=0",
    "loss=mine",
    "weights={}",
)


def given(change: str) -> dict[str, Any]:
    """Settings of a file that says this and nothing else."""
    key, _, text = change.partition("=")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    for part in reversed(key.split(".")):
        value = {part: value}
    found: dict[str, Any] = value
    return found


def built(settings: Mapping[str, Any], folder: Path) -> bool:
    """Whether the reader of files makes an experiment of it."""
    file = folder / "experiment.toml"
    file.write_text("".join(f"{key} = {toml(value)}\n" for key, value in settings.items()))
    try:
        made = make(read(file))
        made.model(shape=(1, 8, 8), classes=10)
    except PartitaError:
        return False
    return True


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else repr(value)


@pytest.mark.parametrize("change", GOOD)
def test_what_can_be_made_is_accepted(change: str, tmp_path: Path) -> None:
    assert accepted(given(change))
    assert built(given(change), tmp_path)


@pytest.mark.parametrize("change", BAD)
def test_what_cannot_be_made_is_refused(change: str, tmp_path: Path) -> None:
    assert not accepted(given(change))
    # A file has no way to say `weights = {}` that would mean anything, and the reader takes it for none.
    assert change == "weights={}" or not built(given(change), tmp_path)


@pytest.mark.parametrize("name", registry.names("algorithms"))
def test_ranges_are_those_of_the_signature(name: str) -> None:
    """By discovery: a number just outside the range of an option is refused by both, one at its end by neither."""
    hints = get_type_hints(registry.get("algorithms", name), include_extras=True)
    for option, hint in hints.items():
        if get_origin(hint) is not Annotated:
            continue
        [allowed] = [each for each in hint.__metadata__ if isinstance(each, Range)]
        whole = get_args(hint)[0] is int
        for end, beyond in ((allowed.low, -1), (allowed.high, 1)):
            if math.isinf(end):
                continue
            outside = {"name": name, option: int(end + beyond) if whole else end + beyond}
            assert not accepted({"algorithm": outside}), outside
            with pytest.raises(PartitaError):
                named("algorithms", outside, "algorithm")
        if not allowed.low_open and not math.isinf(allowed.low):
            assert accepted({"algorithm": {"name": name, option: int(allowed.low) if whole else allowed.low}})


@pytest.mark.parametrize("kind", ["models", "data", "splits"])
def test_every_setting_is_explained(kind: registry.Kind) -> None:
    """By discovery, as for methods: a new setting without a meaning falls here."""
    made = {name: properties(registry.get(kind, name), kind) for name in registry.built_in(kind)}
    missing = [
        f"{name}.{key}" for name, known in made.items() for key, each in known.items() if not each.get("description")
    ]
    assert not missing, "these have no line in experiment/settings/meanings.py"


def test_every_setting_of_an_experiment_is_explained() -> None:
    assert not [name for name, each in SCHEMA["properties"].items() if not each.get("description")]


def test_meanings_are_told() -> None:
    fedper = next(
        each
        for each in SCHEMA["definitions"]["algorithm"]["anyOf"]
        if each.get("properties", {}).get("name", {}).get("const") == "fedper"
    )
    assert fedper["properties"]["epochs"]["description"] == "passes over a client's training samples in a round"
    assert fedper["properties"]["blocks"]["default"] == 1
    assert SCHEMA["properties"]["rounds"]["default"] == 20
