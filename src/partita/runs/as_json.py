"""How is a run written as JSON? Round by round and record by record, so that a long run takes no more memory."""

import json
from collections.abc import Iterable, Mapping
from typing import IO

from .stored import StoredRun


def write_json(
    run: StoredRun, file: IO[str], more: Mapping[str, object] | None = None, *, oracle: bool = False
) -> None:
    """Write what `run.as_dict()` holds, and more."""
    facts = json.dumps({**run.facts(oracle=oracle), **(more or {})})
    file.write(f'{facts[:-1]}, "scores": {{')
    _write_all(file, (f"{json.dumps(at)}: {json.dumps(scores)}" for at, scores in run.scores_by_round()))
    file.write('}, "records": [')
    _write_all(file, map(json.dumps, run.named_records()))
    file.write("]}")


def write_json_list(runs: Iterable[StoredRun], file: IO[str]) -> None:
    file.write("[")
    for number, run in enumerate(runs):
        file.write(", " if number else "")
        write_json(run, file)
    file.write("]")


def _write_all(file: IO[str], texts: Iterable[str]) -> None:
    for number, text in enumerate(texts):
        file.write(f", {text}" if number else text)
