"""What the server's app makes of sites that are late, go away, come back or answer twice, with a grid that pretends."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest
from flwr.app import ConfigRecord, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from partita.deploy import flower
from partita.deploy.certificates import fingerprint, make_key
from partita.deploy.flower import BODY, Asked, body_of, content_of, exchanged


@dataclass
class Clock:
    """Time that passes only where somebody waits."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Pretending:
    """A grid: `nodes` says who is connected when, since when; `reply` what becomes of an order."""

    clock: Clock
    nodes: Callable[[float], dict[str, str]]
    reply: Callable[[str, Message, int], Message | None] = lambda site, order, count: answer(order)
    keys: dict[str, bytes] = field(default_factory=dict)
    pushed: list[str] = field(default_factory=list)
    _waiting: dict[str, Message] = field(default_factory=dict)

    def get_nodes(self) -> list[Any]:
        return [
            SimpleNamespace(name=name, node_id=number + 1, last_activated_at=since, public_key=self.keys.get(name, b""))
            for number, (name, since) in enumerate(self.nodes(self.clock.now).items())
        ]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        numbers = []
        for message in messages:
            name = list(self.nodes(self.clock.now))[message.metadata.dst_node_id - 1]
            self.pushed.append(name)
            number = str(len(self.pushed))
            message.metadata.__dict__["_message_id"] = number
            if reply := self.reply(name, message, self.pushed.count(name)):
                self._waiting[number] = reply
            numbers.append(number)
        return numbers

    def pull_messages(self, numbers: Collection[str]) -> list[Message]:
        return [self._waiting.pop(number) for number in numbers if number in self._waiting]


