"""Pairs of texts with gaps: how many, which, and always the same ones."""

import math
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.batching import Place
from regard.data.frames import Frame, as_pair, encode_around, shared_room
from regard.data.masking import MaskedPairs, elsewhere, row_lengths
from regard.data.sentences import DOCUMENT_STARTS, TokenSentences, documents, write_sentences
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError, UsageError

WORDS = [f"w{number}" for number in range(200)]
TEXTS = [
    [" ".join(WORDS[(7 * document + 3 * sentence + k) % 200] for k in range(3 + sentence % 5)) for sentence in range(9)]
    for document in range(60)
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train("bert", [" ".join(WORDS)] * 3, 600, lowercase=True)


@pytest.fixture(scope="module")
def sentences(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> TokenSentences:
    return write_sentences(iter(TEXTS), tokenizer, tmp_path_factory.mktemp("masking") / "train")


def pairs_of(sentences: TokenSentences, tokenizer: Tokenizer, seed: int = 0, max_length: int = 24) -> MaskedPairs:
    return MaskedPairs(sentences, tokenizer, max_length=max_length, share=0.15, short=0.1, seed=seed)


def within(hits: int, count: int, chance: float) -> bool:
    """Whether a count lies within four standard deviations of what is expected."""
    return abs(hits - count * chance) <= 4 * math.sqrt(count * chance * (1 - chance))


def test_half_of_the_pairs_are_neighbours_and_none_is_too_long(sentences: TokenSentences, tokenizer: Tokenizer) -> None:
    made = pairs_of(sentences, tokenizer)
    plans = [made.pairs(epoch) for epoch in range(20)]
    together = np.concatenate(plans)
    assert within(int(together[:, 4].sum()), len(together), 0.5)
    lengths = row_lengths(together)
    assert lengths.max() == 24
    assert lengths.min() >= 5
    assert (together[:, 1] > together[:, 0]).all()
    assert (together[:, 3] > together[:, 2]).all()
    bounds = sentences.starts[sentences.documents]
    owners = [np.searchsorted(bounds, together[:, column], side="right") for column in (0, 2)]
    assert ((owners[0] == owners[1]) == (together[:, 4] == 1)).all()


def test_neighbours_follow_each_other_unless_they_were_trimmed(sentences: TokenSentences, tokenizer: Tokenizer) -> None:
    plan = pairs_of(sentences, tokenizer, max_length=200).pairs(0)
    follows = plan[:, 4] == 1
    assert (plan[follows, 1] == plan[follows, 2]).all()
    assert set(plan[:, :4].flatten().tolist()) <= set(sentences.starts.tolist())


def test_every_sentence_of_a_document_is_read(sentences: TokenSentences, tokenizer: Tokenizer) -> None:
    plan = pairs_of(sentences, tokenizer, max_length=200).pairs(3)
    read = np.zeros(len(sentences.tokens), dtype=bool)
    for first, stop, other, end, _ in plan.tolist():
        read[first:stop] = True
        read[other:end] = True
    assert read.all()


def test_shorter_pairs_are_one_in_ten(tokenizer: Tokenizer, tmp_path: Path) -> None:
    word = next(word for word in WORDS if len(tokenizer.encode(word)) == 1)
    long = write_sentences(iter([[word] * 5_000] * 4), tokenizer, tmp_path / "long")

    def shorter(short: float) -> tuple[int, int]:
        made = MaskedPairs(long, tokenizer, max_length=40, share=0.15, short=short, seed=0)
        lengths = row_lengths(made.pairs(0))
        return int((lengths < 40).sum()), len(lengths)

    none, count = shorter(0.0)
    assert none < 0.02 * count  # at the ends of documents only
    assert within(*shorter(0.1), 0.1 * 35 / 36)  # a drawn length may be the whole


def test_the_gaps_are_the_papers_15_percent_in_shares_of_80_10_10(
    sentences: TokenSentences, tokenizer: Tokenizer
) -> None:
    made = pairs_of(sentences, tokenizer, max_length=128)
    row = np.full(2003, 9)
    row[0], row[1000], row[-1] = tokenizer.start, tokenizer.end, tokenizer.end
    row[500] = tokenizer.unknown
    fates: Counter[str] = Counter()
    rounds = 30
    for seed in range(rounds):
        gaps, told = made.mask(row, np.random.default_rng(seed))
        assert told.sum() == round(0.15 * 1999)
        assert not told[[0, 500, 1000, 2002]].any()
        assert (gaps == row)[told == 0].all()
        chosen = gaps[told == 1]
        fates["hidden"] += int((chosen == tokenizer.mask).sum())
        fates["same"] += int((chosen == 9).sum())
        others = chosen[(chosen != tokenizer.mask) & (chosen != 9)]
        fates["replaced"] += len(others)
        assert made.is_word[others].all()
    count = rounds * round(0.15 * 1999)
    assert within(fates["hidden"], count, 0.8)
    assert within(fates["replaced"], count, 0.1)
    assert within(fates["same"], count, 0.1)


def test_every_word_is_hidden_as_often_as_any_other(sentences: TokenSentences, tokenizer: Tokenizer) -> None:
    made = pairs_of(sentences, tokenizer)
    row = np.arange(5, 105)
    told = sum(made.mask(row, np.random.default_rng(seed))[1] for seed in range(400))
    assert all(within(int(hits), 400, 0.15) for hits in told)


def test_a_short_row_has_one_gap_and_a_row_without_words_none(sentences: TokenSentences, tokenizer: Tokenizer) -> None:
    made = pairs_of(sentences, tokenizer)
    draw = np.random.default_rng(0)
    assert made.mask(np.array([tokenizer.start, 9, tokenizer.end]), draw)[1].tolist() == [0, 1, 0]
    assert made.mask(np.array([tokenizer.start, tokenizer.unknown, tokenizer.end]), draw)[1].sum() == 0


def test_batches_follow_from_seed_epoch_and_place_alone(sentences: TokenSentences, tokenizer: Tokenizer) -> None:
    walk = list(islice(pairs_of(sentences, tokenizer).follow(Place(), 96), 60))
    epochs = {after.epoch for _, after in walk}
    assert epochs == {0, 1}
    place = walk[20][1]
    again = list(islice(pairs_of(sentences, tokenizer).follow(place, 96), 3))
    for (batch, after), (same, same_after) in zip(walk[21:], again, strict=False):
        assert torch.equal(batch.tokens, same.tokens)
        assert torch.equal(batch.words, same.words)
        assert after == same_after
    other = next(pairs_of(sentences, tokenizer, seed=1).follow(Place(), 96))[0]
    assert other.tokens.shape != walk[0][0].tokens.shape or not torch.equal(other.tokens, walk[0][0].tokens)


def test_one_pair_has_other_gaps_in_another_epoch(sentences: TokenSentences, tokenizer: Tokenizer) -> None:
    made = pairs_of(sentences, tokenizer)
    plan = made.pairs(0)
    first, again, later = (made.batch(plan, epoch, [0, 1, 2]) for epoch in (0, 0, 1))
    assert torch.equal(first.chosen, again.chosen)
    assert torch.equal(first.tokens, again.tokens)
    assert not torch.equal(first.chosen, later.chosen)
    alone = made.batch(plan, 0, [1])
    width = alone.tokens.shape[1]
    assert torch.equal(alone.tokens[0], first.tokens[1, :width])


def test_a_batch_tells_what_stood_in_the_gaps(sentences: TokenSentences, tokenizer: Tokenizer) -> None:
    made = pairs_of(sentences, tokenizer)
    plan = made.pairs(0)
    batch = made.batch(plan, 0, list(range(8)))
    rows = [made.row(plan[item]) for item in range(8)]
    told = [row[chosen[: len(row)].numpy()] for row, chosen in zip(rows, batch.chosen, strict=True)]
    assert batch.words.tolist() == np.concatenate(told).tolist()
    assert batch.verdicts.tolist() == (1 - plan[:8, 4]).tolist()
    assert (batch.tokens[:, 0] == tokenizer.start).all()
    assert ((batch.tokens == tokenizer.end).sum(1) == 2).all()


def test_elsewhere_is_another_document_or_at_least_another_sentence() -> None:
    draw = np.random.default_rng(0)
    assert {elsewhere(3, 6, 4, 10, draw) for _ in range(200)} == {0, 1, 2, 6, 7, 8, 9}
    assert {elsewhere(0, 4, 2, 4, draw) for _ in range(100)} == {0, 1, 3}


def test_documents_end_at_empty_lines_or_begin_where_a_pattern_says() -> None:
    assert list(documents(["One. Two.", "Three.", " ", "", "Four!"])) == [["One.", "Two.", "Three."], ["Four!"]]
    lines = [" = A = ", "", " First . Second . ", " = = Part = = ", " = B = ", " Third . "]
    found = list(documents(lines, DOCUMENT_STARTS["wikitext2"]))
    assert found == [["= A =", "First .", "Second .", "= = Part = ="], ["= B =", "Third ."]]
    with pytest.raises(UsageError, match="is not a regular expression"):
        list(documents(lines, "("))


def test_sentences_on_disk_are_whole_or_said_to_be_broken(tokenizer: Tokenizer, tmp_path: Path) -> None:
    skipped: Counter[str] = Counter()
    texts = iter([["w1 <unk> w2", "w3"], ["w4 alone"], ["\u200b", "w5"]])
    made = write_sentences(texts, tokenizer, tmp_path / "train", skipped)
    assert made.report == {"documents": 1, "sentences": 2, "tokens": len(made.tokens), "unknown": 1} | {
        "documents of one sentence": 2
    }
    assert made.tokens.tolist().count(tokenizer.unknown) == 1
    with pytest.raises(RegardError, match=r"the valid split has no document of two sentences \(1 documents of one"):
        write_sentences(iter([["w1"]]), tokenizer, tmp_path / "valid")
    assert not (tmp_path / "valid").exists()
    (tmp_path / "train" / "tokens").write_bytes(b"\0\0\0\0")
    with pytest.raises(RegardError, match="is cut short"):
        TokenSentences(tmp_path / "train")


def test_a_tokenizer_without_a_mask_is_refused(sentences: TokenSentences) -> None:
    with pytest.raises(UsageError, match=r"no \[MASK\]"):
        pairs_of(sentences, Tokenizer.train("word", ["a b"], 20))


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [(3, 4, (3, 4)), (20, 4, (6, 4)), (4, 20, (4, 6)), (20, 20, (5, 5)), (20, 0, (10, 0)), (6, 5, (5, 5))],
)
def test_the_longer_text_gives_first(first: int, second: int, kept: tuple[int, int]) -> None:
    assert shared_room(first, second, 10) == kept


def test_a_frame_holds_one_text_or_two(tokenizer: Tokenizer) -> None:
    frame = Frame(tokenizer, 16)
    one, was_cut = frame.encode("w1 w2")
    assert tokenizer.pieces(one.tokens.tolist()) == ["[CLS]", *_pieces(tokenizer, "w1 w2"), "[SEP]"]
    assert not was_cut
    two, _ = frame.encode("w1", "w2")
    expected = ["[CLS]", *_pieces(tokenizer, "w1"), "[SEP]", *_pieces(tokenizer, "w2"), "[SEP]"]
    assert tokenizer.pieces(two.tokens.tolist()) == expected
    assert two.lengths.sum() == len(two.tokens)
    long, was_cut = frame.encode(" ".join(WORDS), "w1")
    assert was_cut
    assert len(long.tokens) == 16
    assert len(frame.encode("  ")[0].tokens) == 0
    assert as_pair("a b\tc\td") == ("a b", "c\td")
    assert as_pair("a b") == "a b"
    with pytest.raises(UsageError, match="no room for words"):
        Frame(tokenizer, 3)


def _pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    return tokenizer.pieces(tokenizer.encode(text))


def test_a_special_token_that_is_spelt_out_is_put_in_its_place(tokenizer: Tokenizer) -> None:
    (row,) = encode_around(tokenizer, ["w1 [MASK], [MASK]"], "[MASK]", tokenizer.mask)
    assert row.count(tokenizer.mask) == 2
    assert row[-1] == tokenizer.mask
    (plain,) = encode_around(tokenizer, ["w1"], "[MASK]", tokenizer.mask)
    assert plain == tokenizer.encode("w1")
