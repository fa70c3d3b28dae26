"""How are questions of different clients answered together? All that wait go next, at once."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")
Done = TypeVar("Done")


class FullError(Exception):
    """More questions wait than the queue may hold."""


class ClosedError(Exception):
    """The queue takes no further questions, because the server stops."""


@dataclass(frozen=True, eq=False)
class _Waiting(Generic[Question, Answer]):
    question: Question
    rows: int
    answer: "asyncio.Future[Answer]"


class Queue(Generic[Question, Answer]):
    """Questions wait here for one thread, which takes all that have come, up to a number of rows, and answers them.

    No question waits for others: one that comes alone is answered alone.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Question]], Sequence[Answer | Exception]],
        *,
        rows: int,
        waiting: int,
        on_batch: Callable[[int, int], None] = lambda questions, rows: None,
    ) -> None:
        """`answer` gives an answer or an error for each question; `on_batch` is called with the sizes of each batch."""
        self._answer, self._rows, self._most, self._on_batch = answer, rows, waiting, on_batch
        self._waiting: deque[_Waiting[Question, Answer]] = deque()
        self._wake = asyncio.Event()
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="answers")
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    async def start(self) -> None:
        self._task = asyncio.create_task(self._work())

    async def ask(self, question: Question, rows: int) -> Answer:
        """The answer, as soon as it is there. A caller that stops waiting does not affect others."""
        if self._closed:
            raise ClosedError
        if len(self._waiting) >= self._most:
            raise FullError
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(question, rows, future))
        self._wake.set()
        return await future

    async def run(self, function: Callable[[], Done]) -> Done:
        """Call a function in the answering thread, which alone may use the networks."""
        if self._closed:
            raise ClosedError
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    async def close(self) -> None:
        """Answer what waits, and take nothing more."""
        self._closed = True
        self._wake.set()
        if self._task:
            await self._task
        self._thread.shutdown()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while not self._waiting:
                if self._closed:
                    return
                self._wake.clear()
                await self._wake.wait()
            batch = self._take()
            if not batch:
                continue
            self._on_batch(len(batch), sum(each.rows for each in batch))
            answers = await loop.run_in_executor(self._thread, self._answers, [each.question for each in batch])
            for each, found in zip(batch, answers, strict=True):
                if each.answer.done():
                    continue
                if isinstance(found, Exception):
                    each.answer.set_exception(found)
                else:
                    each.answer.set_result(found)

    def _take(self) -> list[_Waiting[Question, Answer]]:
        """The first questions, up to the number of rows, at least one; those whose client has gone are dropped."""
        taken: list[_Waiting[Question, Answer]] = []
        rows = 0
        while self._waiting and (not taken or rows + self._waiting[0].rows <= self._rows):
            each = self._waiting.popleft()
            if not each.answer.done():
                taken.append(each)
                rows += each.rows
        return taken

    def _answers(self, questions: Sequence[Question]) -> Sequence[Answer | Exception]:
        """What fails for one must not fail for the others: then each is answered alone."""
        try:
            return self._answer(questions)
        except Exception as problem:
            if len(questions) == 1:
                return [problem]
            return [answer for question in questions for answer in self._answers([question])]
