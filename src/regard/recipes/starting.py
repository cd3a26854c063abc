"""Starting from another run: its tokenizer, and every weight that has the same name and shape here.

A classifier that starts from a pre-trained encoder takes the encoder and learns its own last layer.
"""

from typing import Any

import torch
from torch import nn

from regard.errors import UsageError
from regard.files import write_text
from regard.loading import load
from regard.training.run import Run

SHOWN = 6  # tensors named before "and N more"


class Start:
    """The run that another begins with."""

    def __init__(self, name: str):
        self.name = name
        self.loaded: Any = load(name, device="cpu")

    def give_tokenizer(self, run: Run) -> None:
        """Words must keep their numbers: the run gets this tokenizer in place of one it would learn."""
        tokenizer = getattr(self.loaded, "tokenizer", None)
        if tokenizer is not None:
            write_text(run.folder / "data" / "tokenizer.json", tokenizer.to_json())

    def give_weights(self, model: nn.Module, run: Run) -> None:
        """Fill what fits; the log says what was taken, what is new, and what does not fit."""
        ours, theirs = model.state_dict(), self.loaded.model.state_dict()
        fits = [name for name in ours if name in theirs and ours[name].shape == theirs[name].shape]
        misshapen = [
            f"{name} {tuple(theirs[name].shape)} for {tuple(ours[name].shape)}"
            for name in ours
            if name in theirs and name not in fits
        ]
        if not fits:
            raise UsageError(
                f"start: {self.name} has no tensor in common with this model; choose a run of the same family and sizes"
            )
        with torch.no_grad():
            for name in fits:
                ours[name].copy_(theirs[name])
        new, left = (sorted(a.keys() - b.keys()) for a, b in ((ours, theirs), (theirs, ours)))
        told = f"started from {self.name}: {len(fits)} of {len(ours)} tensors taken"
        for what, names in (("new here", new), ("of another shape", misshapen), ("left behind", left)):
            if names:
                more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
                told += f"; {what}: {', '.join(names[:SHOWN])}{more}"
        run.log(told)
