"""Optimisers by name, with weight decay on matrices only, and their state as plain tensors."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.errors import UsageError
from regard.training.muon import Muon
from regard.training.settings import Training
from regard.training.shards import share_like

Groups = list[dict[str, Any]]


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
    saved = optimizer.state_dict()
    saved["state"] = {}
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    for key, tensor in tensors.items():
        index, name = key.split(".")
        if tensor.shape == parameters[int(index)].shape:
            tensor = share_like(tensor, parameters[int(index)])
        saved["state"].setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict(saved)
