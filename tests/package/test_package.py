"""The package as a whole: imports go one way, and what is public is what is meant to be."""

import ast
import doctest
import importlib
import importlib.metadata
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import partita
from partita import registry

ROOT = Path(partita.__file__).parent

# From the ground up: a module imports from rooms of the lines above, or from its own room.
LEVELS = (
    "errors randomness tensors threads formatting parsing extras registry",
    "core",
    "algorithms servers models data",
    "engine",
    "evaluation",
    "experiment",
    "runs",
    "deploy report serving",
    "api web",
    "recipes",
    "cli",
)
LEVEL = {room: level for level, line in enumerate(LEVELS) for room in line.split()}

STUB = ROOT / "__init__.pyi"
PUBLIC = [
    alias.asname or alias.name
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
]
BY_NAME = {name for kind in registry.KINDS for name in registry.names(kind)}
# All that is public beside algorithms, servers, models, data sources, splits and executors.
OTHERS = " ".join(
    (
        "Algorithm client_round configurable personalize server_round with_server",
        "Batching Client ClientData Experiment Federation Pool Samples Split Task Tensors",
        "federate from_clients from_dataset",
        "DegenerateWarning DivergedError PartitaError",
        "Analysis Event Executor Moment Record Result RoundEnded Sampler Summary simulate",
        "Run Runs compare open run",
        "Artefact ClientModel LoadedRun Prediction load load_exported",
        "SGD Optimizer Schedule adagrad adam yogi",
        "Phase Proximal",
        "BODY DECIDED EVERYTHING HEAD INPUT NETWORK NORM NOTHING WEIGHTS Logits with_adapters",
        "Selector first_blocks last_blocks last_tensors of_type satisfying where",
        "Aggregation Server Update",
        "View",
    )
).split()


def dotted(path: Path) -> str:
    """The name of a module within the package; the package itself is ''."""
    return ".".join(part for part in path.relative_to(ROOT).with_suffix("").parts if part != "__init__")


