"""Where do the numbers come from? Settings, data, machine, versions and status of every run."""

import json
from collections.abc import Iterator, Mapping

from ...formatting import NONE
from ...runs.view import View
from ..figure import Section, section, table
from ..markup import Html, tag
from ..study import Study


def provenance(study: Study) -> Section:
    rows = [
        [
            method.name,
            str(each.view.seed),
            each.view.about["status"],
            f"{each.view.done} of {each.view.about['rounds']}",
            _chosen(study, each.view),
            str(each.view.about["started"])[:16].replace("T", " "),
            str(each.view.folder),
        ]
        for method in study.methods
        for each in method.replicas
    ]
    titles = ["method", "seed", "status", "rounds", "best round on validation data", "started (UTC)", "folder"]
    shown = [_settings(method.name, method.view) for method in study.methods]
    return section("provenance", "Configuration and provenance", table(titles, rows, label="Runs"), *shown)


def _chosen(study: Study, view: View) -> str:
    """With its score on test data."""
    at, means = view.chosen_round, view.course()
    return f"{at} ({study.metric.text(means[at])} on test)" if at in means else NONE


def _settings(name: str, view: View) -> Html:
    about = view.about
    wanted = ("settings", "origin", "environment", "fingerprint", "interval", "format")
    rows = [[key, value] for part in wanted if part in about for key, value in _flat(part, about[part])]
    return tag(
        "details",
        tag("summary", f"Settings, data and machine of {name}"),
        table(["key", "value"], rows, label="Settings", class_="text"),
    )


def _flat(key: str, value: object) -> Iterator[tuple[str, str]]:
    """Nested settings with dotted keys, as the command line takes them."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _flat(f"{key}.{name}", inner)
    else:
        yield key.removeprefix("settings."), value if isinstance(value, str) else json.dumps(value)
