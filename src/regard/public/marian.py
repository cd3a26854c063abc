"""Public Marians (OPUS-MT and others): translators, with the decoding their checkpoint asks for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from regard import families, settings
from regard.data.marian_tokenizer import MarianTokenizer
from regard.decoding.settings import Decoding
from regard.errors import RegardError, UsageError
from regard.models import transformer
from regard.public.building import Checkpoint, understood
from regard.tasks.translator import Translator
from regard.training.checkpoints import load_json

# What else a checkpoint may ask of a search, with the only value of each that is implemented here.
REQUIRED = {
    "early_stopping": False,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "min_length": 0,
    "min_new_tokens": 0,
    "num_beam_groups": 1,
    "forced_bos_token_id": None,
    "suppress_tokens": None,
}


def open_marian(folder: Path, values: Mapping[str, Any], device: torch.device) -> Translator:
    checkpoint = Checkpoint(folder, values, device)
    checkpoint.architecture(list(transformer.PUBLIC_FAMILIES))
    config = checkpoint.config(transformer.public_config)
    tokenizer = MarianTokenizer.open(folder)
    _check_fit(checkpoint, config, tokenizer)
    decoding = public_decoding(folder, values, config.pad)
    names = transformer.public_names(config)
    model = checkpoint.model("transformer", config, names, transformer, checkpoint.weights())
    return Translator(model, tokenizer, decoding, families.config_json("transformer", config, "translate"))


def public_decoding(folder: Path, values: Mapping[str, Any], pad: int) -> Decoding:
    """What generation_config.json asks for, or, in older checkpoints, config.json; greedy if neither does.

    Their limit of the length counts the start token, and the end that they force there; at ours a sentence is over
    without one. Padding is never said here: `bad_words_ids` need not ask for that.
    """
    place = folder / "generation_config.json"
    found = load_json(place) if place.is_file() else values
    place = place if place.is_file() else folder / "config.json"
    given = {key: value for key, value in found.items() if value is not None}
    for key, only in REQUIRED.items():
        if given.get(key, only) != only:
            raise UsageError(f"{place}: {key} is {given[key]!r}, but only {only!r} is implemented; take it out")
    known = ("num_beams", "length_penalty", "max_new_tokens", "do_sample", "renormalize_logits")
    drawn = ("temperature", "top_k", "top_p") if given.get("do_sample") else ()
    chosen = {"num_beams": 1} | {key: given[key] for key in (*known, *drawn) if key in given}
    with understood(str(place)):
        if any(list(words) != [pad] for words in given.get("bad_words_ids", [])):
            raise UsageError(f"{place}: bad_words_ids forbids more than the padding token {pad}; take it out")
        if "max_length" in given:
            chosen.setdefault("max_new_tokens", given["max_length"] - 1)
        if "max_new_tokens" in chosen and "forced_eos_token_id" in given:
            chosen["max_new_tokens"] -= 1
    return settings.build(Decoding, chosen, str(place))


def _check_fit(checkpoint: Checkpoint, config: transformer.Config, tokenizer: MarianTokenizer) -> None:
    if len(tokenizer) != config.vocabulary:
        raise RegardError(
            f"{checkpoint.folder}: vocab.json has {len(tokenizer)} pieces but the model {config.vocabulary}; "
            "they do not belong together"
        )
    ends = checkpoint.values.get("eos_token_id", tokenizer.end)
    for name, number, said in (("<pad>", tokenizer.pad, config.pad), ("</s>", tokenizer.end, ends)):
        if number != said:
            raise RegardError(f"{checkpoint.folder}: {name} is token {number} in vocab.json but {said} in config.json")
