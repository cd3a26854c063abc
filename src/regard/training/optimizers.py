"""Optimisers by name, with weight decay on matrices only, and their state as plain tensors."""

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.errors import RegardError, UsageError, shortened
from regard.training.muon import Muon
from regard.training.settings import Training
from regard.training.shards import share_like

Groups = list[dict[str, Any]]
STATE_KEY = re.compile(r"([0-9]{1,9})\.([a-z_]+)")  # the number of a parameter, and what is kept of it


def adam(groups: Groups, settings: Training) -> Optimizer:
    return torch.optim.Adam(groups, settings.learning_rate, _pair(settings), settings.epsilon, fused=True)


def adamw(groups: Groups, settings: Training) -> Optimizer:
    return torch.optim.AdamW(groups, settings.learning_rate, _pair(settings), settings.epsilon, fused=True)


def rmsprop(groups: Groups, settings: Training) -> Optimizer:
    """With momentum, as Graves uses it: `betas` are the momentum and the decay of the squares."""
    momentum, decay = _pair(settings)
    return torch.optim.RMSprop(
        groups, settings.learning_rate, alpha=decay, eps=settings.epsilon, momentum=momentum, foreach=True
    )


def muon(groups: Groups, settings: Training) -> Optimizer:
    return Muon(groups, settings.learning_rate, _pair(settings), settings.epsilon, fused=True)


def _pair(settings: Training) -> tuple[float, float]:
    return settings.betas[0], settings.betas[1]


OPTIMIZERS: dict[str, Callable[[Groups, Training], Optimizer]] = {
    "adam": adam,
    "adamw": adamw,
    "muon": muon,
    "rmsprop": rmsprop,
}


def make_optimizer(model: nn.Module, settings: Training) -> Optimizer:
    """Matrices decay; biases, norms and single vectors do not."""
    if settings.optimizer not in OPTIMIZERS:
        raise UsageError(f"there is no optimizer called {settings.optimizer!r}: choose one of {', '.join(OPTIMIZERS)}")
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups: Groups = [
        {"params": [each for each in parameters if each.dim() >= 2], "weight_decay": settings.weight_decay},
        {"params": [each for each in parameters if each.dim() < 2], "weight_decay": 0.0},
    ]
    if settings.optimizer == "muon":
        groups = _tables_apart(model, groups)
    return OPTIMIZERS[settings.optimizer]([group for group in groups if group["params"]], settings)


def _tables_apart(model: nn.Module, groups: Groups) -> Groups:
    """An embedding is a list of vectors, also where it predicts words: only the other matrices are turned as such."""
    matrices, vectors = groups
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    return [
        {**matrices, "params": [each for each in matrices["params"] if id(each) not in tables], "orthogonal": True},
        {**matrices, "params": [each for each in matrices["params"] if id(each) in tables]},
        vectors,
    ]


def set_rate(optimizer: Optimizer, learning_rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate


def state_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The whole state as named tensors, `parameter.name`, for safetensors."""
    return {
        f"{index}.{name}": torch.as_tensor(value).contiguous()
        for index, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def load_state_tensors(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Gives an optimiser the state that `state_tensors` returned, and raises RegardError if it cannot be its state."""
    check_state_tensors(optimizer, tensors)
    saved = optimizer.state_dict()
    saved["state"] = {}
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    for key, tensor in tensors.items():
        index, name = key.split(".")
        if tensor.shape == parameters[int(index)].shape:
            tensor = share_like(tensor, parameters[int(index)])
        saved["state"].setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict(saved)


def check_state_tensors(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Raises RegardError unless the tensors have the names, types and shapes of this optimiser's state.

    The fused kernels of torch write into them as if each were as large as its parameter.
    """
    owners = [(each, _state_names(optimizer, group)) for group in optimizer.param_groups for each in group["params"]]
    found: dict[int, set[str]] = {}
    for key, tensor in tensors.items():
        match = STATE_KEY.fullmatch(key)
        index, name = (int(match[1]), match[2]) if match else (-1, "")
        if not 0 <= index < len(owners) or name not in owners[index][1]:
            raise RegardError(f"{shortened(key)} is not part of the state of this optimizer")
        shape = () if name == "step" else tuple(owners[index][0].shape)
        if tuple(tensor.shape) != shape or not tensor.is_floating_point():
            raise RegardError(
                f"{key} is {tensor.dtype} {list(tensor.shape)} but must be a floating-point tensor {list(shape)}"
            )
        found.setdefault(index, set()).add(name)
    for index, names in found.items():
        if missing := sorted(owners[index][1] - names):
            raise RegardError(f"{index}.{missing[0]} is missing")


def _state_names(optimizer: Optimizer, group: dict[str, Any]) -> set[str]:
    """What the optimiser keeps of each parameter of a group."""
    if isinstance(optimizer, torch.optim.RMSprop):
        return {"step", "square_avg"} | ({"momentum_buffer"} if group["momentum"] > 0 else set())
    return {"step", "momentum"} if group.get("orthogonal") else {"step", "exp_avg", "exp_avg_sq"}


def check_random_state(state: Tensor) -> None:
    """Raises RegardError unless a state of torch's random generator on the CPU indexes only its own 624 numbers.

    torch checks the size, and each of two counters, but not their sum: `left` numbers are still to be read from `next`.
    """
    if state.dtype != torch.uint8 or state.shape != torch.get_rng_state().shape:
        raise RegardError(
            f"random.cpu is {state.dtype} {list(state.shape)} but must be the state of torch's random generator"
        )
    left, seeded, place = struct.unpack_from("<iiI", state.numpy().tobytes(), 8)
    if seeded != 1 or not 1 <= left <= 624 or (left > 1 and left + place > 625):
        raise RegardError(
            f"random.cpu has {left} numbers left from number {place} on, seeded {seeded}, but must have 624 in all"
        )
