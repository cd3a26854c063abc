"""Tensors of which every process has a share (torch's DTensor), models made of them, and files they come from."""

import json
import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor, nn

# One product keeps nothing but its input, which recomputing would keep too, and is too small to be gathered by itself.
SINGLE_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d)


def blocks(model: nn.Module) -> list[nn.Module]:
    """Return what is gathered, recomputed and compiled by itself: the outermost members of lists of modules.

    Lists of single linear layers or convolutions, such as the filters of a CharCNN, are not lists of blocks.
    """
    found: list[nn.Module] = []
    for child in model.children():
        if isinstance(child, nn.ModuleList):
            members = (member for member in child if not isinstance(member, SINGLE_LAYERS))
            found.extend(member for member in members if any(True for _ in member.parameters()))
        else:
            found.extend(blocks(child))
    return found


def is_shard(tensor: Tensor) -> bool:
    return hasattr(tensor, "full_tensor")


def local(tensor: Any) -> Tensor:
    """The part of it that is here."""
    part: Tensor = tensor.to_local() if is_shard(tensor) else tensor
    return part


def whole(tensor: Any) -> Tensor:
    """All of it, for which all processes must ask together."""
    everything: Tensor = tensor.full_tensor() if is_shard(tensor) else tensor
    return everything


def share_like(tensor: Tensor, pattern: Tensor) -> Tensor:
    """The share of a whole tensor that this process has of `pattern`."""
    if is_shard(tensor) or not is_shard(pattern):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    where: Any = pattern
    # Everybody has the whole of it: nothing has to be sent.
    return distribute_tensor(tensor.to(local(pattern).device), where.device_mesh, where.placements, src_data_rank=None)


def write_together(tensors: dict[str, Tensor], folder: Path, leads: bool) -> Path:
    """Every process writes its shares, all at once; then they are joined into one file. No process holds the whole."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

    shared = {name: tensor for name, tensor in tensors.items() if is_shard(tensor)}
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True, enable_consolidation=True)
    dcp.save(dict(shared), storage_writer=writer)
    joined = folder / "joined"
    if leads:
        rest = {name: tensor.cpu() for name, tensor in tensors.items() if name not in shared}
        save_file(rest, folder / "rest")
        join_files([next(folder.glob("*.safetensors")), folder / "rest"], joined)
    return joined


def join_files(paths: list[Path], joined: Path) -> None:
    """One safetensors file with the tensors of several, byte by byte: a header that says where each lies, then all."""
    header: dict[str, Any] = {}
    bodies, end = [], 0
    for path in paths:
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            tensors = json.loads(file.read(size))
        tensors.pop("__metadata__", None)
        for known in tensors.values():
            known["data_offsets"] = [end + offset for offset in known["data_offsets"]]
        header.update(tensors)
        bodies.append((path, 8 + size))
        end += path.stat().st_size - 8 - size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of eight
    with open(joined, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for path, begin in bodies:
            with open(path, "rb") as body:
                body.seek(begin)
                shutil.copyfileobj(body, file, 1 << 24)


def pour(tensors: dict[str, Tensor], model: nn.Module) -> None:
    """Fill a model with whole tensors; each process keeps its share of them."""
    model.load_state_dict({name: share_like(tensors[name], value) for name, value in model.state_dict().items()})
