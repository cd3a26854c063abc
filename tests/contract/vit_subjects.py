"""The Vision Transformer under the contract: an example is a picture; all of a batch have one size and no padding.

Its head begins at zero and says nothing yet, so what it says here is the class token's state as well.
"""

from typing import Any

import torch
from torch import Tensor, nn

from contract.subject import Padding, Subject
from regard.models.vit import Config

SIZES: dict[str, Any] = dict(
    labels=3, image_size=6, patch_size=2, channels=1, size=8, hidden_size=12, heads=2, layers=2
)


def subject(kind: str, height: int, width: int, **changes: Any) -> Subject:
    config = Config(**{**SIZES, **changes})

    def examples(seed: int) -> list[Any]:
        draw = torch.Generator().manual_seed(seed)
        return [torch.randn(config.channels, height, width, generator=draw) for _ in range(4)]

    def outputs(model: nn.Module, images: list[Any], padding: Padding) -> list[Tensor]:
        states = model.states(torch.stack(images))[:, 0]  # type: ignore[operator]
        return list(torch.cat([model.head(states), states], dim=1))  # type: ignore[operator]

    return Subject("vit", kind, config, "classify-images", examples, outputs)


SUBJECTS = [
    subject("grey", 6, 6, dropout=0.1),
    subject("coloured, another size", 8, 5, channels=3),
    subject("one patch", 2, 2, image_size=2, heads=1, layers=1, activation="gelu_tanh"),
]
