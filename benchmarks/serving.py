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
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from benchmarks.heads import BUDGET, CLIENTS, INPUTS, Heads, HeadsEntry
from benchmarks.loopback import load_test, over_loopback, resident, serve_heads, start_server, touch_all
from benchmarks.speed import Speed, repeated
from partita.runs.environment import environment
from partita.web.cache import Cache
from partita.web.catalogue import Catalogue, Question
from partita.web.queue import Queue

FILES = 200
"""Full models that are on disk; more clients than that read the same files."""

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
            state = heads.model(str(number)).network.state_dict()
            save_file({name: tensor.contiguous() for name, tensor in state.items()}, folder / f"{number}.safetensors")

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

    found = await repeated(lambda: once, seconds)
    await queue.close()
    return found


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
                name: partial(over_loopback, port, model)
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


def _compared(count: int, repeat: int, contenders: Mapping[str, Contender], seconds: float) -> dict[str, Any]:
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
        "command": f"python -m benchmarks.serving --seconds {given.seconds:g} --repeat {given.repeat} "
        f"--endurance {given.endurance:g}",
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
