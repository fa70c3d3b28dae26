"""How does a server hold up over loopback? A process of its own, asked over many connections, well and badly."""

import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.heads import BUDGET, SHAPE, HeadsEntry
from benchmarks.speed import AT_ONCE, Speed, repeated
from partita.web.catalogue import Catalogue
from partita.web.limits import Limits
from partita.web.server import address, bind, serve

HEAD = "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


class Connection:
    """One connection that stays open; requests are bytes that were made before."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, body: bytes) -> int:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = f"{HEAD}Content-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        told = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(told.partition("content-length: ")[2].partition("\r\n")[0])
        await reader.readexactly(length)
        if "connection: close" in told:
            writer.close()
            self._streams = None
        return int(told.split(" ", 2)[1])


def body_of(client: str, pixels: Sequence[Any], **changes: Any) -> bytes:
    return json.dumps({"client": client, "inputs": [pixels], **changes}, separators=(",", ":")).encode()


def picture(seed: int) -> Any:
    return torch.randint(256, SHAPE, generator=torch.Generator().manual_seed(seed)).tolist()


async def over_loopback(port: int, model: str, count: int, seconds: float, seed: int) -> Speed:
    draw = random.Random(seed)
    pixels = picture(seed)
    bodies = [body_of(str(draw.randrange(count)), pixels, model=model) for _ in range(256)]

    def client() -> Callable[[], Awaitable[None]]:
        connection = Connection(port)

        async def once() -> None:
            status = await connection.ask(draw.choice(bodies))
            assert status == 200, status

        return once

    return await repeated(client, seconds)


BAD: dict[str, tuple[bytes, int]] = {
    "unknown client": (body_of("nobody", picture(0)), 404),
    "wrong shape": (body_of("1", [1, 2, 3]), 422),
    "not a number": (body_of("1", [[[float("nan")] * 32] * 32] * 3), 422),
    "a byte too large": (body_of("1", [[[256] * 32] * 32] * 3), 422),
    "half a body": (b'{"client": "1", "inputs": [[', 422),
    "too large": (b" " * (9 << 20), 413),
}


async def load_test(port: int, pid: int, count: int, seconds: float) -> dict[str, Any]:
    """Good and bad requests of all clients; every status that was not deserved, and the memory over time."""
    draw = random.Random(7)
    pixels = picture(7)
    statuses: Counter[int] = Counter()
    undeserved: Counter[str] = Counter()
    memory: list[float] = []
    began = time.perf_counter()

    async def one() -> None:
        connection = Connection(port)
        while time.perf_counter() - began < seconds:
            kind = draw.choice([*BAD, *["good"] * 14])
            body, wanted = BAD.get(kind) or (body_of(str(draw.randrange(count)), pixels), 200)
            if kind == "too large" and draw.random() > 0.02:
                continue
            status = await connection.ask(body)
            statuses[status] += 1
            if status != wanted:
                undeserved[f"{kind}: {status}"] += 1

    async def watch() -> None:
        while time.perf_counter() - began < seconds:
            memory.append(resident(pid))
            await asyncio.sleep(seconds / 12)

    await asyncio.gather(watch(), *(one() for _ in range(AT_ONCE)))
    return {
        "seconds": seconds,
        "statuses": {str(status): number for status, number in sorted(statuses.items())},
        "undeserved": dict(undeserved),
        "megabytes": memory,
    }


def resident(pid: int) -> float:
    """Megabytes of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def start_server(count: int) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-m", "benchmarks.serving", "--serve", str(count)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    return process, int(process.stdout.readline())


def serve_heads(count: int) -> None:
    torch.set_num_threads(1)
    catalogue = Catalogue([HeadsEntry(count)], BUDGET)
    bound = bind("127.0.0.1", 0)
    port = int(address(bound).rpartition(":")[2].strip("/"))
    serve(catalogue, bound, Limits(rate=0, waiting=4096), None, lambda: print(port, flush=True))


async def touch_all(port: int, count: int) -> None:
    """Every client asks once, so that all personal parts are in memory."""
    pixels, left = picture(0), list(range(count))

    async def one() -> None:
        connection = Connection(port)
        while left:
            assert await connection.ask(body_of(str(left.pop()), pixels)) == 200

    await asyncio.gather(*(one() for _ in range(AT_ONCE)))
