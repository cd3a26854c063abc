"""The terminal's heat map: aligned whatever the script, plain unless colour was asked for."""

import re

import numpy as np
import pytest

from regard.views import AttentionMap, terminal
from regard.views.terminal import MASKED, columns


def attention(queries: list[str], keys: list[str], causal: bool = False) -> AttentionMap:
    weights = np.random.default_rng(0).random((2, len(queries), len(keys))) + 0.01
    if causal:
        weights = np.tril(weights)
    weights /= weights.sum(-1, keepdims=True)
    return AttentionMap(
        "cross-attention, layer 2",
        "decoder" if causal else "cross",
        2,
        weights,
        tuple(queries),
        tuple(keys),
        tuple(range(len(queries))),
        tuple(range(len(keys))),
        causal,
    )


def body(text: str) -> list[str]:
    return [line for line in text.splitlines() if "│" in line]


WORDS = ["▁casa", "房子", "niño", "e\u0301tude", "ｗｉｄｅ", "дом", "</s>"]


def test_rows_line_up_whatever_the_script() -> None:
    lines = body(terminal(attention(WORDS, WORDS)))
    assert len(lines) == len(WORDS)
    for place in (0, 1):
        starts = {columns("".join(line.split("│")[: place + 1])) for line in lines}
        assert len(starts) == 1


def test_each_key_has_two_columns_under_its_own_label() -> None:
    text = terminal(attention(["x"], ["ab", "房", "c"]))
    lines = text.splitlines()
    row = next(line for line in lines if "│" in line)
    start = columns(row.split("│")[0]) + 1
    label = lines[lines.index(row) - 1]
    assert label == " " * start + "b 房c"
    assert columns(row.split("│")[1]) == 6


def test_plain_text_has_no_escape_and_colour_has_24_bits() -> None:
    assert "\x1b" not in terminal(attention(WORDS, WORDS))
    coloured = terminal(attention(WORDS, WORDS), colour=True)
    assert re.search(r"\x1b\[48;2;\d+;\d+;\d+m  \x1b\[0m", coloured)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert len({columns(line.split("│")[1]) for line in body(bare)}) == 1


def test_a_larger_weight_is_never_a_lighter_shade() -> None:
    weights = np.linspace(0, 1, 9, dtype=np.float32)[None, None]
    keys = tuple("abcdefghi")
    ladder = AttentionMap("ladder", "cross", 1, weights, ("x",), keys, (0,), tuple(range(9)))
    shades = body(terminal(ladder))[0].split("│")[1][::2]
    assert [" ░▒▓█".index(shade) for shade in shades] == sorted(" ░▒▓█".index(shade) for shade in shades)
    assert (shades[0], shades[-1]) == (" ", "█")


def test_masked_cells_look_unlike_zero() -> None:
    lines = body(terminal(attention(["a", "b", "c"], ["a", "b", "c"], causal=True)))
    assert [line.split("│")[1].count(MASKED) for line in lines] == [2, 1, 0]


def test_keys_that_do_not_fit_continue_below() -> None:
    keys = [f"k{i}" for i in range(60)]
    text = terminal(attention(["a", "b"], keys), width=60)
    assert max(columns(line) for line in body(text)) <= 60
    assert sum(len(line.split("│")[1]) // 2 for line in body(text) if line.lstrip().startswith("a")) == 60


def test_each_row_names_its_strongest_key_with_the_raw_weight() -> None:
    shown = attention(["una", "casa"], ["a", "house"])
    for row, line in enumerate(body(terminal(shown))):
        mean = shown.weights.mean(0)[row]
        assert line.endswith(f"│ {shown.keys[mean.argmax()]} {mean.max():.2f}")


@pytest.mark.parametrize("hostile", ["\x1b[31mred", "two\nlines", "\u202eback"])
def test_no_token_can_command_the_terminal(hostile: str) -> None:
    text = terminal(attention([hostile, "b"], ["a", hostile]))
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
    assert len(body(text)) == 2
