"""How are models written? Into a folder that appears as a whole, with shared tensors once."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..data.distribution import label_counts
from ..errors import PartitaError
from ..evaluation.analyses.guard import shares_everything
from ..evaluation.prediction.clients import about_client, answering, classes_of, common_answering
from ..evaluation.prediction.model import Answering, class_names
from ..evaluation.variants import Variant
from ..tensors import Tensors, only, prefixed
from .artefact import GLOBAL, GUARD, SHARED, VOCABULARY, Artefact
from .card import card_of, card_text
from .card_files import CARD, PREPARATION
from .facts import client_scores
from .files import FileNames, new_folder
from .graphs import Format, write_graphs
from .loaded import LoadedRun
from .tensor_files import hash_of, write_tensors


@dataclass(frozen=True, eq=False)
class Exported:
    """One client's model, and what the card says of it."""

    name: str
    number: int
    own: Answering
    weight: float | None
    common: Answering | None
    """The global network as this client has it, where the guard chose it or mixes it in."""
    facts: Mapping[str, Any]
    classes: Sequence[str]
    about: Mapping[str, Any]
    """Further facts for the card: scores, and label counts on request."""


def export_models(
    run: LoadedRun,
    folder: Path,
    *,
    clients: Sequence[int | str] | None = None,
    which: Variant | None = None,
    formats: Sequence[Format] = (),
    merged: bool = False,
    licence: str | None = None,
    label_counts: bool = False,
    force: bool = False,
) -> Path:
    """Write the models of some clients of a run, by default of all.

    A tensor that equals the server's stands in `shared.safetensors`; each client's file holds the others. `merged` also
    writes each client's whole network, `formats` graphs of other tools. With `label_counts`, the card states how many
    training samples of each label a client has. The folder must not be there, unless `force`, and appears when all is
    written.
    """
    data = run.experiment.data
    if label_counts and data.kind != "classification":
        raise PartitaError(f"{run.folder} has no labels to count: it is a {data.kind.replace('_', '-')} run.")
    numbers = [data.client(each) for each in clients] if clients is not None else list(range(len(data)))
    if not numbers:
        raise PartitaError("There are no clients to export. Name at least one.")
    scores = client_scores(run.stored, which)
    models = (_exported(run, number, which, scores(number), label_counts) for number in dict.fromkeys(numbers))
    write_models(run, folder, models, which, formats=formats, merged=merged, licence=licence, force=force)
    return folder


def _exported(run: LoadedRun, number: int, which: Variant | None, scores: Mapping[str, Any], counted: bool) -> Exported:
    models, data = run.population[number], run.experiment.data
    chosen = run.chosen(number) if which is None else None
    about = about_client(models, data, which, chosen)
    counts = {"label_counts": label_counts(data, ("train",), [number])[0].tolist()} if counted else {}
    return Exported(
        data.name_of(number),
        number,
        answering(models, which),
        about.weight,
        common_answering(chosen.common) if chosen and about.guarded else None,
        run.facts(number),
        classes_of(data, number, run.inputs),
        {**scores, **counts},
    )


def write_models(
    run: LoadedRun,
    folder: Path,
    models: Iterable[Exported],
    which: Variant | None = None,
    *,
    formats: Sequence[Format] = (),
    merged: bool = False,
    licence: str | None = None,
    force: bool = False,
) -> None:
    """Write models that belong to a run into a new folder."""
    with new_folder(folder, force) as place:
        card = _write(run, place, models, which, merged, licence)
        wanted = [form for form in dict.fromkeys(formats) if form != "safetensors"]
        if wanted:
            algorithm = run.population.algorithm
            made = Artefact(place, card, run.experiment.model, algorithm if algorithm.predict else None)
            graphs = {form: write_graphs(made, form) for form in wanted}
            _finish(place, {**card, "graphs": graphs})


def _write(
    run: LoadedRun,
    place: Path,
    models: Iterable[Exported],
    which: Variant | None,
    merged: bool,
    licence: str | None,
) -> dict[str, Any]:
    for name in ("clients", *(("merged",) if merged else ())):
        (place / name).mkdir()
    common = common_weights(run)
    first, told = run.facts(0), list(class_names(run.class_names, 0, None, run.inputs))
    entries: dict[str, dict[str, Any]] = {}
    file_name = FileNames()
    personal: dict[str, None] = {}
    shared: dict[str, None] = {}
    order: list[str] = []
    for model in models:
        named = f"{file_name(model.name)}.safetensors"
        own = _different(model.own.tensors, run.shared)
        personal |= dict.fromkeys(own)
        shared |= dict.fromkeys(name for name in model.own.tensors if name not in own)
        order = order or list(model.own.tensors)
        guard = _different(model.common.tensors, common or {}) if model.common is not None else {}
        held = own | prefixed(GUARD, guard)
        file = f"clients/{named}" if held else None
        if file:
            write_tensors(place / file, held)
        if merged:
            write_tensors(place / "merged" / named, model.own.tensors)
        entries[model.name] = {
            "number": model.number,
            "file": file,
            "weight": model.weight,
            **({} if model.facts == first else {"facts": dict(model.facts)}),
            **({} if list(model.classes) == told else {"classes": list(model.classes)}),
            **model.about,
        }
    write_tensors(place / SHARED, only(run.shared, shared))
    if common is not None:
        write_tensors(place / GLOBAL, common)
    _write_inputs(run, place)
    return _finish(place, card_of(run, which, entries, list(personal), order, licence))


def _finish(place: Path, card: Mapping[str, Any]) -> dict[str, Any]:
    """Write the card, with the hashes of all other files, as JSON and as text."""
    paths = sorted(path for path in place.rglob("*") if path.is_file())
    names = {path.relative_to(place).as_posix(): path for path in paths}
    hashes = {
        name: {"sha256": hash_of(path), "bytes": path.stat().st_size}
        for name, path in names.items()
        if name not in (CARD, "README.md")
    }
    whole = {**card, "files": hashes}
    (place / CARD).write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    (place / "README.md").write_text(card_text(whole), encoding="utf-8", errors="replace")
    return whole


def common_weights(run: LoadedRun) -> Tensors | None:
    """The weights of the global model, where there is one."""
    population = run.common
    return common_answering(population[0]).tensors if shares_everything(population) else None


def _different(tensors: Tensors, others: Tensors) -> Tensors:
    """The tensors that are not those of the same name, to the bit."""
    return {name: tensor for name, tensor in tensors.items() if name not in others or not _same(tensor, others[name])}


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one.cpu(), other.cpu())


def _write_inputs(run: LoadedRun, place: Path) -> None:
    preparation, words = run.inputs.preparation, run.inputs.words
    if preparation.mean is not None and preparation.std is not None:
        write_tensors(place / PREPARATION, {"mean": preparation.mean, "std": preparation.std})
    if words is not None:
        (place / VOCABULARY).write_text(json.dumps(list(words.vocabulary)), encoding="utf-8")
