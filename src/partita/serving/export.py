"""How are a run's models written? Into a folder that appears as a whole, shared tensors once."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch
from torch import Tensor

from ..errors import PartitaError
from ..evaluation.analyses.guard import shares_everything
from ..evaluation.variants import Variant
from ..prediction.clients import about_client, answering, classes_of, common_answering
from ..prediction.model import Answering
from ..tensors import Tensors, only, prefixed
from .artefact import GLOBAL, GUARD, PREPARATION, SHARED, VOCABULARY
from .card import card_of, card_text
from .loaded import CARD, LoadedRun
from .tensor_files import hash_of, write_tensors

MOST_CHARACTERS = 120
"""Of the name of a client's file; a longer one is cut, and ends in a hash."""


def export_models(
    run: LoadedRun,
    folder: Path,
    *,
    clients: Sequence[int | str] | None = None,
    which: Variant | None = None,
    merged: bool = False,
    licence: str | None = None,
    force: bool = False,
    on_client: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Write the models of some clients, by default of all.

    A tensor that equals the server's stands in `shared.safetensors`; each client's file holds the others. `merged` also
    writes each client's whole network. The folder must not be there, unless `force`; it appears when all is written.
    """
    data = run.experiment.data
    numbers = [data.client(each) for each in clients] if clients is not None else list(range(len(data)))
    if not numbers:
        raise PartitaError("There are no clients to export.")
    with new_folder(folder, force) as place:
        write_models(run, place, list(dict.fromkeys(numbers)), which, merged, licence, on_client)
    return folder


def write_models(
    run: LoadedRun,
    place: Path,
    numbers: Sequence[int],
    which: Variant | None,
    merged: bool,
    licence: str | None,
    on_client: Callable[[int, int], None],
) -> None:
    """Write all files of an export into a folder that is there."""
    data = run.experiment.data
    (place / "clients").mkdir()
    files = file_names([data.name_of(number) for number in numbers])
    common = _common(run)
    entries: dict[str, dict[str, Any]] = {}
    personal: dict[str, None] = {}
    shared: dict[str, None] = {}
    order: list[str] = []
    for done, number in enumerate(numbers, 1):
        models = run.population[number]
        own = answering(models, which)
        chosen = run.chosen(number) if which is None else None
        about = about_client(models, data, which, chosen)
        different = _different(own.tensors, run.shared)
        personal |= dict.fromkeys(different)
        shared |= dict.fromkeys(name for name in own.tensors if name not in different)
        order = order or list(own.tensors)
        guard: Tensors = {}
        if chosen and about.guarded and common is not None:
            guard = prefixed(GUARD, _different(common_answering(chosen.common).tensors, common))
        name = data.name_of(number)
        file = f"clients/{files[name]}.safetensors"
        if different or guard:
            write_tensors(place / file, different | guard)
        if merged:
            _write_merged(place, files[name], own)
        entries[name] = {
            "number": number,
            "file": file if different or guard else None,
            "weight": about.weight,
            **_facts(run, number),
            **({"classes": list(classes_of(data, number, run.inputs))} if data.label_sets else {}),
        }
        on_client(done, len(numbers))
    write_tensors(place / SHARED, only(run.shared, shared))
    if common is not None:
        write_tensors(place / GLOBAL, common)
    _write_inputs(run, place)
    card = card_of(run, which, entries, list(personal), order, licence)
    finish(place, card)


def finish(place: Path, card: Mapping[str, Any]) -> None:
    """Write the card, with the hashes of all other files, as JSON and as text."""
    paths = sorted(path for path in place.rglob("*") if path.is_file() and path.name not in (CARD, "README.md"))
    hashes = {
        path.relative_to(place).as_posix(): {"sha256": hash_of(path), "bytes": path.stat().st_size} for path in paths
    }
    whole = {**card, "files": hashes}
    (place / CARD).write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (place / "README.md").write_text(card_text(whole), encoding="utf-8")


@contextmanager
def new_folder(folder: Path, force: bool) -> Iterator[Path]:
    """A folder to write into, which gets its name at the end; until then, whatever has that name stays."""
    if os.path.lexists(folder) and not force and not (folder.is_dir() and not any(folder.iterdir())):
        raise PartitaError(f"{folder} is there already. Choose another folder, or replace it with --force.")
    if (
        force
        and os.path.lexists(folder)
        and not (folder / CARD).is_file()
        and (not folder.is_dir() or any(folder.iterdir()))
    ):
        raise PartitaError(f"{folder} does not hold exported models, and is not replaced. Choose another folder.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as problem:
        raise PartitaError(f"Cannot write to {folder.parent}: {problem.strerror}.") from problem
    old = place.with_name(place.name + "-old")
    try:
        yield place
        place.chmod(0o777 & ~_umask())
        if os.path.lexists(folder):
            folder.rename(old)
        place.rename(folder)
    except OSError as problem:
        raise PartitaError(f"Cannot write {folder}: {problem.strerror or problem}.") from problem
    finally:
        if old.exists() and not folder.exists():
            old.rename(folder)
        for left in (place, old):
            shutil.rmtree(left, ignore_errors=True)


def file_names(clients: Sequence[str]) -> dict[str, str]:
    """A name for each client's file, without an ending, that every file system takes and keeps apart."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for client in clients:
        content = client.encode("utf-8", "surrogatepass")
        name = quote(content, safe=" ")
        if len(name) > MOST_CHARACTERS or name.casefold() in taken or name.startswith(".") or name != name.strip():
            name = f"{name[:MOST_CHARACTERS].strip(' .')}-{sha256(content).hexdigest()[:16]}"
        taken.add(name.casefold())
        found[client] = name
    return found


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _common(run: LoadedRun) -> Tensors | None:
    """The weights of the global model, where there is one."""
    population = run.common
    if not shares_everything(population):
        return None
    return common_answering(population[0]).tensors


def _different(tensors: Tensors, others: Tensors) -> Tensors:
    """The tensors that are not those of the same name, to the bit."""
    return {name: tensor for name, tensor in tensors.items() if name not in others or not _same(tensor, others[name])}


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one.cpu(), other.cpu())


def _facts(run: LoadedRun, number: int) -> dict[str, Any]:
    """What the network of a client is made of, where it is not what the first client's is made of."""
    own, first = run.facts(number), run.facts(0)
    return {} if own == first else {"facts": own}


def _write_merged(place: Path, name: str, own: Answering) -> None:
    (place / "merged").mkdir(exist_ok=True)
    write_tensors(place / "merged" / f"{name}.safetensors", own.tensors)


def _write_inputs(run: LoadedRun, place: Path) -> None:
    preparation, words = run.inputs.preparation, run.inputs.words
    if preparation.mean is not None and preparation.std is not None:
        write_tensors(place / PREPARATION, {"mean": preparation.mean, "std": preparation.std})
    if words is not None:
        (place / VOCABULARY).write_text(json.dumps(list(words.vocabulary)), encoding="utf-8")
