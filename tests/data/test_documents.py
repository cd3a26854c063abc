"""Texts as documents: where sentences end, what a word is, and that nothing is lost."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.documents import Encoded, WordEncoder, padded_documents, padded_rows, read_document
from regard.data.tokenizer import Tokenizer


def sentences(text: str) -> list[str]:
    return [text[words[0][0] : words[-1][1]] for words in read_document(text).sentences]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. Smith met J. R. Ewing. They left.", ["Dr. Smith met J. R. Ewing.", "They left."]),
        ("It was... well, odd. The end... Bye.", ["It was... well, odd.", "The end...", "Bye."]),
        ('"Really?" he said. "Yes." She left.', ['"Really?" he said.', '"Yes."', "She left."]),
        ("i loved it. it was great", ["i loved it.", "it was great"]),
        ("The U.S. army, e.g. here, at 5 p.m. today.", ["The U.S. army, e.g. here, at 5 p.m. today."]),
        ("It costs 3.5 dollars.", ["It costs 3.5 dollars."]),
        ("One line<br /><br />another<BR>third\n\nfourth", ["One line", "another", "third", "fourth"]),
        ("broken\nby a line end", ["broken\nby a line end"]),
        ("10/10!!! Wow", ["10/10!!!", "Wow"]),
        ("So say I. Then go.", ["So say I.", "Then go."]),
        ("这是。好的！是", ["这是。", "好的！", "是"]),
        ("", []),
        (" \n\t <br />  ", []),
        ("...", ["..."]),
        ("word", ["word"]),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't panic, it's over-rated.", ["Don't", "panic", ",", "it's", "over", "-", "rated", "."]),
        ("(well) 'quoted' ... !!!", ["(", "well", ")", "'", "quoted", "'", "...", "!!!"]),
        ("7/10 for $5", ["7", "/", "10", "for", "$", "5"]),
        ("great😀😀 film——x", ["great", "😀😀", "film", "——", "x"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("猫が好き", ["猫", "が", "好", "き"]),
        ("naïve café", ["naïve", "café"]),
    ],
)
def test_words_are_words_and_marks_stand_alone(text: str, words: list[str]) -> None:
    assert [word for sentence in read_document(text).words() for word in sentence] == words


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.text(alphabet=st.sampled_from("ab .!?…'\"\n<br/>IДr9猫😀\u0301-")))
def test_every_character_but_blanks_and_breaks_belongs_to_one_word(text: str) -> None:
    document = read_document(text, max_words=3)
    spans = [span for sentence in document.sentences for span in sentence]
    assert spans == sorted(spans)
    covered = [place for start, end in spans for place in range(start, end)]
    assert len(covered) == len(set(covered))
    assert all(0 < len(sentence) <= 3 for sentence in document.sentences)
    lost = "".join(character for place, character in enumerate(text) if place not in set(covered))
    assert lost.replace("<br/>", "").replace("<br>", "").split() == []


def test_long_sentences_and_long_words_are_cut_and_nothing_is_lost() -> None:
    document = read_document("a " * 120 + "b" * 250, max_words=50)
    assert [len(sentence) for sentence in document.sentences] == [50, 50, 23]
    assert "".join(document.words()[-1]) == "a" * 20 + "b" * 250


@pytest.mark.parametrize(
    "text", ["." * 200_000, "a." * 100_000, "! " * 100_000, '"' * 200_000, "<br " * 50_000, "\n" * 200_000]
)
def test_no_text_takes_long(text: str) -> None:
    started = time.process_time()
    read_document(text)
    assert time.process_time() - started < 2


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return ["the cat sat", "the dog sat", "a cat ran , the dog ran"] * 5


def test_a_words_tokens_are_its_own(texts: list[str]) -> None:
    for kind in ("word", "bpe"):
        tokenizer = Tokenizer.train(kind, texts, 60, lowercase=True)
        encoder = WordEncoder(tokenizer)
        words = ["The", "cats", "SAT", "‡"]
        each = encoder.tokens(words)
        assert each == [tokenizer.encode(word) for word in words]
        encoded = encoder.encode([words[:3], words[3:]])
        assert encoded.tokens.tolist() == [token for tokens in each for token in tokens]
        assert encoded.lengths.tolist() == [sum(map(len, each[:3])), len(each[3])]


def test_a_word_the_tokenizer_drops_is_an_unknown_one(texts: list[str]) -> None:
    encoder = WordEncoder(Tokenizer.train("word", texts, 60))
    assert encoder.tokens(["", "zyzzyva"]) == [[encoder.tokenizer.unknown]] * 2


def document(*rows: list[int]) -> Encoded:
    flat = [token for row in rows for token in row]
    return Encoded(np.array(flat, dtype=np.int64), np.array([len(row) for row in rows], dtype=np.int64))


def test_documents_become_one_table() -> None:
    table = padded_documents([document([1, 2], [3]), document([4, 5, 6])], pad=0)
    assert table.tolist() == [[[1, 2, 0], [3, 0, 0]], [[4, 5, 6], [0, 0, 0]]]
    assert padded_documents([document()], pad=9).tolist() == [[[9]]]
    assert padded_rows([np.array([1, 2]), np.array([], dtype=np.int64)], pad=0).tolist() == [[1, 2], [0, 0]]
