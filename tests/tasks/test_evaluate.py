"""How good a translator is: likelihood by hand, heads chosen on valid, numbers that go into JSON."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from jaxtyping import config as shape_checks

from regard.data.pairs import Pair
from regard.data.tokenizer import Tokenizer
from regard.decoding.settings import Decoding
from regard.models.transformer import Config, Transformer
from regard.tasks import evaluate as evaluating
from regard.tasks.alignment import AlignmentScores
from regard.tasks.evaluate import alignment_errors, evaluate, likelihood
from regard.tasks.replay import cross_attentions, replay
from regard.tasks.translator import Translator

PAIRS = [
    Pair("ein Hund", "a dog", ((0, 0), (1, 1))),
    Pair("eine kleine Katze schläft", "a small cat sleeps", ((0, 0), (1, 1), (2, 2), (3, 3))),
    Pair("der Hund läuft über die Straße", "the dog runs across the street", ((0, 0), (1, 1), (5, 5))),
    Pair("Katze", "the cat that sleeps"),
]


@pytest.fixture(autouse=True)
def shapes_go_unchecked() -> Iterator[None]:
    """The shapes are checked in the tests of the model; here the checks would cost far more than the model."""
    before = shape_checks.jaxtyping_disable
    shape_checks.update("jaxtyping_disable", True)
    yield
    shape_checks.update("jaxtyping_disable", before)


@pytest.fixture(scope="module")
def translator() -> Translator:
    tokenizer = Tokenizer.train("word", [text for pair in PAIRS for text in (pair.source, pair.target)], 60)
    torch.manual_seed(0)
    config = Config(len(tokenizer), size=16, hidden_size=24, heads=2, encoder_layers=1, decoder_layers=2, dropout=0.5)
    return Translator(Transformer(config), tokenizer, Decoding(num_beams=2, max_new_tokens=6))


# Likelihood


def spelled_out(translator: Translator, pairs: Sequence[Pair]) -> float:
    """Minus the mean log-softmax of every reference token and its end, pair by pair."""
    tokenizer, total, count = translator.tokenizer, 0.0, 0
    for pair in pairs:
        source, target = [*translator.encode(pair.source), tokenizer.end], translator.encode(pair.target)
        with torch.inference_mode():
            logits = translator.model(torch.tensor([source]), torch.tensor([[tokenizer.start, *target]]))
        for place, token in enumerate([*target, tokenizer.end]):
            total -= logits[0, place].double().log_softmax(-1)[token].item()
            count += 1
    return total / count


def test_the_likelihood_is_the_sum_spelled_out(translator: Translator) -> None:
    assert likelihood(translator, PAIRS) == pytest.approx(spelled_out(translator, PAIRS), abs=1e-5)


def test_the_likelihood_does_not_depend_on_the_batches(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    together = likelihood(translator, PAIRS)
    monkeypatch.setattr(evaluating, "VALIDATION_TOKENS", 1)
    assert likelihood(translator, PAIRS[::-1]) == pytest.approx(together, abs=1e-5)


# Alignment

DIAGONAL, BACKWARDS, ZERO = np.eye(2), np.eye(2)[::-1], np.zeros((2, 2))
PERFECT = AlignmentScores(error_rate=0.0, precision=1.0, recall=1.0)
WRONG = AlignmentScores(error_rate=1.0, precision=0.0, recall=0.0)


def test_the_head_is_chosen_on_valid_only(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """On valid one head is right, on test another: the one that was right on valid is reported, wrong as it is."""
    readings = {
        "valid": {
            "mean": ZERO,
            "layer 1": ZERO,
            "layer 2": DIAGONAL,
            "layer 1 head 1": ZERO,
            "layer 1 head 2": DIAGONAL,
        },
        "test": {
            "mean": ZERO,
            "layer 1": DIAGONAL,
            "layer 2": BACKWARDS,
            "layer 1 head 1": DIAGONAL,
            "layer 1 head 2": BACKWARDS,
        },
    }

    def weights(_: Translator, pairs: Sequence[Pair]) -> list[dict[str, np.ndarray]]:
        return [readings[pair.source] for pair in pairs]

    monkeypatch.setattr(evaluating, "_word_weights", weights)
    links = ((0, 0), (1, 1))
    test, valid = [Pair("test", "x", links)] * 2, [Pair("valid", "x", links)]
    errors, chosen = alignment_errors(translator, test, valid)
    assert set(errors) == {"mean", "layer 2", "layer 1 head 2"}
    assert errors["layer 2"] == errors["layer 1 head 2"] == WRONG
    assert chosen in ("layer 2", "layer 1 head 2")
    assert alignment_errors(translator, valid, test)[0]["layer 1 head 1"].error_rate == 1.0
    assert alignment_errors(translator, test, test)[0]["layer 1 head 1"] == PERFECT


def test_without_valid_links_no_head_is_chosen(translator: Translator) -> None:
    for valid in ((), [PAIRS[3]], [replace(pair, links=None) for pair in PAIRS]):
        errors, chosen = alignment_errors(translator, PAIRS, valid)
        assert list(errors) == ["mean"]
        assert chosen is None


def test_pairs_without_links_have_no_alignment_error(translator: Translator) -> None:
    assert alignment_errors(translator, [PAIRS[3]], PAIRS) == ({}, None)


def test_the_error_of_the_mean_is_that_of_the_translators_own_links(translator: Translator) -> None:
    known = PAIRS[:3]
    links = translator.align([pair.source for pair in known], [pair.target for pair in known])
    gold = [set(pair.links or ()) for pair in known]
    shared = sum(len(ours & theirs) for ours, theirs in zip(links, gold, strict=True))
    found, sure = sum(map(len, links)), sum(map(len, gold))
    errors, _ = alignment_errors(translator, PAIRS)
    assert errors["mean"].error_rate == pytest.approx(1 - 2 * shared / (found + sure))
    assert errors["mean"].recall == pytest.approx(shared / sure)


def test_every_head_is_read_at_its_word_and_one_row_later(translator: Translator) -> None:
    (readings,) = evaluating._word_weights(translator, PAIRS[1:2])
    heads = [f"layer {layer} head {head}" for layer in (1, 2) for head in (1, 2)]
    names = ["mean", "layer 1", "layer 2", *heads]
    assert set(readings) == {*names, *(f"{name} (row after the word)" for name in names)}
    source, target = translator.encode(PAIRS[1].source), translator.encode(PAIRS[1].target)
    (weights,) = replay(translator.model, translator.tokenizer, [source], [target])
    for number, name in enumerate(cross_attentions(translator.model), 1):
        for head in range(2):
            pieces = weights[name][head][:, :4]  # without what is paid to the end
            shares = pieces / pieces.sum(-1, keepdims=True)
            reading = f"layer {number} head {head + 1}"
            np.testing.assert_allclose(readings[reading], shares[:4], atol=1e-5)
            np.testing.assert_allclose(readings[f"{reading} (row after the word)"], shares[1:5], atol=1e-5)


# Everything together


def test_an_evaluation_is_finite_and_goes_into_json(translator: Translator) -> None:
    told: list[int] = []
    result = evaluate(translator, PAIRS, valid=PAIRS[:2], finished=told.append)
    assert sum(told) == len(PAIRS)
    assert result.translations == [known.text for known in translator.translate([pair.source for pair in PAIRS])]
    assert result.nll == pytest.approx(spelled_out(translator, PAIRS), abs=1e-5)
    assert result.perplexity == pytest.approx(math.exp(result.nll))
    assert result.scores.count == len(PAIRS)
    assert sum(bucket.count for bucket in result.lengths) == len(PAIRS)
    assert result.chosen in result.alignment
    again = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert again["nll"] == result.nll
    assert again["bleu"] == result.scores.bleu
    assert again["alignment"]["mean"]["error_rate"] == result.alignment["mean"].error_rate
    assert "translations" not in again
    told_to_people = result.told()
    for part in (f"{len(PAIRS)} sentences", result.scores.bleu_signature, "best on the validation split"):
        assert part in told_to_people


def test_tokenised_references_are_told_of_where_they_are_scored_as_plain_text(translator: Translator) -> None:
    spaced = [replace(pair, target=f"{pair.target} .", links=()) for pair in PAIRS]
    hint = "data.bleu_tokenize=none is usual"
    assert hint in evaluate(translator, spaced).told()
    assert hint not in evaluate(translator, spaced, bleu_tokenize="none").told()
    assert hint not in evaluate(translator, [*spaced[:2], *PAIRS[2:]]).told()


def test_a_translator_that_knows_the_answers_scores_a_hundred(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {pair.source: SimpleNamespace(text=pair.target) for pair in PAIRS}

    def knows(texts: Sequence[str], **_: object) -> list[SimpleNamespace]:
        return [answers[text] for text in texts]

    monkeypatch.setattr(translator, "translate", knows)
    result = evaluate(translator, PAIRS[1:])
    assert result.scores.bleu == pytest.approx(100)
    assert result.scores.chrf == pytest.approx(100)
