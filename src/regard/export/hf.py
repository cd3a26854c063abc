"""Folders that `transformers` loads: model.safetensors, config.json, tokenizer or image processor, generation settings.

BERT, GPT-2 and ViT go by the tables at the end of their model files. A Transformer becomes a Marian, or, if it
normalises before its sub-layers, a Pegasus: both read positions as sines followed by cosines, ours alternate. But
nothing in a Transformer depends on the order of the numbers in a state, so it is enough to renumber them everywhere.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import UsageError
from regard.export.companions import LABELLED, companions, fill, save_tensors, told_json
from regard.export.subject import Subject
from regard.layers.positions import sines_then_cosines
from regard.public.tensors import to_theirs

FAMILIES = ("bert", "bert-classifier", "bert-tagger", "bert-embedder", "gpt2", "vit", "transformer")
EXTRA, PACKAGES, QUANTIZATIONS = "", (), ()
STREAM = {  # the side of each matrix of a Transformer on which the numbers of a state stand
    "embedding.weight": 1,
    "query_key_value.weight": 1,
    "output.weight": 0,
    "output.bias": 0,
    "expand.weight": 1,
    "contract.weight": 0,
    "contract.bias": 0,
    "norm.weight": 0,
    "norm.bias": 0,
    "positions.table": 1,
}


def write(subject: Subject, folder: Path, quantization: str | None = None) -> None:
    files = {"config.json": told_json(settings(subject)), **companions(subject)}
    if subject.family == "bert-embedder":
        files |= sentence_transformer(subject)
    fill(folder, files)
    save_tensors(public_tensors(subject), folder / "model.safetensors")


def settings(subject: Subject) -> dict[str, Any]:
    """Their config.json."""
    if subject.family == "transformer":
        return translator_settings(subject)
    values = {key: value for key, value in subject.module.to_public_config(subject.config).items() if value is not None}
    values["architectures"] = [architecture(subject)]
    if subject.family in LABELLED:
        values["id2label"] = {str(number): label for number, label in enumerate(subject.labels)}
        values["label2id"] = {label: number for number, label in enumerate(subject.labels)}
    else:
        values.pop("id2label", None)
    if subject.family == "gpt2":
        values |= {"bos_token_id": subject.start, "eos_token_id": subject.tokenizer.end}
    return values | {"dtype": "float32"}


def architecture(subject: Subject) -> str:
    """The class of theirs that this model is."""
    config = subject.config
    known = {
        "bert": "BertForPreTraining" if getattr(config, "next_sentence", True) else "BertForMaskedLM",
        "bert-classifier": "BertForSequenceClassification",
        "bert-tagger": "BertForTokenClassification",
        "bert-embedder": "BertModel",
        "gpt2": "GPT2LMHeadModel",
        "vit": "ViTForImageClassification",
        "transformer": "PegasusForConditionalGeneration" if getattr(config, "pre_norm", False) else "MarianMTModel",
    }
    return known[subject.family]


def public_tensors(subject: Subject) -> dict[str, Tensor]:
    """All tensors under their public names."""
    if subject.family == "transformer":
        return translator_tensors(subject)
    named = (subject.config, subject.family) if subject.family.startswith("bert") else (subject.config,)
    names = subject.module.public_names(*named)
    return to_theirs(subject.model.state_dict(), names, transposed=subject.module.PUBLIC_TRANSPOSED)


def sentence_transformer(subject: Subject) -> dict[str, str]:
    """What the `sentence-transformers` package needs to pool as this embedder does."""
    pooling = subject.config.pooling
    kinds = ["Transformer", "Pooling"] + ["Normalize"] * subject.config.normalize
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": f"{number}_{kind}" if number else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, kind in enumerate(kinds)
    ]
    pooled = {
        "word_embedding_dimension": subject.config.size,
        "pooling_mode_cls_token": pooling == "cls",
        "pooling_mode_mean_tokens": pooling == "mean",
    }
    read = {"max_seq_length": subject.config.max_length, "do_lower_case": False}
    texts = {"modules.json": modules, "1_Pooling/config.json": pooled, "sentence_bert_config.json": read}
    return {name: told_json(value) for name, value in texts.items()}


def translator_settings(subject: Subject) -> dict[str, Any]:
    """As a Marian, or as a Pegasus, whose settings have the same names."""
    config = subject.config
    if config.positions == "learned":
        raise UsageError(
            f"{subject.run}: a Transformer with learned positions is none that transformers has; "
            "export it --to ctranslate2 or onnx, or train with model.positions=sinusoidal"
        )
    tokens = subject.tokenizer
    values = subject.module.to_public_config(replace(config, positions="sinusoidal_halves", pre_norm=False)) | {
        "architectures": [architecture(subject)],
        "decoder_start_token_id": tokens.start,
        "pad_token_id": tokens.pad,
        "eos_token_id": tokens.end,
        "bos_token_id": tokens.start,
        "forced_eos_token_id": None,
        "dtype": "float32",
    }
    return values | ({"model_type": "pegasus"} if config.pre_norm else {})


def translator_tensors(subject: Subject) -> dict[str, Tensor]:
    config, module = subject.config, subject.module
    names = module.public_names(config)
    if config.pre_norm:
        for stack in ("encoder", "decoder"):
            names |= {f"{stack}.norm.{end}": (f"model.{stack}.layer_norm.{end}",) for end in ("weight", "bias")}
    ours = subject.model.state_dict()
    if config.positions == "sinusoidal":
        ours = renumbered(ours, torch.cat([torch.arange(first, config.size, 2) for first in (0, 1)]))
    theirs = to_theirs(ours, names, transposed=module.PUBLIC_TRANSPOSED)
    theirs.setdefault("final_logits_bias", torch.zeros(1, config.vocabulary))
    if config.pre_norm:  # a Pegasus stores its positions
        table = sines_then_cosines(config.max_length, config.size)
        theirs |= {f"model.{stack}.embed_positions.weight": table.clone() for stack in ("encoder", "decoder")}
    return theirs


def renumbered(tensors: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """The same Transformer with the numbers of all its states in another order."""
    sides = {name: next((side for end, side in STREAM.items() if name.endswith(end)), None) for name in tensors}
    return {
        name: tensor if (side := sides[name]) is None else tensor.index_select(side, order.to(tensor.device))
        for name, tensor in tensors.items()
    }
