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
from torch import Tensor
from torch.nn import functional as F

from regard.data.tokenizer import NO_TOKEN
from regard.int8 import to_int8
from regard.layers.packed import remember_order
from regard.public.building import Checkpoint
from regard.tasks.batches import Batch
from regard.training.freed_memory import keep_freed_memory

Step = Callable[[Batch], None]


def read_back(folder: Path, table: Any, family: str) -> Any:
    """Ours, from the folder that a model of `transformers` was saved to."""
    keep_freed_memory()  # as `regard.load` does, and below: remember the order of matrices
    values = json.loads((folder / "config.json").read_text())
    checkpoint = Checkpoint(folder, values, torch.device("cpu"))
    config = checkpoint.config(table.public_config)
    model = checkpoint.model(family, config, table.public_names(config), table, checkpoint.weights()).eval()
    remember_order(model)
    return model


def same_as(theirs: Any, table: Any, family: str) -> Any:
    """Ours, with the weights of a model of `transformers`."""
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        return read_back(Path(folder), table, family)


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


def smoothed(logits: Tensor, said: Tensor, pad: int, smoothing: float) -> Tensor:
    """The loss of a translator of whole logits."""
    return F.cross_entropy(logits.flatten(0, 1), said.flatten(), ignore_index=pad, label_smoothing=smoothing)


def training_step(model: Any, loss_of: Callable[[Batch], Tensor], optimizer: Any = None) -> Step:
    """Loss, gradient, clipping, update: by torch's fused Adam where no optimiser is given."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, fused=True) if optimizer is None else optimizer

    def step(batch: Batch) -> None:
        optimizer.zero_grad()
        loss_of(batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def over(batches: list[Batch], step: Step) -> Callable[[], None]:
    """A round: a step with each batch."""

    def work() -> None:
        for batch in batches:
            step(batch)

    return work


def joey_words(count: int) -> Any:
    """A vocabulary of JoeyNMT: four special tokens, and so many words."""
    from joeynmt.vocabulary import Vocabulary

    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None,
        unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None, lang_tags=[],
    )  # fmt: skip
    return Vocabulary([f"w{number}" for number in range(count)], special)


def joey_number(first: list[int], count: int) -> Tensor:
    """The number there of each of our tokens: the first ones', then one after the other."""
    return torch.cat([torch.tensor(first), torch.arange(4, count)])


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
