"""How are tensors kept in files that others can read? As safetensors, with a SHA-256 beside."""

import hashlib
import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from ..errors import PartitaError
from ..parsing import parse_json
from ..tensors import Tensors


def write_tensors(path: Path, tensors: Tensors) -> None:
    """Views and aliases become tensors of their own; the order of the names is kept beside."""
    alone = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    save_file(alone, path, {"format": "pt", "order": json.dumps(list(tensors))})


def read_tensors(path: Path) -> Tensors:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            names = parse_json(metadata["order"]) if "order" in metadata else list(file.keys())
            return {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError, ValueError) as problem:
        raise PartitaError(f"{path} cannot be read as safetensors: {problem}. Export the models again.") from problem


def hash_of(path: Path) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while part := stream.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()
