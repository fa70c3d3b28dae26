"""Does a file of somebody else run code, crash or fill the memory? It is read as plain values, or refused."""

import gzip
import io
import os
import pickle
import random
import resource
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from partita.data.arrays import load_npz
from partita.data.sources._files import read_bytes
from partita.data.sources._pickles import load_pickled_npz, unpickle
from partita.errors import PartitaError

from .mutation import damaged
from .tally import Tally
from .victim import code_of, forked

MEMORY = 8 << 30
REFUSED, READ = 0, 3
WITH_BOMBS = 100
"""Fewer trials make no bombs: it takes some seconds to write them."""
POINTER = b"C\x08" + (0x41414141).to_bytes(8, "little")
OBJECT_TYPE = b"cnumpy\ndtype\n(S'O8'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI63\ntb"


def files(place: Path, trials: int, seed: int) -> Tally:
    """Pickles that call something, forge arrays or are damaged, and bombs; each in a process with little memory."""
    tally, draw = Tally(), random.Random(seed)
    trace = place / "trace"
    fixed = [*_programs(trace), *(_bombs(place) if trials >= WITH_BOMBS else ())]
    valid = pickle.dumps({"x": np.arange(40.0).reshape(8, 5), "y": [1, "text", b"bytes", None], "z": np.array(["a"])})
    for at in range(max(trials, len(fixed))):
        kind, read, must = fixed[at] if at < len(fixed) else _damaged(valid, draw)
        code = code_of(forked(_tried(read)))
        if trace.exists():
            tally.broken.append(f"{kind}: code was run")
            trace.unlink()
        elif code not in (REFUSED, READ) or (must and code != REFUSED):
            tally.broken.append(f"{kind}: " + (f"signal {-code}" if code < 0 else f"code {code}"))
        else:
            tally.held[f"{kind.partition(':')[0]}: {'refused' if code == REFUSED else 'plain values'}"] += 1
    return tally


Hostile = tuple[str, Callable[[], object], bool]
"""What it is, how it is read, and whether it must be refused."""


def _tried(read: Callable[[], object]) -> Callable[[], None]:
    def work() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            repr(read())
        except PartitaError:
            os._exit(REFUSED)
        os._exit(READ)

    return work


def _programs(trace: Path) -> Iterator[Hostile]:
    command = f"touch {trace}".encode()
    programs = {
        "reduce": b"cos\nsystem\n(S'" + command + b"'\ntR.",
        "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93(S'" + command + b"'\ntR.",
        "inst": b"(S'" + command + b"'\nios\nsystem\n.",
        "obj": b"(cos\nsystem\nS'" + command + b"'\no.",
        "new object": b"\x80\x02cos\nsystem\n(S'" + command + b"'\nt\x81.",
        "builtins": b'cbuiltins\neval\n(S\'__import__("os").system("' + command + b"\")'\ntR.",
        "attribute of numpy": b"cnumpy\nf2py.subprocess.getoutput\n(S'" + command + b"'\ntR.",
        "persistent": b"Pos.system\n.",
        "extension": b"\x80\x02\x82\x01.",
        "array of pointers": b"cnumpy\nndarray\n((tS'O'\n" + POINTER + b"tR.",
        "new array of pointers": b"\x80\x02cnumpy\nndarray\n((tS'O'\n" + POINTER + b"t\x81.",
        "scalar of a pointer": b"cnumpy.core.multiarray\nscalar\n(" + OBJECT_TYPE + POINTER + b"tR.",
        "buffer of pointers": b"cnumpy.core.numeric\n_frombuffer\n(" + POINTER + OBJECT_TYPE + b"(I1\ntS'C'\ntR.",
        "forged type": b"cnumpy\ndtype\n(S'V8'\nI0\nI1\ntR(I3\nS'|'\nN(S'a'\nt}I8\nI1\nI63\ntb.",
    }
    for name, program in programs.items():
        yield f"program in a pickle: {name}", lambda program=program: unpickle(program, "a file"), True  # type: ignore[misc]


def _bombs(place: Path) -> Iterator[Hostile]:
    zeros = bytes(1 << 20)
    packed = io.BytesIO()
    with gzip.open(packed, "wb", compresslevel=9) as stream:
        for _ in range(3 << 10):
            stream.write(zeros)
    (place / "bomb.gz").write_bytes(packed.getvalue())
    yield "bomb: gzip of 3 GB", lambda: len(read_bytes(place / "bomb.gz")), True
    bomb = zipfile.ZipFile(place / "bomb.npz", "w", zipfile.ZIP_DEFLATED)
    with bomb as archive, archive.open("data.npy", "w", force_zip64=True) as file:
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": (3 << 30,)})
        file.write(head.getvalue())
        for _ in range(3 << 10):
            file.write(zeros)
    yield "bomb: zip of 3 GB as arrays", lambda: len(load_npz(place / "bomb.npz")), True
    yield "bomb: zip of 3 GB as a pickle", lambda: load_pickled_npz(place / "bomb.npz", "data"), True


def _damaged(valid: bytes, draw: random.Random) -> Hostile:
    content = damaged(valid, draw)
    return "damaged pickle", lambda: unpickle(content, "a file"), False
