"""The tokenised corpus on disk: exact, memory-mapped, all or nothing."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from regard.data import token_pairs
from regard.data.pairs import Pair
from regard.data.token_pairs import TokenPairs, tokenise
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError

PAIRS = [
    Pair("ein Hund", "a dog"),
    Pair("eine Katze schläft", "a cat sleeps"),
    Pair("Hund", "a small dog"),
    Pair("Katze schläft ein", "cat"),
    Pair("Hund Hund Hund Hund", "dog dog"),
]
TOKENIZER = Tokenizer.train("word", [text for pair in PAIRS for text in (pair.source, pair.target)], 50)


def tokens_of(pairs: list[Pair]) -> list[tuple[list[int], list[int]]]:
    return [(TOKENIZER.encode(pair.source), TOKENIZER.encode(pair.target)) for pair in pairs]


def listed(pairs: TokenPairs) -> list[tuple[list[int], list[int]]]:
    return [(source.tolist(), target.tolist()) for source, target in (pairs[index] for index in range(len(pairs)))]


@pytest.fixture
def corpus(tmp_path: Path) -> TokenPairs:
    return tokenise(PAIRS, TOKENIZER, tmp_path / "corpus", max_length=10)


def test_what_is_written_is_read_back_exactly(corpus: TokenPairs) -> None:
    assert len(corpus) == 5
    assert listed(corpus) == tokens_of(PAIRS)
    assert corpus.lengths().tolist() == [[len(source), len(target)] for source, target in tokens_of(PAIRS)]
    assert corpus.report == {"kept": 5}


def test_opening_the_folder_again_gives_the_same(corpus: TokenPairs) -> None:
    again = TokenPairs(corpus.folder)
    assert listed(again) == listed(corpus)
    assert again.report == corpus.report


def test_tokens_stay_on_disk_until_they_are_read(corpus: TokenPairs) -> None:
    for source, target in (corpus[0], corpus[4]):
        assert isinstance(source, np.memmap)
        assert isinstance(target, np.memmap)
        assert not source.flags.writeable


def test_pairs_too_long_or_empty_are_left_out_and_counted(tmp_path: Path) -> None:
    pairs = [PAIRS[4], Pair("", "a dog"), PAIRS[0], Pair("ein", "  "), PAIRS[2], PAIRS[1]]
    corpus = tokenise(pairs, TOKENIZER, tmp_path / "corpus", max_length=3)
    assert listed(corpus) == tokens_of([PAIRS[0], PAIRS[2], PAIRS[1]])
    assert corpus.report == {"kept": 3, "empty": 2, "longer than 3 tokens": 1}


def test_the_longer_side_decides_and_the_limit_itself_fits(tmp_path: Path) -> None:
    pairs = [Pair("Hund", "a small dog"), Pair("ein Hund", "a dog"), Pair("eine Katze schläft", "cat")]
    corpus = tokenise(pairs, TOKENIZER, tmp_path / "corpus", max_length=2)
    assert listed(corpus) == tokens_of([pairs[1]])
    assert corpus.report["longer than 2 tokens"] == 2


def test_what_the_reader_skipped_stands_in_the_report(tmp_path: Path) -> None:
    corpus = tokenise(PAIRS, TOKENIZER, tmp_path / "corpus", max_length=3, skipped=Counter({"not UTF-8": 7}))
    assert corpus.report == {"kept": 4, "not UTF-8": 7, "longer than 3 tokens": 1}


def test_a_corpus_without_a_usable_pair_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    pairs = [Pair("", "a dog"), PAIRS[4], PAIRS[4]]
    with pytest.raises(RegardError, match=r"no usable pair \(1 empty, 2 longer than 1 tokens\)") as failure:
        tokenise(pairs, TOKENIZER, tmp_path / "corpus", max_length=1)
    assert "\n" not in str(failure.value)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RegardError, match="it is empty"):
        tokenise([], TOKENIZER, tmp_path / "corpus", max_length=1)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_fails_leaves_nothing_behind_and_keeps_the_old_corpus(corpus: TokenPairs) -> None:
    def breaks() -> Iterator[Pair]:
        yield PAIRS[0]
        raise RegardError("line 2 is damaged")

    with pytest.raises(RegardError, match=r"^line 2 is damaged$"):
        tokenise(breaks(), TOKENIZER, corpus.folder, max_length=10)
    assert [path.name for path in corpus.folder.parent.iterdir()] == ["corpus"]
    assert listed(TokenPairs(corpus.folder)) == tokens_of(PAIRS)


def test_a_new_corpus_takes_the_place_of_the_old_one(corpus: TokenPairs) -> None:
    new = tokenise(PAIRS[:2], TOKENIZER, corpus.folder, max_length=10)
    assert listed(new) == tokens_of(PAIRS[:2])
    assert [path.name for path in corpus.folder.parent.iterdir()] == ["corpus"]


def test_pairs_are_read_as_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_pairs, "ENCODE_AT_ONCE", 2)
    encoded = 0
    ahead = []

    class Counting(Tokenizer):
        def encode_all(self, texts):
            nonlocal encoded
            encoded += len(texts)
            return super().encode_all(texts)

    def stream() -> Iterator[Pair]:
        for number, pair in enumerate(PAIRS):
            ahead.append(number - encoded // 2)
            yield pair

    corpus = tokenise(stream(), Counting(TOKENIZER.backend), tmp_path / "corpus", max_length=10)
    assert listed(corpus) == tokens_of(PAIRS)
    assert ahead == [0, 1, 0, 1, 0]  # never more than one chunk waits to be written


def test_more_pairs_than_are_encoded_at_once_stay_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = listed(tokenise(PAIRS * 3, TOKENIZER, tmp_path / "at once", max_length=10))
    monkeypatch.setattr(token_pairs, "ENCODE_AT_ONCE", 4)
    assert listed(tokenise(PAIRS * 3, TOKENIZER, tmp_path / "in parts", max_length=10)) == expected


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("kind", ["tokens", "offsets"])
@pytest.mark.parametrize("left", ["none", "half", "all but one entry", "all but one byte"])
def test_a_file_cut_short_is_detected(corpus: TokenPairs, side: str, kind: str, left: str) -> None:
    path = corpus.folder / f"{side}.{kind}"
    content = path.read_bytes()
    entry = 4 if kind == "tokens" else 8
    size = {
        "none": 0,
        "half": len(content) // 2 // entry * entry,
        "all but one entry": len(content) - entry,
        "all but one byte": len(content) - 1,
    }[left]
    path.write_bytes(content[:size])
    with pytest.raises(RegardError, match="delete") as failure:
        TokenPairs(corpus.folder)
    assert str(corpus.folder) in str(failure.value)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize("name", ["source.tokens", "target.offsets", "report.json"])
def test_a_missing_file_is_told(corpus: TokenPairs, name: str) -> None:
    (corpus.folder / name).unlink()
    with pytest.raises(RegardError, match="not a readable tokenised corpus"):
        TokenPairs(corpus.folder)


def test_a_damaged_report_is_told(corpus: TokenPairs) -> None:
    (corpus.folder / "report.json").write_text('{"kept": ', "utf-8")
    with pytest.raises(RegardError, match="not a readable tokenised corpus"):
        TokenPairs(corpus.folder)
