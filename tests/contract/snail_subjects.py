"""SNAIL under the contract: few-shot episodes with examples of any number, and games of any length."""

from typing import Any

import torch
from torch import Tensor, nn

from contract.subject import Padding, Subject
from regard.models import snail, snail_policy

SIDE = 8


def padded(rows: list[Tensor], padding: Padding, width: int) -> tuple[Tensor, Tensor]:
    """Rows of different lengths as one batch, and which elements are real."""
    table = torch.zeros(len(rows), width, *rows[0].shape[1:], dtype=rows[0].dtype)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for number, row in enumerate(rows):
        start = width - len(row) if padding.side == "left" else 0
        table[number, start : start + len(row)] = row
        mask[number, start : start + len(row)] = True
    return table, mask


def few_shot(kind: str, **changes: Any) -> Subject:
    sizes: dict[str, Any] = dict(image_size=SIDE, filters=4, layers=2, embedding_size=6)
    config = snail.Config(**{**sizes, "ways": 3, "shots": 2, "blocks": ("att 4 3", "tc 3", "att 5 4"), **changes})

    def pictures(count: int, draw: torch.Generator) -> Tensor:
        return torch.randn(count, config.channels, SIDE, SIDE, generator=draw)

    def examples(seed: int) -> list[Any]:
        draw = torch.Generator().manual_seed(seed)
        return [
            (pictures(count, draw), torch.randint(0, config.ways, (count,), generator=draw), pictures(2, draw))
            for count in (6, 1, 4, 3)
        ]

    def outputs(model: nn.Module, episodes: list[Any], padding: Padding) -> list[Tensor]:
        width = max(len(labels) for _, labels, _ in episodes) + padding.extra
        images, mask = padded([images for images, _, _ in episodes], padding, width)
        labels, _ = padded([labels for _, labels, _ in episodes], padding, width)
        return list(model(images, labels, torch.stack([queries for _, _, queries in episodes]), mask))

    def under(model: nn.Module, mask: Tensor) -> Tensor:
        draw = torch.Generator().manual_seed(0)
        images = pictures(mask.numel(), draw).unflatten(0, mask.shape)
        labels = torch.randint(0, config.ways, mask.shape, generator=draw)
        logits: Tensor = model(images, labels, pictures(len(mask), draw)[:, None], mask)
        return logits

    return Subject("snail", kind, config, "few-shot", examples, outputs, under)


def policy(kind: str, **changes: Any) -> Subject:
    config = snail_policy.Config(**{"arms": 3, "pulls": 5, "embedding_size": 5, **changes})

    def examples(seed: int) -> list[Any]:
        draw = torch.Generator().manual_seed(seed)
        return [
            (torch.randint(-1, config.arms, (length,), generator=draw), torch.rand(length, generator=draw))
            for length in (5, 1, 3, 4)
        ]

    def outputs(model: nn.Module, games: list[Any], padding: Padding) -> list[Tensor]:
        width = max(len(arms) for arms, _ in games) + padding.extra
        arms, mask = padded([arms for arms, _ in games], padding, width)
        rewards, _ = padded([rewards for _, rewards in games], padding, width)
        logits, values = model(arms, rewards, mask)
        said = torch.cat([logits, values[..., None]], -1)
        return [row[real] for row, real in zip(said, mask, strict=True)]

    def under(model: nn.Module, mask: Tensor) -> Tensor:
        draw = torch.Generator().manual_seed(0)
        arms = torch.randint(-1, config.arms, mask.shape, generator=draw)
        logits, values = model(arms, torch.rand(mask.shape, generator=draw), mask)
        return torch.cat([logits, values[..., None]], -1)

    return Subject("snail-policy", kind, config, "bandit", examples, outputs, under)


SUBJECTS = [
    few_shot("attention first"),
    few_shot("coloured, convolution first", channels=3, blocks=("tc 3", "tc 2", "att 4 4"), ways=2, shots=3),
    policy("two attentions", blocks=("tc 4", "att 3 3", "tc 2", "att 4 2")),
    policy("the paper's order", blocks=("tc 4", "tc 3", "att 4 4"), arms=2),
]
