"""What does the page of Python names say? Every public name with its signature and docstring."""

import ast
from collections.abc import Iterator
from pathlib import Path

import partita

HEAD = """# Python

Everything is imported from `partita`; names that are not on this page may change without notice. Methods have
[their own pages](../methods/index.md); networks, data sources, splits and servers are on the page of
[experiment files](experiment-file.md).
"""
GROUPS = {
    "Run and keep": ("api", "experiment.simulate", "experiment.result", "experiment.experiment", "experiment.events"),
    "Models to use": ("evaluation.prediction", "serving"),
    "Data": ("data.clients", "data.datasets", "data.federation", "data.pool", "data.split", "core.samples"),
    "Parts of a method": ("core", "randomness", "tensors"),
    "Executors and participation": ("experiment.executor", "experiment.executors", "experiment.samplers"),
    "Evaluation": ("evaluation.analysis", "evaluation.scores", "evaluation.analyses"),
    "Adapters": ("models._adapters", "models._logits"),
    "Errors": ("errors",),
}
ELSEWHERE = ("algorithms", "servers", "models", "data.sources", "data.splits")


def public() -> Iterator[tuple[str, str]]:
    """The module and the name of everything public, from the stub."""
    stub = Path(partita.__file__).with_suffix(".pyi")
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


def page() -> str:
    groups: dict[str, list[str]] = {title: [] for title in GROUPS}
    for module, name in public():
        if title := _group(module):
            groups[title].append(f"::: partita.{module}.{name}\n")
    return "\n".join([HEAD, *(part for title, found in groups.items() for part in (f"## {title}\n", *found))])


def _group(module: str) -> str | None:
    """The group with the longest name of a module that this one is in; None for names that have other pages."""
    known = {prefix: title for title, prefixes in GROUPS.items() for prefix in prefixes}
    fitting = [each for each in (*known, *ELSEWHERE) if module == each or module.startswith(each + ".")]
    return known.get(max(fitting, key=len)) if fitting else None
