"""Words as characters and numbers, and running text as sentences."""

import pytest

from regard.data.characters import Characters
from regard.data.plain_sentences import plain_sentences
from regard.data.spelt import Speller
from regard.data.tokenizer import Tokenizer

WORD_START, WORD_END, FILL = 259, 260, 261


def test_a_word_is_its_bytes_between_marks() -> None:
    row = Characters(8).word("é!")
    assert row.tolist() == [WORD_START, 0xC3 + 1, 0xA9 + 1, ord("!") + 1, WORD_END, FILL, FILL, FILL]


def test_a_long_word_is_cut_but_keeps_its_marks() -> None:
    row = Characters(5).word("attention")
    assert row.tolist() == [WORD_START, ord("a") + 1, ord("t") + 1, ord("t") + 1, WORD_END]


def test_sentences_stand_between_their_marks_and_zeros_fill_them_up() -> None:
    batch = Characters(5).batch([["a"], ["b", "c"]])
    assert batch.shape == (2, 4, 5)
    assert batch[0, 0].tolist() == [WORD_START, 257, WORD_END, FILL, FILL]
    assert batch[0, 2].tolist() == [WORD_START, 258, WORD_END, FILL, FILL]
    assert not batch[0, 3].any()
    assert (batch[1] > 0).all()


def test_half_a_surrogate_pair_is_spelt_as_a_question() -> None:
    assert Characters(5).word("\ud800").tolist() == Characters(5).word("?").tolist()


def test_every_word_has_one_number() -> None:
    tokenizer = Tokenizer.train("word", ["the dog barks"], 20)
    spelt = Speller(tokenizer, 8).batch([["the", "cat", "the dog", "\u00ad"], ["dog"]])
    the, dog = tokenizer.encode("the dog")
    start, end, unknown = tokenizer.start, tokenizer.end, tokenizer.unknown
    assert spelt.numbers.tolist() == [[start, the, unknown, unknown, unknown, end], [start, dog, end, -1, -1, -1]]
    assert spelt.chars.shape == (2, 6, 8)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a b . c d", ["a b .", "c d"]),
        ('a ! " b ?', ['a ! "', "b ?"]),
        ("a . . . b", ["a .", ".", ".", "b"]),
        ("a b c d e", ["a b c d", "e"]),
        ("U.S. ships", ["U.S. ships"]),
        ("  ", []),
    ],
)
def test_a_sentence_ends_with_its_mark_or_when_it_is_too_long(line: str, expected: list[str]) -> None:
    assert [" ".join(words) for words in plain_sentences([line], max_words=4)] == expected
