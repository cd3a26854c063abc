"""Checkpoints: a folder per step that appears whole or not at all. No pickle anywhere.

config.json             the model's family and sizes
model.safetensors       its weights
tokenizer.json, generation_config.json    what the task needs to run it
optimizer.safetensors   the optimiser's state and the random generators'
trainer.json            where the run stands: step, place in the data, best result so far
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.errors import RegardError
from regard.files import whole_folder, write_text

WEIGHTS, OPTIMIZER, TRAINER = "model.safetensors", "optimizer.safetensors", "trainer.json"


@dataclass
class Progress:
    """Where a run stands; everything that must survive for the curve to go on as if nothing had happened."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0  # of training so far
    best_loss: float | None = None
    best_step: int | None = None
    stale: int = 0  # validations since the best
    finished: str | None = None  # why training is over, once it is
    since_log: dict[str, float] = field(default_factory=dict)  # sums not yet written to metrics.jsonl


def save(
    folder: Path,
    model: nn.Module,
    files: dict[str, str],
    optimizer: dict[str, Tensor] | None = None,
    progress: Progress | None = None,
) -> None:
    """`files` are the small text files that make the checkpoint usable by itself; the rest is for going on."""
    if progress is not None:
        files = {**files, TRAINER: _progress_text(progress)}
    with whole_folder(folder) as part:
        save_tensors(weights(model), part / WEIGHTS)
        if optimizer:
            save_tensors(optimizer, part / OPTIMIZER)
        for name, text in files.items():
            (part / name).write_text(text, "utf-8")


def save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    try:
        save_file(tensors, path)
    except SafetensorError as error:  # it hides the operating system's reason in its own text
        raise OSError(" ".join(str(error).split())) from error


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}


def load_weights(model: nn.Module, folder: Path) -> None:
    """Fill the model from a checkpoint; every tensor must be there, fit, and belong to it."""
    tensors = load_tensors(folder / WEIGHTS)
    expected = model.state_dict()
    missing = sorted(expected.keys() - tensors.keys())
    extra = sorted(tensors.keys() - expected.keys())
    misshapen = [
        f"{name} {tuple(tensors[name].shape)} instead of {tuple(expected[name].shape)}"
        for name in sorted(expected.keys() & tensors.keys())
        if tensors[name].shape != expected[name].shape
    ]
    for what, names in (("lacks", missing), ("has unknown", extra), ("has misshapen", misshapen)):
        if names:
            shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            raise RegardError(f"{folder / WEIGHTS} {what} tensors: {shown}; it is not a checkpoint of this model")
    model.load_state_dict(tensors)


def load_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise RegardError(f"{path}: no such file; the checkpoint is not complete") from error
    except (SafetensorError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise RegardError(
            f"{path}: damaged or cut short ({reason}); use another checkpoint of the run, or train again"
        ) from error


def load_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise RegardError(f"{path}: no such file; the checkpoint is not complete") from error
    except (OSError, ValueError) as error:
        raise RegardError(f"{path}: damaged ({error}); use another checkpoint of the run, or train again") from error
    if not isinstance(value, dict):
        raise RegardError(f"{path}: holds no object; use another checkpoint of the run, or train again")
    return value


def load_progress(folder: Path) -> Progress:
    try:
        return Progress(**load_json(folder / TRAINER))
    except TypeError as error:
        raise RegardError(f"{folder / TRAINER}: not of this version of regard ({error}); use another one") from error


def save_progress(folder: Path, progress: Progress) -> None:
    """Replace what a checkpoint says about where the run stands."""
    write_text(folder / TRAINER, _progress_text(progress))


def _progress_text(progress: Progress) -> str:
    return json.dumps(vars(progress), indent=1)


def average(folders: list[Path]) -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints, summed in double precision."""
    total: dict[str, Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    for folder in folders:
        for name, tensor in load_tensors(folder / WEIGHTS).items():
            kinds[name] = tensor.dtype
            total[name] = tensor.double() + total[name] if name in total else tensor.double()
    return {name: (tensor / len(folders)).to(kinds[name]) for name, tensor in total.items()}
