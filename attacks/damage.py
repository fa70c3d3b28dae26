"""Is damage of a run's database noticed? Each is noticed, or harmless."""

import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from partita.errors import PartitaError
from partita.runs.database import DATABASE
from partita.runs.stored import read_run

from .tally import Tally
from .victim import begin_or_go_on, digest, stop_after, verified

SECTOR, PAGE = 512, 4096


def _over(content: bytes, start: int, new: bytes) -> bytes:
    return content[:start] + new + content[start + len(new) :]


def _zeroed_sector(content: bytes, draw: random.Random) -> bytes:
    return _over(content, SECTOR * draw.randrange(len(content) // SECTOR), bytes(SECTOR))


def _random_sector(content: bytes, draw: random.Random) -> bytes:
    return _over(content, SECTOR * draw.randrange(len(content) // SECTOR), draw.randbytes(SECTOR))


def _zeroed_page(content: bytes, draw: random.Random) -> bytes:
    return _over(content, PAGE * draw.randrange(len(content) // PAGE), bytes(PAGE))


def _page_of_elsewhere(content: bytes, draw: random.Random) -> bytes:
    to, source = (PAGE * draw.randrange(len(content) // PAGE) for _ in range(2))
    return _over(content, to, content[source : source + PAGE])


def _flipped_bit(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content))
    return _over(content, at, bytes([content[at] ^ 1 << draw.randrange(8)]))


def _cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content))]


KINDS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "a sector zeroed": _zeroed_sector,
    "a sector of random bytes": _random_sector,
    "a page zeroed": _zeroed_page,
    "a page of elsewhere": _page_of_elsewhere,
    "a bit flipped": _flipped_bit,
    "cut off": _cut,
}


def damage(place: Path, trials: int, seed: int) -> Tally:
    """A run that was stopped half-way is damaged, verified, shown and resumed."""
    method = "fedper"
    begin_or_go_on(place / "whole", method)
    with suppress(KeyboardInterrupt):
        begin_or_go_on(place / "stopped", method, stop_after(2))
    expected = digest(place / "whole")
    tally, draw = Tally(), random.Random(seed)
    for trial in range(trials):
        kind = list(KINDS)[trial % len(KINDS)]
        folder = Path(shutil.copytree(place / "stopped", place / "damaged"))
        file = folder / DATABASE
        content = file.read_bytes()
        changed = KINDS[kind](content, draw)
        file.write_bytes(changed)
        try:
            tally.held[f"{kind}: {_outcome(folder, method, expected)}"] += 1
        except Exception as problem:
            tally.broken.append(f"{kind}, trial {trial}: {problem!r}")
        shutil.rmtree(folder)
    return tally


def _outcome(folder: Path, method: str, expected: str) -> str:
    noticed = False
    try:
        verified(folder)
    except PartitaError:
        noticed = True
    try:
        read_run(folder).as_dict()
    except PartitaError:
        noticed = True
    try:
        begin_or_go_on(folder, method)
    except PartitaError:
        return "noticed"
    if digest(folder) != expected:
        raise AssertionError("resumed to other numbers" + (", though verifying notices it" if noticed else ""))
    return "noticed by verify, harmless to resume" if noticed else "harmless"
