"""Looking at finished sentences: replayed weights, their maps, and the verbs that use them."""

import re
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from jaxtyping import config as shape_checks

from regard.attention import record
from regard.data.tokenizer import Tokenizer
from regard.decoding.settings import Decoding
from regard.errors import UsageError
from regard.models.transformer import Config, Transformer
from regard.tasks import replay as replaying
from regard.tasks.replay import attention_maps, cross_attentions, replay
from regard.tasks.translator import Translated, Translator

SENTENCES = [
    ("ein Hund", "a dog"),
    ("eine kleine Katze schläft", "a small cat sleeps"),
    ("der Hund läuft über die Straße", "the dog runs across the street"),
    ("Katze", "the cat that sleeps"),
    ("die kleine Katze sieht den Hund", "dog"),
]
SOURCES, TARGETS = ([pair[side] for pair in SENTENCES] for side in (0, 1))
ENCODER = [f"encoder.layers.{layer}.self_attention" for layer in range(2)]
CROSS = [f"decoder.layers.{layer}.cross_attention" for layer in range(2)]
DECODER = [f"decoder.layers.{layer}.self_attention" for layer in range(2)]


@pytest.fixture(autouse=True)
def shapes_go_unchecked() -> Iterator[None]:
    """The shapes are checked in the tests of the model; here the checks would cost far more than the model."""
    before = shape_checks.jaxtyping_disable
    shape_checks.update("jaxtyping_disable", True)
    yield
    shape_checks.update("jaxtyping_disable", before)


def make_translator(kind: str, vocabulary: int) -> Translator:
    tokenizer = Tokenizer.train(kind, [*SOURCES, *TARGETS], vocabulary)
    torch.manual_seed(1)
    config = Config(len(tokenizer), size=16, hidden_size=24, heads=2, encoder_layers=2, decoder_layers=2, dropout=0.5)
    return Translator(Transformer(config), tokenizer, Decoding(num_beams=3, max_new_tokens=6))


@pytest.fixture(scope="module")
def translator() -> Translator:
    return make_translator("word", 60)


@pytest.fixture(scope="module")
def in_pieces() -> Translator:
    return make_translator("bpe", 45)


def encoded(translator: Translator) -> tuple[list[list[int]], list[list[int]]]:
    return [translator.encode(text) for text in SOURCES], [translator.encode(text) for text in TARGETS]


# Replay


def test_replayed_weights_are_those_recorded_for_the_pair_alone(translator: Translator) -> None:
    sources, targets = encoded(translator)
    model, tokenizer = translator.model, translator.tokenizer
    replayed = replay(model, tokenizer, sources, targets)
    for source, target, weights in zip(sources, targets, replayed, strict=True):
        with torch.inference_mode(), record(model) as tape:
            model(torch.tensor([[*source, tokenizer.end]]), torch.tensor([[tokenizer.start, *target]]))
        assert set(weights) == set(tape) == {*ENCODER, *CROSS, *DECODER}
        for name, matrix in weights.items():
            np.testing.assert_allclose(matrix, tape[name][0].numpy(), atol=1e-5)


