"""Where do the numbers come from? Settings, data, machine, versions and status of every run."""

import json
import os
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from ...formatting import NONE
from ...runs.stored import StoredRun
from .. import REPORT
from ..figure import Section, html_table, section
from ..markup import Html, tag
from ..study import Study

PLACE = 120


def provenance(study: Study) -> Section:
    rows = [
        [
            method.name,
            str(each.run.seed),
            each.run.record.status,
            f"{each.run.done:,} of {each.run.record.rounds:,}",
            _chosen(study, each.run),
            str(each.run.record.started)[:16].replace("T", " "),
            _link(study, each.run),
        ]
        for method in study.methods
        for each in method.replicas
    ]
    titles = ["method", "seed", "status", "rounds", "best round on validation data", "started (UTC)", "folder"]
    runs = html_table(titles, rows, label="Runs", class_="places")
    return section("provenance", "Configuration and provenance", runs, *_settings(study))


def _link(study: Study, run: StoredRun) -> str:
    """The folder, from that of the report on, as a link to the run's own report, or to that of its seeds."""
    if study.place is None or run.folder == study.place:
        return str(run.folder)
    inside = os.path.relpath(run.folder, study.place)
    shown = str(run.folder) if inside.startswith(os.pardir) else inside
    folders = [each for each in (run.folder, run.folder.parent) if each != study.place and (each / REPORT).is_file()]
    return tag("a", shown, href=quote(os.path.relpath(folders[0] / REPORT, study.place))) if folders else shown


def _chosen(study: Study, run: StoredRun) -> str:
    """The round that is best on validation data, with its score on test data."""
    at, means = run.chosen_round, run.course()
    return f"{at:,} ({study.metric.text(means[at])} on test)" if at in means else NONE


def _settings(study: Study) -> list[Html]:
    """What all methods have in common once, and what is a method's own."""
    wanted = ("experiment", "origin", "environment", "fingerprint", "commit_every", "partita")
    known = {
        method.name: {key: value for part in wanted for key, value in _flat(part, getattr(method.run.record, part))}
        for method in study.methods
    }
    if len(known) == 1:
        [(name, only)] = known.items()
        return [_table(f"Settings, data and machine of {name}", only)]
    common = set.intersection(*(set(each.items()) for each in known.values()))
    shared = dict(each for each in next(iter(known.values())).items() if each in common)
    own = {name: dict(each for each in settings.items() if each not in common) for name, settings in known.items()}
    return [
        _table("Settings, data and machine that all methods have in common", shared),
        *(_table(f"Settings of {name}", each) for name, each in own.items() if each),
    ]


def _table(title: str, settings: Mapping[str, str]) -> Html:
    rows = [[key, value] for key, value in settings.items()]
    return tag("details", tag("summary", title), html_table(["key", "value"], rows, label="Settings", class_="text"))


def _flat(key: str, value: object) -> Iterator[tuple[str, str]]:
    """Nested settings with dotted keys, as the command line takes them."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _flat(f"{key}.{name}", inner)
    else:
        yield key.removeprefix("experiment."), value if isinstance(value, str) else json.dumps(value)
