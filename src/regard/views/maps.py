"""The one value every view draws: attention weights with the words they belong to.

Weights are [heads, queries, keys]; row i holds what query i paid to every key. Words come from subwords by

    word weight = sum over the key's pieces, mean over the query's pieces

so a row that summed to one still does.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from regard.errors import RegardError

KINDS = ("encoder", "decoder", "cross")

# How tokenizers mark a word's start, its continuation and its end.
_STARTS = ("▁", "Ġ")
_CONTINUES = "##"
_ENDS = ("</w>", "@@")

_VISIBLE = {"\n": "↵", "\r": "↵", "\t": "⇥"}
_BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The weights of all heads of one layer, for one sentence or pair of sentences."""

    name: str
    """What a title says: "cross-attention, layer 2"."""
    kind: str
    """"encoder", "decoder" (self-attention) or "cross"."""
    layer: int
    """The layer's number as a reader says it: shown as it is, so count from 1."""
    weights: np.ndarray
    """[heads, queries, keys], float32."""
    queries: tuple[str, ...]
    """The tokens that look."""
    keys: tuple[str, ...]
    """The tokens looked at."""
    query_words: tuple[int, ...]
    """For each query token the number of its word; neighbours with one number are one word."""
    key_words: tuple[int, ...]
    """For each key token the number of its word. A special token is a word of its own."""
    causal: bool = False
    """True when query i may not look at keys after i; those cells are drawn as masked, not as zero."""
    visible: tuple[int, ...] | None = None
    """How many keys each query of a causal map may look at; by default 1, 2, 3, ..."""

    def __post_init__(self) -> None:
        where = f"attention map {self.name!r}"
        weights = np.ascontiguousarray(self.weights, dtype=np.float32)
        if self.kind not in KINDS:
            raise RegardError(f"{where}: kind is {self.kind!r}; use one of {', '.join(KINDS)}")
        if weights.ndim != 3:
            raise RegardError(f"{where}: weights have shape {weights.shape}; give [heads, queries, keys]")
        queries, keys = weights.shape[1:]
        if 0 in weights.shape:
            raise RegardError(f"{where}: weights have shape {weights.shape}; there is nothing to draw")
        for side, tokens, words, count in (
            ("queries", self.queries, self.query_words, queries),
            ("keys", self.keys, self.key_words, keys),
        ):
            if len(tokens) != count:
                raise RegardError(f"{where}: weights have {count} {side} but {len(tokens)} tokens are given")
            if len(words) != count:
                raise RegardError(f"{where}: {count} {side} but {len(words)} word numbers; give one per token")
            runs = [word for word, _ in groupby(words)]
            if len(set(runs)) != len(runs):
                raise RegardError(f"{where}: the word numbers of the {side} return to a word already ended")
        if self.causal and self.visible is None:
            if queries != keys:
                raise RegardError(
                    f"{where}: a causal map of {queries} queries and {keys} keys needs visible=(...), "
                    "the number of keys each query may look at"
                )
            object.__setattr__(self, "visible", tuple(range(1, keys + 1)))
        elif self.visible is not None:
            counts = tuple(self.visible)
            if not self.causal or len(counts) != queries or not all(0 <= count <= keys for count in counts):
                raise RegardError(f"{where}: visible needs causal=True and, for each query, a number of keys")
            object.__setattr__(self, "visible", counts)
        if not np.isfinite(weights).all() or weights.min() < 0:
            raise RegardError(f"{where}: weights must be finite and not negative")
        object.__setattr__(self, "weights", weights)
        for field in ("queries", "keys", "query_words", "key_words"):
            object.__setattr__(self, field, tuple(getattr(self, field)))

    @property
    def masked(self) -> np.ndarray:
        """[queries, keys], True where looking was not allowed."""
        queries, keys = self.weights.shape[1:]
        if self.visible is None:
            return np.zeros((queries, keys), dtype=bool)
        return np.arange(keys)[None, :] >= np.array(self.visible)[:, None]


def _bare(token: str) -> str:
    """A token without its tokenizer's marker and without characters that would break a line of text."""
    for start in _STARTS:
        token = token.lstrip(start) if token.startswith(start) else token
    if len(token) > len(_CONTINUES):
        token = token.removeprefix(_CONTINUES)
    for end in _ENDS:
        if len(token) > len(end):
            token = token.removesuffix(end)
    return "".join(_visible(character) for character in token)


def _visible(character: str) -> str:
    if character in _VISIBLE:
        return _VISIBLE[character]
    broken = unicodedata.category(character) in ("Cc", "Cs") or character in _BIDI_CONTROLS
    return "\ufffd" if broken else character


def display(token: str) -> str:
    """A token as a reader sees it: "▁casa" and "casa</w>" are "casa"; a lone marker is "␣"."""
    return _bare(token).strip() or "␣"


def words(tokens: Sequence[str], numbers: Sequence[int]) -> list[tuple[int, str, int, int]]:
    """The words of a token sequence: (number, label, first token, one past the last token)."""
    found: list[tuple[int, str, int, int]] = []
    start = 0
    for number, run in groupby(numbers):
        stop = start + len(list(run))
        label = "".join(_bare(token) for token in tokens[start:stop]).strip() or "␣"
        found.append((number, label, start, stop))
        start = stop
    return found


def merge_words(attention: AttentionMap) -> AttentionMap:
    """The same map with one row and one column per word; word numbers are kept."""
    queries = words(attention.queries, attention.query_words)
    keys = words(attention.keys, attention.key_words)
    query_starts = np.array([start for _, _, start, _ in queries])
    key_starts = np.array([start for _, _, start, _ in keys])
    pieces = np.diff(np.append(query_starts, len(attention.queries))).astype(np.float32)
    weights = np.add.reduceat(attention.weights, key_starts, axis=2)
    weights = np.add.reduceat(weights, query_starts, axis=1) / pieces[None, :, None]
    visible = None
    if attention.visible is not None:
        # A word sees what its last piece sees, and sees a key word as soon as it sees its first piece.
        last = [attention.visible[stop - 1] for _, _, _, stop in queries]
        visible = tuple(int((key_starts < count).sum()) for count in last)
    return replace(
        attention,
        weights=weights,
        visible=visible,
        queries=tuple(label for _, label, _, _ in queries),
        keys=tuple(label for _, label, _, _ in keys),
        query_words=tuple(number for number, _, _, _ in queries),
        key_words=tuple(number for number, _, _, _ in keys),
    )


def mean_heads(attention: AttentionMap) -> AttentionMap:
    """The same map with one head: the mean of all."""
    return replace(attention, weights=attention.weights.mean(axis=0, keepdims=True))