def test_the_batch_changes_nothing(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    sources, targets = encoded(translator)
    together = replay(translator.model, translator.tokenizer, sources, targets)
    monkeypatch.setattr(replaying, "REPLAY_TOKENS", 1)
    alone = replay(translator.model, translator.tokenizer, sources, targets)
    for ours, theirs in zip(together, alone, strict=True):
        assert set(ours) == set(theirs)
        for name, matrix in ours.items():
            np.testing.assert_allclose(matrix, theirs[name], atol=1e-5)


def test_shapes_fit_the_tokens_with_start_and_end_and_rows_sum_to_one(in_pieces: Translator) -> None:
    sources, targets = encoded(in_pieces)
    for source, target, weights in zip(
        sources, targets, replay(in_pieces.model, in_pieces.tokenizer, sources, targets), strict=True
    ):
        read, said = len(source) + 1, len(target) + 1
        for names, shape in ((ENCODER, (read, read)), (CROSS, (said, read)), (DECODER, (said, said))):
            for name in names:
                assert weights[name].shape == (2, *shape)
                np.testing.assert_allclose(weights[name].sum(-1), 1, atol=1e-5)
        for name in DECODER:
            assert not np.triu(weights[name], 1).any()


def test_only_the_chosen_layers_and_heads_are_replayed(translator: Translator) -> None:
    sources, targets = encoded(translator)
    everything = replay(translator.model, translator.tokenizer, sources[:2], targets[:2])
    some = replay(translator.model, translator.tokenizer, sources[:2], targets[:2], layers=CROSS[1], heads=[1])
    for ours, theirs in zip(some, everything, strict=True):
        assert list(ours) == [CROSS[1]]
        np.testing.assert_array_equal(ours[CROSS[1]], theirs[CROSS[1]][1:])


def test_replay_runs_without_dropout_and_leaves_the_mode_as_it_was(translator: Translator) -> None:
    sources, targets = encoded(translator)
    expected = replay(translator.model, translator.tokenizer, sources[:1], targets[:1])
    translator.model.train()
    try:
        found = replay(translator.model, translator.tokenizer, sources[:1], targets[:1])
        assert translator.model.training
    finally:
        translator.model.eval()
    np.testing.assert_array_equal(found[0][CROSS[0]], expected[0][CROSS[0]])


def test_a_target_without_words_still_says_its_end(translator: Translator) -> None:
    (weights,) = replay(translator.model, translator.tokenizer, [translator.encode("ein Hund")], [[]])
    assert weights[CROSS[0]].shape == (2, 1, 3)
    assert replay(translator.model, translator.tokenizer, [], []) == []


def test_cross_attentions_are_those_from_target_to_source(translator: Translator) -> None:
    assert cross_attentions(translator.model) == CROSS


# Maps


def test_maps_carry_the_words_that_look_and_are_looked_at(translator: Translator) -> None:
    maps = translator.look("eine kleine Katze schläft", "a cat")
    assert sorted((known.kind, known.layer) for known in maps) == [
        ("cross", 1),
        ("cross", 2),
        ("decoder", 1),
        ("decoder", 2),
        ("encoder", 1),
        ("encoder", 2),
    ]
    read, said, told = ("eine", "kleine", "Katze", "schläft", "</s>"), ("a", "cat", "</s>"), ("<s>", "a", "cat")
    expected = {"encoder": (read, read), "cross": (said, read), "decoder": (said, told)}
    for known in maps:
        assert (known.queries, known.keys) == expected[known.kind]
        assert known.causal == (known.kind == "decoder")
        assert f"layer {known.layer}" in known.name
        assert {"encoder": "encoder self", "cross": "cross", "decoder": "decoder self"}[known.kind] in known.name
    words = {known.kind: (known.query_words, known.key_words) for known in maps}
    assert words["encoder"] == ((0, 1, 2, 3, 4), (0, 1, 2, 3, 4))
    assert words["cross"] == ((0, 1, 2), (0, 1, 2, 3, 4))
    assert words["decoder"] == ((0, 1, 2), (-1, 0, 1))


def test_maps_hold_the_replayed_weights(translator: Translator) -> None:
    source, target = translator.encode(SOURCES[1]), translator.encode(TARGETS[1])
    (weights,) = replay(translator.model, translator.tokenizer, [source], [target])
    for known in attention_maps(translator.model, translator.tokenizer, source, target):
        names = {"encoder": ENCODER, "cross": CROSS, "decoder": DECODER}[known.kind]
        np.testing.assert_array_equal(known.weights, weights[names[known.layer - 1]])


def test_pieces_of_a_word_share_its_number(in_pieces: Translator) -> None:
    tokenizer = in_pieces.tokenizer
    source, target = in_pieces.encode(SOURCES[2]), in_pieces.encode(TARGETS[2])
    for known in attention_maps(in_pieces.model, tokenizer, source, target, layers="*cross_attention"):
        assert known.keys == (*tokenizer.pieces(source), "</s>")
        assert known.key_words == (*tokenizer.words(source), len(SOURCES[2].split()))
        assert known.query_words == (*tokenizer.words(target), len(TARGETS[2].split()))
        assert len(known.keys) > len(SOURCES[2].split()) + 1


def test_without_a_target_one_looks_at_the_translation(translator: Translator) -> None:
    (result,) = translator.translate(SOURCES[1])
    (cross, *_) = translator.look(SOURCES[1], layers=CROSS[0])
    assert cross.queries == (*translator.tokenizer.pieces(result.tokens), "</s>")


def test_a_source_that_spells_a_special_token_can_be_looked_at(translator: Translator) -> None:
    assert translator.look("ein <s> Hund", "a dog")[0].keys[0] == "ein"


# The translator


def test_there_is_one_result_per_text_in_order(translator: Translator) -> None:
    results = translator.translate(SOURCES)
    assert [result.source for result in results] == SOURCES
    for text, result in zip(SOURCES, results, strict=True):
        (alone,) = translator.translate(text)  # a text alone needs no list
        assert (result.text, result.tokens) == (alone.text, alone.tokens)
        assert result.score == pytest.approx(alone.score, abs=1e-4)
    assert translator.translate([]) == []


def test_an_empty_text_has_an_empty_translation(translator: Translator) -> None:
    results = translator.translate(["", SOURCES[0], "   "])
    for empty in (results[0], results[2]):
        assert (empty.text, empty.tokens, empty.score) == ("", [], 0.0)
    assert results[1].tokens == translator.translate(SOURCES[0])[0].tokens


def test_the_n_best_are_sorted_distinct_and_begin_with_the_result(translator: Translator) -> None:
    for result in translator.translate(SOURCES, num_return_sequences=3):
        assert len(result.nbest) == 3
        assert result.nbest[0] is result
        scores = [known.score for known in result.nbest]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(known.tokens) for known in result.nbest}) == 3
        assert {known.source for known in result.nbest} == {result.source}


