"""Tokenised documents on disk, and their batches."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from regard.data.batching import Place
from regard.data.documents import WordEncoder
from regard.data.labelled import Labelled
from regard.data.token_documents import (
    DocumentBatches,
    TokenDocuments,
    cut,
    documents_in_order,
    fill_documents,
    tokenise_documents,
)
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError

TEXTS = [
    Labelled("A b c. D e!", "good", "here, line 1"),
    Labelled("F.", "bad", "here, line 2"),
    Labelled("<br />", "bad", "here, line 3"),
    Labelled("A b c d e f g", "good", "here, line 4"),
]
LABELS = {"bad": 0, "good": 1}


@pytest.fixture
def encoder() -> WordEncoder:
    return WordEncoder(Tokenizer.train("word", ["a b c d e f g . !"], 30, lowercase=True))


def test_documents_come_back_as_they_were_written(tmp_path: Path, encoder: WordEncoder) -> None:
    skipped: Counter[str] = Counter({"empty": 2})
    documents = tokenise_documents(TEXTS, encoder, LABELS, tmp_path / "train", max_words=4, skipped=skipped)
    assert len(documents) == 3
    assert documents.labels.tolist() == [1, 0, 1]
    expected = [[["A", "b", "c", "."], ["D", "e", "!"]], [["F", "."]], [["A", "b", "c", "d"], ["e", "f", "g"]]]
    for number, sentences in enumerate(expected):
        wanted = encoder.encode(sentences)
        assert documents[number].tokens.tolist() == wanted.tokens.tolist()
        assert documents[number].lengths.tolist() == wanted.lengths.tolist()
    assert documents.shapes().tolist() == [[2, 4], [1, 2], [2, 4]]
    assert documents.token_counts().tolist() == [7, 2, 7]
    assert documents.report == {"kept": 3, "empty": 2, "without a word": 1}


def test_long_documents_are_cut_and_counted(tmp_path: Path, encoder: WordEncoder) -> None:
    by_sentences = tokenise_documents(TEXTS, encoder, LABELS, tmp_path / "a", max_words=4, max_sentences=1)
    assert by_sentences.token_counts().tolist() == [4, 2, 4]
    assert by_sentences.report["cut to 1 sentences"] == 2
    by_tokens = tokenise_documents(TEXTS, encoder, LABELS, tmp_path / "b", max_words=4, max_length=5)
    assert by_tokens.token_counts().tolist() == [5, 2, 5]
    assert by_tokens[0].lengths.tolist() == [4, 1]
    assert by_tokens.report["cut to 5 tokens"] == 2


def test_a_document_of_just_the_length_is_not_counted_as_cut(tmp_path: Path, encoder: WordEncoder) -> None:
    documents = tokenise_documents(TEXTS[:1], encoder, LABELS, tmp_path / "a", max_words=9, max_length=7)
    assert documents.report == {"kept": 1}
    assert cut(documents[0], None) is not None


def test_an_unseen_label_is_named_with_its_place(tmp_path: Path, encoder: WordEncoder) -> None:
    strange = Labelled("a", "odd", "there, line 7")
    with pytest.raises(RegardError, match=r"there, line 7: the label 'odd' is not one of .*'bad', 'good'"):
        tokenise_documents([*TEXTS, strange], encoder, LABELS, tmp_path / "train", max_words=4)
    assert list(tmp_path.iterdir()) == []


def test_no_usable_text_is_an_error_and_leaves_nothing(tmp_path: Path, encoder: WordEncoder) -> None:
    with pytest.raises(RegardError, match=r"the valid split has no usable text \(1 without a word\)"):
        tokenise_documents(TEXTS[2:3], encoder, LABELS, tmp_path / "valid", max_words=4)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_cut_short_is_not_believed(tmp_path: Path, encoder: WordEncoder) -> None:
    tokenise_documents(TEXTS, encoder, LABELS, tmp_path / "train", max_words=4)
    (tmp_path / "train" / "tokens").write_bytes(b"\0" * 8)
    with pytest.raises(RegardError, match="is cut short"):
        TokenDocuments(tmp_path / "train")
    (tmp_path / "train" / "tokens").unlink()
    with pytest.raises(RegardError, match="not readable documents"):
        TokenDocuments(tmp_path / "train")


SHAPES = np.array([[n % 7 + 1, n % 5 + 1] for n in range(200)])


def test_an_epoch_holds_every_document_once_within_the_budget() -> None:
    batches = DocumentBatches(SHAPES, 60, seed=3).epoch(0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(200))
    for batch in batches:
        padded = SHAPES[batch, 0].sum() * SHAPES[batch, 1].max()
        assert padded <= 60
    assert fill_documents(np.arange(2), np.array([[100, 9], [1, 1]]), 60)[0].tolist() == [0]


def test_a_place_in_the_data_is_two_numbers() -> None:
    plan = DocumentBatches(SHAPES, 60, seed=3)
    stream = plan.follow(Place())
    walked = [next(stream) for _ in range(60)]
    _, place = walked[40]
    again = plan.follow(place)
    for items, after in walked[41:]:
        found, then = next(again)
        assert (found.tolist(), then) == (items.tolist(), after)
    assert plan.epoch(0)[0].tolist() != plan.epoch(1)[0].tolist()


def test_evaluation_reads_the_longest_first() -> None:
    batches = documents_in_order(SHAPES, 60)
    assert sorted(np.concatenate(batches).tolist()) == list(range(200))
    assert SHAPES[batches[0][0]].tolist() == [7, 5]
