"""Looking at a transformers model through its own tokenizer.

    model, tokenizer = AutoModel.from_pretrained(NAME), AutoTokenizer.from_pretrained(NAME)
    regard.look(model, tokenizer, "The animal didn't cross the street.")

One forward pass under `record`. A model that reads one text and says another is told the target, or what it says
itself, taking the best token at every step. Nothing here imports transformers: whoever has a model has it.
"""

import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regard.attention.watching import kernel_attentions, watch
from regard.data.frames import Text
from regard.decoding.generate import evaluating
from regard.errors import UsageError
from regard.views.look import Look
from regard.views.maps import AttentionMap

NEW_TOKENS = 128  # of a target the model makes up itself
TITLES = {"encoder": "self-attention", "decoder": "self-attention", "cross": "cross-attention"}
_BEGINS = ("▁", "Ġ", "Ċ")  # how tokenizers mark the piece that begins a word
_CONTINUES = "##"


class _Side:
    """Tokens with their labels and the numbers of their words."""

    def __init__(self, tokenizer: Any, tokens: Sequence[int], word_ids: Sequence[int | None] | None = None):
        self.tokens = list(tokens)
        self.labels = tuple(tokenizer.decode([token]) for token in self.tokens)
        # A model may have more tokens than its tokenizer; those have no piece.
        pieces = [piece or "" for piece in tokenizer.convert_ids_to_tokens(self.tokens)]
        special = [token in set(tokenizer.all_special_ids) for token in self.tokens]
        self.words = tuple(word_numbers(pieces, special, word_ids))

    def __len__(self) -> int:
        return len(self.tokens)


def look_elsewhere(
    model: nn.Module, tokenizer: Any, text: Text, target: str | None = None, *, layers: Any = None, heads: Any = None
) -> Look:
    """What each token of a text, or of a pair of texts, looks at in a model of transformers."""
    config = getattr(model, "config", None)
    if config is None or not callable(tokenizer):
        raise UsageError(
            f"to look into a {type(model).__name__}, give a transformers model and its tokenizer: "
            "regard.look(model, tokenizer, text)"
        )
    texts = (text,) if isinstance(text, str) else tuple(text)
    inputs = tokenizer(*texts, return_tensors="pt").to(next(model.parameters()).device)
    word_ids = inputs.word_ids() if getattr(inputs, "is_fast", False) else None
    read = _Side(tokenizer, inputs["input_ids"][0].tolist(), word_ids)
    _check_room(read, tokenizer, config)
    if getattr(config, "is_encoder_decoder", False):
        told, said = _target(model, tokenizer, inputs, target)
        inputs["decoder_input_ids"] = torch.tensor([told.tokens], device=inputs["input_ids"].device)
    elif target is not None:
        raise UsageError(f"a target is for models that read one text and say another; {type(model).__name__} does not")
    else:
        told = said = read
    with evaluating(model), torch.inference_mode(), watch(model, layers=layers, heads=heads) as tape:
        model(**inputs)
    weights = {name: known[0].float().cpu().numpy() for name, known in tape.items()}
    maps = _maps([name for name, _ in kernel_attentions(model)], weights, read, told, said, told is not read)
    source = " / ".join(texts)
    answer = tokenizer.decode(said.tokens, skip_special_tokens=True) if told is not read else None
    several = heads is not None and len(maps[0].weights) > 1
    return Look(source if answer is None else f"{source} → {answer}", maps, source, answer, by_head=several)


def _check_room(read: _Side, tokenizer: Any, config: Any) -> None:
    if not len(read):
        raise UsageError("there is nothing to look at in an empty text")
    room = min(_places(config), tokenizer.model_max_length)
    if len(read) > room:
        raise UsageError(f"the text has {len(read)} tokens but the model reads {room} at most: shorten it")


def _places(config: Any) -> int:
    """How many tokens a model has places for; one with relative positions has any number."""
    return getattr(config, "max_position_embeddings", None) or sys.maxsize


def _target(model: Any, tokenizer: Any, inputs: Any, target: str | None) -> tuple[_Side, _Side]:
    """What the decoder is told, and what it says at each place: the same, one place later."""
    if target is None:
        if not model.can_generate():
            raise UsageError(f"{type(model).__name__} says nothing by itself: give target=...")
        with evaluating(model), torch.inference_mode():
            most = min(NEW_TOKENS, _places(model.config) - 1)
            tokens = model.generate(**inputs, num_beams=1, do_sample=False, max_new_tokens=most)[0].tolist()
    else:
        start = model.config.decoder_start_token_id
        if start is None:
            raise UsageError(f"the config of {type(model).__name__} has no decoder_start_token_id: set it")
        tokens = [start, *tokenizer(text_target=target)["input_ids"]]
        _check_room(_Side(tokenizer, tokens[1:]), tokenizer, model.config)
    return _Side(tokenizer, tokens[:-1]), _Side(tokenizer, tokens[1:])


def _maps(
    names: Sequence[str], weights: dict[str, NDArray[np.float32]], read: _Side, told: _Side, said: _Side, pairs: bool
) -> tuple[AttentionMap, ...]:
    """The maps, numbered among all attentions of their kind."""
    if pairs:
        kinds = {name: _kind(name) for name in names}
    else:
        backwards = not any(np.triu(known, 1).any() for known in weights.values())
        kinds = dict.fromkeys(names, "decoder" if backwards else "encoder")
    sides = {"encoder": (read, read), "decoder": (said, told), "cross": (said, read)}
    maps = []
    for name, known in weights.items():
        kind = kinds[name]
        queries, keys = sides[kind]
        if known.shape[1:] != (len(queries), len(keys)):
            raise UsageError(f"{name} does not weigh each token against each: its weights have shape {known.shape}")
        layer = [other for other in names if kinds[other] == kind].index(name) + 1
        title = f"{kind} {TITLES[kind]}" if pairs and kind != "cross" else TITLES[kind]
        maps.append(
            AttentionMap(
                name=f"{title}, layer {layer}",
                kind=kind,
                layer=layer,
                weights=known,
                queries=queries.labels,
                keys=keys.labels,
                query_words=queries.words,
                key_words=keys.words,
                causal=kind == "decoder",
            )
        )
    return tuple(maps)


def _kind(name: str) -> str:
    """Of an attention in a model with an encoder and a decoder, from the names people give them."""
    if re.search(r"cross|encoder_attn|encdec", name, flags=re.IGNORECASE):
        return "cross"
    return next((part for part in name.split(".") if part in ("encoder", "decoder")), "encoder")


def word_numbers(
    pieces: Sequence[str], special: Sequence[bool], word_ids: Sequence[int | None] | None = None
) -> list[int]:
    """For each piece the number of its word; a special token is a word of its own.

    A word begins where the tokenizer's own count goes on, or where a mark says so. Without a count, and without marks
    of beginnings, it begins with every piece that is not marked as a continuation.
    """
    marked = any(piece.startswith(_BEGINS) for piece in pieces)
    numbers: list[int] = []
    for place, piece in enumerate(pieces):
        begins = piece.startswith(_BEGINS) or special[place] or place == 0 or special[place - 1]
        if word_ids is not None:
            begins = begins or word_ids[place] != word_ids[place - 1]
        elif not marked:
            begins = begins or not piece.startswith(_CONTINUES)
        numbers.append((numbers[-1] if numbers else -1) + begins)
    return numbers
