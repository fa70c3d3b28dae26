"""How are named tensors stored? As safetensors, never pickled."""

from safetensors.torch import load, save

from ..tensors import Tensors


def pack(tensors: Tensors) -> bytes:
    # Safetensors refuses tensors that share memory; views and aliases become tensors of their own.
    return save({name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()})


def unpack(blob: bytes) -> Tensors:
    tensors: Tensors = load(blob)
    return tensors
