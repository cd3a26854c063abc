"""Tiny random checkpoints in Hugging Face layout, written from models of ours by the tables they end with."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer as Backend
from torch import Tensor

from regard import families
from regard.data.images import Preprocessing
from regard.data.tokenizer import Tokenizer
from regard.models import bert, gpt2, vit
from regard.public.tensors import to_theirs

TEXTS = ["the cat sat on the mat .", "a dog chased the cat because it was tired .", "the mat was red !"] * 3
BERT_TEXTS = ["The cat sat on the mat.", "A dog, tired.", "the unthinkable mat"]
ARCHITECTURES = {family: name for name, family in reversed(bert.PUBLIC_FAMILIES.items())}


def write_json(path: Path, values: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values), "utf-8")


def change(path: Path, **values: Any) -> None:
    """Some settings of a JSON file."""
    write_json(path, {**json.loads(path.read_text("utf-8")), **values})


def randomised(model: torch.nn.Module) -> Any:
    draw = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.data = torch.empty(parameter.shape).normal_(0, 0.3, generator=draw)
    return model.eval()


@cache  # two trainings may number pieces that are equally frequent differently
def tokenizer_json(kind: str, vocabulary: int) -> str:
    return Tokenizer.train(kind, TEXTS, vocabulary, lowercase=kind == "bert").to_json()


def bert_tokenizer() -> Tokenizer:
    return Tokenizer(Backend.from_str(tokenizer_json("bert", 60)))


def gpt2_tokenizer() -> Tokenizer:
    return Tokenizer(Backend.from_str(tokenizer_json("bytes", 280)))


def bert_folder(folder: Path, family: str = "bert", padding: int = 0, **sizes: Any) -> tuple[Any, dict[str, Tensor]]:
    """Write the folder; return the model and its public tensors."""
    tokenizer = bert_tokenizer()
    config = bert.Config(
        vocabulary=len(tokenizer) + padding,
        size=8,
        hidden_size=12,
        heads=2,
        layers=2,
        max_length=32,
        pad=tokenizer.pad,
        separator=tokenizer.end,
        **{"labels": 3, **sizes},
    )
    model = randomised(families.build_model(family, config))
    tensors = to_theirs(model.state_dict(), bert.public_names(config, family))
    write(folder, bert.to_public_config(config) | {"architectures": [ARCHITECTURES[family]]}, tensors)
    (folder / "tokenizer.json").write_text(tokenizer.to_json(), "utf-8")
    return model, tensors


def gpt2_folder(folder: Path) -> tuple[Any, dict[str, Tensor]]:
    tokenizer = gpt2_tokenizer()
    config = gpt2.Config(len(tokenizer), context=24, size=8, hidden_size=12, heads=2, layers=2)
    model = randomised(gpt2.GPT2(config))
    tensors = to_theirs(model.state_dict(), gpt2.public_names(config), transposed=gpt2.PUBLIC_TRANSPOSED)
    write(folder, gpt2.to_public_config(config), tensors)
    (folder / "tokenizer.json").write_text(tokenizer.to_json(), "utf-8")
    return model, tensors


def vit_folder(folder: Path, labels: int = 3) -> tuple[Any, dict[str, Tensor]]:
    config = vit.Config(labels, image_size=8, patch_size=4, channels=3, size=8, hidden_size=12, heads=2, layers=2)
    model = randomised(vit.VisionTransformer(config))
    tensors = to_theirs(model.state_dict(), vit.public_names(config))
    write(folder, vit.to_public_config(config), tensors)
    preprocessing = Preprocessing((8, 8), mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.2))
    (folder / "preprocessor_config.json").write_text(preprocessing.to_json(), "utf-8")
    return model, tensors


def write(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    write_json(folder / "config.json", config)
    save_file({name: tensor.detach().clone() for name, tensor in tensors.items()}, folder / "model.safetensors")
