"""What `regard.load` makes: verbs around a model, with all that lies beside its weights."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.training import checkpoints

CONFIG, TOKENIZER, DECODING = "config.json", "tokenizer.json", "generation_config.json"
PREPROCESSING, LABELS, TAGS, READING = "preprocessor_config.json", "labels.json", "tags.json", "reading.json"


class Verbs:
    """A model that is asked and no longer learns."""

    def __init__(self, model: nn.Module, config_json: str = "{}"):
        self.model: Any = model.eval()
        self.config_json = config_json  # the family, its sizes, the task

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def files(self) -> dict[str, str]:
        """Name and text of what must lie beside the weights."""
        return {CONFIG: self.config_json}

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a checkpoint folder that `regard.load` opens, without the training state."""
        checkpoints.save(Path(folder), self.model, self.files())


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)
