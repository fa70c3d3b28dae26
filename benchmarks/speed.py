"""How many requests a second, and how long does each take? Of many askers at once."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

AT_ONCE = 32
"""Askers; each asks again as soon as it is answered."""


@dataclass(frozen=True)
class Speed:
    """Of one contender."""

    per_second: float
    p50_ms: float
    p99_ms: float


def speed(seconds: Sequence[float], took: float) -> Speed:
    ordered = sorted(seconds)
    return Speed(
        len(ordered) / took,
        1000 * statistics.median(ordered),
        1000 * ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
    )


async def repeated(make: Callable[[], Callable[[], Awaitable[None]]], seconds: float) -> Speed:
    took: list[float] = []
    began = time.perf_counter()

    async def one() -> None:
        deed = make()
        while time.perf_counter() - began < seconds:
            start = time.perf_counter()
            await deed()
            took.append(time.perf_counter() - start)

    await asyncio.gather(*(one() for _ in range(AT_ONCE)))
    return speed(took, time.perf_counter() - began)
