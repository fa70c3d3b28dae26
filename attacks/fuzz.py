"""Does nonsense run or show a traceback? Settings, selectors and manifests are accepted as they are, or refused."""

import inspect
import json
import random
import warnings
from pathlib import Path
from typing import Any

from partita import registry
from partita.core.selectors import Selector
from partita.data import manifests
from partita.data.federation import federate
from partita.data.splits.iid import iid
from partita.data.splits.manifest import manifest
from partita.errors import PartitaError
from partita.experiment.files import make

from .tally import Tally
from .victim import CLIENTS, data

ODD: tuple[Any, ...] = (
    *(-1, -0.5, 0, 1.5, 2, 10**30, 1e308, float("nan"), float("inf"), float("-inf"), True, None),
    *("", "x", "nan", "1e400", "[red]", "../../etc", "\x1b[31m", "\0", "os:system", "head & (", "=1+1"),
    *([], [1], [[]], {}, {"name": "sgd", "lr": -1}, {"name": 5}, {"lr": {}}),
)
GENERAL = (
    *("rounds", "participation", "evaluate_every", "seed"),
    *("buffers", "engine", "evaluation_clients", "batching"),
)
WORDS = (
    *("head", "body", "network", "norm", "input", "decided", "last_blocks", "first_blocks", "where", "below"),
    *("&", "|", "~", "(", ")", "-", ",", "'", "*", "1", "-1", "99999999999999999999", "é", "[", "\n", "__class__", ""),
)


def settings(place: Path, trials: int, seed: int) -> Tally:
    """One or two odd values among the settings of every method, of the network and of the experiment."""
    tally, draw = Tally(), random.Random(seed)
    methods = registry.names("algorithms")
    for trial in range(trials):
        method = methods[trial % len(methods)]
        of_method = list(inspect.signature(registry.get("algorithms", method)).parameters)
        chosen: dict[str, Any] = {"algorithm": {"name": method}, "model": {"name": "mlp", "hidden": 4}, "rounds": 1}
        for _ in range(draw.randrange(1, 3)):
            odd = draw.choice(ODD)
            match draw.randrange(4):
                case 0:
                    chosen[draw.choice(GENERAL)] = odd
                case 1:
                    chosen["model"]["hidden"] = odd
                case _ if of_method:
                    chosen["algorithm"][draw.choice(of_method)] = odd
        _count(tally, f"settings {chosen}", lambda chosen=chosen: make(chosen, data()))
    return tally


def selectors(place: Path, trials: int, seed: int) -> Tally:
    """Random words; what is accepted is printed and read again as the same."""
    tally, draw = Tally(), random.Random(seed)

    def again(text: str) -> None:
        found = Selector.parse(text)
        if str(Selector.parse(str(found))) != str(found):
            raise AssertionError("it is printed as something else")

    for _ in range(trials):
        text = draw.choice(("", " ")).join(draw.choices(WORDS, k=draw.randrange(1, 7)))
        _count(tally, f"selector {text!r}", lambda text=text: again(text))
    for text in ("(" * 100_000, "~" * 100_000, "head & " * 100_000):
        _count(tally, f"selector of {len(text)} characters", lambda text=text: again(text))
    return tally


def divisions(place: Path, trials: int, seed: int) -> Tally:
    """Manifests with odd values at random places and the right hash; what is accepted divides the rows."""
    tally, draw = Tally(), random.Random(seed)
    source = data().pool
    assert source is not None
    text = json.dumps(manifests.manifest_of(federate(source, iid(clients=CLIENTS))))
    path = place / "manifest.json"

    def divided() -> None:
        made = federate(source, manifest(path=str(path)))
        rows = [int(row) for roles in made.roles for several in roles.values() for row in several]
        if len(set(rows)) != len(rows) or not all(0 <= row < len(source) for row in rows):
            raise AssertionError("rows are given twice or do not exist")

    for trial in range(trials):
        body = json.loads(text)
        body.pop("hash")
        _set_somewhere_(body, draw)
        path.write_text(json.dumps({**body, "hash": manifests._hash(body)}), encoding="utf-8")
        _count(tally, f"manifest of trial {trial}", divided)
    return tally


def _set_somewhere_(value: Any, draw: random.Random) -> None:
    key = draw.choice(list(value) if isinstance(value, dict) else range(len(value)))
    if isinstance(value[key], dict | list) and value[key] and draw.random() < 0.8:
        _set_somewhere_(value[key], draw)
    elif draw.random() < 0.2:
        del value[key]
    else:
        value[key] = draw.choice((*ODD, draw.randrange(100)))


def _count(tally: Tally, what: str, work: Any) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            work()
    except PartitaError as problem:
        if "\n" in str(problem).strip():
            tally.broken.append(f"{what}: an error of several lines")
        else:
            tally.held["refused in one line"] += 1
    except Exception as problem:
        tally.broken.append(f"{what}: {problem!r}")
    else:
        tally.held["accepted"] += 1
