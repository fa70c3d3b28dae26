"""How fast is serving? CNN4 with a head for each client, against one model for all and one full model for each client.

    python -m benchmarks.serving --output benchmarks/results/serving.json

In one process: questions of random clients, one input each, 32 at a time, through the queue of the server. Over
loopback: a server of its own process, 32 connections. Then a load test, with bad requests among the good ones.
"""

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from partita.core.task import Task
from partita.errors import PartitaError
from partita.models.cnn4 import cnn4
from partita.prediction.inputs import Inputs
from partita.prediction.model import About, ClientModel
from partita.runs.environment import environment
from partita.serving.questions import Questions
from partita.tensors import Tensors
from partita.web.cache import Cache
from partita.web.catalogue import Catalogue, Question
from partita.web.limits import Limits
from partita.web.queue import Queue
from partita.web.server import address, bind, serve

SHAPE, CLASSES, HIDDEN = (3, 32, 32), 10, 512
CLIENTS = (1, 100, 10_000)
AT_ONCE = 32
BUDGET = 512 << 20
FILES = 200
"""Full models that are on disk; more clients than that read the same files."""
NAMES = tuple(map(str, range(CLASSES)))
INPUTS = Inputs(SHAPE, "bytes", torch.float32)


class Heads:
    """Models of so many clients: one body, and for each a head drawn at random."""

    def __init__(self, count: int) -> None:
        torch.manual_seed(0)
        self.network = Task(cnn4(shape=SHAPE, classes=CLASSES, hidden=HIDDEN)).module.eval()
        self.clients: Sequence[str] = [str(number) for number in range(count)]
        self.inputs = INPUTS

    def personal(self, client: str) -> Tensors:
        draw = torch.Generator().manual_seed(int(client))
        own = {"fc.weight": (CLASSES, HIDDEN), "fc.bias": (CLASSES,)}
        return {name: 0.05 * torch.randn(size, generator=draw) for name, size in own.items()}

    def about(self, client: str) -> About:
        return About(client, int(client), "fedper", "before_local")

    def classes(self, client: str) -> tuple[str, ...]:
        return NAMES

    def model(self, client: str, *, guarded: bool = True) -> ClientModel:
        network = deepcopy(self.network)
        # The network that others are compared with has no client's head, so that every client has one of its own.
        if guarded:
            network.load_state_dict({**self.network.state_dict(), **self.personal(client)})
        return ClientModel(network, self.about(client), INPUTS, NAMES)

    def global_model(self) -> ClientModel:
        return ClientModel(deepcopy(self.network), About(None, -1, "fedavg", "before_local"), INPUTS, NAMES)


@dataclass(frozen=True)
class HeadsEntry:
    """Something to serve that is no folder."""

    count: int
    name: str = "cnn4"

    @property
    def clients(self) -> dict[str, int]:
        return CLIENT_NUMBERS

    def facts(self) -> dict[str, Any]:
        known: dict[str, Any] = {"method": "fedper", "data": "noise", "clients": self.count, "metric": "accuracy"}
        return {**known, "lower_is_better": False, "score": None, "report": False}

    def score(self, client: str) -> float | None:
        return None

    def samples(self, client: str) -> int | None:
        return None

    def client_facts(self, client: str) -> dict[str, Any]:
        return {"samples": None, "counts": None, "labels": None, "scores": {}, "new": False}

    def models(self) -> Heads:
        return Heads(self.count)

    def onboard(self, models: object, client: str, samples: Questions) -> ClientModel:
        raise PartitaError("not here")

    def report(self) -> str | None:
        return None


CLIENT_NUMBERS = {str(number): number for number in range(max(CLIENTS))}


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


Answer = Callable[[Sequence[tuple[int, Tensor]]], Sequence[Any]]


def personal(count: int) -> Answer:
    """What the server does."""
    catalogue = Catalogue([HeadsEntry(count)], BUDGET)
    for client in range(count):
        _ = catalogue.parts["cnn4", str(client)]
    return lambda asked: catalogue.answer([Question("cnn4", str(client), inputs) for client, inputs in asked])


def one_for_all() -> Answer:
    network = Heads(1).global_model().network

    def answer(asked: Sequence[tuple[int, Tensor]]) -> Sequence[Any]:
        with torch.no_grad():
            return list(network(torch.cat([inputs for _, inputs in asked])).split(1))

    return answer


