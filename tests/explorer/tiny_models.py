"""Tiny random models of every kind that is served, and pictures to show them."""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from export.tiny_runs import TEXTS, encoder, language_model, pictures, randomised, translator
from regard import families
from regard.data.images import Preprocessing
from regard.data.tokenizer import Tokenizer
from regard.decoding.settings import Decoding
from regard.layers.scalar_mix import ScalarMix
from regard.models import attend_tell, han, lstmn, luong, ntm, snail, tagger
from regard.tasks.algorithm import AlgorithmData
from regard.tasks.algorithm_runner import AlgorithmRunner
from regard.tasks.captioner import Captioner
from regard.tasks.classifier import Classifier
from regard.tasks.language_verbs import LanguageModel
from regard.tasks.matcher import Matcher
from regard.tasks.tagger import Tagger
from regard.tasks.translator import Translator

SENTENCES = TEXTS[:4]
LINES = ["the cat sat on the mat .", "the dog sat on the log .", "a cat saw a dog ."]
ELMO = dict(layers=2, size=4, cell_size=6, char_size=3, filters=(2, 3), highways=1, max_chars=8)


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


def memory(name: str = "copy") -> AlgorithmRunner:
    """A Neural Turing Machine that knows nothing yet."""
    data = AlgorithmData(name, bits=3, shortest=2, longest=4, test_lengths=(2, 5))
    sizes = data.algorithm()
    config = ntm.Config(sizes.input_size, sizes.output_size, controller_size=6, cells=6, cell_size=4)
    return AlgorithmRunner(randomised("ntm", config), data, families.config_json("ntm", config, "algorithm"))


def mixing() -> Tagger:
    """A tagger with an ELMo inside, whose layers are not worth the same."""
    torch.manual_seed(0)
    tokenizer = Tokenizer.train("word", LINES, 30)
    sizes: dict[str, Any] = dict(embedding_size=4, char_size=3, filters=(2,), max_chars=8, spelling_size=3, size=4)
    config = tagger.Config(len(tokenizer), 2, **sizes, cell_size=5, elmo=ELMO)
    model = tagger.WordTagger(config)
    for module in model.modules():
        if isinstance(module, ScalarMix):
            torch.nn.init.normal_(module.weights)
    return Tagger(model, tokenizer, ["N", "V"], families.config_json("tagger", config, "tag"))


def older() -> dict[str, Any]:
    """A memory, a window and a recurrent decoder."""
    torch.manual_seed(0)
    tokenizer = Tokenizer.train("bpe", LINES, 28)
    known = dict(vocabulary=len(tokenizer), pad=tokenizer.pad)
    windowed = lstmn.Config(**known, size=8, embedding_size=8, span=4, layers=1)  # type: ignore[arg-type]
    recurrent = luong.Config(**known, size=8, embedding_size=8, layers=1)  # type: ignore[arg-type]
    small = ntm.Config(4, 3, controller_size=6, cells=6, cell_size=4)
    reader = lstmn.LSTMN(windowed)
    torch.nn.init.normal_(reader.embedding.weight)
    return {
        "window": LanguageModel(
            reader, tokenizer, Decoding(num_beams=1), families.config_json("lstmn", windowed, "language-model")
        ),
        "memory": AlgorithmRunner(
            ntm.NeuralTuringMachine(small),
            AlgorithmData(bits=3, longest=4, test_lengths=(2, 5)),
            families.config_json("ntm", small, "algorithm"),
        ),
        "recurrent": Translator(
            luong.Luong(recurrent),
            tokenizer,
            Decoding(num_beams=2, max_new_tokens=6),
            families.config_json("luong", recurrent, "translate"),
        ),
    }


def encoded(seed: int = 0, size: tuple[int, int] = (12, 16)) -> str:
    """A random picture as base64."""
    return base64.b64encode(file(seed, size)).decode("ascii")


def file(seed: int = 0, size: tuple[int, int] = (12, 16)) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()
