"""A fingerprint is the same for objects made alike, in any process, and another after any change of code or values.

One file, since it is one table of changes and the ways to try it.
"""

import json
import linecache
import os
import subprocess
import sys
import threading
import types
from itertools import count
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from partita import registry
from partita.algorithms.fedper import fedper
from partita.errors import PartitaError
from partita.experiment.settings import code
from partita.experiment.settings.fingerprint import fingerprint, same_code
from toys import small_federation, small_network

CELLS = count()


def cell(source: str, *, listed: bool = True) -> dict[str, Any]:
    """What a notebook's cell defines; `listed`, its source can be found, as IPython sees to."""
    text, name = dedent(source), f"<cell {next(CELLS)}>"
    if listed:
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), namespace)
    return namespace


def of(source: str, *, listed: bool = True) -> str:
    return fingerprint(cell(source, listed=listed)["thing"])


OBJECTS = """
    import collections, dataclasses, datetime, enum, functools, random, re
    from pathlib import Path
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional as F

    SCALE, NAMES, CONFIG = 0.5, {"b", "a", "c"}, {"width": 3, "nested": {"deep": [1, 2]}}

    def helper(x):
        return x * SCALE

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args) + CONFIG["width"]
        return wrapper

    @decorate
    def decorated(x):
        return helper(x) if str(x) in NAMES else x

    @functools.lru_cache(maxsize=3)
    def cached(x):
        return helper(x)

    def closing(width):
        def make(shape, classes):
            return nn.Linear(width, classes)
        return make

    class Color(enum.Enum):
        RED = 1

    @dataclasses.dataclass(frozen=True)
    class Inner:
        numbers: tuple = (1, 2)
        tags: frozenset = frozenset({"x", "y", "z"})

    @dataclasses.dataclass
    class Outer:
        inner: Inner = Inner()
        color: Color = Color.RED
        made: dict = dataclasses.field(default_factory=dict)

    class Slots:
        __slots__ = ("__hidden", "shown")
        def __init__(self):
            self.__hidden, self.shown = 3, Inner()

    class Plain:
        kind = "plain"
        def __init__(self):
            self.me, self.items = self, [Slots(), {1, 2, 3}]
        @functools.cached_property
        def slow(self):
            return helper(3)
        @property
        def fast(self):
            return CONFIG
        @staticmethod
        def static(x):
            return helper(x)
        def __call__(self, x):
            import string
            return string.capwords(x)

    class Net(nn.Module):
        def __init__(self, width=4):
            super().__init__()
            torch.manual_seed(0)
            self.body, self.head = nn.Linear(width, 3), nn.Linear(3, 2)
            self.register_buffer("seen", torch.zeros(2))
            self.head.weight.data.fill_(SCALE)
        def forward(self, inputs):
            return self.head(F.relu(self.body(inputs)))

    hooked = Net()
    hooked.body.register_forward_hook(lambda module, inputs, output: output * 2)

    THINGS = {
        "helper": helper, "decorated": decorated, "cached": cached, "closing": closing(7),
        "lambda": lambda x: x in {3, 4},
        "partial": functools.partial(helper, x=3), "method": Plain().__call__, "class": Plain, "net class": Net,
        "outer": Outer(), "slots": Slots(), "plain": Plain(), "net": Net(), "hooked": hooked, "config": CONFIG,
        "set": NAMES, "array": np.arange(6).reshape(2, 3), "objects": np.array([None, "x"], dtype=object),
        "time": datetime.date(2020, 1, 2), "pattern": re.compile("a+"), "counter": collections.Counter("abca"),
        "deque": collections.deque([1, {2}]), "random": random.Random(3), "generator": torch.Generator().manual_seed(4),
        "builtin": [1, 2].append, "loss": F.cross_entropy, "relu": torch.relu, "path": Path("a/b"),
        "dtype": torch.float16,
        "namedtuple": collections.namedtuple("Pair", "one two")(1, {"x"}), "ordered": collections.OrderedDict(b=1, a=2),
        "complex": torch.tensor([1 + 2j]).conj(), "bfloat16": torch.ones(2, dtype=torch.bfloat16),
        "numpy": np.float32(3),
    }
"""

PRINTING = """
import json, sys
from partita.experiment.settings.fingerprint import fingerprint
print(json.dumps({name: fingerprint(thing) for name, thing in THINGS.items()}))
"""


