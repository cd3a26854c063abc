"""The same weights on every side: peers are made from theirs or from ours, and asked whether they agree."""

import copy
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from regard.data.tokenizer import NO_TOKEN
from regard.export import gguf, llama_cpp
from regard.int8 import to_int8
from regard.public.building import Checkpoint


def read_back(theirs: Any, table: Any, family: str, names: Callable[[Any], Any]) -> Any:
    """Ours, from the folder that a model of `transformers` is saved to."""
    with tempfile.TemporaryDirectory() as place:
        theirs.save_pretrained(place)
        values = json.loads((Path(place) / "config.json").read_text())
        checkpoint = Checkpoint(Path(place), values, torch.device("cpu"))
        config = checkpoint.config(table.public_config)
        return checkpoint.model(family, config, names(config), table, checkpoint.weights()).eval()


def eight_bits(ours: Any) -> Any:
    """A copy in 8 bits."""
    copied = copy.deepcopy(ours)
    to_int8(copied)
    return copied


def nameless(model: Any, family: str, end: int) -> Any:
    """A model as what is exported (regard.export.subject.Subject), with numbers for words."""
    names = [f"<{number}>" for number in range(model.config.vocabulary)]
    backend = Backend(models.BPE({name: number for number, name in enumerate(names)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = SimpleNamespace(start=end, end=end, unknown=end, pad=NO_TOKEN, mask=NO_TOKEN, backend=backend)
    return SimpleNamespace(
        run=family, model=model, config=model.config, family=family, tokenizer=tokenizer, vocabulary=lambda: names
    )


def save_spec(spec: Any, folder: str, quantization: str) -> None:
    """A model of CTranslate2, whole or quantised."""
    Path(folder).mkdir()
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(folder)


def llama_cpp_server(subject: Any, folder: str, quantization: str) -> Any:
    """llama.cpp with the same weights, through our GGUF export, on as many threads."""
    Path(folder).mkdir()
    gguf.write(subject, Path(folder), quantization)
    return llama_cpp.serving(Path(folder) / gguf.FILE, subject.config.context)
