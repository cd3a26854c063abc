"""Sequences said backwards."""

from pathlib import Path

import pytest

from regard.data.named import named
from regard.data.pairs import Pair
from regard.data.reversal import SPLITS, reversal
from regard.errors import UsageError
from regard.tasks.translate import TranslationData

NOWHERE = Path("there", "is", "no", "such", "folder")


def some(split: str = "train", **options: int) -> list[Pair]:
    return list(reversal(NOWHERE, split, **{"count": 200, **options}))


@pytest.mark.parametrize("split", SPLITS)
def test_every_target_is_its_source_backwards(split: str) -> None:
    for pair in some(split):
        assert pair.target.split() == pair.source.split()[::-1]


def test_the_gold_links_join_equal_words_along_the_antidiagonal() -> None:
    for pair in some():
        source, target = pair.source.split(), pair.target.split()
        assert sorted(place for place, _ in pair.links) == sorted(place for _, place in pair.links)
        assert len(set(pair.links)) == len(source)
        for read, said in pair.links:
            assert source[read] == target[said]
            assert read + said == len(source) - 1


def test_lengths_and_symbols_are_those_asked_for() -> None:
    pairs = some(shortest=2, longest=4, symbols=3)
    assert {len(pair.source.split()) for pair in pairs} == {2, 3, 4}
    assert {word for pair in pairs for word in pair.source.split()} == {"w0", "w1", "w2"}
    assert {len(pair.source.split()) for pair in some(shortest=5, longest=5)} == {5}


def test_a_twentieth_of_the_count_is_there_to_validate_and_to_test() -> None:
    assert [len(some(split)) for split in ("train", "valid", "test")] == [200, 10, 10]
    assert len(some("valid", count=39)) == 1


def test_each_split_is_always_the_same_and_no_two_are_alike() -> None:
    assert some() == some()
    first = {split: some(split, count=1000)[:10] for split in SPLITS}
    assert len({tuple(pairs) for pairs in first.values()}) == 3


def test_it_is_found_by_its_name_and_reads_nothing() -> None:
    assert list(named("reversal", NOWHERE, "valid", count=200)) == some("valid")
    data = TranslationData(name="reversal", options={"count": 40, "symbols": 2})
    assert len(list(data.pairs("train", NOWHERE))) == 40
    assert not NOWHERE.exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (dict(shortest=0), "sequences of 0 to 10 symbols do not exist"),
        (dict(shortest=4, longest=3), "sequences of 4 to 3 symbols do not exist"),
        (dict(symbols=1), "at least 2 symbols and 20 pairs, not 1 and 10000"),
        (dict(count=19), "at least 2 symbols and 20 pairs, not 50 and 19"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_anything_is(options: dict[str, int], complaint: str) -> None:
    with pytest.raises(UsageError) as error:
        reversal(NOWHERE, "train", **options)
    assert complaint in str(error.value)


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no option 'length'; its options are count, shortest, longest, symbols"):
        named("reversal", NOWHERE, "train", length=3)


def test_an_unknown_split_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="'dev'"):
        reversal(NOWHERE, "dev")


@pytest.mark.parametrize("options", [dict(count="many"), dict(count=30.5), dict(longest=None)])
def test_an_option_that_is_no_number_is_refused_in_one_line(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        next(named("reversal", NOWHERE, "train", **options))
