"""Folders of small signs, each class a pattern of its own, drawn with a little noise."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SIDE = 8


def sign(kind: int, number: int) -> np.ndarray:
    """Black blocks on white: which ones is the kind's own."""
    pattern = np.random.default_rng((5, kind)).random((4, 4)) < 0.5
    pattern[1, 1] = True
    image = np.where(np.kron(pattern, np.ones((2, 2))), 0, 255).astype(np.float64)
    noise = np.random.default_rng((6, kind, number)).normal(0, 20, image.shape)
    return (image + noise).clip(0, 255).astype(np.uint8)


def write_signs(folder: Path, kinds: range, count: int) -> None:
    for kind in kinds:
        (folder / f"sign{kind}").mkdir(parents=True)
        for number in range(count):
            Image.fromarray(sign(kind, number)).save(folder / f"sign{kind}" / f"{number}.png")


def write_splits(folder: Path) -> None:
    write_signs(folder / "train", range(0, 24), 5)
    write_signs(folder / "valid", range(24, 30), 4)
    write_signs(folder / "test", range(30, 36), 4)


def values(folder: Path, **training: Any) -> dict[str, Any]:
    return {
        "task": "few-shot",
        "data": {**{split: str(folder / split) for split in ("train", "valid", "test")}, "ways": 3, "shots": 1},
        "model": {
            "preset": "snail:tiny",
            **dict(image_size=SIDE, layers=2, embedding_size=16, blocks=["att 16 8", "tc 16", "att 16 16"]),
        },
        "training": {
            **dict(steps=60, batch_tokens=96, warmup=10, validate_every=30, log_every=10, device="cpu"),
            **dict(learning_rate=4e-3, schedule="cosine", label_smoothing=0.0),
            **training,
        },
    }
