"""ELMo and the tagger under the contract: an example is a sentence of words, each a number and its characters."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from contract.subject import Padding, Subject
from regard.models import elmo, tagger

WIDTH, FILL, VOCABULARY = 6, 261, 11


def sentence(length: int, seed: int) -> tuple[Tensor, Tensor]:
    """Word numbers [length], characters [length, WIDTH] of words of different lengths."""
    draw = torch.Generator().manual_seed(seed)
    chars = torch.randint(1, 261, (length, WIDTH), generator=draw)
    lengths = torch.randint(3, WIDTH + 1, (length, 1), generator=draw)
    words = torch.randint(0, VOCABULARY, (length,), generator=draw)
    return words, chars.masked_fill(torch.arange(WIDTH) >= lengths, FILL)


def examples(seed: int) -> list[Any]:
    return [sentence(length, seed + 10 * length) for length in (6, 1, 3, 5)]


def batch(sentences: list[Any], padding: Padding) -> tuple[Tensor, Tensor]:
    width = max(len(words) for words, _ in sentences) + padding.extra
    fills = [(width - len(words), 0) if padding.side == "left" else (0, width - len(words)) for words, _ in sentences]
    known = list(zip(sentences, fills, strict=True))
    return (
        torch.stack([F.pad(words, fill, value=-1) for (words, _), fill in known]),
        torch.stack([F.pad(chars, (0, 0, *fill)) for (_, chars), fill in known]),
    )


def said_both_ways(model: nn.Module, sentences: list[Any], padding: Padding) -> list[Tensor]:
    _, chars = batch(sentences, padding)
    return [row[spelt[:, 0] != 0] for row, spelt in zip(model(chars), chars, strict=True)]


def tags_said(model: nn.Module, sentences: list[Any], padding: Padding) -> list[Tensor]:
    words, chars = batch(sentences, padding)
    return [row[spelt[:, 0] != 0] for row, spelt in zip(model(words, chars), chars, strict=True)]


def masked(mask: Tensor) -> tuple[Tensor, Tensor]:
    words, chars = sentence(mask.numel(), 0)
    return words.view(mask.shape), chars.view(*mask.shape, WIDTH).masked_fill(~mask.unsqueeze(-1), 0)


def both_ways_under(model: nn.Module, mask: Tensor) -> Tensor:
    outputs: Tensor = model(masked(mask)[1])
    return outputs


def tags_under(model: nn.Module, mask: Tensor) -> Tensor:
    outputs: Tensor = model(*masked(mask))
    return outputs


READER: dict[str, Any] = dict(size=6, cell_size=8, char_size=4, max_chars=WIDTH, dropout=0.1)
READERS: dict[str, dict[str, Any]] = {
    "two layers, residual": dict(filters=(3, 0, 4), highways=1),
    "tight clips, no highway": dict(
        filters=(4, 5), highways=0, layers=1, cell_clip=0.1, projection_clip=0.05, activation="tanh"
    ),
}
# As JSON brings them back: a list of filters.
INSIDE = elmo.Config(vocabulary=0, **READER, filters=(3, 4), highways=1)
SIZES = {name: value for name, value in vars(INSIDE).items() if name != "vocabulary"} | {"filters": [3, 4]}
SMALL: dict[str, Any] = dict(
    vocabulary=VOCABULARY, tags=3, embedding_size=5, char_size=4, filters=(3, 3), max_chars=WIDTH
)
SMALL |= dict(spelling_size=4, size=6, cell_size=8, dropout=0.1)
TAGGERS: dict[str, dict[str, Any]] = {
    "two layers, no ELMo": dict(layers=2),
    "a mix of ELMo's layers, tuned": dict(elmo=SIZES, tune=True),
    "ELMo's first layer, tuned": dict(elmo=SIZES, tune=True, elmo_layer=1),
    "ELMo's words alone, tuned": dict(elmo=SIZES, tune=True, elmo_layer=0),
}
SUBJECTS = [
    *(
        Subject(
            "elmo",
            kind,
            elmo.Config(vocabulary=VOCABULARY, **READER, **sizes),
            "bidirectional-lm",
            examples,
            said_both_ways,
            both_ways_under,
        )
        for kind, sizes in READERS.items()
    ),
    *(
        Subject("tagger", kind, tagger.Config(**SMALL, **sizes), "tag", examples, tags_said, tags_under)
        for kind, sizes in TAGGERS.items()
    ),
]
