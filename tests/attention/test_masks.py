"""Masks are boolean and True means: may be attended to."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import masks


def test_the_first_keys_are_real_and_the_rest_is_padding() -> None:
    mask = masks.padding(torch.tensor([2, 0, 3]))
    assert mask.tolist() == [[True, True, False], [False, False, False], [True, True, True]]


def test_padding_can_be_wider_than_the_longest_row() -> None:
    assert masks.padding(torch.tensor([1, 2]), size=4).sum(-1).tolist() == [1, 2]
    assert masks.padding(torch.tensor([1, 2]), size=4).shape == (2, 4)


def test_every_token_that_is_not_padding_is_real() -> None:
    tokens = torch.tensor([[5, 0, 7], [0, 0, 2]])
    assert masks.real_tokens(tokens, pad=0).tolist() == [[True, False, True], [False, False, True]]


def test_a_start_that_is_spelt_like_padding_stands_before_the_first_real_token() -> None:
    right, left = [False, True, True, False, False], [False, False, False, True, True]
    nothing, full = [False] * 5, [True] * 5
    assert masks.begun(torch.tensor([right, left, nothing, full])).tolist() == [
        [True, True, True, False, False],
        [False, False, True, True, True],
        [True, False, False, False, False],
        full,
    ]


@settings(max_examples=60, deadline=None)
@given(
    queries=st.integers(0, 6),
    keys=st.integers(0, 8),
    before=st.none() | st.integers(0, 9),
    after=st.none() | st.integers(0, 9),
)
def test_a_window_reaches_as_far_as_it_says(queries: int, keys: int, before: int | None, after: int | None) -> None:
    mask = masks.window(queries, keys, before, after)
    assert mask.shape == (queries, keys)
    for row in range(queries):
        stands_at = keys - queries + row
        for key in range(keys):
            far_left = before is not None and stands_at - key > before
            far_right = after is not None and key - stands_at > after
            assert mask[row, key].item() == (not far_left and not far_right)


def test_no_query_sees_the_future() -> None:
    assert masks.causal(3, 3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_queries_are_the_last_positions_of_the_keys() -> None:
    assert masks.causal(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]
    assert masks.positions_of_queries(2, 4).tolist() == [2, 3]


@settings(max_examples=60, deadline=None)
@given(real=st.lists(st.booleans(), min_size=1, max_size=8))
def test_a_real_token_has_its_place_among_the_real_ones(real: list[bool]) -> None:
    places = masks.positions(torch.tensor([real]))[0].tolist()
    assert [place for place, is_real in zip(places, real, strict=True) if is_real] == list(range(sum(real)))
    assert all(0 <= place < len(real) for place in places)


def test_a_mask_over_keys_is_the_same_for_every_query() -> None:
    mask = torch.tensor([[True, False], [True, True]])
    assert masks.over_queries(mask).tolist() == [[[True, False]], [[True, True]]]
    assert masks.over_queries(None) is None


def test_combined_masks_allow_what_all_of_them_allow() -> None:
    keys = torch.tensor([[[True, False, True]]])
    assert masks.combine(keys, None, masks.causal(3, 3)).tolist() == [
        [[True, False, False], [True, False, False], [True, False, True]]
    ]


def test_no_mask_at_all_allows_everything() -> None:
    assert masks.combine() is None
    assert masks.combine(None, None) is None
