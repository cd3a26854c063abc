import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.links import Links
from regard.errors import UsageError
from regard.tasks.alignment import alignment_error_rate, alignment_scores, hard_links, merge_subwords

a_link = st.tuples(st.integers(0, 5), st.integers(0, 5))
some_links = st.frozensets(a_link, max_size=12)


def some_weights(*shape: int, seed: int = 0) -> np.ndarray:
    weights = np.random.default_rng(seed).random(shape)
    return weights / weights.sum(-1, keepdims=True)


# From pieces to words


def test_merging_sums_over_key_pieces_and_averages_over_query_pieces() -> None:
    weights = some_weights(3, 2, 4, 5)
    query_words, key_words = [0, 0, 1, 2], [0, 1, 1, 1, 2]
    merged = merge_subwords(weights, query_words, key_words)
    assert merged.shape == (3, 2, 3, 3)
    for batch in range(3):
        for head in range(2):
            for query in range(3):
                for key in range(3):
                    paid = [
                        sum(weights[batch, head, i, j] for j in range(5) if key_words[j] == key)
                        for i in range(4)
                        if query_words[i] == query
                    ]
                    assert merged[batch, head, query, key] == pytest.approx(sum(paid) / len(paid))
    np.testing.assert_allclose(merged.sum(-1), 1)


def test_words_of_one_piece_stay_as_they_are() -> None:
    weights = some_weights(4, 6)
    np.testing.assert_allclose(merge_subwords(weights, range(4), range(6)), weights)


def test_pieces_of_no_word_are_dropped_and_rows_still_sum_to_one() -> None:
    weights = [[0.2, 0.2, 0.6], [0.0, 0.0, 1.0], [0.5, 0.3, 0.2]]
    merged = merge_subwords(weights, [0, 1, -1], [0, 1, -1])
    np.testing.assert_allclose(merged, [[0.5, 0.5], [0.0, 0.0]])


def test_pieces_of_a_word_need_not_stand_together() -> None:
    merged = merge_subwords([[0.1, 0.2, 0.7]], [0], [1, 0, 1])
    np.testing.assert_allclose(merged, [[0.2, 0.8]])


def test_words_without_a_piece_keep_their_place() -> None:
    merged = merge_subwords([[0.25, 0.75]], [1], [0, 2], query_count=3, key_count=4)
    np.testing.assert_allclose(merged, [[0.0] * 4, [0.25, 0.0, 0.75, 0.0], [0.0] * 4])


def test_merging_no_words_gives_no_words() -> None:
    assert merge_subwords(np.ones((1, 1)), [-1], [-1]).shape == (0, 0)


@pytest.mark.parametrize(
    ("query_words", "key_words", "options"),
    [([0], [0, 1, 2], {}), ([0, 1], [0, 1], {}), ([0, -2], [0, 1, 2], {}), ([0, 3], [0, 1, 2], {"query_count": 2})],
)
def test_indices_that_do_not_fit_are_refused(
    query_words: list[int], key_words: list[int], options: dict[str, int]
) -> None:
    with pytest.raises(UsageError, match="fit"):
        merge_subwords(np.ones((2, 3)), query_words, key_words, **options)


# From weights to links


def test_each_target_word_is_linked_to_its_strongest_source_word() -> None:
    weights = [[0.1, 0.9, 0.0], [0.5, 0.2, 0.3], [0.2, 0.4, 0.4]]
    assert hard_links(weights) == {(1, 0), (0, 1), (1, 2)}


def test_a_target_word_that_pays_no_attention_has_no_link() -> None:
    assert hard_links([[0.0, 0.0], [0.0, 1.0], [np.nan, np.nan]]) == {(1, 1)}
    assert hard_links(np.zeros((2, 0))) == set()


def test_links_of_several_heads_at_once_are_refused() -> None:
    with pytest.raises(UsageError, match="one head"):
        hard_links(np.ones((2, 3, 3)))


# Against gold


def test_the_error_rate_of_a_small_example_is_what_the_hand_computes() -> None:
    # A = 3, S = 2, A and S share 1, A and P share 2: 1 - (1 + 2) / (3 + 2)
    gold = Links(sure=frozenset({(0, 0), (1, 1)}), possible=frozenset({(2, 1)}))
    scores = alignment_scores([{(0, 0), (2, 1), (2, 2)}], [gold])
    assert scores.error_rate == pytest.approx(2 / 5)
    assert scores.precision == pytest.approx(2 / 3)
    assert scores.recall == pytest.approx(1 / 2)


def test_counts_are_taken_over_the_corpus_not_averaged_over_pairs() -> None:
    gold = [Links(frozenset({(0, 0)})), Links(frozenset({(0, 0), (1, 1), (2, 2)}))]
    assert alignment_error_rate([{(0, 0)}, {(0, 1)}], gold) == pytest.approx(1 - (1 + 1) / (2 + 4))


@given(st.lists(st.tuples(some_links, some_links, some_links), min_size=1, max_size=5))
def test_the_scores_are_those_of_a_spelled_out_loop(corpus: list[tuple[frozenset, frozenset, frozenset]]) -> None:
    predicted = [links for links, _, _ in corpus]
    gold = [Links(sure, possible) for _, sure, possible in corpus]
    a = s = a_and_s = a_and_p = 0
    for links, sure, possible in corpus:
        for link in links:
            a += 1
            if link in sure:
                a_and_s += 1
            if link in possible or link in sure:
                a_and_p += 1
        for _ in sure:
            s += 1
    scores = alignment_scores(predicted, gold)
    assert scores.error_rate == pytest.approx(1 - (a_and_s + a_and_p) / (a + s) if a + s else 0)
    assert scores.precision == pytest.approx(a_and_p / a if a else 1)
    assert scores.recall == pytest.approx(a_and_s / s if s else 1)
    assert 0 <= scores.error_rate <= 1


@given(some_links.filter(len), some_links)
def test_perfect_links_have_no_error_and_disjoint_ones_nothing_else(
    sure: frozenset[tuple[int, int]], possible: frozenset[tuple[int, int]]
) -> None:
    gold = [Links(sure, possible)]
    assert alignment_error_rate([sure], gold) == 0
    assert alignment_error_rate([sure | possible], gold) == 0
    assert alignment_error_rate([{(i + 6, j) for i, j in sure}], gold) == 1
    assert alignment_error_rate([frozenset()], gold) == 1


def test_a_prediction_too_few_is_refused() -> None:
    with pytest.raises(UsageError, match="1 predictions for 2 gold pairs"):
        alignment_scores([set()], [Links(frozenset()), Links(frozenset())])
