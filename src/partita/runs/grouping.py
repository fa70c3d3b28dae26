"""Which runs are replicas of each other? Those that differ in the seed alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from .view import View


def grouped(views: Sequence[View]) -> dict[str, list[View]]:
    """Runs that differ in the seed alone belong together; methods of the same name are told apart by a folder."""
    alike: dict[str, list[View]] = {}
    for each in views:
        alike.setdefault(repr((each.about["label"], _unseeded(each.about["settings"]))), []).append(each)
    labels = [runs[0].about["label"] for runs in alike.values()]
    places = [runs[0].folder if len(runs) == 1 else runs[0].folder.parent for runs in alike.values()]
    short = [place.name for place in places]
    names = [
        label if labels.count(label) == 1 else f"{label} ({name if name and short.count(name) == 1 else place})"
        for label, name, place in zip(labels, short, places, strict=True)
    ]
    return {name: sorted(runs, key=lambda each: each.seed) for name, runs in zip(names, alike.values(), strict=True)}


def _unseeded(settings: Mapping[str, Any]) -> list[tuple[str, object]]:
    data = settings.get("data")
    named = {"name": data} if isinstance(data, str) else dict(data or {})
    rest = {key: value for key, value in settings.items() if key not in ("seed", "data")}
    return sorted({**rest, "data": sorted((key, repr(value)) for key, value in named.items() if key != "seed")}.items())
