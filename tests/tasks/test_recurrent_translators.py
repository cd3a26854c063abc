"""The recurrent translators behind the verbs: beams, n-best lists, samples, alignments and pictures, all untrained."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import config as shape_checks

from regard import families
from regard.data.tokenizer import Tokenizer
from regard.decoding.beam import beam_search
from regard.decoding.generate import padded
from regard.decoding.settings import Decoding
from regard.errors import RegardError, UsageError
from regard.recipes import load_recipe
from regard.recipes.jobs import translate as job
from regard.tasks.replay import replay
from regard.tasks.translator import Translator

TEXTS = ["w0 w1 w2 w3", "w4", "w2 w2 w5", "w5 w0 w0 w1 w3 w4"]
LIMIT = 5
SMALL: dict[str, Any] = dict(embedding_size=6, size=8, dropout=0.5)
ATTENDING: dict[str, tuple[str, dict[str, Any]]] = {
    "bahdanau": ("bahdanau", dict(alignment_size=5, readout_size=7)),
    "luong soft": ("luong", dict(layers=2, feeding=False)),
    "luong soft, feeding": ("luong", dict(layers=1, score="dot", cell="gru", bidirectional=True)),
    "luong local_m": ("luong", dict(layers=1, align="local_m", reach=1, reverse=True)),
    "luong local_p": ("luong", dict(layers=1, align="local_p", reach=2)),
    "luong hard": ("luong", dict(layers=1, align="hard")),
    "luong location": ("luong", dict(layers=1, score="location", max_source=8, feeding=False)),
}
EVERY = ATTENDING | {
    "rnn": ("rnn", dict(readout_size=7)),
    "rnn, lstm": ("rnn", dict(readout_size=7, layers=2, cell="lstm", reverse=True, context_everywhere=False)),
}
every_translator = pytest.mark.parametrize("kind", EVERY)
every_attending_translator = pytest.mark.parametrize("kind", ATTENDING)


@pytest.fixture(autouse=True)
def shapes_go_unchecked() -> Iterator[None]:
    """The shapes are checked in the tests of the models; here the checks would cost far more than the models."""
    before = shape_checks.jaxtyping_disable
    shape_checks.update("jaxtyping_disable", True)
    yield
    shape_checks.update("jaxtyping_disable", before)


def make(kind: str) -> Translator:
    """Untrained but opinionated: large parameters, so that no two hypotheses are alike."""
    family, sizes = EVERY[kind]
    tokenizer = Tokenizer.train("word", TEXTS, 20)
    torch.manual_seed(0)
    _, config = families.resolve(
        {"preset": f"{family}:small", "tied": False, "bidirectional": False, **SMALL, **sizes}
        if family != "bahdanau"
        else {"preset": "bahdanau:small", "tied": False, **SMALL, **sizes},
        vocabulary=len(tokenizer),
        pad=tokenizer.pad,
    )
    model = families.build_model(family, config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return Translator(model, tokenizer, Decoding(num_beams=4, max_new_tokens=LIMIT))


def encoded(translator: Translator) -> list[list[int]]:
    return [[*translator.encode(text), translator.tokenizer.end] for text in TEXTS]


def log_probability(translator: Translator, source: list[int], tokens: list[int], ended: bool) -> float:
    """Of a hypothesis, from one teacher-forced pass."""
    said = [*tokens, translator.tokenizer.end][: len(tokens) + ended]
    told = [translator.tokenizer.start, *said[:-1]]
    with torch.inference_mode():
        log_p = translator.model(torch.tensor([source]), torch.tensor([told]))[0].log_softmax(-1)
    return sum(log_p[place, token].item() for place, token in enumerate(said))


@every_translator
def test_a_beam_of_one_is_greedy(kind: str) -> None:
    translator = make(kind)
    greedy = translator.translate(TEXTS, num_beams=1)
    batch = padded(encoded(translator), translator.tokenizer.pad)
    searched = beam_search(translator.model, batch, translator.vocabulary, [LIMIT] * len(TEXTS), beams=1)
    for result, (best, *_) in zip(greedy, searched, strict=True):
        assert result.tokens == best.tokens
        assert result.score == pytest.approx(best.score, abs=1e-5)
    assert any(result.tokens for result in greedy)


@every_translator
def test_nbest_lists_are_sorted_and_scored_as_the_model_scores_them(kind: str) -> None:
    translator = make(kind)
    for source, result in zip(encoded(translator), translator.translate(TEXTS, num_return_sequences=4), strict=True):
        scores = [known.score for known in result.nbest]
        assert len(scores) == 4
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(known.tokens) for known in result.nbest}) == 4
        assert result.nbest[0] is result
        for known in result.nbest:
            ended = len(known.tokens) < LIMIT
            total = log_probability(translator, source, known.tokens, ended)
            assert known.score == pytest.approx(total / (len(known.tokens) + ended), abs=1e-4)


@every_translator
@pytest.mark.parametrize("options", [dict(num_beams=4), dict(do_sample=True, seed=3)], ids=str)
def test_a_text_is_translated_the_same_in_any_company(kind: str, options: dict[str, Any]) -> None:
    translator = make(kind)
    together = translator.translate(TEXTS, **options)
    for number, (text, expected) in enumerate(zip(TEXTS, together, strict=True)):
        (alone,) = translator.translate([text], first_number=number, **options)
        assert alone.text == expected.text
        assert alone.score == pytest.approx(expected.score, abs=1e-5)


@every_translator
def test_samples_follow_from_their_seed(kind: str) -> None:
    translator = make(kind)

    def sampled(seed: int) -> list[str]:
        torch.manual_seed(seed + 17)  # must not matter
        return [result.text for result in translator.translate(TEXTS * 2, do_sample=True, seed=seed)]

    assert sampled(1) == sampled(1)
    assert sampled(1) != sampled(2)
    greedy = [result.text for result in translator.translate(TEXTS * 2, num_beams=1)]
    cold = translator.translate(TEXTS * 2, do_sample=True, temperature=1e-4)
    assert [result.text for result in cold] == greedy


@every_translator
def test_translating_leaves_a_training_model_training(kind: str) -> None:
    translator = make(kind)
    translator.model.train()
    first, again = (translator.translate(TEXTS, num_beams=2) for _ in range(2))  # dropout would make them differ
    assert [known.text for known in first] == [known.text for known in again]
    assert translator.model.training


# Looking


@every_attending_translator
def test_every_hypothesis_has_a_map_with_a_row_for_each_word_said(kind: str) -> None:
    translator = make(kind)
    for result in translator.translate(TEXTS, num_return_sequences=2):
        for known in result.nbest:
            (drawn,) = known.attention
            said, read = len(known.tokens) + 1, len(known.source.split()) + 1
            assert (drawn.kind, drawn.layer) == ("cross", 1)
            assert drawn.weights.shape == (1, said, read)
            assert (len(drawn.queries), len(drawn.keys)) == (said, read)
            assert np.isfinite(drawn.weights).all()
            assert (drawn.weights >= 0).all()


@every_attending_translator
def test_the_rows_of_a_map_sum_to_one_unless_a_gaussian_took_its_share(kind: str) -> None:
    (drawn,) = make(kind).look(TEXTS[3], "w1 w0 w5 w4 w4 w3 w2 w2 w1")
    sums = drawn.weights.sum(-1)
    if kind == "luong local_p":
        assert (sums < 1).all()
        assert (sums > 0).all()
    else:
        np.testing.assert_allclose(sums, 1, atol=1e-5)
    looked_at = (drawn.weights > 0).sum(-1)[0]
    if kind == "luong hard":
        assert (looked_at == 1).all()
    if kind == "luong local_m":
        assert looked_at.tolist() == [2, 3, 3, 3, 3, 3, 2, 2, 2, 2]  # of seven keys, the last six times


@every_attending_translator
def test_a_replay_in_a_batch_shows_what_the_steps_of_the_search_saw(kind: str) -> None:
    translator = make(kind)
    model, tokenizer = translator.model, translator.tokenizer
    sources = [translator.encode(text) for text in TEXTS]
    targets = [result.tokens for result in translator.translate(TEXTS)]
    replayed = replay(model, tokenizer, sources, targets)
    seen: list[torch.Tensor] = []
    handle = model.attention.register_forward_hook(lambda module, given, attended: seen.append(attended.weights))
    for source, target, weights in zip(sources, targets, replayed, strict=True):
        seen.clear()
        with torch.inference_mode():
            state = model.start(torch.tensor([[*source, tokenizer.end]]))
            for token in [tokenizer.start, *target]:
                _, state = model.step(torch.tensor([token]), state)
        np.testing.assert_allclose(weights["attention"], torch.cat(seen, dim=1).numpy(), atol=1e-5)
    handle.remove()


@every_attending_translator
def test_each_word_is_linked_to_the_word_looked_at_most(kind: str) -> None:
    translator = make(kind)
    targets = ["w1 w3", "w5 w5 w2", "w0", "w4 w1"]
    aligned = translator.align(TEXTS, targets)
    for text, target, links in zip(TEXTS, targets, aligned, strict=True):
        (drawn,) = translator.look(text, target)
        words = drawn.weights[0, :-1, :-1]  # the end is no word
        expected = {(int(row.argmax()), said) for said, row in enumerate(words) if row.max() > 0}
        assert links == expected
    told = translator.links(translator.translate(TEXTS, num_return_sequences=2))
    assert [len(lines) for lines in told] == [2] * len(TEXTS)


# Refusals


@pytest.mark.parametrize("kind", ["rnn", "rnn, lstm"])
def test_without_attention_there_is_nothing_to_look_at(kind: str) -> None:
    translator = make(kind)
    assert translator.translate("w0")[0].attention == ()
    for ask in (lambda: translator.look("w0", "w1"), lambda: translator.align(["w0"], ["w1"])):
        with pytest.raises(UsageError, match="has no attention to read alignments from"):
            ask()


def test_a_text_with_more_words_than_the_location_score_knows_places_is_refused() -> None:
    translator = make("luong location")
    seven = " ".join(["w0"] * 7)  # and the end
    assert translator.translate(seven)
    with pytest.raises(RegardError, match="knows 8 places but was given 9"):
        translator.translate(f"{seven} w1")


@pytest.mark.parametrize("wrong", ["score=nope", "align=nope", "cell=nope", "tied=true", "dropout=2", "layers=0"])
def test_a_model_that_cannot_be_built_is_refused_before_any_data_are_prepared(wrong: str) -> None:
    recipe = load_recipe("reversal-luong", [f"model.{wrong}", "model.embedding_size=32"])
    with pytest.raises(UsageError):
        job.check(recipe, None)