def test_more_hypotheses_than_beams_are_refused(translator: Translator) -> None:
    with pytest.raises(UsageError, match="4 hypotheses need at least as many beams, not 3"):
        translator.translate(SOURCES, num_return_sequences=4)


def test_what_is_given_goes_before_the_translators_own_settings(translator: Translator) -> None:
    (short,) = translator.translate(SOURCES[1], max_new_tokens=1, num_beams=1)
    assert len(short.tokens) <= 1
    assert short.score == pytest.approx(translator.translate(SOURCES[1], num_beams=1, max_new_tokens=1)[0].score)
    sampled = translator.translate(SOURCES * 4, do_sample=True, temperature=5.0)  # with one beam
    with pytest.raises(UsageError, match="do_sample needs num_beams=1, but num_beams is 5"):
        translator.translate(SOURCES, do_sample=True, num_beams=5)
    assert [result.tokens for result in sampled] != [result.tokens for result in translator.translate(SOURCES * 4)]
    assert translator.decoding == Decoding(num_beams=3, max_new_tokens=6)


def test_samples_depend_on_the_place_in_the_whole_input_not_on_its_parts(translator: Translator) -> None:
    texts = [SOURCES[2]] * 6
    whole = translator.translate(texts, do_sample=True, temperature=5.0)
    parts = [
        translator.translate(texts[start : start + 2], do_sample=True, temperature=5.0, first_number=start)
        for start in (0, 2, 4)
    ]
    assert [result.tokens for part in parts for result in part] == [result.tokens for result in whole]
    assert len({tuple(result.tokens) for result in whole}) > 1


