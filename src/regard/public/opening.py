"""From a folder in Hugging Face layout to the verbs of its model."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from regard.errors import UsageError, shortened
from regard.public.bert import open_bert
from regard.public.gpt2 import open_gpt2
from regard.public.marian import open_marian
from regard.public.vit import open_vit
from regard.training.checkpoints import load_json

# Who opens a checkpoint of which `model_type`.
OPENERS: dict[str, Callable[[Path, Mapping[str, Any], torch.device], Any]] = {
    "bert": open_bert,
    "gpt2": open_gpt2,
    "marian": open_marian,
    "vit": open_vit,
}


def open_public(folder: Path, device: torch.device) -> Any:
    """A Classifier, a LanguageModel, ...: what the checkpoint's head is for."""
    values = load_json(folder / "config.json")
    kind = values.get("model_type")
    if not isinstance(kind, str) or kind not in OPENERS:
        said = "names no model_type" if kind is None else f"the model_type {shortened(kind)} is not known here"
        raise UsageError(f"{folder / 'config.json'}: {said}; known are {', '.join(OPENERS)}")
    return OPENERS[kind](folder, values, device)
