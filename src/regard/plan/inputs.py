"""Made-up inputs for one call of any model: what a row of each family is."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.plan.derived import Work

FEW_WORDS = 32  # as many as a cut-down vocabulary has
SENTENCE = 25  # words of a sentence of a document


def tokens(*shape: int, least: int = 4, most: int = FEW_WORDS - 1) -> Tensor:
    """Different ones, never padding nor a mark, whose like stand far apart."""
    count = math.prod(shape)
    return (least + torch.arange(count) * 7919 % (most - least + 1)).view(shape)


def pictures(config: Any, *shape: int) -> Tensor:
    return torch.rand(*shape, getattr(config, "channels", 3), config.image_size, config.image_size)


def documents(rows: int, length: int) -> Tensor:
    """A text in sentences of at most SENTENCE words."""
    words = min(length, SENTENCE)
    return tokens(rows, max(1, length // words), words)


def _translation(config: Any, work: Work, rows: int) -> tuple[Tensor, ...]:
    return tokens(rows, work.source), tokens(rows, work.length)


def _text(config: Any, work: Work, rows: int) -> tuple[Tensor, ...]:
    return (tokens(rows, work.length),)


def _document(config: Any, work: Work, rows: int) -> tuple[Tensor, ...]:
    return (documents(rows, work.length),)


def _vectors(config: Any, work: Work, rows: int) -> tuple[Tensor, ...]:
    return (torch.rand(rows, work.length, config.input_size),)


def _spelt(config: Any, work: Work, rows: int) -> tuple[Tensor, ...]:
    return (tokens(rows, work.length, config.max_chars, least=1, most=199),)


def _words_and_spelt(config: Any, work: Work, rows: int) -> tuple[Tensor, ...]:
    return tokens(rows, work.length), *_spelt(config, work, rows)


def _picture(config: Any, work: Work, rows: int) -> tuple[Tensor, ...]:
    return (pictures(config, rows),)


def _picture_and_caption(config: Any, work: Work, rows: int) -> tuple[Tensor, ...]:
    return pictures(config, rows), tokens(rows, work.length)


def _episode(config: Any, work: Work, rows: int) -> tuple[Tensor, ...]:
    shown = config.ways * config.shots
    labels = (torch.arange(shown) % config.ways).expand(rows, -1)
    return pictures(config, rows, shown), labels, pictures(config, rows, config.ways)


def _game(config: Any, work: Work, rows: int) -> tuple[Tensor, ...]:
    return torch.zeros(rows, config.pulls, dtype=torch.long), torch.zeros(rows, config.pulls)


INPUTS: dict[str, Callable[[Any, Work, int], tuple[Tensor, ...]]] = {
    "rnn": _translation,
    "bahdanau": _translation,
    "luong": _translation,
    "transformer": _translation,
    "ntm": _vectors,
    "lstm": _vectors,
    "lstmn": _text,
    "han": _document,
    "lstmn-classifier": _text,
    "elmo": _spelt,
    "tagger": _words_and_spelt,
    "vit": _picture,
    "snail": _episode,
    "snail-policy": _game,
    "image-words": _picture,
    "show-tell": _picture_and_caption,
    "attend-tell": _picture_and_caption,
    "caption-transformer": _picture_and_caption,
    "gpt2": _text,
    "bert": _text,
    "bert-classifier": _text,
    "bert-tagger": _text,
    "bert-embedder": _text,
}


def row_tokens(family: str, config: Any, work: Work) -> int:
    """How many tokens a row counts for: words, patches and a class token, pictures of an episode, pulls."""
    if family == "vit":
        return (config.image_size // config.patch_size) ** 2 + 1
    if family == "image-words":
        return 1
    if family == "snail":
        return config.ways * config.shots + config.ways
    return config.pulls if family == "snail-policy" else work.length
