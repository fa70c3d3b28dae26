"""Which code does a function or a class run? Its own as it is compiled, and that of libraries by name and version."""

import dis
import functools
import importlib
import importlib.metadata
import importlib.util
import sys
import types
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

KNOWN_BY_NAME = frozenset({"partita", "torch", "numpy"}) | sys.stdlib_module_names
"""Packages whose code counts by name only: a run records their versions besides its fingerprints."""
INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Code in these folders counts by name and version. All other code is the user's own, including editable installs."""
OF_EVERY_TYPE = frozenset(vars(type("Empty", (), {}))) | {
    "__annotate__",
    "__annotate_func__",
    "__annotations__",
    "__annotations_cache__",
    "__dataclass_fields__",
    "__dataclass_params__",
    "__firstlineno__",
    "__match_args__",
    "__orig_bases__",
    "__parameters__",
    "__qualname__",
    "__static_attributes__",
    "__type_params__",
    "_abc_impl",
}


class Code(bytes):
    """A part of the code."""


def code_text(text: str) -> Code:
    return Code(text.encode())


def function_code(function: types.FunctionType) -> Iterator[object]:
    """What a function does, and the globals that it uses."""
    if is_library(function.__module__):
        yield library_name(function)
    else:
        yield function.__code__
        yield from _used_globals(function)


def compiled(code: types.CodeType) -> Iterator[object]:
    """The compiled code. The source may be missing, as in a notebook, or may have changed since."""
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    yield code_text(f"{counts}{names}")
    yield Code(code.co_code + getattr(code, "co_exceptiontable", b""))
    for constant in code.co_consts:
        yield constant if isinstance(constant, types.CodeType) else code_text(_literal(constant))


def class_code(kind: type) -> Iterator[object]:
    """A class's bases, methods and attributes."""
    if is_library(kind.__module__):
        yield library_name(kind)
        return
    yield code_text(kind.__qualname__)
    yield from (type(kind), kind.__bases__)
    for name in sorted(vars(kind).keys() - OF_EVERY_TYPE):
        yield code_text(name)
        yield vars(kind)[name]


def library_name(thing: Any) -> Code:
    return code_text(f"{module_name(thing.__module__)}:{thing.__qualname__}")


def module_name(name: str) -> str:
    """The name of a module, with the version of its package unless the package counts by name only."""
    top = name.partition(".")[0]
    return name if top in KNOWN_BY_NAME or not is_library(name) else f"{name} ({_version(top)})"


def is_library(module: str | None) -> bool:
    """Whether the code of a module counts by name. A notebook is `__main__`, and so is the program that runs it."""
    top = (module or "").partition(".")[0]
    return top in KNOWN_BY_NAME or (top != "__main__" and _is_installed(sys.modules.get(top)))


def _is_installed(package: types.ModuleType | None) -> bool:
    places = [getattr(package, "__file__", None), *getattr(package, "__path__", ())]
    return any(INSTALLED & set(PurePath(place).parts) for place in places if place)


@functools.cache
def _version(top: str) -> str:
    names = importlib.metadata.packages_distributions().get(top, [])
    return ", ".join(sorted(f"{name} {importlib.metadata.version(name)}" for name in set(names)))


def _literal(value: object) -> str:
    """A literal of the code as text; 1 and 1.0 differ here."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_literal, value)))}}}"
    return f"{type(value).__name__}:{value!r}"


def _used_globals(function: types.FunctionType) -> Iterator[object]:
    """The globals that a function uses, and the user's own modules that it names or imports."""
    codes = list(_codes(function.__code__))
    steps = [list(dis.get_instructions(code)) for code in codes]
    loaded = {step.argval for each in steps for step in each if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    values = {name: function.__globals__[name] for name in loaded & function.__globals__.keys()}
    modules = [module for each in steps for module in _imported(each, function.__globals__.get("__package__"))]
    names = {name for code in codes for name in code.co_names}
    met: set[str] = set()
    while True:
        for name, value in sorted(values.items()):
            yield code_text(name)
            yield value
        modules += [value for _, value in sorted(values.items()) if isinstance(value, types.ModuleType)]
        modules = [module for module in modules if module.__name__ not in met and not is_library(module.__name__)]
        if not modules:
            return
        module = modules.pop()
        met.add(module.__name__)
        values = {name: vars(module)[name] for name in names & vars(module).keys()}


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object, and those of the functions that it defines."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _imported(steps: list[dis.Instruction], package: str | None) -> Iterator[types.ModuleType]:
    """The user's own modules that are imported when the code runs."""
    for at, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":
            # Two steps before stands how many packages up a relative import begins.
            name = importlib.util.resolve_name("." * steps[at - 2].argval + step.argval, package)
            if not is_library(name):
                yield importlib.import_module(name)