TEXTS = {dotted(path): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
SOURCES = {name: ast.parse(text) for name, text in TEXTS.items()}
MODULES = [name for name in SOURCES if name not in ("", "__main__")]


def runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes, also within functions, but not what only type checkers see."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from runtime_nodes(other)
        else:
            yield from runtime_nodes(child)


def imports(name: str) -> Iterator[str]:
    """Dotted names that a module imports: those of the package relative to it with a leading dot."""
    is_package = (ROOT / name.replace(".", "/")).is_dir()
    inside = name.split(".") if name else []
    for node in runtime_nodes(SOURCES[name]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""
        elif isinstance(node, ast.ImportFrom):
            base = inside[: len(inside) - node.level + is_package]
            full = [*base, *(node.module or "").split(".")] if node.module else base
            for alias in node.names:
                whole = ".".join([*full, alias.name])
                yield "." + (whole if whole in SOURCES else ".".join(full))


def own_imports(name: str) -> set[str]:
    return {
        target.removeprefix("partita").removeprefix(".")
        for target in imports(name)
        if target.startswith(".") or target.partition(".")[0] == "partita"
    }


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_one_way(name: str) -> None:
    room = name.partition(".")[0]
    assert room in LEVEL, f"{room} has no place in the order of rooms"
    for target in own_imports(name):
        other = target.partition(".")[0]
        assert other in LEVEL, f"{name} imports {target or 'the package itself'}"
        ground = LEVEL[room] == LEVEL[other] == 0
        assert LEVEL[other] < LEVEL[room] or ground or (other == room and "." in name), f"{name} imports {target}"


def test_every_room_exists() -> None:
    assert set(LEVEL) == {name.partition(".")[0] for name in MODULES}


def test_the_root_shows_the_rooms() -> None:
    assert len([path for path in ROOT.glob("*.py") if not path.name.startswith("__")]) <= 8


def test_there_are_no_cycles() -> None:
    graph = {name: own_imports(name) - {name} for name in MODULES}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(MODULES)


@pytest.mark.parametrize(
    ("library", "users"),
    [
        ("typer", {"cli"}),
        ("rich", {"cli"}),
        ("lazy_loader", {""}),
        ("sklearn", {"data", "evaluation"}),
    ],
)
def test_who_imports_what(library: str, users: set[str]) -> None:
    found = {name.partition(".")[0] for name in SOURCES if library in {i.partition(".")[0] for i in imports(name)}}
    assert found <= users


def test_importing_the_package_does_not_import_torch() -> None:
    program = "import sys, partita; assert not {'torch', 'numpy', 'rich', 'typer'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_the_public_names() -> None:
    """Listed one by one, among them all that is found by name; a new one is public only where this list says so."""
    assert sorted(PUBLIC) == sorted({*OTHERS, *BY_NAME})
    assert sorted(getattr(partita, "__all__", ())) == sorted(PUBLIC)
    assert set(PUBLIC) <= set(dir(partita))
    assert not [name for name in PUBLIC if name.startswith("_")]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert not inspect.ismodule(getattr(partita, name)), "the name of a function may be that of its module"


@pytest.mark.parametrize("kind", registry.KINDS)
def test_what_is_found_by_name_can_be_imported_too(kind: registry.Kind) -> None:
    for name in registry.names(kind):
        made = getattr(partita, name)
        assert made is registry.get(kind, name)
        assert made.__name__ == name


def test_names_mean_one_thing() -> None:
    names = [name for kind in registry.KINDS for name in registry.names(kind)]
    taken = {*OTHERS, *(name.partition(".")[0] for name in MODULES)}
    assert len(names) == len(set(names))
    assert not taken & set(names)
    assert not set(OTHERS) & {name.partition(".")[0] for name in MODULES}


TYPED = """
from partita import Run, Runs, digits, fedper, mlp, run
from partita import fedpr
fedper(epochs="two")
fedper(epoch=2)
reveal_type(fedper)
one: Run = run(fedper(), mlp, digits(), folder="runs/mine", rounds=2)
many: Runs = run(fedper(), mlp, digits(), folder="runs/mine", seeds=2)
other: Runs = run(fedper(), mlp, digits(), folder="runs/mine")
run(fedper(), mlp, digits(), folder="runs/mine", round=2)
"""


def test_the_public_names_are_typed(tmp_path: Path) -> None:
    """As an editor and a type checker see them."""
    pytest.importorskip("mypy")
    snippet = tmp_path / "snippet.py"
    snippet.write_text(TYPED, encoding="utf-8")
    project = ROOT.parents[1]
    # What is known from another check is used, if it is this user's.
    cache = project / ".mypy_cache" if os.access(project, os.W_OK) else tmp_path
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", f"--cache-dir={cache}", snippet],
        cwd=project,
        env={**os.environ, "MYPYPATH": str(ROOT.parent)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    lines = re.findall(r"snippet\.py:(\d+): (error|note): (.*)", checked.stdout)
    errors = {int(number): text for number, kind, text in reversed(lines) if kind == "error"}
    expected = {
        3: 'has no attribute "fedpr"',
        4: 'incompatible type "str"; expected "int"',
        5: 'did you mean "epochs"?',
        9: 'expression has type "Run", variable has type "Runs"',
        10: "run",
    }
    assert errors.keys() == expected.keys(), checked.stdout + checked.stderr
    assert all(expected[number] in text for number, text in errors.items()), errors
    [revealed] = [text for _, _, text in lines if "Revealed type" in text]
    assert re.search(r"def \(\*, blocks: .*int =, epochs: .*int =, .*\) -> .*Algorithm", revealed)


EXAMPLES = sorted((ROOT.parents[1] / "examples").rglob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_need_public_names_alone(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not [alias.name for alias in node.names if alias.name.startswith("partita.")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "partita":
            assert node.module == "partita"
            assert {alias.name for alias in node.names} <= set(PUBLIC)
        elif isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_") or node.attr == "__init__", node.attr


def test_an_unknown_name_is_an_attribute_error() -> None:
    unknown = "fedavgg"
    with pytest.raises(AttributeError, match=unknown):
        getattr(partita, unknown)


@pytest.mark.parametrize("kind", [kind for kind in registry.KINDS if kind != "executors"])
def test_settings_are_keyword_arguments(kind: registry.Kind) -> None:
    """Those of algorithms have defaults, so that a name is enough."""
    for name in registry.names(kind):
        for parameter in inspect.signature(registry.get(kind, name)).parameters.values():
            assert parameter.kind is parameter.KEYWORD_ONLY, f"{name}: {parameter}"
            assert kind != "algorithms" or parameter.default is not parameter.empty, f"{name}: {parameter}"


@pytest.mark.parametrize(("name", "most"), [("fedper", 20), ("fedbabu", 40), ("flayer", 150)])
def test_a_method_is_short(name: str, most: int) -> None:
    """Without the equations of the paper, which its docstring may repeat."""
    text = (ROOT / "algorithms" / f"{name}.py").read_text(encoding="utf-8")
    docstring = ast.parse(text).body[0]
    assert len(text.splitlines()) - (docstring.end_lineno or 0) <= most


@pytest.mark.parametrize("name", SOURCES)
def test_every_module_says_what_it_is(name: str) -> None:
    assert ast.get_docstring(SOURCES[name])


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if ">>> " in text])
def test_examples_in_docstrings(name: str) -> None:
    done = doctest.testmod(importlib.import_module(f"partita.{name}".rstrip(".")))
    assert done.attempted
    assert not done.failed


def test_the_version_is_that_of_the_distribution() -> None:
    assert partita.__version__ == importlib.metadata.version("partita")


def test_types_are_shipped() -> None:
    assert (ROOT / "py.typed").exists()
    assert (ROOT / "__init__.pyi").exists()


def test_the_list_of_faults_fits_the_engine() -> None:
    """`make faults` takes minutes; that each of its texts still occurs once is seen at once."""
    from laws.faults import FAULTS

    assert [fault.name for fault in FAULTS if TEXTS[fault.file[:-3].replace("/", ".")].count(fault.old) != 1] == []