def in_a_process(folder: Path, seed: str) -> dict[str, str]:
    script = folder / "objects.py"
    script.write_text(dedent(OBJECTS) + PRINTING, encoding="utf-8")
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_objects_made_alike_in_any_process(tmp_path: Path) -> None:
    """A script in a process that hashes differently, and cells of a notebook in this one: one fingerprint each."""
    one = in_a_process(tmp_path, "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1")
    for listed in (True, False):
        things = cell(OBJECTS, listed=listed)["THINGS"]
        assert {name: fingerprint(thing) for name, thing in things.items()} == one
    assert len(set(one.values())) == len(one), "and each has its own"


def test_algorithms_and_data_have_fingerprints_that_last() -> None:
    for name in registry.names("algorithms"):
        make = registry.get("algorithms", name)
        assert fingerprint(make()) == fingerprint(make())
    assert fingerprint(small_federation()) == fingerprint(small_federation())
    assert fingerprint(small_federation()) != fingerprint(small_federation(seed=1))


DECORATED = "import functools\ndef d(f):\n    #functools.wraps(f)\n    def g(x): return f(x)\n    return g\n"
# In each, @ is 1 before and 2 after the change, unless others are given; # begins a decorator.
CODE: dict[str, str | tuple[str, str, str]] = {
    "a literal": "def thing(x): return x + @",
    "a literal's type": ("def thing(x): return x + @", "1", "1.0"),
    "an operation": ("def thing(x): return x @ 1", "+", "-"),
    "a name": ("def thing(x): return x.@", "real", "imag"),
    "an argument": ("def thing(x@): return x", "", ", y=None"),
    "a set of literals": "def thing(x): return x in {@, 3}",
    "an inner function": "def thing(x):\n    def inner(y): return y * @\n    return inner",
    "what is caught": (
        "def thing(x):\n    try:\n        x = 1\n@    except ValueError: pass\n    x = 2",
        "",
        "        x = 2\n",
    ),
    "a function that is used": "def f(x): return @\ndef thing(x): return f(x)",
    "a function that one uses that is used": (
        "def g(x): return @\ndef f(x): return g(x)\ndef thing(x): return f(x)",
        "1",
        "2",
    ),
    "a function that inner ones use": "def f(x): return @\ndef thing(x): return [f(y) for y in x], lambda z: f(z)",
    "a cached function": "import functools\n#functools.lru_cache\ndef thing(x): return @",
    "a decorated function": DECORATED + "#d\ndef thing(x): return @",
    "a decorator": "def d(f): return lambda x: f(x) + @\n#d\ndef thing(x): return 1",
    "one of two lambdas on a line": ("both = lambda x: x + 1, lambda x: x + 2\nthing = both[@]", "0", "1"),
    "a method": "class A:\n    def f(self): return @\nthing = A()",
    "a new method": ("class A:\n    def f(self): return 1\n@thing = A()", "", "    def g(self): return 1\n"),
    "a method of a base class": "class B:\n    def f(self): return @\nclass A(B): pass\nthing = A()",
    "a property": "class A:\n    #property\n    def f(self): return @\nthing = A()",
}
VALUES: dict[str, str | tuple[str, str, str]] = {
    "a default": "def thing(x=@): return x",
    "a default of a keyword": "def thing(*, x=@): return x",
    "a variable that is closed over": "def make(width): return lambda x: x * width\nthing = make(@)",
    "a constant": "K = @\ndef thing(x): return x * K",
    "a dictionary of settings": "K = {'lr': @}\ndef thing(x): return K['lr']",
    "a list": "K = [@]\ndef thing(x): return K",
    "an attribute of a global": "from types import SimpleNamespace as S\nK = S(a=S(b=@))\ndef thing(x): return K.a",
    "an array": "import numpy as np\nK = np.zeros(@)\ndef thing(x): return K",
    "an attribute of a function": "def thing(x): pass\nthing.k = @",
    "an attribute of a class": "class A:\n    k = @\nthing = A()",
    "a global that a method uses": "K = {'a': @}\nclass A:\n    def f(self): return K\nthing = A()",
    "an attribute": "class A:\n    def __init__(self, k): self.k = k\nthing = A(@)",
    "a slot": "class A:\n    __slots__ = ('k',)\n    def __init__(self, k): self.k = k\nthing = A(@)",
    "a private slot of a base class": "class B:\n    __slots__ = ('__k',)\n    def __init__(self, k): self.__k = k\n"
    "class A(B): __slots__ = ()\nthing = A(@)",
    "what a dictionary of one's own holds": "class A(dict): pass\nthing = A(k=@)",
    "a field of a nested dataclass": "from dataclasses import dataclass\n#dataclass\nclass A:\n    k: int\n"
    "#dataclass\nclass B:\n    a: A\nthing = B(A(@))",
    "a value of an enumeration": "from enum import Enum\nclass A(Enum):\n    X = @\nthing = A.X",
    "an argument of a partial": "from functools import partial\ndef f(x, k): pass\nthing = partial(f, k=@)",
    "the object of a method": "class A:\n    def __init__(self, k): self.k = k\n    def f(self): pass\nthing = A(@).f",
    "the state of a generator": "import random\nR = random.Random(@)\ndef thing(x): return R.random()",
}


