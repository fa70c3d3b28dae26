"""What is the status of a federation? Its run has what is committed, its journal what happens now."""

import datetime
import json
import os
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import PartitaError, in_one_line
from ..runs.database import DATABASE
from ..runs.stored import StoredRun, read_run
from . import DEPLOYMENT
from .journal import journal_of

LATE = 2.0
"""A site is late when it takes this many times as long as replies to such orders usually do."""
MOST_REFUSALS = 100
Time = datetime.datetime


@dataclass
class SiteStatus:
    """A site, as the server sees it."""

    name: str
    connected: bool | None = None
    """Whether its SuperNode was connected at the last check; None before the first."""
    last_seen: str | None = None
    """When it was last connected, or answered."""
    last_answer: str | None = None
    asked_since: str | None = None
    """The time since which its reply is awaited."""
    late: bool = False
    answers: int = 0
    left_out: int = 0
    problem: str = ""
    """The reason why it is left out, until its next answer."""
    received: int = 0
    """Bytes of messages to the site."""
    sent: int = 0
    score: float | None = None
    """The score on its own test data, after the last round that was evaluated."""


@dataclass(frozen=True)
class Refusal:
    """A reply that was left out, or did not arrive."""

    time: str
    round: int
    site: str
    reason: str


@dataclass(frozen=True)
class Exchange:
    """The orders that sites have to answer."""

    kind: str
    round: int
    since: str
    until: str
    """The deadline."""


@dataclass
class Status:
    """A federation now."""

    label: str
    state: str
    """`waiting for sites`, `running`, `stopped` or `done`."""
    round: int
    """Rounds that are committed."""
    rounds: int
    metric: str
    time: str
    sites: list[SiteStatus]
    now: Exchange | None = None
    refusals: list[Refusal] = field(default_factory=list)
    """The last ones, the newest first."""
    refused: int = 0
    seconds: list[tuple[int, float, int]] = field(default_factory=list)
    """The number, the seconds and the number of updates of each round."""
    course: dict[int, float] = field(default_factory=dict)
    """The mean score over sites after each evaluated round."""
    courses: dict[str, dict[int, float]] = field(default_factory=dict)
    """The score of each site."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def status_of(folder: Path, now: Time | None = None) -> Status:
    """The status of the federation whose run is in a folder."""
    now = now or datetime.datetime.now(datetime.timezone.utc)
    names, rounds, label = _planned(folder)
    run = read_run(folder) if (folder / DATABASE).exists() else None
    found = _Reading({name: SiteStatus(name) for name in names}, now)
    for entry in journal_of(folder):
        found.add(entry)
    found.judge()
    status = Status(
        label=run.record.label if run else label,
        state=_state(run, found),
        round=run.done if run else 0,
        rounds=rounds,
        metric=run.record.metric if run else "",
        time=now.isoformat(timespec="seconds"),
        sites=list(found.sites.values()),
        now=found.now if found.working else None,
        refusals=found.refusals[: -MOST_REFUSALS - 1 : -1],
        refused=len(found.refusals),
    )
    if run:
        _add_run_(status, run)
    return status


def _planned(folder: Path) -> tuple[list[str], int, str]:
    """The sites of the plan, its rounds and its method."""
    path = folder / DEPLOYMENT
    try:
        plan = json.loads(json.loads(path.read_text(encoding="utf-8"))["plan"])
        method = plan["experiment"]["algorithm"]
        return list(plan["sites"]), int(plan["experiment"]["rounds"]), str(method.get("name", ""))
    except FileNotFoundError:
        raise PartitaError(
            f"{folder} is not the run of a federation: it has no {DEPLOYMENT}. Runs of a federation are made by "
            "partita federate server and partita federate up."
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise PartitaError(f"Cannot read the plan in {path}: {in_one_line(problem)}.") from problem


def _state(run: StoredRun | None, found: "_Reading") -> str:
    if run and run.record.done:
        return "done"
    if not found.working:
        return "stopped"
    return "running" if run else "waiting for sites"


def _add_run_(status: Status, run: StoredRun) -> None:
    status.seconds = run.rounds
    status.course = run.course()
    scores = run.scores()
    for number, site in enumerate(status.sites):
        site.score = scores.get(number)
    for record in run.numbers.records():
        if record.variant == run.record.variant and record.role == "test" and record.count:
            name = run.record.name_of(record.client)
            status.courses.setdefault(name, {})[record.round] = record.score


class _Reading:
    """What the entries of a journal add up to."""

    def __init__(self, sites: dict[str, SiteStatus], now: Time) -> None:
        self.sites, self._now = sites, now
        self.refusals: list[Refusal] = []
        self.now: Exchange | None = None
        self._process: int | None = None
        self._took: dict[str, list[float]] = {}

    @property
    def working(self) -> bool:
        """Whether the server's process is there, on this machine."""
        if self._process is None:
            return False
        try:
            os.kill(self._process, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def add(self, entry: Mapping[str, Any]) -> None:
        try:
            self._add(entry["event"], entry["time"], entry)
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise PartitaError(f"The journal of the federation has an entry that cannot be read: {entry}.") from problem

    def _add(self, event: str, time: str, entry: Mapping[str, Any]) -> None:
        if event in ("started", "ended"):
            self._process = int(entry["process"]) if event == "started" else None
            self.now = None
            for site in self.sites.values():
                site.asked_since, site.connected = None, None
        elif event == "connected":
            for name, site in self.sites.items():
                if site.connected or name in entry["sites"]:
                    site.last_seen = time
                site.connected = name in entry["sites"]
        elif event == "asked":
            until = _time(time) + datetime.timedelta(seconds=float(entry["seconds"]))
            self.now = Exchange(entry["kind"], int(entry.get("round", 0)), time, until.isoformat(timespec="seconds"))
            for name, size in entry["sites"].items():
                self.sites[name].asked_since = time
                self.sites[name].received += int(size)
        elif event == "answered":
            site = self.sites[entry["site"]]
            if site.asked_since and self.now:
                took = (_time(time) - _time(site.asked_since)).total_seconds()
                self._took.setdefault(self.now.kind, []).append(took)
            site.asked_since, site.last_seen, site.last_answer, site.problem = None, time, time, ""
            site.answers += 1
            site.sent += int(entry["bytes"])
        elif event == "left out":
            site = self.sites[entry["site"]]
            site.asked_since, site.problem = None, str(entry["reason"])
            site.left_out += 1
            self.refusals.append(Refusal(time, int(entry["round"]), site.name, site.problem))

    def judge(self) -> None:
        """Mark late sites, and drop the orders of an ended process."""
        for site in self.sites.values():
            if not self.working:
                site.asked_since = site.connected = None
            if site.connected:
                site.last_seen = self._now.isoformat(timespec="seconds")
            if site.asked_since and self.now:
                took = self._took.get(self.now.kind)
                waited = (self._now - _time(site.asked_since)).total_seconds()
                site.late = self._now > _time(self.now.until) or bool(took and waited > LATE * statistics.median(took))


def _time(text: str) -> Time:
    return datetime.datetime.fromisoformat(text)