def test_every_full_text_is_told_when_it_is_done(translator: Translator) -> None:
    told: list[int] = []
    translator.translate([*SOURCES, ""], finished=told.append)
    assert sum(told) == len(SOURCES)


# Alignment


def test_links_follow_the_mean_of_all_heads_and_layers(translator: Translator) -> None:
    sources, targets = encoded(translator)
    replayed = replay(translator.model, translator.tokenizer, sources, targets)
    for source, target, weights, links in zip(
        sources, targets, replayed, translator.align(SOURCES, TARGETS), strict=True
    ):
        mean = sum(weights[name][head] for name in CROSS for head in range(2))
        expected = {(int(mean[row, : len(source)].argmax()), row) for row in range(len(target))}
        assert links == expected


def test_links_lie_within_both_sentences(in_pieces: Translator) -> None:
    for (source, target), links in zip(SENTENCES, in_pieces.align(SOURCES, TARGETS), strict=True):
        assert {word for _, word in links} == set(range(len(target.split())))
        assert {word for word, _ in links} <= set(range(len(source.split())))


def test_tokens_may_be_aligned_in_place_of_text(translator: Translator) -> None:
    _, targets = encoded(translator)
    assert translator.align(SOURCES, targets) == translator.align(SOURCES, TARGETS)


def test_links_are_told_in_pharaoh_form_for_every_hypothesis(translator: Translator) -> None:
    results = translator.translate([*SOURCES, ""], num_return_sequences=2)
    told = translator.links(results)
    assert [len(lines) for lines in told] == [2] * len(SOURCES) + [1]
    assert told[-1] == [""]
    for result, lines in zip(results[:-1], told, strict=False):
        for known, line in zip(result.nbest, lines, strict=True):
            assert re.fullmatch(r"(\d+-\d+( \d+-\d+)*)?", line)
            links = {tuple(map(int, link.split("-"))) for link in line.split()}
            assert links == translator.align([known.source], [known.tokens])[0]


def test_links_count_the_words_of_the_text_they_belong_to(translator: Translator) -> None:
    """An unknown token is a word of the links only if it is one of the text."""
    tokenizer = translator.tokenizer
    (dog,) = translator.encode("dog")
    tokens = [dog, tokenizer.unknown, dog]
    result = Translated(SOURCES[0], tokenizer.decode(tokens), 0.0, tokens, translator)
    ((line,),) = translator.links([result])
    targets = {int(link.split("-")[1]) for link in line.split()}
    assert targets == set(range(len(result.text.split())))


# What a notebook shows


def test_a_translation_shows_its_own_attention(translator: Translator) -> None:
    (result,) = translator.translate([SOURCES[1]])
    assert {known.kind for known in result.attention} == {"encoder", "decoder", "cross"}
    cross = [known for known in result.attention if known.kind == "cross"]
    assert [known.layer for known in cross] == [1, 2]
    assert cross[0].queries == (*translator.tokenizer.pieces(result.tokens), "</s>")
    assert result.attention is result.attention  # replayed once


def test_every_hypothesis_has_its_own_attention(translator: Translator) -> None:
    (result,) = translator.translate([SOURCES[2]], num_return_sequences=3)
    for known in result.nbest:
        assert known.attention[0].keys is not None
        cross = next(each for each in known.attention if each.kind == "cross")
        assert cross.queries == (*translator.tokenizer.pieces(known.tokens), "</s>")


def test_a_notebook_gets_a_page_that_fetches_nothing(translator: Translator) -> None:
    (result,) = translator.translate([SOURCES[1]])
    page = result._repr_html_()
    assert page.startswith("<iframe")
    assert "http:" not in page
    assert "https:" not in page
    assert "Katze" in page
    assert page.count("<") == 2  # the frame alone: the page inside is escaped


def test_an_empty_translation_can_be_shown_too(translator: Translator) -> None:
    (result,) = translator.translate([""])
    assert result._repr_html_().startswith("<iframe")
