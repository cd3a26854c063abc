"""Tiny models with preferences, and the verbs around them, for whoever inspects them."""

from typing import Any

import torch
from torch import Tensor, nn

from equations import shaken
from regard import families
from regard.data.images import Preprocessing
from regard.data.tokenizer import Tokenizer
from regard.decoding.settings import Decoding
from regard.models import bahdanau, bert, gpt2, luong, ntm, transformer, vit
from regard.tasks.classifier import Classifier
from regard.tasks.image_classifier import ImageClassifier
from regard.tasks.language_verbs import LanguageModel
from regard.tasks.mask_filler import MaskFiller
from regard.tasks.translator import Translator

LINES = ["the cat sat on the mat .", "the dog sat on the log .", "a cat saw a dog ."]
WORDS = Tokenizer.train("word", LINES, 40)
BERT_WORDS = Tokenizer.train("bert", LINES, 60)
STACK: dict[str, Any] = dict(size=8, hidden_size=12, heads=2, dropout=0.0)
PAIRS = [(LINES[0], LINES[1]), (LINES[2], "a dog"), ("the cat", LINES[2])]


def drawn(family: str, config: Any, seed: int = 0, deviation: float = 0.4) -> Any:
    """A model all of whose numbers are drawn, biases too."""
    torch.manual_seed(seed)
    return shaken(families.build_model(family, config), deviation)


def a_transformer(vocabulary: int = 11, pad: int = 0, **changes: Any) -> transformer.Transformer:
    sizes = dict(vocabulary=vocabulary, pad=pad, encoder_layers=2, decoder_layers=2)
    return drawn("transformer", transformer.Config(**{**STACK, **sizes, **changes}))


def a_gpt2(vocabulary: int = 11, pad: int = 0, **changes: Any) -> gpt2.GPT2:
    sizes = dict(vocabulary=vocabulary, pad=pad, layers=2, context=32)
    return drawn("gpt2", gpt2.Config(**{**STACK, **sizes, **changes}))


def a_bert(family: str = "bert", vocabulary: int = 13, pad: int = 0, **changes: Any) -> nn.Module:
    sizes = dict(vocabulary=vocabulary, pad=pad, layers=2, max_length=16)
    return drawn(family, bert.Config(**{**STACK, **sizes, **changes}))


def a_vit(**changes: Any) -> vit.VisionTransformer:
    sizes = dict(labels=2, image_size=6, patch_size=2, channels=1, layers=2)
    return drawn("vit", vit.Config(**{**STACK, **sizes, **changes}))


def a_bahdanau() -> bahdanau.Bahdanau:
    sizes = dict(embedding_size=6, size=8, alignment_size=5, readout_size=7)
    return drawn("bahdanau", bahdanau.Config(vocabulary=11, **sizes))


def a_luong(**changes: Any) -> luong.Luong:
    sizes = dict(embedding_size=6, size=8, layers=1, cell="gru", dropout=0.0, bidirectional=True, max_source=9)
    return drawn("luong", luong.Config(vocabulary=11, **{**sizes, **changes}))


def a_machine(**changes: Any) -> ntm.NeuralTuringMachine:
    sizes = dict(input_size=4, output_size=3, controller_size=6, cells=7, cell_size=4, shift=2)
    return drawn("ntm", ntm.Config(**{**sizes, **changes}))


def a_translator(**changes: Any) -> Translator:
    model = a_transformer(len(WORDS), WORDS.pad, **changes)
    return Translator(model, WORDS, Decoding(num_beams=3, max_new_tokens=6))


def a_speaker(**changes: Any) -> LanguageModel:
    return LanguageModel(a_gpt2(len(WORDS), WORDS.pad, **changes), WORDS, Decoding(num_beams=3, max_new_tokens=6))


def a_filler() -> MaskFiller:
    model = a_bert(vocabulary=len(BERT_WORDS), pad=BERT_WORDS.pad, separator=BERT_WORDS.end)
    return MaskFiller(model, BERT_WORDS)


def a_classifier() -> Classifier:
    model = a_bert("bert-classifier", len(BERT_WORDS), BERT_WORDS.pad, separator=BERT_WORDS.end)
    return Classifier(model, BERT_WORDS, ("bad", "good"))


def an_image_classifier() -> ImageClassifier:
    return ImageClassifier(a_vit(), ("across", "down"), Preprocessing((6, 6), (0.5,), (0.5,)))


def tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(1, 11, shape, generator=torch.Generator().manual_seed(seed))
