"""The weights of a folder in Hugging Face layout: one file or shards, safetensors or the old PyTorch format.

The old format is a pickle, which may run any code. It is read by torch's restricted reader, which knows tensors and
nothing else; a file that asks for more is refused. Numbers in half precision are read as single precision.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from regard.errors import RegardError, UsageError, shortened, told
from regard.training.checkpoints import load_json

# In the order in which they are preferred; an index lists the shards.
SINGLE, SHARDED = "model.safetensors", "model.safetensors.index.json"
OLD_SINGLE, OLD_SHARDED = "pytorch_model.bin", "pytorch_model.bin.index.json"


def is_public(folder: Path) -> bool:
    """Whether the folder holds a checkpoint that others wrote: ours says in its config which `family` it is of."""
    config = folder / "config.json"
    return config.is_file() and "family" not in load_json(config)


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Every tensor of the checkpoint, by its public name."""
    tensors: dict[str, Tensor] = {}
    for path in weight_files(folder):
        found = _read(path) if path.suffix == ".safetensors" else _read_old(path)
        if twice := sorted(tensors.keys() & found.keys()):
            raise RegardError(f"{path}: {shortened(twice[0])} stands in another file of {folder} too")
        tensors |= found
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


def weight_files(folder: Path) -> Iterator[Path]:
    """The files that hold the weights; shards that are missing are named."""
    for single, sharded in ((SINGLE, SHARDED), (OLD_SINGLE, OLD_SHARDED)):
        if (folder / single).is_file():
            yield folder / single
            return
        if (folder / sharded).is_file():
            yield from _shards(folder / sharded)
            return
    raise UsageError(f"{folder} holds no weights: neither {SINGLE} nor {OLD_SINGLE}, whole or in shards")


def _shards(index: Path) -> Iterator[Path]:
    places = load_json(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise RegardError(f"{index}: has no weight_map from tensors to files")
    names = sorted(set(places.values()))
    for name in names:
        if Path(name).name != name or name in ("", ".", "..") or "\0" in name or "\\" in name:
            raise RegardError(f"{index}: {shortened(name)} is not a file of this folder")
    missing = [name for name in names if not _is_file(index.parent / name)]
    if missing:
        raise RegardError(
            f"{index.parent}: {len(missing)} of {len(names)} shards are missing: {', '.join(missing[:4])}"
        )
    yield from (index.parent / name for name in names)


def _read(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError, LookupError, RuntimeError, TypeError) as error:
        raise RegardError(f"{path}: damaged or cut short ({told(error)}); fetch it again") from error


def _read_old(path: Path) -> dict[str, Tensor]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd pickles: the one line below says enough
            found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds
        if type(error).__name__ == "UnpicklingError":  # the restricted reader's refusal
            raise RegardError(
                f"{path}: is cut short or holds more than tensors, perhaps code, and was not read; "
                "ask for a safetensors file instead"
            ) from error
        raise RegardError(f"{path}: damaged or cut short ({told(error)}); fetch it again") from error
    if not isinstance(found, dict) or not all(isinstance(known, Tensor) for known in found.values()):
        raise RegardError(f"{path}: is not a table of tensors")
    return dict(found)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name longer than any
        return False
