"""Verbs of models that are only read: they enter the block with faster products, whose results are the same."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from export import tiny_runs
from regard import families
from regard.data.captions import CaptionedImage
from regard.data.images import Preprocessing
from regard.data.tokenizer import Tokenizer
from regard.decoding.settings import Decoding
from regard.models import caption_transformer
from regard.tasks import caption_evaluate, captioner, mask_filler, token_tagger
from regard.tasks.caption_evaluate import evaluate_captioner
from regard.tasks.captioner import Captioner

SIZES: dict[str, Any] = dict(size=256, hidden_size=512, layers=1)  # large enough to be prepacked
PICTURES = [np.random.default_rng(seed).integers(0, 256, (32, 32, 3), dtype=np.uint8) for seed in range(40)]
TEXTS = ["the [MASK] is tired", "a man in a [MASK] is looking at two [MASK] !", "[MASK]"]
Rows = list[tuple[str, Any]]


def caption_model(folder: Path) -> Captioner:
    tokenizer = Tokenizer.train("word", tiny_runs.TEXTS, 60)
    config = caption_transformer.Config(
        vocabulary=len(tokenizer), pad=tokenizer.pad, backbone="tiny_cnn", image_size=32, heads=4, **SIZES
    )
    model = tiny_runs.randomised("caption-transformer", config)
    told = families.config_json("caption-transformer", config, "caption")
    preprocessing = Preprocessing((32, 32), (0.5,) * 3, (0.5,) * 3)
    return Captioner(model, tokenizer, Decoding(num_beams=2, max_new_tokens=4), preprocessing, told)


def png(pixels: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def captioned(loaded: Captioner) -> Rows:
    return [(found.text, found.score) for found in loaded.caption(PICTURES)]


def evaluated(loaded: Captioner) -> Rows:
    split = [CaptionedImage(str(number), ("a man",), partial(png, pixels)) for number, pixels in enumerate(PICTURES)]
    found = evaluate_captioner(loaded, split)
    return [("", found.nll), *((text, 0.0) for text in found.captions.values())]


def filled(loaded: Any) -> Rows:
    return [(found.text, found.score) for found in loaded.fill(TEXTS)]


def tagged(loaded: Any) -> Rows:
    sentences = [text.replace("[MASK]", "hat") for text in TEXTS]
    return [(" ".join(found.tags), found.probabilities) for found in loaded.tag(sentences)]


def encoder(family: str) -> Callable[[Path], Any]:
    return lambda folder: tiny_runs.encoder(family, folder, **SIZES)


VERBS: dict[str, tuple[Any, Callable[[Path], Any], Callable[[Any], Rows]]] = {
    "caption": (captioner, caption_model, captioned),
    "evaluate captions": (caption_evaluate, caption_model, evaluated),
    "fill": (mask_filler, encoder("bert"), filled),
    "tag": (token_tagger, encoder("bert-tagger"), tagged),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_runs_its_model_inside_the_block_and_finds_the_same_as_without(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, make, call = VERBS[verb]
    loaded = make(tmp_path)
    found = call(loaded)

    entered: list[nn.Module] = []
    calls: list[bool] = []

    @contextmanager
    def slow(model: nn.Module) -> Iterator[None]:
        """In the place of `packed`: nothing is faster inside, but it is noted who is there."""
        entered.append(model)
        yield
        entered.pop()

    monkeypatch.setattr(module, "packed", slow, raising=False)
    for each in loaded.model.modules():
        each.register_forward_pre_hook(lambda *_: calls.append(loaded.model in entered))
    without = call(loaded)
    assert calls
    assert all(calls)
    assert [text for text, _ in found] == [text for text, _ in without]
    for (_, number), (_, wanted) in zip(found, without, strict=True):
        np.testing.assert_allclose(number, wanted, rtol=1e-4, atol=1e-4)
