"""Public BERTs: fillers of gaps, classifiers, taggers and embedders, the last with sentence-transformers' settings."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import families
from regard.errors import RegardError, UsageError
from regard.models import bert
from regard.public.building import Checkpoint, understood
from regard.public.tokenizing import read_tokenizer
from regard.tasks.classifier import Classifier
from regard.tasks.classify import Reading
from regard.tasks.mask_filler import MaskFiller, TextEmbedder
from regard.tasks.token_tagger import TokenTagger
from regard.training.checkpoints import load_json

TASKS = {"bert": "mask-fill", "bert-embedder": "mask-fill", "bert-classifier": "classify", "bert-tagger": "tag"}
# The pooler and the next-sentence head.
NEXT = frozenset({"cls.seq_relationship.weight", "bert.pooler.dense.weight"})
# sentence-transformers' poolings that are ours too, as older versions write them.
MODES = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}


def open_bert(folder: Path, values: Mapping[str, Any], device: torch.device) -> Any:
    """The verbs of the head that the checkpoint was saved with."""
    checkpoint = Checkpoint(folder, values, device)
    said = checkpoint.architecture(list(bert.PUBLIC_FAMILIES))
    config = checkpoint.config(bert.public_config)
    tokenizer = read_tokenizer(folder, config.vocabulary)
    theirs = checkpoint.weights()
    architecture = said or guessed_architecture(theirs, checkpoint)
    family = bert.PUBLIC_FAMILIES[architecture]
    config = replace(config, pad=tokenizer.pad, separator=tokenizer.end)
    if architecture == "BertForMaskedLM":  # it often brings the other half of pre-training along
        config = replace(config, next_sentence=theirs.keys() >= NEXT)
    if family == "bert-embedder":
        config = replace(config, **sentence_vectors(folder))
    if family == "bert-classifier":
        refuse_other_problems(checkpoint, config.labels)
    model = checkpoint.model(family, config, bert.public_names(config, family), bert, theirs)
    config_json = families.config_json(family, config, TASKS[family])
    if family == "bert-classifier":
        reading = Reading(max_length=config.max_length)
        return Classifier(model, tokenizer, checkpoint.labels(config.labels), reading, config_json)
    if family == "bert-tagger":
        return TokenTagger(model, tokenizer, checkpoint.labels(config.labels), config_json)
    verbs = TextEmbedder if family == "bert-embedder" else MaskFiller
    return verbs(model, tokenizer, config_json, longest_text(folder))


def guessed_architecture(theirs: Mapping[str, Tensor], checkpoint: Checkpoint) -> str:
    """Some early checkpoints do not say what they are; their tensors do."""
    if any(name.startswith("cls.predictions.") for name in theirs):
        return "BertForMaskedLM"
    if any(name.startswith("classifier.") for name in theirs):
        raise UsageError(
            f'{checkpoint.place}: does not say what the classifier labels; add "architectures": '
            '["BertForSequenceClassification"] for texts or ["BertForTokenClassification"] for tokens'
        )
    return "BertModel"


def refuse_other_problems(checkpoint: Checkpoint, labels: int) -> None:
    problem = checkpoint.values.get("problem_type") or ("regression" if labels == 1 else None)
    if problem not in (None, "single_label_classification"):
        raise UsageError(f"{checkpoint.place}: its head is for {problem}; here a text has one label of several")


# sentence-transformers: three small files beside the checkpoint.


def sentence_vectors(folder: Path) -> dict[str, Any]:
    """How the states of a text become its vector: modules.json, and the Pooling it names."""
    place = folder / "modules.json"
    if not place.is_file():
        return {}
    modules = _modules(place)
    for kind in modules:
        if kind not in ("Transformer", "Pooling", "Normalize"):
            raise UsageError(f"{place}: the module {kind!r} is not known here; its vectors would be others")
    pooling = folder / modules["Pooling"] / "config.json" if "Pooling" in modules else None
    found = {"normalize": "Normalize" in modules}
    return found if pooling is None else {**found, "pooling": _pooling(pooling)}


def longest_text(folder: Path) -> int | None:
    """The most tokens of a text that are read, if that is fewer than the model has positions."""
    place = folder / "sentence_bert_config.json"
    if not place.is_file():
        return None
    limit = load_json(place).get("max_seq_length")
    if limit is not None and (not isinstance(limit, int) or limit < 4):
        raise RegardError(f"{place}: max_seq_length is {limit!r} but must be a whole number, at least 4")
    return limit


def _modules(place: Path) -> dict[str, str]:
    """The kind of each module, the last word of its type, and its folder."""
    try:
        listed = json.loads(place.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RegardError(f"{place}: damaged ({error}); fetch it again") from error
    with understood(str(place)):
        found = {str(module["type"]).rsplit(".", 1)[-1]: str(module["path"]) for module in listed}
    for path in found.values():
        if path not in ("", Path(path).name) or path == "..":
            raise RegardError(f"{place}: {path!r} is not a folder of this checkpoint")
    return found


def _pooling(place: Path) -> str:
    values = load_json(place)
    said = values.get("pooling_mode")
    if said is None:
        chosen = [key for key, value in values.items() if key.startswith("pooling_mode_") and value]
        said = MODES.get(chosen[0], chosen[0]) if len(chosen) == 1 else " and ".join(chosen)
    if said not in MODES.values():
        raise UsageError(f"{place}: the pooling {said!r} is not known here; known are {', '.join(MODES.values())}")
    return str(said)
