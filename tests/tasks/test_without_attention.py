"""A translator without attention translates and is scored like any other; what needs attention says so in one line."""

import json
import re
from collections.abc import Iterator

import pytest
import torch
from jaxtyping import config as shape_checks

from regard.data.pairs import Pair
from regard.data.tokenizer import Tokenizer
from regard.decoding.settings import Decoding
from regard.errors import UsageError
from regard.looking import draw
from regard.models import bahdanau, encoder_decoder, transformer
from regard.tasks.evaluate import alignment_errors, evaluate
from regard.tasks.replay import cross_attentions, replay
from regard.tasks.translator import Translator

PAIRS = [
    Pair("ein Hund", "a dog", ((0, 0), (1, 1))),
    Pair("eine kleine Katze schläft", "a small cat sleeps", ((0, 0), (1, 1), (2, 2), (3, 3))),
    Pair("der <b>Hund</b> läuft", "the dog runs", ((0, 0), (1, 1), (2, 2))),
]
SOURCES = [pair.source for pair in PAIRS]
NONE = re.escape("EncoderDecoder has no attention to read alignments from; use a run of a model that attends")


@pytest.fixture(autouse=True)
def shapes_go_unchecked() -> Iterator[None]:
    """The shapes are checked in the tests of the model; here the checks would cost far more than the model."""
    before = shape_checks.jaxtyping_disable
    shape_checks.update("jaxtyping_disable", True)
    yield
    shape_checks.update("jaxtyping_disable", before)


def translator_of(module, name: str, **sizes: int) -> Translator:
    tokenizer = Tokenizer.train("word", [text for pair in PAIRS for text in (pair.source, pair.target)], 60)
    torch.manual_seed(0)
    model = getattr(module, name)(module.Config(len(tokenizer), **sizes))
    return Translator(model, tokenizer, Decoding(num_beams=2, max_new_tokens=6))


@pytest.fixture(scope="module")
def plain() -> Translator:
    return translator_of(encoder_decoder, "EncoderDecoder", embedding_size=8, size=8, readout_size=8)


@pytest.fixture(scope="module")
def one_attention() -> Translator:
    sizes = dict(embedding_size=8, size=8, alignment_size=8, readout_size=8)
    return translator_of(bahdanau, "Bahdanau", **sizes)


def test_it_has_no_attention_and_nothing_to_replay(plain: Translator) -> None:
    assert cross_attentions(plain.model) == []
    assert replay(plain.model, plain.tokenizer, [plain.encode("ein Hund")], [plain.encode("a dog")]) == [{}]


def test_its_evaluation_has_no_alignment(plain: Translator) -> None:
    assert alignment_errors(plain, PAIRS, PAIRS) == ({}, None)
    result = evaluate(plain, PAIRS, valid=PAIRS)
    assert result.scores.count == len(PAIRS)
    assert "alignment" not in result.told()
    record = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert (record["alignment"], record["alignment_chosen"]) == ({}, None)


def test_whatever_needs_attention_is_refused_in_one_line(plain: Translator) -> None:
    results = plain.translate(SOURCES)
    for asked in (
        lambda: plain.align(SOURCES, SOURCES),
        lambda: plain.links(results),
        lambda: plain.look(SOURCES[0]),
        lambda: plain.translate(SOURCES, replace_unknowns=True),
        lambda: plain.check_attention(),
        lambda: draw(plain, SOURCES[0], None, None, None, None),
    ):
        with pytest.raises(UsageError, match=NONE):
            asked()


def test_a_notebook_shows_its_translation_without_a_page(plain: Translator) -> None:
    (result,) = plain.translate(SOURCES[2])
    assert result.attention == ()
    shown = result._repr_html_()
    assert "&lt;b&gt;Hund&lt;/b&gt;" in shown
    assert "<iframe" not in shown


def test_layers_without_a_cross_attention_cannot_be_drawn_as_one_map() -> None:
    sizes = dict(size=8, hidden_size=8, heads=2, encoder_layers=2, decoder_layers=1)
    deep = translator_of(transformer, "Transformer", **sizes)
    with pytest.raises(UsageError, match=r"layers \[1\] hold no cross-attention"):
        draw(deep, SOURCES[0], "a dog", [1], None, None)


# One attention, one head


def test_one_attention_is_read_as_one(one_attention: Translator) -> None:
    errors, chosen = alignment_errors(one_attention, PAIRS, PAIRS)
    assert chosen in errors
    assert set(errors) <= {"mean", "mean (row after the word)"}


def test_one_attention_aligns_replaces_and_is_drawn(one_attention: Translator) -> None:
    links = one_attention.align(SOURCES, [pair.target for pair in PAIRS])
    assert [{target for _, target in found} for found in links] == [{0, 1}, {0, 1, 2, 3}, {0, 1, 2}]
    (result,) = one_attention.translate("der Zyzzyva läuft", replace_unknowns=True)
    assert "<unk>" not in result.text
    assert [(known.kind, known.layer) for known in result.attention] == [("cross", 1)]
    assert "<iframe" in result._repr_html_()
    assert "cross-attention, layer 1" in draw(one_attention, SOURCES[0], "a dog", None, None, None)
