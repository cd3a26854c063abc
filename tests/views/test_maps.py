"""What an attention map promises, whoever draws it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import RegardError
from regard.views import AttentionMap, display, mean_heads, merge_words

# "una casita ." looks at "a small house ."; the pieces of "casita" are one word.
QUERIES, QUERY_WORDS = ("▁una", "▁cas", "ita", "▁.", "</s>"), (0, 1, 1, 2, 3)
KEYS, KEY_WORDS = ("▁a", "▁small", "▁ho", "use", "</s>"), (0, 1, 2, 2, 3)


def rows_of_one(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    weights = np.random.default_rng(seed).random(shape) + 1e-3
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def example(**changes: Any) -> AttentionMap:
    fields: dict[str, Any] = {
        "name": "cross-attention, layer 1",
        "kind": "cross",
        "layer": 1,
        "weights": rows_of_one((2, 5, 5)),
        "queries": QUERIES,
        "keys": KEYS,
        "query_words": QUERY_WORDS,
        "key_words": KEY_WORDS,
    }
    return AttentionMap(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "sideways"}, "kind is 'sideways'; use one of encoder, decoder, cross"),
        ({"weights": np.ones((5, 5))}, r"shape \(5, 5\); give \[heads, queries, keys\]"),
        ({"weights": np.ones((2, 4, 5))}, "4 queries but 5 tokens"),
        ({"weights": np.ones((2, 5, 6))}, "6 keys but 5 tokens"),
        ({"weights": np.ones((0, 5, 5))}, "nothing to draw"),
        ({"weights": np.full((1, 5, 5), np.nan)}, "finite"),
        ({"query_words": (0, 1)}, "5 queries but 2 word numbers"),
        ({"key_words": (0, 1, 0, 2, 3)}, "return to a word already ended"),
        ({"causal": True, "weights": np.ones((1, 5, 4)), "keys": KEYS[:4], "key_words": (0, 1, 2, 3)}, "visible"),
        ({"visible": (1, 2, 3, 4, 5)}, "needs causal=True"),
        ({"causal": True, "visible": (1, 2, 3, 4, 9)}, "a number of keys"),
    ],
)
def test_a_map_that_does_not_fit_its_words_is_refused_with_the_reason(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(RegardError, match=said):
        example(**changes)


def test_words_are_the_sum_over_key_pieces_and_the_mean_over_query_pieces() -> None:
    pieces = example()
    merged = merge_words(pieces)
    expected = np.zeros((2, 4, 4))
    for head in range(2):
        for query in range(4):
            rows = [i for i, word in enumerate(QUERY_WORDS) if word == query]
            for key in range(4):
                columns = [j for j, word in enumerate(KEY_WORDS) if word == key]
                mass = [sum(pieces.weights[head, i, j] for j in columns) for i in rows]
                expected[head, query, key] = sum(mass) / len(mass)
    np.testing.assert_allclose(merged.weights, expected, atol=1e-6)
    assert merged.queries == ("una", "casita", ".", "</s>")
    assert merged.keys == ("a", "small", "house", "</s>")
    assert merged.query_words == (0, 1, 2, 3)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_rows_of_words_still_sum_to_one(query_pieces: list[int], key_pieces: list[int]) -> None:
    query_words = tuple(word for word, count in enumerate(query_pieces) for _ in range(count))
    key_words = tuple(word for word, count in enumerate(key_pieces) for _ in range(count))
    merged = merge_words(
        example(
            weights=rows_of_one((3, len(query_words), len(key_words))),
            queries=("x",) * len(query_words),
            keys=("y",) * len(key_words),
            query_words=query_words,
            key_words=key_words,
        )
    )
    assert merged.weights.shape == (3, len(query_pieces), len(key_pieces))
    np.testing.assert_allclose(merged.weights.sum(-1), 1.0, atol=1e-5)


def test_merging_words_twice_is_merging_them_once() -> None:
    once = merge_words(example())
    twice = merge_words(once)
    np.testing.assert_array_equal(once.weights, twice.weights)
    assert once.queries == twice.queries


def test_word_numbers_survive_merging_so_that_gold_links_can_name_them() -> None:
    merged = merge_words(example(query_words=(-1, 0, 0, 1, 9)))
    assert merged.query_words == (-1, 0, 1, 9)


def test_the_mean_of_heads_keeps_one_head() -> None:
    pieces = example()
    np.testing.assert_allclose(mean_heads(pieces).weights, pieces.weights.mean(0, keepdims=True))


def test_a_causal_map_masks_the_future_and_only_the_future() -> None:
    masked = example(kind="decoder", causal=True).masked
    np.testing.assert_array_equal(masked, np.triu(np.ones((5, 5), dtype=bool), 1))
    assert not example().masked.any()


def test_a_word_is_masked_only_where_none_of_its_pieces_could_look() -> None:
    # Queries are named by what they write, keys by what was read: shifted by one, so words end at other places.
    written, written_words = ("▁una", "▁cas", "ita", "</s>"), (0, 1, 1, 2)
    read, read_words = ("<s>", "▁una", "▁cas", "ita"), (0, 1, 2, 2)
    weights = np.tril(np.ones((1, 4, 4)))
    weights /= weights.sum(-1, keepdims=True)
    merged = merge_words(
        example(
            kind="decoder", causal=True, weights=weights, queries=written, keys=read,
            query_words=written_words, key_words=read_words,
        )
    )  # fmt: skip
    assert merged.visible == (1, 3, 3)
    assert (merged.weights[0][merged.masked] == 0).all()
    assert (merged.weights[0][~merged.masked] > 0).all()


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("▁casa", "casa"),
        ("Ġhouse", "house"),
        ("##ing", "ing"),
        ("end</w>", "end"),
        ("cut@@", "cut"),
        ("</s>", "</s>"),
        ("[MASK]", "[MASK]"),
        ("▁", "␣"),
        ("#", "#"),
        ("##", "##"),
        ("a\nb", "a↵b"),
        ("\x1b[31m", "\ufffd[31m"),
        ("\u202eevil", "\ufffdevil"),
        ("字", "字"),
    ],
)
def test_display_strips_markers_and_what_would_break_a_line(token: str, shown: str) -> None:
    assert display(token) == shown
