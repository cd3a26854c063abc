"""Public GPT-2s: language models, with the decoding their checkpoint asks for."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard import families, settings
from regard.decoding.settings import Decoding
from regard.models import gpt2
from regard.public.building import Checkpoint
from regard.public.tokenizing import read_tokenizer
from regard.tasks.language_verbs import LanguageModel
from regard.training.checkpoints import load_json

ARCHITECTURES = ["GPT2LMHeadModel", "GPT2Model"]  # the output is the embedding: the bare model can say words too
USUAL_TOP_K = 50  # their samples are drawn among so many tokens unless the checkpoint says otherwise


def open_gpt2(folder: Path, values: Mapping[str, Any], device: torch.device) -> LanguageModel:
    checkpoint = Checkpoint(folder, values, device)
    checkpoint.architecture(ARCHITECTURES)
    config = checkpoint.config(gpt2.public_config)
    tokenizer = read_tokenizer(folder, config.vocabulary)
    config = replace(config, pad=tokenizer.pad)
    model = checkpoint.model("gpt2", config, gpt2.public_names(config), gpt2, checkpoint.weights())
    decoding = public_decoding(folder, values)
    return LanguageModel(model, tokenizer, decoding, families.config_json("gpt2", config, "language-model"))


def public_decoding(folder: Path, values: Mapping[str, Any]) -> Decoding:
    """What generation_config.json asks for, or, in older checkpoints, config.json; greedy if neither does."""
    place = folder / "generation_config.json"
    said = load_json(place) if place.is_file() else values
    known = ("num_beams", "length_penalty", "max_new_tokens", "do_sample", "temperature", "top_k", "top_p")
    chosen: dict[str, Any] = {"num_beams": 1} | {key: said[key] for key in known if said.get(key) is not None}
    if chosen.get("do_sample"):
        chosen |= {"num_beams": 1, "top_k": chosen.get("top_k", USUAL_TOP_K) or None}
    else:
        chosen = {key: value for key, value in chosen.items() if key not in ("temperature", "top_k", "top_p")}
    return settings.build(Decoding, chosen, str(place if place.is_file() else folder / "config.json"))
