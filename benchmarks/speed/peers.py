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


def eole_translator(config: Any, vocabulary: int, dropout: float) -> Any:
    """A translator of Eole that is to be trained; its padding is token 0, as ours is here."""
    from eole.models.model import EncoderDecoderModel

    words = {f"<{number}>": number for number in range(vocabulary)}
    known = {"src": words, "tgt": words, "specials": {"pad_token": "<0>"}}
    running = SimpleNamespace(
        dropout=[dropout],
        attention_dropout=[0.0],
        self_attn_backend="pytorch",
        parallel_gpu=1,
        use_ckpting=[],
        quant_layers=[],
        quant_type="",
        lora_layers=[],
        lora_embedding=False,
    )
    model = EncoderDecoderModel.build(config, known, running)
    for parameter in model.parameters():  # they leave it to their trainer
        torch.nn.init.xavier_uniform_(parameter) if parameter.dim() > 1 else torch.nn.init.zeros_(parameter)
    return model.train()
