"""Checkpoints: a folder per step that appears whole or not at all. No pickle anywhere.

config.json             the model's family and sizes
model.safetensors       its weights
tokenizer.json, generation_config.json    what the task needs to run it
optimizer.safetensors   the optimiser's state and the random generators'
trainer.json            where the run stands: step, place in the data, best result so far; sealed by its own checksum
checksums.json          of every other file, so that damage is found before it is used

A folder saved without a `progress` is somebody's own copy of a model, whose small files may be edited: no checksums.
"""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.errors import RegardError, is_out_of_memory, shortened, told
from regard.files import whole_folder, write_text
from regard.training.shards import pour

WEIGHTS, OPTIMIZER, TRAINER = "model.safetensors", "optimizer.safetensors", "trainer.json"
CHECKSUMS, SEAL = "checksums.json", "sha256"


class Damaged(RegardError):
    """A checkpoint that is not what was written; `what` names the file and the fault."""

    def __init__(self, what: str, remedy: str = "use another checkpoint of the run, or train again"):
        super().__init__(f"{what}; {remedy}")
        self.what = what


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
    model: nn.Module | Path,
    files: dict[str, str],
    optimizer: dict[str, Tensor] | Path | None = None,
    progress: Progress | None = None,
) -> None:
    """`files` are the small text files that make the checkpoint usable by itself; the rest is for going on.

    Instead of tensors there may be the path of a file that has them; it is moved in.
    """
    if progress is not None:
        files = {**files, TRAINER: _progress_text(progress)}
    with whole_folder(folder) as part:
        save_tensors(model if isinstance(model, Path) else weights(model), part / WEIGHTS)
        if optimizer:
            save_tensors(optimizer, part / OPTIMIZER)
        for name, text in files.items():
            (part / name).write_text(text, "utf-8")
        if progress is not None:
            sums = {path.name: _checksum(path) for path in sorted(part.iterdir()) if path.name != TRAINER}
            (part / CHECKSUMS).write_text(json.dumps(sums, indent=1), "utf-8")


def check(folder: Path, *, to_go_on: bool = True) -> None:
    """Raise if anything in the checkpoint is not what was written; the optimiser's state matters only `to_go_on`."""
    if to_go_on:
        load_progress(folder)
    if (folder / CHECKSUMS).exists():
        sums = load_json(folder / CHECKSUMS)
        for name in (name for name in sums if to_go_on or name != OPTIMIZER):
            _check_file(folder, name, sums[name])
    elif to_go_on:  # of a time without checksums: at least it can be read
        for name in (WEIGHTS, OPTIMIZER):
            load_tensors(folder / name)


def _check_file(folder: Path, name: str, known: Any) -> None:
    if Path(name).name != name or name == "..":
        raise Damaged(f"{folder / CHECKSUMS}: {shortened(name)} is not a file of this folder")
    path = folder / name
    try:
        found = _checksum(path)
    except FileNotFoundError as error:
        raise _incomplete(path) from error
    except OSError as error:
        raise Damaged(f"{path}: damaged ({told(error)})") from error
    if found != known:
        raise Damaged(
            f"{path}: damaged, or changed by hand (its checksum is not the one in {CHECKSUMS})",
            f"use another checkpoint of the run, or remove {CHECKSUMS} if you changed it",
        )


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def save_tensors(tensors: dict[str, Tensor] | Path, path: Path) -> None:
    if isinstance(tensors, Path):
        tensors.replace(path)
        return
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
    pour(tensors, model)


def load_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise _incomplete(path) from error
    except (SafetensorError, OSError, ValueError) as error:
        raise Damaged(f"{path}: damaged or cut short ({told(error)})") from error
    except (RuntimeError, TypeError) as error:  # torch: sizes, or a product of sizes, that are too large
        if is_out_of_memory(error):
            raise
        raise Damaged(f"{path}: damaged ({told(error)})") from error


def load_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise _incomplete(path) from error
    except (OSError, ValueError, RecursionError) as error:
        raise Damaged(f"{path}: damaged ({told(error)})") from error
    if not isinstance(value, dict):
        raise Damaged(f"{path}: holds no object")
    return value


def _incomplete(path: Path) -> Damaged:
    return Damaged(f"{path}: no such file", "the checkpoint is not complete")


def load_progress(folder: Path) -> Progress:
    path = folder / TRAINER
    values = load_json(path)
    seal = values.pop(SEAL, None)  # older files have none
    if seal not in (None, _seal(values)):
        raise Damaged(f"{path}: damaged, or changed by hand (its checksum is not its {SEAL})")
    try:
        return Progress(**values)
    except TypeError as error:
        what = f"{path}: not of this version of regard ({told(error)})"
        raise (Damaged(what) if seal is None else RegardError(f"{what}; use another one")) from error


def save_progress(folder: Path, progress: Progress) -> None:
    """Replace what a checkpoint says about where the run stands."""
    write_text(folder / TRAINER, _progress_text(progress))


def _progress_text(progress: Progress) -> str:
    """With its checksum inside: progress and checksum change in one write, and nothing can come between them."""
    values = vars(progress)
    return json.dumps({**values, SEAL: _seal(values)}, indent=1)


def _seal(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def average(folders: list[Path]) -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints, summed in double precision."""
    total: dict[str, Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    for folder in folders:
        check(folder, to_go_on=False)
        for name, tensor in load_tensors(folder / WEIGHTS).items():
            kinds[name] = tensor.dtype
            total[name] = tensor.double() + total[name] if name in total else tensor.double()
    return {name: (tensor / len(folders)).to(kinds[name]) for name, tensor in total.items()}
