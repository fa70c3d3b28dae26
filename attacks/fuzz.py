"""Does nonsense run or show a traceback? Settings, selectors and manifests are accepted as they are, or refused."""

import copy
import inspect
import json
import random
from pathlib import Path
from typing import Any

from partita import registry
from partita.api.sweep import points_of, read_grid
from partita.core.selectors import Selector
from partita.data import manifests
from partita.data.federation import federate
from partita.data.splits.iid import iid
from partita.data.splits.manifest import manifest
from partita.experiment.settings.files import make
from partita.parsing import parse_toml
from partita.recipes.page import page as recipe_page
from partita.recipes.places import FILES
from partita.recipes.recipe import read_recipe
from partita.recipes.result import SIZES

from .mutation import ODD, count, damaged, set_somewhere_, toml_file
from .tally import Tally
from .victim import CLIENTS, data

GENERAL = (
    *("rounds", "participation", "evaluate_every", "seed"),
    *("buffers", "engine", "evaluation_clients", "batching"),
)
AXES = (
    *("rounds", "algorithm", "algorithm.optimizer.lr", "algorithm.epochs", "model.hidden", "batching.size", "seed"),
    *("participation", "a.b.c.d", "rounds.x", "algorithm.on.on", "server", "model", "", ".", "algorithm."),
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
        count(tally, f"settings {chosen}", make, chosen, data())
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
        count(tally, f"selector {text!r}", again, text)
    for text in ("(" * 100_000, "~" * 100_000, "head & " * 100_000):
        count(tally, f"selector of {len(text)} characters", again, text)
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
        set_somewhere_(body, draw)
        path.write_text(json.dumps({**body, "hash": manifests._hash(body)}), encoding="utf-8")
        count(tally, f"manifest of trial {trial}", divided)
    return tally


def recipes(place: Path, trials: int, seed: int) -> Tally:
    """Recipe files with odd values at random places; what is accepted has settings and seeds."""
    tally, draw = Tally(), random.Random(seed)
    known = sorted(FILES.glob("*.toml"))
    given = [parse_toml(path.read_text(encoding="utf-8")) for path in known]
    path = place / "odd.toml"

    def used() -> None:
        recipe = read_recipe(path)
        for size in SIZES:
            _ = [recipe.settings_of(run, size) for run in recipe.runs], recipe.seeds_of(size)
        recipe_page([recipe], place)

    for trial in range(trials):
        body = copy.deepcopy(draw.choice(given))
        set_somewhere_(body, draw)
        text = toml_file(body).encode()
        path.write_bytes(text if trial % 4 else damaged(text, draw))
        count(tally, f"recipe {path.read_text('utf-8', 'replace')[:1500]}", used)
    for odd in ("x = " + "[" * 100_000, "x = " + "{a=" * 3000, "hours = " + "9" * 10_000):
        path.write_text(odd, encoding="utf-8")
        count(tally, f"recipe {odd[:20]}", used)
    return tally


def grids(place: Path, trials: int, seed: int) -> Tally:
    """Settings to sweep over, with odd keys and values; what is accepted makes experiments."""
    tally, draw = Tally(), random.Random(seed)

    def used(texts: list[str]) -> None:
        points_of(read_grid(texts), place, overrides=["data.split=iid", "data.split.clients=3", "rounds=1"])

    for _ in range(trials):
        texts = [_odd_axis(draw) for _ in range(draw.randrange(1, 3))]
        count(tally, f"grid {texts}", used, texts)
    for text in ("rounds=" + "[" * 100_000, "rounds=" + "9" * 10_000, "rounds=" + "1," * 50_000, "a" * 10_000 + "=1"):
        count(tally, f"grid {text[:20]}", used, [text])
    return tally


def _odd_axis(draw: random.Random) -> str:
    key = draw.choice(AXES)
    good = {"rounds": "1", "model.hidden": "4", "algorithm": "fedavg", "algorithm.optimizer.lr": "0.1"}.get(key, "1")
    odd = (*map(str, ODD), *map(json.dumps, ODD))
    values = [good if draw.random() < 0.7 else draw.choice(odd) for _ in range(2)]
    return f"{key}={','.join(values)}" if draw.random() < 0.9 else draw.choice(("", "=", "rounds", "rounds=", "=1"))
