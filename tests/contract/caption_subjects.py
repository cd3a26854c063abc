"""The captioners and the encoder they share: an example is a picture and a caption; only captions have padding."""

from typing import Any

import torch
from torch import Tensor, nn

from contract.subject import Padding, Subject
from contract.translator_subjects import PAD, VOCABULARY, padded, tokens
from regard.models import attend_tell, caption_transformer, image_words, show_tell

SIDE = 32  # pixels: four regions


def pictures(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(seed))


def examples(seed: int) -> list[tuple[Tensor, Tensor]]:
    captions = [tokens(1, length, seed + 10 * row)[0] for row, length in enumerate((4, 1, 5, 2))]
    return list(zip(pictures(4, seed), captions, strict=True))


def outputs(model: nn.Module, pairs: list[tuple[Tensor, Tensor]], padding: Padding) -> list[Tensor]:
    target = padded([caption for _, caption in pairs], padding)
    logits = model(torch.stack([picture for picture, _ in pairs]), target)
    return [row[told != PAD] for row, told in zip(logits, target, strict=True)]


def under(model: nn.Module, mask: Tensor) -> Tensor:
    logits: Tensor = model(pictures(len(mask)), tokens(*mask.shape, seed=1).masked_fill(~mask, PAD))
    return logits


def subject(family: str, kind: str, config: Any) -> Subject:
    return Subject(family, kind, config, "caption", examples, outputs, under)


def words(seed: int) -> list[Tensor]:
    return list(pictures(4, seed))


def logits(model: nn.Module, images: list[Tensor], padding: Padding) -> list[Tensor]:
    return list(model(torch.stack(images)))


SMALL: dict[str, Any] = dict(vocabulary=VOCABULARY, pad=PAD, backbone="tiny_cnn", image_size=SIDE, dropout=0.1)
ATTEND: dict[str, Any] = SMALL | dict(embedding_size=6, size=8, alignment_size=5)

CAPTIONERS = [
    subject("show-tell", "tied", show_tell.Config(**SMALL, embedding_size=8, size=8, tied=True)),
    subject("show-tell", "two layers", show_tell.Config(**SMALL, embedding_size=6, size=8, layers=2)),
    subject("attend-tell", "soft", attend_tell.Config(**ATTEND)),
    subject("attend-tell", "soft, tied", attend_tell.Config(**ATTEND, tied=True)),
    subject("attend-tell", "hard", attend_tell.Config(**ATTEND, align="hard")),
    subject(
        "caption-transformer",
        "two layers",
        caption_transformer.Config(**SMALL, size=8, hidden_size=12, heads=2, layers=2),
    ),
]
SUBJECTS = [
    *CAPTIONERS,
    Subject(
        "image-words",
        "tiny",
        image_words.Config(labels=5, backbone="tiny_cnn", image_size=SIDE, dropout=0.1),
        "regions",
        words,
        logits,
    ),
]
