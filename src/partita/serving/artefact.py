"""What is an exported folder? Shared tensors once, each client's own in a small file, and a card."""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..core.algorithm import Algorithm
from ..core.samples import Preparation
from ..core.task import Task
from ..errors import PartitaError, in_one_line, unknown
from ..evaluation.prediction.clients import assemble
from ..evaluation.prediction.inputs import Inputs
from ..evaluation.prediction.model import About, Answering, ClientModel, class_names
from ..experiment.settings.flat import PYTHON
from ..experiment.settings.settings import convert, named
from ..experiment.tasks import Factory
from ..formatting import amount
from ..parsing import parse_json
from ..randomness import Moment
from ..registry import Trusted
from ..tensors import Tensors, under
from .card_files import CARD, PREPARATION, read_card
from .separation import Separation, separate
from .tensor_files import hash_of, read_tensors

SHARED, GLOBAL, VOCABULARY = "shared.safetensors", "global.safetensors", "vocabulary.json"
GUARD = "guard/"
"""The prefix of tensors in which a client's global network differs from that of others."""


class Artefact:
    """Models in a folder, read without the run, the data, or anything that could run code.

    A client's tensors are `shared | personal(client)`. For many clients in one process there are two ways, beside a
    module for each (`model`): where the personal part is a linear head at the end of the network, `separation` gives
    the body with the shared weights and the names of the head's tensors, so that inputs of different clients go
    through the body in one batch and each row through its own head; elsewhere, and for any client whose personal part
    holds more, `outputs(client, inputs)` puts a client's tensors into one network that all clients share.
    """

    def __init__(
        self, folder: Path, card: Mapping[str, Any], network: Factory | nn.Module, algorithm: Algorithm | None
    ) -> None:
        self.folder, self.card = folder, card
        self._network, self._algorithm = network, algorithm
        self._tasks: dict[str, Task] = {}

    @property
    def clients(self) -> Sequence[str]:
        """The names of the clients whose models are here."""
        return list(self.card["clients"])

    def client(self, name: str | int) -> str:
        """The name of a client, given its name (a text) or its number in the run."""
        known: Mapping[str, Any] = self.card["clients"]
        if isinstance(name, str):
            if name not in known:
                raise PartitaError(f"{self.folder}: {unknown('client', name, known)}")
            return name
        for found, entry in known.items():
            if entry["number"] == name:
                return found
        numbers = [entry["number"] for entry in known.values()]
        raise PartitaError(
            f"{self.folder} has no client with the number {name}: the numbers of its {amount(len(numbers), 'client')} "
            f"are from {min(numbers)} to {max(numbers)}."
        )

    def entry(self, client: str | int) -> Mapping[str, Any]:
        """What the card says of a client."""
        found: Mapping[str, Any] = self.card["clients"][self.client(client)]
        return found

    def weight(self, client: str | int) -> float | None:
        """The weight of the personal model that the guard chose; None if the run was not guarded."""
        weight: float | None = self.entry(client)["weight"]
        return weight

    @property
    def class_names(self) -> Sequence[str]:
        """The names of all classes of the data, also where a client knows only some of them."""
        names: Sequence[str] = self.card["classes"]
        return names

    @cached_property
    def inputs(self) -> Inputs:
        """The signature and the preparation of inputs, the same for all clients."""
        files = self.card["files"]
        found = self._tensors(PREPARATION) if PREPARATION in files else {}
        words = parse_json(self._file(VOCABULARY).read_text(encoding="utf-8")) if VOCABULARY in files else ()
        preparation = Preparation(found.get("mean"), found.get("std"))
        return Inputs.read(self.card["inputs"], self.card["kind"], preparation, words)

    @cached_property
    def shared(self) -> Tensors:
        """The tensors that are the same for several clients."""
        return self._tensors(SHARED)

    def personal(self, client: str | int) -> Tensors:
        """The tensors in which a client's model differs from the shared ones."""
        return {name: tensor for name, tensor in self._own(client).items() if not name.startswith(GUARD)}

    @cached_property
    def personal_names(self) -> frozenset[str]:
        """The tensors that are personal for at least one client."""
        return frozenset(self.card["personal"])

    def model(self, client: str | int, *, guarded: bool = True) -> ClientModel:
        """A client's model as a module of its own, in evaluation mode; by default what the guard chose."""
        about = self._about(client, guarded)
        common = self._global_answering(client) if about.guarded else None
        return assemble(self._answering(client), about, self.inputs, self.classes(client), common)

    def about(self, client: str | int) -> About:
        """What the model of a client is."""
        return self._about(client, True)

    def global_model(self) -> ClientModel:
        """The model that is the same for all."""
        first = self.clients[0]
        about = About(None, -1, self.card["method"]["label"], "before_local", moment=self._moment)
        return assemble(self._global_answering(None), about, self.inputs, self.classes(first))

    @property
    def has_global(self) -> bool:
        return GLOBAL in self.card["files"]

    def classes(self, client: str | int) -> tuple[str, ...]:
        """The names of a client's outputs."""
        own = self.entry(client).get("classes")
        if own is not None:
            return tuple(own)
        return tuple(class_names(self.card["classes"], len(self.card["classes"]), None, self.inputs))

    def outputs(self, client: str | int, inputs: Tensor) -> Tensor:
        """The logits of a client's personal model, unguarded, for prepared inputs, from the one network of all."""
        return self._answering(client).outputs(inputs, self.entry(client)["number"], self._moment)

    @cached_property
    def separation(self) -> Separation | None:
        """The body and the names of the head's tensors, where the personal part is a linear head at the end."""
        if self._algorithm is not None:
            return None
        names = self.personal_names
        return separate(self._task(self.clients[0]), self.shared, names, self.inputs)

    def verify(self) -> list[str]:
        """The files that are missing or have another content than when they were written."""
        return [
            name
            for name, entry in self.card["files"].items()
            if not (path := self._place(name)).is_file() or hash_of(path) != entry["sha256"]
        ]

    def _answering(self, client: str | int) -> Answering:
        together = self.shared | self.personal(client)
        task = self._task(client)
        # In the order of the network, or else of the method's own tensors as they were written.
        names = list(task.weights) if self._algorithm is None else list(self.card["tensors"])
        if lacking := [name for name in names if name not in together]:
            raise PartitaError(f"{self.folder} has no {lacking[0]} for client {client}. Export the models again.")
        for name, tensor in task.weights.items() if self._algorithm is None else ():
            _need_like(together[name], tensor, f"{self.folder}: {name} of client {client}")
        return Answering(task, {name: together[name] for name in names}, self._algorithm)

    def _global_answering(self, client: str | int | None) -> Answering:
        if not self.has_global:
            raise PartitaError(f"{self.folder} holds no global model: the method shares only a part of its network.")
        own = {} if client is None else under(GUARD, self._own(client))
        return Answering(self._task(self.clients[0] if client is None else client), self._common | own)

    @cached_property
    def _common(self) -> Tensors:
        return self._tensors(GLOBAL)

    @property
    def _moment(self) -> Moment:
        run = self.card["run"]
        return Moment(round=run["rounds"], rounds=run["rounds"], seed=run["seed"])

    def _about(self, client: str | int, guarded: bool) -> About:
        entry = self.entry(client)
        return About(
            self.client(client),
            entry["number"],
            self.card["method"]["label"],
            self.card["variant"],
            entry["weight"] if guarded else None,
            self._moment,
            entry["onboarded"]["samples"] if "onboarded" in entry else None,
        )

    def _task(self, client: str | int) -> Task:
        facts = {**self.card["facts"], **self.entry(client).get("facts", {})}
        key = json.dumps(facts, sort_keys=True)
        if key not in self._tasks:
            given = {name: tuple(fact) if isinstance(fact, list) else fact for name, fact in facts.items()}
            groups = {name: tuple(patterns) for name, patterns in self.card["groups"].items()}
            try:
                with torch.random.fork_rng(devices=[]):
                    module = self._network if isinstance(self._network, nn.Module) else self._network(**given)
                self._tasks[key] = Task(module, groups=groups, buffers=self.card["buffers"])
            except Exception as problem:
                # A network of anybody's, made with facts that anybody may have written.
                text = " ".join(str(problem).split())[:200]
                raise PartitaError(f"The network of {self.folder} cannot be made: {text}. See {CARD}.") from problem
        return self._tasks[key]

    def _own(self, client: str | int) -> Tensors:
        file = self.entry(client)["file"]
        return {} if file is None else self._tensors(file)

    def _tensors(self, name: str) -> Tensors:
        return read_tensors(self._file(name))

    def _file(self, name: str) -> Path:
        """A file of the folder, with the content that it was written with."""
        path = self._place(name)
        if name not in self.card["files"] or not path.is_file():
            raise PartitaError(f"{self.folder} lacks the file {name}. Export the models again.")
        if hash_of(path) != self.card["files"][name]["sha256"]:
            raise PartitaError(f"{path} is not as it was written: its hash differs. Export the models again.")
        return path

    def _place(self, name: str) -> Path:
        parts = name.split("/")
        if any(part in ("", ".", "..") or "\\" in part or ":" in part for part in parts):
            raise PartitaError(f"The card of {self.folder} names the file {name!r}, which is outside of the folder.")
        return self.folder.joinpath(*parts)