@pytest.mark.parametrize("listed", [True, False], ids=["with source", "without"])
@pytest.mark.parametrize("change", [*CODE, *VALUES])
def test_any_change_is_noticed(change: str, listed: bool) -> None:
    given = {**CODE, **VALUES}[change]
    source, one, two = (given, "1", "2") if isinstance(given, str) else given
    before, after = (source.replace("@", each).replace("#", "@") for each in (one, two))
    found, other = of(before, listed=listed), of(after, listed=listed)
    assert found != other
    assert same_code(found, other) == (change in VALUES)
    assert found == of(f"# A comment.\n\n{before}"), "where it stands does not matter"


def network(change: str = "") -> nn.Module:
    made = small_network()
    with torch.no_grad():
        if change == "a weight":
            next(made.parameters()).view(-1)[3] += 1e-15
        elif change == "a buffer":
            made.get_buffer("norm1.running_mean")[0] = 1
        elif change == "frozen":
            next(made.parameters()).requires_grad_(False)
        elif change == "a type":
            made.float()
        elif change == "a hook":
            made.get_submodule("layer1").register_forward_hook(lambda module, inputs, output: output * 2)
        elif change == "a backward hook":
            made.get_submodule("layer1").register_full_backward_pre_hook(lambda module, gradient: gradient)
        elif change == "a hook of a tensor":
            first: Any = next(made.parameters())
            first.register_hook(lambda gradient: gradient * 2)
        elif change == "a setting of a layer":
            made.get_submodule("norm1").momentum = 0.5  # type: ignore[assignment]  # any attribute may be set
        elif change == "tied":
            made.get_submodule("head").bias = nn.Parameter(torch.zeros(3, dtype=torch.float64))
            made.get_submodule("layer2").extra = made.get_submodule("head").bias
        elif change == "equal":
            made.get_submodule("head").bias = nn.Parameter(torch.zeros(3, dtype=torch.float64))
            made.get_submodule("layer2").extra = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    return made


def test_networks_differ_in_anything_that_matters() -> None:
    changes = ["a weight", "a buffer", "frozen", "a type", "a hook", "a backward hook", "a hook of a tensor"]
    changes += ["a setting of a layer", "tied", "equal"]
    found = {change: fingerprint(network(change)) for change in ("", *changes)}
    assert len(set(found.values())) == len(found)
    assert fingerprint(network("a hook")) == fingerprint(network("a hook")), "whatever number the hook has"


def test_what_was_used_is_still_the_same() -> None:
    made = cell(OBJECTS)
    things = made["THINGS"]
    before = {name: fingerprint(thing) for name, thing in things.items()}
    things["cached"](3)
    assert things["plain"].slow == 1.5
    things["net"](torch.ones(2, 4)).sum()
    things["net"].eval()
    things["decorated"](3)
    fingerprint(things["net class"])
    assert {name: fingerprint(thing) for name, thing in things.items()} == before
    data = small_federation()
    kept = fingerprint(data)
    assert data.sizes
    assert data.samples.inputs is not None
    assert data.fingerprint
    assert fingerprint(data) == kept


def test_equal_values_in_one_place_or_two_are_the_same() -> None:
    shared = [1, {"a": 2}]
    assert fingerprint((shared, shared)) == fingerprint(([1, {"a": 2}], [1, {"a": 2}]))
    assert fingerprint({"b": 1, "a": 2}) == fingerprint({"a": 2, "b": 1})
    weight = torch.ones(2)
    assert fingerprint((weight, weight)) != fingerprint((weight, weight.clone())), "tied tensors are trained together"


def test_long_chains_and_cycles_end() -> None:
    chain = "\n".join(f"def f{at}(x): return f{at - 1}(x)" for at in range(1, 3000)) + "\nthing = f2999"
    assert of(f"def f0(x): return x\n{chain}") != of(f"def f0(x): return -x\n{chain}")
    loop: list[object] = [1]
    loop.append(loop)
    assert fingerprint(loop) == fingerprint(loop)
    assert of("def thing(x): return other(x)\ndef other(x): return thing(x)") != of(
        "def thing(x): return other(x)\ndef other(x): return -thing(x)"
    )


@pytest.mark.parametrize("thing", [threading.Lock(), sys.stdout, memoryview(b"")], ids=["lock", "file", "memory"])
def test_what_cannot_be_compared_is_refused(thing: object) -> None:
    for held in (thing, {"deep": [thing]}, lambda: thing):
        with pytest.raises(PartitaError, match=r"The experiment uses a .* cannot be compared .*partita\.simulate"):
            fingerprint(held)


