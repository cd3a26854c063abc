"""Optimisers by name, with weight decay on weight matrices only, and their state as plain tensors.

A parameter is a weight matrix if inputs are multiplied by it: the weight of a linear or recurrent layer, or the kernel
of a convolution. Biases, norms, embeddings, positions, class tokens and learned initial states are no weight matrices,
whatever their shape: they do not decay, and under Muon they learn by AdamW.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.errors import RegardError, UsageError, shortened
from regard.layers.projected_lstm import ProjectedLSTM
from regard.training.muon import Muon
from regard.training.settings import Training
from regard.training.shards import share_like

Groups = list[dict[str, Any]]
Named = list[tuple[str, nn.Parameter]]
NOT_MATRICES = (nn.Embedding, nn.EmbeddingBag, nn.LayerNorm, nn.RMSNorm)  # modules whose `weight` may have two axes


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
    """Return the optimiser of the recipe for all parameters that learn."""
    if settings.optimizer not in OPTIMIZERS:
        raise UsageError(f"there is no optimizer called {settings.optimizer!r}: choose one of {', '.join(OPTIMIZERS)}")
    matrices, others = _divided(_learning(model), weight_matrices(model))
    decay = {"weight_decay": settings.weight_decay}
    groups: Groups = [{"params": matrices, **decay}, {"params": others, "weight_decay": 0.0}]
    if settings.optimizer == "muon":
        stacks, single = _divided(matrices, _stacks(model))
        groups[:1] = [
            {"params": single, **decay, "orthogonal": True},
            {"params": stacks, **decay, "orthogonal": True, "stacked": True},
        ]
    return OPTIMIZERS[settings.optimizer]([group for group in groups if group["params"]], settings)


def weight_matrices(model: nn.Module) -> set[nn.Parameter]:
    """Return the parameters that inputs are multiplied by; a matrix that is also an embedding is not among them."""
    spared = {each for part in model.modules() if isinstance(part, NOT_MATRICES) for each in part.parameters(False)}
    return {each for name, each in model.named_parameters() if _is_weight(name) and each.dim() >= 2} - spared


def _is_weight(name: str) -> bool:
    own = name.rpartition(".")[2]
    return "weight" in own or own == "projection"


def _stacks(model: nn.Module) -> set[nn.Parameter]:
    """Return the parameters that hold one matrix for each direction."""
    return {each for part in model.modules() if isinstance(part, ProjectedLSTM) for each in part.parameters(False)}


def _learning(model: nn.Module) -> Named:
    return [(name, each) for name, each in model.named_parameters() if each.requires_grad]


def _divided(named: Named, chosen: set[nn.Parameter]) -> tuple[Named, Named]:
    """Those that are chosen, and the others."""
    return [each for each in named if each[1] in chosen], [each for each in named if each[1] not in chosen]


def set_rate(optimizer: Optimizer, learning_rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate


def state_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """Return the whole state as tensors for safetensors, with names such as `encoder.norm.weight.exp_avg`."""
    names = _names(optimizer)
    return {
        f"{names[index]}.{name}": torch.as_tensor(value).contiguous()
        for index, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def load_state_tensors(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Fill an optimiser with what `state_tensors` returned; RegardError if that cannot be its state."""
    check_state_tensors(optimizer, tensors)
    saved = optimizer.state_dict()
    saved["state"] = {}
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    numbers = {name: number for number, name in enumerate(_names(optimizer))}
    for key, tensor in tensors.items():
        owner, _, name = key.rpartition(".")
        index = numbers[owner]
        if tensor.shape == parameters[index].shape:
            tensor = share_like(tensor, parameters[index])
        saved["state"].setdefault(index, {})[name] = tensor
    optimizer.load_state_dict(saved)


def _names(optimizer: Optimizer) -> list[str]:
    return [name for group in optimizer.param_groups for name in group["param_names"]]


def check_state_tensors(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Raises RegardError unless the tensors have the names, types and shapes of this optimiser's state.

    The fused kernels of torch write into them as if each were as large as its parameter.
    """
    owners = {
        name: (parameter, _state_names(optimizer, group))
        for group in optimizer.param_groups
        for name, parameter in zip(group["param_names"], group["params"], strict=True)
    }
    found: dict[str, set[str]] = {}
    for key, tensor in tensors.items():
        owner, _, name = key.rpartition(".")
        if owner not in owners or name not in owners[owner][1]:
            raise RegardError(f"{shortened(key)} is not part of the state of this optimizer")
        shape = () if name == "step" else tuple(owners[owner][0].shape)
        if tuple(tensor.shape) != shape or not tensor.is_floating_point():
            raise RegardError(
                f"{key} is {tensor.dtype} {list(tensor.shape)} but must be a floating-point tensor {list(shape)}"
            )
        found.setdefault(owner, set()).add(name)
    for owner, names in found.items():
        if missing := sorted(owners[owner][1] - names):
            raise RegardError(f"{owner}.{missing[0]} is missing")


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
    if seeded != 1 or not 1 <= left <= 624 or place > 624 or (left > 1 and left + place > 625):
        raise RegardError(
            f"random.cpu has {left} numbers left from number {place} on, seeded {seeded}, but must have 624 in all"
        )
