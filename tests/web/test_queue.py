"""Questions that wait are answered together, and one person's trouble is nobody else's."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from partita.web.cache import Cache
from partita.web.queue import ClosedError, FullError, Queue


class Held:
    """An answering thread that waits until it is let go, and notes what it is asked together."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.began, self.go = threading.Event(), threading.Event()

    def __call__(self, questions: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(questions))
        self.began.set()
        assert self.go.wait(300)
        return [10 * each for each in questions]


async def begun(held: Held) -> None:
    await asyncio.to_thread(held.began.wait, 30)


def test_those_who_wait_are_answered_together_up_to_so_many_rows() -> None:
    held = Held()

    async def main() -> list[int]:
        queue: Queue[int, int] = Queue(held, rows=4, waiting=100)
        await queue.start()
        first = asyncio.create_task(queue.ask(0, 1))
        await begun(held)
        others = [asyncio.create_task(queue.ask(each, 2)) for each in (1, 2, 3)]
        large = asyncio.create_task(queue.ask(4, 9))
        await asyncio.sleep(0)
        held.go.set()
        found = await asyncio.gather(first, *others, large)
        await queue.close()
        return found

    assert asyncio.run(main()) == [0, 10, 20, 30, 40]
    assert held.batches == [[0], [1, 2], [3], [4]]


def test_what_fails_fails_alone() -> None:
    def answer(questions: Sequence[int]) -> list[int | Exception]:
        if 13 in questions:
            raise ZeroDivisionError
        return [LookupError() if each == 7 else each for each in questions]

    async def main() -> list[int | BaseException]:
        queue: Queue[int, int] = Queue(answer, rows=100, waiting=100)
        await queue.start()
        found = await asyncio.gather(*(queue.ask(each, 1) for each in (1, 7, 13, 2)), return_exceptions=True)
        await queue.close()
        return found

    one, seven, thirteen, two = asyncio.run(main())
    assert (one, two) == (1, 2)
    assert isinstance(seven, LookupError)
    assert isinstance(thirteen, ZeroDivisionError)


def test_too_many_are_refused_and_those_before_are_answered() -> None:
    held = Held()

    async def main() -> list[int]:
        queue: Queue[int, int] = Queue(held, rows=4, waiting=2)
        await queue.start()
        tasks = [asyncio.create_task(queue.ask(0, 1))]
        await begun(held)
        tasks += [asyncio.create_task(queue.ask(each, 1)) for each in (1, 2)]
        await asyncio.sleep(0)
        with pytest.raises(FullError):
            await queue.ask(3, 1)
        held.go.set()
        found = await asyncio.gather(*tasks)
        await queue.close()
        return found

    assert asyncio.run(main()) == [0, 10, 20]


def test_who_gives_up_is_not_answered_and_does_no_harm() -> None:
    held = Held()

    async def main() -> int:
        queue: Queue[int, int] = Queue(held, rows=4, waiting=9)
        await queue.start()
        first = asyncio.create_task(queue.ask(0, 1))
        await begun(held)
        tired = asyncio.create_task(queue.ask(1, 1))
        patient = asyncio.create_task(queue.ask(2, 1))
        await asyncio.sleep(0)
        tired.cancel()
        first.cancel()
        held.go.set()
        found = await patient
        await queue.close()
        return found

    assert asyncio.run(main()) == 20
    assert held.batches == [[0], [2]]


def test_closing_answers_what_waits_and_takes_nothing_more() -> None:
    held = Held()

    async def main() -> list[int]:
        queue: Queue[int, int] = Queue(held, rows=4, waiting=9)
        await queue.start()
        tasks = [asyncio.create_task(queue.ask(0, 1))]
        await begun(held)
        tasks.append(asyncio.create_task(queue.ask(1, 1)))
        await asyncio.sleep(0)
        closing = asyncio.create_task(queue.close())
        await asyncio.sleep(0)
        with pytest.raises(ClosedError):
            await queue.ask(2, 1)
        held.go.set()
        await closing
        return await asyncio.gather(*tasks)

    assert asyncio.run(main()) == [0, 10]


def test_a_cache_keeps_what_was_used_last_within_its_budget() -> None:
    loaded: list[str] = []

    def load(key: str) -> str:
        loaded.append(key)
        return key * 3

    cache: Cache[str, str] = Cache(load, len, budget=7)
    assert [cache[key] for key in "abac"] == ["aaa", "bbb", "aaa", "ccc"]
    assert ("a" in cache, "b" in cache, "c" in cache) == (True, False, True)
    assert (cache.bytes, len(cache), cache.loaded) == (6, 2, 3)
    assert cache["b"] == "bbb"
    assert loaded == ["a", "b", "c", "b"]
    assert cache["abc"] == "abcabcabc", "larger than the budget: given, and not kept"
    assert (len(cache), cache.bytes) == (0, 0)
