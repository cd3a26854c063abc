"""Tiny random runs of every family that can be exported, as `regard.load` opens them."""

import io
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import families
from regard.data.images import Preprocessing
from regard.data.marian_tokenizer import MarianTokenizer
from regard.data.tokenizer import Tokenizer
from regard.decoding.settings import Decoding
from regard.models import bert, gpt2, transformer, vit
from regard.tasks.classifier import Classifier
from regard.tasks.image_classifier import ImageClassifier
from regard.tasks.language_verbs import LanguageModel
from regard.tasks.mask_filler import MaskFiller, TextEmbedder
from regard.tasks.token_tagger import TokenTagger
from regard.tasks.translator import Translator

TEXTS = [
    "the animal did not cross the street because it was too tired .",
    "a man in a hat is looking at two dogs !",
    "Ein Mann fährt mit dem Fahrrad über die Straße",
    "¿Dónde está el gato negro? 12 + 30",
] * 3
PLAIN = [text for text in TEXTS if text.isascii()]


def randomised(family: str, config: Any) -> Any:
    """Weights large enough that everything, biases and norms too, matters to the logits."""
    model = families.build_model(family, config)
    draw = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter.data = torch.empty(parameter.shape).normal_(0, 0.3, generator=draw)
    return model.eval()


def encoder(family: str, folder: Path, **changes: Any) -> Any:
    tokenizer = Tokenizer.train("bert", TEXTS, 90, lowercase=True)
    known = dict(vocabulary=len(tokenizer), pad=tokenizer.pad, separator=tokenizer.end)
    sizes: dict[str, Any] = dict(size=16, hidden_size=24, heads=2, layers=2, max_length=40, labels=3)
    config = bert.Config(**known, **sizes | changes)
    model, labels = randomised(family, config), ["bad", "good", "so-so"]
    task = {"bert-classifier": "classify", "bert-tagger": "tag"}.get(family, "mask-fill")
    told = families.config_json(family, config, task)
    if family == "bert-classifier":
        verbs: Any = Classifier(model, tokenizer, labels, config_json=told)
    elif family == "bert-tagger":
        verbs = TokenTagger(model, tokenizer, labels, told)
    else:
        verbs = (MaskFiller if family == "bert" else TextEmbedder)(model, tokenizer, told)
    return saved(verbs, folder)


def language_model(folder: Path, kind: str = "bytes", texts: list[str] = TEXTS, **changes: Any) -> Any:
    return language_model_of(Tokenizer.train(kind, texts, 290), folder, **changes)


def language_model_of(tokenizer: Tokenizer, folder: Path, **changes: Any) -> Any:
    sizes: dict[str, Any] = dict(size=32, hidden_size=40, heads=4, layers=2, context=40)
    config = gpt2.Config(vocabulary=len(tokenizer), pad=tokenizer.pad, **sizes | changes)
    told = families.config_json("gpt2", config, "language-model")
    return saved(LanguageModel(randomised("gpt2", config), tokenizer, Decoding(num_beams=1), told), folder)


def translator(folder: Path, **changes: Any) -> Any:
    tokenizer = Tokenizer.train("bpe", TEXTS, 120)
    config = transformer_config(tokenizer, **changes)
    told = families.config_json("transformer", config, "translate")
    return saved(Translator(randomised("transformer", config), tokenizer, Decoding(num_beams=3), told), folder)


def transformer_config(tokenizer: Tokenizer, **changes: Any) -> transformer.Config:
    sizes: dict[str, Any] = dict(size=16, hidden_size=24, heads=2, encoder_layers=1, decoder_layers=2, max_length=64)
    return transformer.Config(vocabulary=len(tokenizer), pad=tokenizer.pad, **sizes | changes)


def marian(folder: Path) -> Any:
    """With SentencePiece models of its own, and a target that begins with padding."""
    spm = pytest.importorskip("sentencepiece", reason="sentencepiece, Marian's tokenizer, is not installed")
    file = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=file, vocab_size=60, hard_vocab_limit=False, minloglevel=2
    )
    pieces = spm.SentencePieceProcessor(model_proto=file.getvalue())
    known = [pieces.id_to_piece(number) for number in range(len(pieces)) if not pieces.is_control(number)]
    vocabulary = {piece: number for number, piece in enumerate(["</s>", *known, "<pad>"])}
    tokenizer = MarianTokenizer(file.getvalue(), file.getvalue(), vocabulary)
    config = transformer_config(
        tokenizer, activation="silu", positions="sinusoidal_halves", output_bias=True, starts_with_pad=True
    )
    told = families.config_json("transformer", config, "translate")
    decoding = Decoding(num_beams=2, max_new_tokens=12, renormalize_logits=True)
    return saved(Translator(randomised("transformer", config), tokenizer, decoding, told), folder)


def pictures(folder: Path, shape: tuple[int, int] = (8, 8)) -> Any:
    config = vit.Config(labels=3, image_size=8, patch_size=4, channels=3, size=16, hidden_size=24, heads=2, layers=2)
    told = families.config_json("vit", config, "classify-images")
    preprocessing = Preprocessing(shape, (0.5,) * 3, (0.5,) * 3)
    return saved(ImageClassifier(randomised("vit", config), ["cat", "dog", "hat"], preprocessing, told), folder)


def saved(verbs: Any, folder: Path) -> Any:
    verbs.save_pretrained(folder)
    return verbs
