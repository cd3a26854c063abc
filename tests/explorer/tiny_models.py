"""Tiny random models of every kind that is served, and pictures to show them."""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from export.tiny_runs import TEXTS, encoder, language_model, pictures, randomised, translator
from regard import families
from regard.data.images import Preprocessing
from regard.data.tokenizer import Tokenizer
from regard.decoding.settings import Decoding
from regard.models import attend_tell, han, snail
from regard.tasks.captioner import Captioner
from regard.tasks.classifier import Classifier
from regard.tasks.matcher import Matcher

SENTENCES = TEXTS[:4]


def everything(folder: Path) -> dict[str, Any]:
    """One model per verb, by name."""
    return {
        "translator": translator(folder / "translator"),
        "language": language_model(folder / "language"),
        "filler": encoder("bert", folder / "filler"),
        "classifier": encoder("bert-classifier", folder / "classifier"),
        "documents": documents(),
        "tagger": encoder("bert-tagger", folder / "tagger"),
        "embedder": encoder("bert-embedder", folder / "embedder"),
        "vision": pictures(folder / "vision"),
        "captioner": captioner(),
        "matcher": matcher(),
    }


def documents() -> Classifier:
    tokenizer = Tokenizer.train("word", TEXTS, 60)
    config = han.Config(len(tokenizer), 2, embedding_size=6, size=4, context_size=5, pad=tokenizer.pad)
    told = families.config_json("han", config, "classify")
    return Classifier(randomised("han", config), tokenizer, ["bad", "good"], config_json=told)


def captioner(align: str = "soft") -> Captioner:
    tokenizer = Tokenizer.train("word", TEXTS, 60)
    sizes: dict[str, Any] = dict(backbone="tiny_cnn", image_size=32, embedding_size=6, size=8, alignment_size=5)
    config = attend_tell.Config(vocabulary=len(tokenizer), pad=tokenizer.pad, align=align, **sizes)
    told = families.config_json("attend-tell", config, "caption")
    preprocessing = Preprocessing((32, 32), (0.5,) * 3, (0.5,) * 3)
    decoding = Decoding(num_beams=2, max_new_tokens=6)
    return Captioner(randomised("attend-tell", config), tokenizer, decoding, preprocessing, told)


def matcher() -> Matcher:
    sizes: dict[str, Any] = dict(image_size=8, filters=4, layers=2, embedding_size=6, blocks=("att 4 3", "tc 3"))
    config = snail.Config(ways=3, shots=1, **sizes)
    told = families.config_json("snail", config, "few-shot")
    preprocessing = Preprocessing((8, 8), (0.5,) * config.channels, (0.5,) * config.channels)
    return Matcher(randomised("snail", config), preprocessing, told)


def encoded(seed: int = 0, size: tuple[int, int] = (12, 16)) -> str:
    """A random picture as base64."""
    return base64.b64encode(file(seed, size)).decode("ascii")


def file(seed: int = 0, size: tuple[int, int] = (12, 16)) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()
