"""Made-up inputs for one call of any model, by the names of what it takes."""

import math
from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

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


def _images(config: Any, work: Work, rows: int) -> Tensor:
    """One of each row, or those shown in an episode."""
    return pictures(config, rows, config.ways * config.shots) if hasattr(config, "shots") else pictures(config, rows)


# What every name in the signature of a `forward` stands for.
ARGUMENTS: dict[str, Callable[[Any, Work, int], Tensor]] = {
    "source": lambda config, work, rows: tokens(rows, work.source),
    "target": lambda config, work, rows: tokens(rows, work.length),
    "tokens": lambda config, work, rows: tokens(rows, work.length),
    "words": lambda config, work, rows: tokens(rows, work.length),
    "chars": lambda config, work, rows: tokens(rows, work.length, config.max_chars, least=1, most=199),
    "documents": lambda config, work, rows: documents(rows, work.length),
    "inputs": lambda config, work, rows: torch.rand(rows, work.length, config.input_size),
    "images": _images,
    "labels": lambda config, work, rows: (torch.arange(config.ways * config.shots) % config.ways).expand(rows, -1),
    "queries": lambda config, work, rows: pictures(config, rows, config.ways),
    "arms": lambda config, work, rows: torch.zeros(rows, config.pulls, dtype=torch.long),
    "rewards": lambda config, work, rows: torch.zeros(rows, config.pulls),
}


def inputs(model: nn.Module, config: Any, work: Work, rows: int) -> tuple[Tensor, ...]:
    """All that the model's `forward` must be given."""
    needed = [one.name for one in signature(model.forward).parameters.values() if one.default is one.empty]
    return tuple(ARGUMENTS[name](config, work, rows) for name in needed)


def row_tokens(family: str, config: Any, work: Work) -> int:
    """How many tokens a row counts for: words, patches and a class token, pictures of an episode, pulls."""
    if family == "vit":
        return (config.image_size // config.patch_size) ** 2 + 1
    if family == "image-words":
        return 1
    if family == "snail":
        return config.ways * config.shots + config.ways
    return config.pulls if family == "snail-policy" else work.length
