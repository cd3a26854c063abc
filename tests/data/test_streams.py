"""Streams of tokens: nothing lost, nothing twice, the same from any place on."""

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from regard.data.batching import Place
from regard.data.streams import ChunkBatches, TokenStream, count_words, running_pieces, write_stream
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError

LINES = ["the cat sat", "", "the <unk> cat sat", "on the mat ."]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train("bpe", LINES, 60)


def test_a_stream_is_every_line_with_its_end(tokenizer: Tokenizer, tmp_path: Path) -> None:
    stream = write_stream(LINES, tokenizer, tmp_path / "train")
    expected = [tokenizer.end]
    for line in LINES:
        expected += [*tokenizer.encode(line), tokenizer.end]
    assert stream[0 : len(stream) + 1] == expected
    assert len(stream) == len(expected) - 1 == stream.report["tokens"]
    assert stream.report["lines"] == 4
    assert stream.words == count_words(LINES) == 3 + 0 + 4 + 4 + len(LINES)
    assert TokenStream(tmp_path / "train")[0:5] == expected[:5]


def test_the_unknown_words_of_a_corpus_are_words_like_others(tokenizer: Tokenizer, tmp_path: Path) -> None:
    stream = write_stream(LINES, tokenizer, tmp_path / "train")
    assert stream.report["unknown"] == 0
    assert tokenizer.unknown not in stream[0 : len(stream) + 1]
    assert "‹unk›" in tokenizer.decode(tokenizer.encode("the <unk> cat"))


@pytest.mark.parametrize("lines", [[], ["", "", " "]], ids=["empty", "empty lines"])
def test_a_text_without_a_word_is_refused_and_leaves_nothing(
    lines: list[str], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    with pytest.raises(RegardError, match="the text for train has no word"):
        write_stream(lines, tokenizer, tmp_path / "train", Counter({"too long": 1}))
    assert list(tmp_path.iterdir()) == []


def test_a_stream_that_is_cut_short_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    write_stream(LINES, tokenizer, tmp_path / "train")
    path = tmp_path / "train" / "tokens"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(RegardError, match="cut short"):
        TokenStream(tmp_path / "train")
    (tmp_path / "train" / "report.json").write_text("[]")
    with pytest.raises(RegardError, match="delete it"):
        TokenStream(tmp_path / "train")


@pytest.mark.parametrize(("count", "chunk", "rows"), [(100, 7, 4), (7, 7, 4), (1, 7, 4), (8, 1, 3)])
def test_every_token_is_predicted_once_per_epoch(count: int, chunk: int, rows: int) -> None:
    plan = ChunkBatches(count, chunk, rows, seed=1)
    for epoch in range(3):
        batches = plan.epoch(epoch)
        assert all(0 < len(batch) <= rows for batch in batches)
        places = [place for batch in batches for first, last in batch for place in range(first, last)]
        assert sorted(places) == list(range(count))
        assert all(0 < last - first <= chunk for batch in batches for first, last in batch)


def test_epochs_are_cut_and_shuffled_differently_but_the_same_for_one_seed() -> None:
    plan, again = ChunkBatches(100, 7, 4, seed=1), ChunkBatches(100, 7, 4, seed=1)
    assert plan.epoch(0) == again.epoch(0)
    assert plan.epoch(0) != plan.epoch(1)
    assert plan.epoch(0) != ChunkBatches(100, 7, 4, seed=2).epoch(0)


def test_the_plan_goes_on_from_any_place() -> None:
    plan = ChunkBatches(100, 7, 4, seed=1)
    whole = list(islice(plan.follow(Place()), 12))
    for index in range(11):
        _, after = whole[index]
        assert next(plan.follow(after)) == whole[index + 1]


BLANKS = ["One  two", "three", "", "", "four", "  five ", "six", "\tseven", "", "", "", "eight nine"]


@pytest.mark.parametrize("kind", ["bytes", "char"])
def test_an_exact_stream_is_the_text_to_the_last_character(kind: str, tmp_path: Path) -> None:
    """And its tokens are those of the whole text, though it was encoded in pieces."""
    text = "\n".join(BLANKS) + "\n"
    tokenizer = Tokenizer.train(kind, [text], 300)
    stream = write_stream(BLANKS, tokenizer, tmp_path / "train")
    tokens = stream[0 : len(stream) + 1]
    assert tokens[0] == tokenizer.end
    assert tokens[1:] == tokenizer.encode(text)
    assert tokenizer.decode(tokens[1:]) == text
    assert stream.report | {"tokens": 0} == {"lines": 12, "words": count_words(BLANKS), "tokens": 0, "unknown": 0}
    assert len(list(running_pieces(BLANKS))) == 2


def test_running_text_is_cut_in_the_end_even_where_no_letters_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.streams.PIECE_CHARACTERS", 10)
    lines = [" a line of its own "] * 5
    assert list(running_pieces(lines)) == [f"{line}\n" for line in lines]
