"""The models by name: where each family lives, and `family:size` presets."""

import dataclasses
import importlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from regard import settings
from regard.errors import RegardError, UsageError

FAMILIES = {
    "rnn": ("regard.models.encoder_decoder", "EncoderDecoder"),
    "bahdanau": ("regard.models.bahdanau", "Bahdanau"),
    "luong": ("regard.models.luong", "Luong"),
    "transformer": ("regard.models.transformer", "Transformer"),
    "ntm": ("regard.models.ntm", "NeuralTuringMachine"),
    "lstm": ("regard.models.lstm", "LongShortTermMemory"),
    "lstmn": ("regard.models.lstmn", "LSTMN"),
    "han": ("regard.models.han", "HierarchicalAttention"),
    "lstmn-classifier": ("regard.models.lstmn_classifier", "LSTMNClassifier"),
    "elmo": ("regard.models.elmo", "Elmo"),
    "tagger": ("regard.models.tagger", "WordTagger"),
    "vit": ("regard.models.vit", "VisionTransformer"),
    "snail": ("regard.models.snail", "Snail"),
    "snail-policy": ("regard.models.snail_policy", "SnailPolicy"),
    "image-words": ("regard.models.image_words", "ImageWords"),
    "show-tell": ("regard.models.show_tell", "ShowTell"),
    "attend-tell": ("regard.models.attend_tell", "AttendTell"),
    "caption-transformer": ("regard.models.caption_transformer", "CaptionTransformer"),
    "gpt2": ("regard.models.gpt2", "GPT2"),
    "bert": ("regard.models.bert", "Bert"),
    "bert-classifier": ("regard.models.bert", "BertClassifier"),
    "bert-tagger": ("regard.models.bert", "BertTagger"),
    "bert-embedder": ("regard.models.bert", "BertEmbedder"),
}


def build_model(family: str, config: Any) -> nn.Module:
    module, name = _family(family)
    model: nn.Module = getattr(module, name)(config)
    return model


def resolve(section: Mapping[str, Any], offered: Mapping[str, Any] | None = None, /, **known: Any) -> tuple[str, Any]:
    """The family and Config of a recipe's `model` section: `preset: transformer:tiny` and any sizes of its own.

    `known` are values that come from elsewhere, such as the size of the vocabulary; those `offered` are for the
    families whose Config has a place for them.
    """
    values = dict(section)
    preset = values.pop("preset", None)
    if not isinstance(preset, str):
        raise UsageError("the model section needs a preset, such as preset: transformer:tiny")
    family, _, size = preset.partition(":")
    module, _ = _family(family)
    if size not in module.PRESETS:
        sizes = ", ".join(f"{family}:{name}" for name in module.PRESETS)
        raise UsageError(f"there is no preset {preset!r}: choose one of {sizes}")
    places = {field.name for field in dataclasses.fields(module.Config)}
    wanted = {name: value for name, value in (offered or {}).items() if name in places}
    return family, settings.build(module.Config, {**module.PRESETS[size], **values, **known, **wanted}, "model")


def check(section: Mapping[str, Any], **known: Any) -> None:
    """Refuse a `model` section that cannot be built, without the cost of building it."""
    family, config = resolve(section, **known)
    with torch.device("meta"):
        build_model(family, config)


def config_json(family: str, config: Any, task: str) -> str:
    """What a checkpoint says about its model: the family, its sizes, and the task it was trained for."""
    return json.dumps({"family": family, "task": task, **dataclasses.asdict(config)}, indent=1)


def config_from_json(values: Mapping[str, Any], place: str) -> tuple[str, Any, str]:
    """The family, the Config and the task of a checkpoint."""
    values = dict(values)
    family, task = values.pop("family", None), values.pop("task", "translate")
    if family not in FAMILIES:
        raise RegardError(f"{place}: the family {family!r} is not one of {', '.join(FAMILIES)}")
    return family, settings.build(_family(family)[0].Config, values, place), task


def _family(name: str) -> tuple[Any, str]:
    if name not in FAMILIES:
        raise UsageError(f"there is no model family {name!r}: choose one of {', '.join(FAMILIES)}")
    module, model = FAMILIES[name]
    return importlib.import_module(module), model