Values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


def plain(value: object) -> str:
    """What makes two values different: their types but for numbers', and what they hold but for the order of keys."""
    if isinstance(value, dict):
        return "dict" + ",".join(f"{key!r}:{plain(each)}" for key, each in sorted(value.items()))
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}[{','.join(map(plain, value))}]"
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    return repr(value)


@given(Values, Values)
def test_values_have_the_same_fingerprint_if_they_are_the_same(one: object, other: object) -> None:
    assert (fingerprint(one) == fingerprint(other)) == (plain(one) == plain(other))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(0, 3), st.sampled_from([np.int32, np.float64]))
def test_arrays_and_tensors_count_with_every_bit(shape: list[int], bit: int, kind: Any) -> None:
    array = np.arange(int(np.prod(shape)), dtype=kind).reshape(shape)
    other = array.copy()
    if array.size:
        other.view(np.uint8).reshape(-1)[bit] ^= 1
    assert (fingerprint(array) == fingerprint(other)) == (not array.size)
    assert (fingerprint(torch.from_numpy(array)) == fingerprint(torch.from_numpy(other))) == (not array.size)
    assert fingerprint(array) != fingerprint(array[None])
    assert fingerprint(array) != fingerprint(torch.from_numpy(array))


# Other modules.


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a module of one's own anew and imports it."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(**files: str) -> None:
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
            sys.modules.pop(name, None)
            # Two versions within one second would otherwise be taken for one.
            sys.dont_write_bytecode = True

    before = sys.dont_write_bytecode
    yield write
    sys.dont_write_bytecode = before
    for name in ("mine", "other"):
        sys.modules.pop(name, None)


USES = {
    "by name": "import mine\ndef thing(x): return mine.f(x)",
    "as another name": "import mine as m\ndef thing(x): return m.f(x)",
    "from it": "from mine import f\ndef thing(x): return f(x)",
    "within a function": "def thing(x):\n    import mine\n    return mine.f(x)",
    "from it within a function": "def thing(x):\n    from mine import f\n    return f(x)",
    "through another": "import other\ndef thing(x): return other.mine.f(x)",
    "within an inner function": "def thing(x):\n    def inner():\n        from mine import f\n    return inner",
    "of an object": "import mine\nthing = mine.A()",
}


@pytest.mark.parametrize("use", USES)
def test_code_of_ones_own_modules_counts(own_module: Any, use: str) -> None:
    found = []
    for number in (1, 2, 1):
        own_module(
            mine=f"def f(x): return g(x)\ndef g(x): return {number}\nclass A:\n    def f(self): return g(1)\n",
            other="import mine\n",
        )
        found.append(of(USES[use]))
    assert found[0] == found[2] != found[1]
    assert not same_code(found[0], found[1])


def test_what_a_function_does_not_use_does_not_count(own_module: Any) -> None:
    found = []
    for number in (1, 2):
        own_module(mine=f"def f(x): return 1\nUNUSED = {number}\n")
        found.append(of(f"import mine\nUNUSED = {number}\ndef thing(x): return mine.f(x)"))
    assert found[0] == found[1]


def test_installed_packages_count_by_name_and_version(own_module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in site-packages; packages that are installed as editable are one's own."""
    found = []
    for number in (1, 2):
        own_module(mine=f"def f(x): return {number}\n")
        made = cell("import mine\ndef thing(x): return mine.f(x)")
        module = made["mine"]
        monkeypatch.setattr(module, "__file__", "/usr/lib/python3/dist-packages/mine.py")
        found.append(fingerprint(made["thing"]))
    assert found[0] == found[1]
    for source in ("import mine\ndef thing(x): return mine.f(x)", "from mine import f as thing"):
        versions = []
        for version in ("1.0", "1.1"):
            monkeypatch.setattr(code, "_version", lambda top, version=version: f"mine {version}")
            versions.append(of(source))
        assert versions[0] != versions[1]


def test_a_notebook_is_ones_own_code_whoever_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its `__main__` is a file of the program that runs it, in site-packages."""
    main = types.ModuleType("__main__")
    main.__file__ = "/venv/lib/python3.11/site-packages/ipykernel_launcher.py"
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert of("def thing(x): return 1") != of("def thing(x): return 2")


def test_halves_of_a_fingerprint() -> None:
    one, other = fingerprint(fedper(epochs=1)), fingerprint(fedper(epochs=2))
    assert one != other
    assert same_code(one, other)
    assert not same_code(of("def thing(): return 1"), of("def thing(): return 2"))