def full_models(count: int, folder: Path) -> Answer:
    """A module for each client, in the same memory; what does not fit is read from its file."""
    heads = Heads(count)
    for number in range(min(count, FILES)):
        if not (folder / f"{number}.safetensors").exists():
            save_file(dict(heads.model(str(number)).network.state_dict()), folder / f"{number}.safetensors")

    def load(client: int) -> nn.Module:
        network = deepcopy(heads.network)
        network.load_state_dict(load_file(folder / f"{client % FILES}.safetensors"))
        return network.eval()

    models: Cache[int, nn.Module] = Cache(load, lambda each: sum(p.nbytes for p in each.parameters()), BUDGET)

    def answer(asked: Sequence[tuple[int, Tensor]]) -> Sequence[Any]:
        with torch.no_grad():
            return [models[client](inputs) for client, inputs in asked]

    return answer


async def in_process(answer: Answer, count: int, seconds: float, seed: int) -> Speed:
    """So many at once, each asks as soon as it is answered."""
    draw = random.Random(seed)
    inputs = INPUTS.example(1)
    queue: Queue[tuple[int, Tensor], Any] = Queue(answer, rows=64, waiting=1000)
    await queue.start()

    async def once() -> None:
        await queue.ask((draw.randrange(count), inputs), 1)

    found = await _repeat(lambda: once, seconds)
    await queue.close()
    return found


async def _repeat(make: Callable[[], Callable[[], Awaitable[None]]], seconds: float) -> Speed:
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


class Connection:
    """One connection that stays open; requests are bytes that were made before."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, body: bytes) -> int:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
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


async def over_loopback(port: int, count: int, model: str, seconds: float, seed: int) -> Speed:
    draw = random.Random(seed)
    pixels = picture(seed)
    bodies = [body_of(str(draw.randrange(count)), pixels, model=model) for _ in range(256)]

    def client() -> Callable[[], Awaitable[None]]:
        connection = Connection(port)

        async def once() -> None:
            status = await connection.ask(draw.choice(bodies))
            assert status == 200, status

        return once

    return await _repeat(client, seconds)


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


def measured(seconds: float, repeat: int, endurance: float) -> dict[str, Any]:
    torch.set_num_threads(1)
    process: list[dict[str, Any]] = []
    loopback: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for count in CLIENTS:
            contenders = {
                "personal heads": personal(count),
                "one model for all": one_for_all(),
                "a full model each": full_models(count, Path(scratch)),
            }
            process.append(
                _compared(count, repeat, {n: partial(in_process, each) for n, each in contenders.items()}, seconds)
            )
            print(json.dumps(process[-1]), flush=True)
            del contenders
    for count in CLIENTS:
        server, port = start_server(count)
        try:
            asyncio.run(touch_all(port, count))
            asked = {
                name: (lambda model: lambda clients, seconds, seed: over_loopback(port, clients, model, seconds, seed))(
                    model
                )
                for name, model in (("personal heads", "personal"), ("one model for all", "global"))
            }
            found = _compared(count, repeat, asked, seconds) | {"megabytes": resident(server.pid)}
            if count == max(CLIENTS):
                found["load test"] = asyncio.run(load_test(port, server.pid, count, endurance))
            loopback.append(found)
            print(json.dumps(found), flush=True)
        finally:
            server.terminate()
            server.wait(60)
    return {"in one process": process, "over loopback": loopback}


Contender = Callable[[int, float, int], Any]


def _compared(count: int, repeat: int, contenders: dict[str, Contender], seconds: float) -> dict[str, Any]:
    """Every contender in turn, several times; ratios are those of neighbours in time."""
    values: dict[str, list[Speed]] = {name: [] for name in contenders}
    for seed in range(repeat):
        for name, contender in contenders.items():
            values[name].append(asyncio.run(contender(count, seconds, seed)))
    ours = values["personal heads"]
    return {
        "clients": count,
        "contenders": {
            name: {
                "per_second": statistics.median(each.per_second for each in found),
                "p50_ms": statistics.median(each.p50_ms for each in found),
                "p99_ms": statistics.median(each.p99_ms for each in found),
                "all_per_second": [each.per_second for each in found],
            }
            for name, found in values.items()
        },
        "ratios": {
            name: statistics.median(o.per_second / t.per_second for o, t in zip(ours, found, strict=True))
            for name, found in values.items()
            if found is not ours
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--endurance", type=float, default=60.0, help="seconds of the load test")
    parser.add_argument("--note", default="", help="what else the machine did")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve_heads(given.serve)
        return
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    found = {
        "command": f"python -m benchmarks.serving --seconds {given.seconds:g} --repeat {given.repeat} --endurance {given.endurance:g}",
        "commit": commit,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "note": given.note,
        "environment": environment(),
        **measured(given.seconds, given.repeat, given.endurance),
    }
    if given.output:
        given.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