def _need_like(found: Tensor, expected: Tensor, what: str) -> None:
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        raise PartitaError(
            f"{what} is of shape {list(found.shape)} and type {found.dtype}, but the network has "
            f"{list(expected.shape)} and {expected.dtype}. Export the models again."
        )


def load_exported(
    folder: Path | str,
    *,
    network: Factory | nn.Module | str | None = None,
    algorithm: Algorithm | None = None,
    trust: bool = False,
) -> Artefact:
    """The models in a folder that `partita export RUN --models FOLDER` wrote. Nothing in it is run or unpickled.

    Networks and methods of Partita and of installed plugins are made again by their names. A network of your own is
    given as `network`: its class, a module of it, or the place of its class as "module:Class", which is imported. A
    method of your own is given as `algorithm`. With `trust`, what the card names as package.module:function is
    imported.
    """
    place = Path(folder)
    card = read_card(place)
    try:
        described = card["network"]
        if network is None:
            if PYTHON in described or (":" in described["name"] and not trust):
                module, _, name = described["name"].rpartition(":")
                raise PartitaError(
                    f"The network of {place} ({described['name']}) is a class of "
                    + (
                        "its author, whose code runs when it is imported. If you trust it, give"
                        if module
                        else "your own. Give"
                    )
                    + f" it: in Python load_exported({str(place)!r}, network={name}), on the command line --network "
                    + (f"{module}:{name}." if module else f"MODULE:{name}, where MODULE.py has the class.")
                )
            made = convert(Factory, _trusted(described, trust), "network")
        else:
            made = convert(Factory, {"name": Trusted(network)}, "network") if isinstance(network, str) else network
        method = card["method"]
        if method["predicts"] and algorithm is None:
            if PYTHON in method["settings"]:
                raise PartitaError(
                    f"{place}: {method['label']} predicts by itself, and was made in Python. Give it as algorithm=..."
                )
            algorithm = named("algorithms", _trusted(method["settings"], trust), "method")
        found = Artefact(place, card, made, algorithm if method["predicts"] else None)
        _ = found.inputs
        return found
    except (KeyError, TypeError, AttributeError) as problem:
        raise PartitaError(f"{place / CARD} is damaged: {in_one_line(problem)}. Export the models again.") from problem


def _trusted(settings: Mapping[str, Any], trust: bool) -> dict[str, Any]:
    given = {key: value for key, value in settings.items() if not key.startswith("@")}
    return {**given, "name": Trusted(given["name"])} if trust else given