def answer(order: Message) -> Message:
    return Message(content_of(body_of(order)[::-1]), reply_to=order)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(flower, "time", made)
    for name in ("run_id", "node_id", "task_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1, raising=False)
    return made


def ask(grid: Pretending, *sites: str, seconds: float = 600, absent: float = 60, **more: Any) -> dict[str, bytes | str]:
    asked = Asked({site: site.encode() for site in sites}, seconds, absent, **more)
    replies = exchanged(cast(Grid, grid), asked, lambda online: None)
    return {site: reply if isinstance(reply, str) else body_of(reply) for site, reply in replies}


def test_a_site_that_comes_late_gets_its_order_then(clock: Clock) -> None:
    grid = Pretending(clock, lambda now: {"a": "1"} | ({"b": "1"} if now > 30 else {}))
    assert ask(grid, "a", "b") == {"a": b"a", "b": b"b"}
    assert 30 < clock.now < 32
    assert grid.pushed == ["a", "b"]


def test_a_round_goes_on_without_a_site_that_does_not_come(clock: Clock) -> None:
    grid = Pretending(clock, lambda now: {"a": "1"})
    assert ask(grid, "a", "b") == {"a": b"a", "b": "the site is not connected"}
    assert 60 <= clock.now < 62


def test_what_was_on_its_way_to_a_supernode_that_was_started_anew_is_brought_again(clock: Clock) -> None:
    grid = Pretending(
        clock,
        lambda now: {"a": "1" if now < 20 else "2"},
        lambda site, order, count: answer(order) if count > 1 else None,
    )
    assert ask(grid, "a") == {"a": b"a"}
    assert 20 <= clock.now < 22


def test_nobody_waits_for_a_reply_whose_supernode_died_while_it_sent_it(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flower does. The order is brought again when the SuperNode is back, and others are heard meanwhile."""
    monkeypatch.setattr(flower, "LOOK", 0.01)
    grid = Pretending(clock, lambda now: {"a": "1" if now < 2 else "2", "b": "1"})
    pull, over, lost = grid.pull_messages, Event(), list[str]()

    def pull_messages(numbers: Collection[str]) -> list[Message]:
        if grid.pushed[int(*numbers) - 1] == "a" and not lost:
            lost.extend(numbers)
            over.wait()
        return pull(numbers)

    grid.pull_messages = pull_messages  # type: ignore[method-assign]
    try:
        assert ask(grid, "a", "b") == {"a": b"a", "b": b"b"}
    finally:
        over.set()
    assert grid.pushed == ["a", "b", "a"]


def test_a_superlink_that_dies_while_a_reply_is_pulled(clock: Clock) -> None:
    """The app ends, and the server's process notices."""
    grid = Pretending(clock, lambda now: {"a": "1"})

    def pull_messages(numbers: Collection[str]) -> list[Message]:
        raise ConnectionError("gone")

    grid.pull_messages = pull_messages  # type: ignore[method-assign]
    with pytest.raises(ConnectionError, match="gone"):
        ask(grid, "a")


def test_a_site_that_works_has_the_whole_time(clock: Clock) -> None:
    """Although it is longer than one that is gone is waited for."""
    grid = Pretending(clock, lambda now: {"a": "1"}, lambda site, order, count: None)
    assert ask(grid, "a") == {}
    assert 600 <= clock.now < 601
    assert grid.pushed == ["a"]


def test_a_supernode_without_a_site_behind_it_is_asked_again(clock: Clock) -> None:
    def reply(site: str, order: Message, count: int) -> Message:
        return answer(order) if count == 4 else Message(Error(flower.NOBODY, "does not run"), reply_to=order)

    assert ask(Pretending(clock, lambda now: {"a": "1"}, reply), "a") == {"a": b"a"}
    assert 15 <= clock.now < 18
    gone = Pretending(clock, lambda now: {"a": "1"}, lambda site, order, count: reply(site, order, 0))
    assert ask(gone, "a") == {"a": "does not run"}


def test_an_app_that_fails_is_not_asked_again(clock: Clock) -> None:
    grid = Pretending(
        clock, lambda now: {"a": "1"}, lambda site, order, count: Message(Error(2, "broken"), reply_to=order)
    )
    assert ask(grid, "a") == {"a": "broken"}
    assert clock.now < 1


def test_a_second_reply_is_ignored(clock: Clock) -> None:
    """The first order was slow, and the second was brought after a restart: both are answered."""
    first: list[Message] = []

    def reply(site: str, order: Message, count: int) -> Message | None:
        if count == 1 and site == "a":
            first.append(answer(order))
            return None
        return answer(order)

    grid = Pretending(clock, lambda now: {"a": "1" if now < 5 else "2", "b": "1"} if now > 1 else {"a": "1"}, reply)
    replies = exchanged(cast(Grid, grid), Asked({"a": b"a", "b": b"b", "c": b"c"}, 20, 10), lambda online: None)
    found = []
    for site, _ in replies:
        found.append(site)
        if site == "a":
            grid._waiting["1"] = first[0]
    assert sorted(found) == ["a", "b", "c"]


def test_a_name_with_another_key_is_nobody(clock: Clock, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("keys")
    own, other = (make_key(place / name).read_bytes() for name in ("own", "other"))
    keys = {"a": fingerprint(own)}
    grid = Pretending(clock, lambda now: {"a": "1"}, keys={"a": other})
    assert ask(grid, "a", keys=keys) == {"a": "the site is not connected"}
    assert grid.pushed == []
    assert ask(Pretending(clock, lambda now: {"a": "1"}, keys={"a": own}), "a", keys=keys) == {"a": b"a"}


def test_nobody_waits_for_a_site_that_was_revoked(clock: Clock) -> None:
    grid = Pretending(clock, lambda now: {"a": "1"})
    assert ask(grid, "a", keys={"b": "a key"}) == {"a": "the site is not enrolled"}
    assert clock.now == 0


@pytest.mark.parametrize("size", [0, 7, flower.WHOLE, flower.WHOLE + 1])
def test_messages_of_any_size(clock: Clock, size: int) -> None:
    body = bytes(size)
    assert body_of(Message(content_of(body), 1, MessageType.QUERY)) == body


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({BODY: ConfigRecord({"other": b""})}),
        RecordDict({BODY: ConfigRecord({BODY: "text"})}),
        RecordDict({BODY: MetricRecord({BODY: 1.0})}),
    ],
)
def test_whoever_has_a_key_may_answer_anything(clock: Clock, content: RecordDict) -> None:
    """What is no message of ours is a reply that cannot be used, and the app goes on."""
    said = flower._body_or_problem(Message(content, 1, MessageType.QUERY))
    assert said == (b"", "the reply cannot be read: it is not a message of Partita")
