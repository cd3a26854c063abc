"""The same weights on every side: peers are made from theirs or from ours, and asked whether they agree."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from regard.public.building import Checkpoint


def read_back(theirs: Any, table: Any, family: str, names: Callable[[Any], Any]) -> Any:
    """Ours, from the folder that a model of `transformers` is saved to."""
    with tempfile.TemporaryDirectory() as place:
        theirs.save_pretrained(place)
        values = json.loads((Path(place) / "config.json").read_text())
        checkpoint = Checkpoint(Path(place), values, torch.device("cpu"))
        config = checkpoint.config(table.public_config)
        return checkpoint.model(family, config, names(config), table, checkpoint.weights()).eval()


def nameless(model: Any, family: str, end: int) -> Any:
    """A model as what is exported (regard.export.subject.Subject), with numbers for words."""
    names = [f"<{number}>" for number in range(model.config.vocabulary)]
    tokenizer = SimpleNamespace(start=end, end=end, unknown=end)
    return SimpleNamespace(
        model=model, config=model.config, family=family, tokenizer=tokenizer, vocabulary=lambda: names
    )


def save_spec(spec: Any, folder: str, quantization: str) -> None:
    """A model of CTranslate2, whole or quantised."""
    Path(folder).mkdir()
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(folder)
