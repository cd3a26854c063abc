"""Joined pairs: every pair once, every size as likely, the same text for everybody, links that follow their words."""

from collections import Counter
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pytest

from regard.data.joined import group_size, join, joined
from regard.data.pairs import Pair
from regard.errors import UsageError
from regard.tasks.translate import TranslationData


def numbered(length: int) -> list[Pair]:
    return [Pair(f"source {number}", f"the target {number}") for number in range(length)]


@pytest.mark.parametrize("most", [1, 2, 4])
def test_every_pair_is_used_once_and_in_order(most: int) -> None:
    pairs = numbered(500)
    groups = list(joined(pairs, most, "train"))
    assert " ".join(group.source for group in groups) == " ".join(pair.source for pair in pairs)
    assert " ".join(group.target for group in groups) == " ".join(pair.target for pair in pairs)


def test_both_sides_join_the_same_pairs() -> None:
    for group in joined(numbered(200), 4, "train"):
        assert group.source.replace("source ", "") == group.target.replace("the target ", "")


@pytest.mark.parametrize("most", [2, 3, 4])
def test_every_size_is_as_likely(most: int) -> None:
    sizes = Counter(len(group.source.split()) // 2 for group in joined(numbered(12_000), most, "train"))
    groups = sizes.total()
    assert set(sizes) == set(range(1, most + 1))
    for found in sizes.values():
        deviation = (groups / most * (1 - 1 / most)) ** 0.5
        assert abs(found - groups / most) < 4 * deviation


def test_the_size_depends_on_the_split_and_the_place_and_nothing_else() -> None:
    pairs = numbered(300)
    assert list(joined(pairs, 4, "train")) == list(joined(pairs, 4, "train"))
    assert list(joined(pairs, 4, "train")) != list(joined(pairs, 4, "test"))
    place = 0
    for group in joined(pairs, 4, "valid"):
        size = len(group.source.split()) // 2
        assert size == min(group_size("valid", place, 4), 300 - place)
        place += size
    assert [group_size("train", place, 4) for place in range(8)] == [1, 1, 3, 4, 1, 2, 4, 3]  # everywhere


def test_an_endless_corpus_is_streamed() -> None:
    read = []

    def endless() -> Iterator[Pair]:
        for number in count():
            read.append(number)
            yield Pair(f"s{number}", f"t{number}")

    groups = list(islice(joined(endless(), 4, "train"), 10))
    assert len(read) == sum(len(group.source.split()) for group in groups)


def test_nothing_joined_is_nothing() -> None:
    assert list(joined([], 4, "train")) == []


def linked_words(pair: Pair) -> Counter[tuple[str, str]]:
    sources, targets = pair.source.split(), pair.target.split()
    return Counter((sources[left], targets[right]) for left, right in pair.links or ())


def test_gold_links_follow_their_words() -> None:
    pairs = [
        Pair(" ".join(f"s{n}-{i}" for i in range(n % 4 + 1)), f"t{n}-0 t{n}-1", ((n % 4, 0), (0, 1))) for n in range(60)
    ]
    groups = list(joined(pairs, 4, "test"))
    assert len(groups) < 60
    assert sum(map(linked_words, groups), Counter()) == sum(map(linked_words, pairs), Counter())
    first = join([Pair("a b", "x", ((1, 0),)), Pair(" c  d ", "y z", ((0, 1), (1, 0))), Pair("e", "w", ((0, 0),))])
    assert first == Pair("a b c  d e", "x y z w", ((1, 0), (2, 2), (3, 1), (4, 3)))


def test_links_that_are_known_in_part_are_not_known() -> None:
    assert join([Pair("a", "x", ((0, 0),)), Pair("b", "y")]).links is None
    assert join([Pair("a", "x", ()), Pair("b", "y", ())]).links == ()


# In the data section


def test_the_data_section_joins_every_split(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in numbered(40)), "utf-8")
    files = {split: (str(path),) for split in ("train", "valid", "test")}
    for split in files:
        assert list(TranslationData(**files).pairs(split, None)) == numbered(40)
        assert list(TranslationData(**files, join=3).pairs(split, None)) == list(joined(numbered(40), 3, split))


def test_a_missing_file_is_told_at_once() -> None:
    with pytest.raises(UsageError, match="no such file"):
        TranslationData(train=("missing.tsv",), join=4).pairs("train", None)


@pytest.mark.parametrize("most", [0, -1])
def test_less_than_one_pair_cannot_be_joined(most: int) -> None:
    with pytest.raises(UsageError, match=f"data.join is {most} but must be at least 1"):
        TranslationData(name="corpus", join=most)


@pytest.mark.real_data
def test_four_joined_descriptions_reach_from_ten_to_more_than_sixty_words(real_data: Path) -> None:
    section = TranslationData(name="multi30k", join=4)
    lengths = [len(pair.source.split()) for pair in section.pairs("test", real_data)]
    tens = Counter(min((length - 1) // 10, 6) for length in lengths)
    assert set(tens) == set(range(7))
    assert all(found >= 10 for found in tens.values())
