"""Optimisers by name, with weight decay on matrices only."""

from collections.abc import Iterable

import torch
from torch import nn

from regard.errors import UsageError
from regard.training.settings import Training


class Group:
    """Several optimisers that step as one: matrices may want another rule than vectors."""

    def __init__(self, optimizers: Iterable[torch.optim.Optimizer]):
        self.optimizers = list(optimizers)
        self.peaks = [[group["lr"] for group in optimizer.param_groups] for optimizer in self.optimizers]

    def set_rate(self, fraction: float) -> None:
        """Every group's learning rate as a fraction of its own peak."""
        for optimizer, peaks in zip(self.optimizers, self.peaks, strict=True):
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["lr"] = peak * fraction

    def step(self) -> None:
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def state_tensors(self) -> dict[str, torch.Tensor]:
        """All state as named tensors, for safetensors: `optimizer.parameter.name`."""
        tensors = {}
        for which, optimizer in enumerate(self.optimizers):
            for index, state in optimizer.state_dict()["state"].items():
                for name, value in state.items():
                    tensors[f"{which}.{index}.{name}"] = torch.as_tensor(value).contiguous()
        return tensors

    def load_state_tensors(self, tensors: dict[str, torch.Tensor]) -> None:
        for which, optimizer in enumerate(self.optimizers):
            saved = optimizer.state_dict()
            saved["state"] = {}
            for key, tensor in tensors.items():
                owner, index, name = key.split(".")
                if int(owner) == which:
                    saved["state"].setdefault(int(index), {})[name] = tensor
            optimizer.load_state_dict(saved)


def make_optimizer(model: nn.Module, settings: Training) -> Group:
    if settings.optimizer not in OPTIMIZERS:
        raise UsageError(f"there is no optimizer called {settings.optimizer!r}: choose one of {', '.join(OPTIMIZERS)}")
    return Group(OPTIMIZERS[settings.optimizer](model, settings))


def _decayed(model: nn.Module, decay: float) -> list[dict[str, object]]:
    """Matrices with weight decay; biases, norms and single vectors without."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in parameters if parameter.dim() >= 2]
    vectors = [parameter for parameter in parameters if parameter.dim() < 2]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def _adam(model: nn.Module, settings: Training) -> list[torch.optim.Optimizer]:
    first, second = settings.betas
    groups = _decayed(model, settings.weight_decay)
    options = {"lr": settings.learning_rate, "betas": (first, second), "eps": settings.epsilon, "fused": True}
    return [torch.optim.Adam(groups, **options)]  # type: ignore[arg-type]


def _adamw(model: nn.Module, settings: Training) -> list[torch.optim.Optimizer]:
    first, second = settings.betas
    groups = _decayed(model, settings.weight_decay)
    options = {"lr": settings.learning_rate, "betas": (first, second), "eps": settings.epsilon, "fused": True}
    return [torch.optim.AdamW(groups, **options)]  # type: ignore[arg-type]


OPTIMIZERS = {"adam": _adam, "adamw": _adamw}
