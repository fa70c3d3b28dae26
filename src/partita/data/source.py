"""Can data be made again? Those of a named source can, from its name and plain arguments."""

import os
from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec

from ..core.signatures import bound
from .pool import Pool
from .split import Split

Arguments = ParamSpec("Arguments")
Settings = Mapping[str, object]


def source(make: Callable[Arguments, Pool]) -> Callable[Arguments, Pool]:
    """Decorate a source of data: its pool remembers the source's name and the arguments that were given.

    A pool that is made from this one, for instance by `dataclasses.replace`, remembers nothing.
    """

    @wraps(make)
    def named(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Pool:
        given = bound(make, args, kwargs)
        found = make(*given.args, **given.kwargs)
        object.__setattr__(found, "settings", plain_settings({"name": make.__name__, **given.arguments}))
        return found

    return named


def division_settings(pool: Pool, split: Split, division: Settings) -> Settings | None:
    """The settings that make these data again, as in an experiment file; None if the pool or the split has none."""
    ours = getattr(split.assign, "__module__", None) == f"{__package__}.splits.{split.name}"
    shares = plain_settings({"name": split.name, **split.settings}) if ours else None
    given = plain_settings(division)
    if pool.settings is None or shares is None or given is None:
        return None
    return {**pool.settings, **given, "split": shares}


def plain_settings(settings: Settings) -> Settings | None:
    """Settings that a file can hold, with the path of a file as it is from any folder; None if there are others."""
    if not all(map(_plain, settings.values())):
        return None
    path = settings.get("path")
    return {**settings, "path": os.path.abspath(path)} if isinstance(path, str) else settings


def _plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    return value is None or type(value) in (str, int, float, bool)
