"""What BERT is pre-trained with: pairs of texts, half of them neighbours, in which 15 % of the words are hidden.

A pair is a run of sentences cut in two at the end of one of them; half of the time the second part is taken from
another document, and the sentences it displaced are used again. Pairs fill `max_length` tokens; one in ten aims at a
shorter length, so that the model knows short texts too. Of the chosen words 80 % are replaced by [MASK], 10 % by
another word, 10 % stay; special and unknown tokens are never chosen. The pairs depend on (seed, epoch) alone, the
masks on (seed, epoch, pair): they differ from epoch to epoch and are the same in a resumed run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batching import Place, TokenBatches
from regard.data.documents import padded_rows
from regard.data.frames import framed, shared_room
from regard.data.parts import Divisible
from regard.data.sentences import TokenSentences
from regard.data.tokenizer import Tokenizer
from regard.errors import UsageError

Pairs = NDArray[np.int64]  # [pairs, 5]: where A begins and ends among the tokens, the same of B, whether B follows A
HIDDEN, REPLACED = 0.8, 0.1  # of the chosen words; the others stay


@dataclass(frozen=True)
class Masked(Divisible):
    """A batch: rows with gaps, where the gaps are, what stood there, and whether B follows A (0) or not (1)."""

    tokens: Tensor  # [rows, length]
    chosen: Tensor  # [rows, length], True where a word must be told
    words: Tensor  # [chosen]
    verdicts: Tensor  # [rows]
    items: tuple[int, ...] = ()

    shared = ("words",)

    def part(self, rows: slice) -> "Masked":
        before = [int(self.chosen[:end].sum()) for end in (rows.start, rows.stop)]
        return replace(super().part(rows), words=self.words[slice(*before)])

    def to(self, device: torch.device) -> "Masked":
        tokens, chosen, words, verdicts = (
            part.to(device) for part in (self.tokens, self.chosen, self.words, self.verdicts)
        )
        return Masked(tokens, chosen, words, verdicts, self.items)


class MaskedPairs:
    """The pairs of every epoch, and their batches."""

    def __init__(
        self, sentences: TokenSentences, tokenizer: Tokenizer, *, max_length: int, share: float, short: float, seed: int
    ):
        if tokenizer.mask < 0:
            raise UsageError("this tokenizer has no [MASK] to hide words behind: use data.tokenizer: bert")
        self.sentences, self.tokenizer = sentences, tokenizer
        self.max_length, self.share, self.short, self.seed = max_length, share, short, seed
        special = {tokenizer.pad, tokenizer.start, tokenizer.end, tokenizer.unknown, tokenizer.mask}
        self.is_word = ~np.isin(np.arange(len(tokenizer)), list(special))
        self.all_words = np.flatnonzero(self.is_word)

    def pairs(self, epoch: int) -> Pairs:
        draw = np.random.default_rng((self.seed, epoch))
        return trimmed(draw_pairs(self.sentences, self.max_length - 3, self.short, draw), self.max_length - 3, draw)

    def follow(self, place: Place, budget: int) -> Iterator[tuple[Masked, Place]]:
        """Batches without end from `place` on, each with the place after it; every epoch has pairs of its own."""
        epoch, batch = place.epoch, place.batch
        while True:
            pairs = self.pairs(epoch)
            plan = TokenBatches(row_lengths(pairs), budget, self.seed).epoch(epoch)
            for index in range(batch, len(plan)):
                after = Place(epoch, index + 1) if index + 1 < len(plan) else Place(epoch + 1, 0)
                yield self.batch(pairs, epoch, plan[index].tolist()), after
            epoch, batch = epoch + 1, 0

    def batch(self, pairs: Pairs, epoch: int, items: Sequence[int]) -> Masked:
        rows = [self.row(pairs[item]) for item in items]
        draws = (np.random.default_rng((self.seed, epoch, item)) for item in items)
        hidden = [self.mask(row, draw) for row, draw in zip(rows, draws, strict=True)]
        chosen = padded_rows([places for _, places in hidden], 0).astype(bool)
        words = padded_rows(rows, self.tokenizer.pad)[chosen]
        return Masked(
            torch.from_numpy(padded_rows([row for row, _ in hidden], self.tokenizer.pad)),
            torch.from_numpy(chosen),
            torch.from_numpy(words),
            torch.from_numpy(1 - pairs[list(items), 4]),
            tuple(items),
        )

    def row(self, pair: NDArray[np.int64]) -> NDArray[np.int64]:
        tokens = self.sentences.tokens
        first, second = tokens[pair[0] : pair[1]], tokens[pair[2] : pair[3]]
        return framed(first, second, self.tokenizer.start, self.tokenizer.end)

    def mask(self, row: NDArray[np.int64], draw: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The row with its gaps, and 1 wherever the word must be told."""
        places = np.flatnonzero(self.is_word[row])
        count = min(len(places), max(1, round(self.share * len(places))))
        chosen = places[draw.random(len(places)).argsort()[:count]]
        fate = draw.random(count)
        with_gaps, told = row.copy(), np.zeros_like(row)
        told[chosen] = 1
        with_gaps[chosen[fate < HIDDEN]] = self.tokenizer.mask
        replaced = chosen[(fate >= HIDDEN) & (fate < HIDDEN + REPLACED)]
        with_gaps[replaced] = self.all_words[draw.integers(len(self.all_words), size=len(replaced))]
        return with_gaps, told


def row_lengths(pairs: Pairs) -> NDArray[np.int64]:
    return pairs[:, 1] - pairs[:, 0] + pairs[:, 3] - pairs[:, 2] + 3


def draw_pairs(sentences: TokenSentences, room: int, short: float, draw: np.random.Generator) -> Pairs:
    """The pairs of one epoch, before those that are too long are trimmed."""
    starts, bounds = sentences.starts.tolist(), sentences.documents.tolist()
    pairs = []
    for document in range(len(sentences)):
        first, end = bounds[document], bounds[document + 1]
        at = first
        while at < end:
            is_last = at == end - 1
            at -= is_last  # a sentence that is left alone is read with the one before it
            target = int(draw.integers(2, room + 1)) if draw.random() < short else room
            stop = filled(starts, at, at + 2, end, target)
            split = int(draw.integers(at + 1, stop))
            follows = draw.random() < 0.5
            other = split if follows else elsewhere(first, end, split, len(starts) - 1, draw)
            if not follows:
                last = bounds[int(np.searchsorted(sentences.documents, other, side="right"))]
                stop = filled(starts, other, other + 1, last, target - (starts[split] - starts[at]))
            pairs.append((starts[at], starts[split], starts[other], starts[stop], follows))
            at = end if is_last else stop if follows else split
    return np.array(pairs, dtype=np.int64)


def filled(starts: list[int], first: int, stop: int, end: int, target: int) -> int:
    """Where a run of sentences from `first` reaches the target: at `stop` at least, at the document's `end` at most."""
    while stop < end and starts[stop] - starts[first] < target:
        stop += 1
    return stop


def elsewhere(first: int, end: int, following: int, count: int, draw: np.random.Generator) -> int:
    """A sentence of another document than `first:end`; if there is no other, any sentence but the `following` one."""
    if end - first < count:
        chosen = int(draw.integers(count - (end - first)))
        return chosen if chosen < first else chosen + end - first
    chosen = int(draw.integers(count - 1))
    return chosen + (chosen >= following)


def trimmed(pairs: Pairs, room: int, draw: np.random.Generator) -> Pairs:
    """Pairs of at most `room` tokens: the longer text gives first, at its beginning or at its end by chance."""
    first, second = pairs[:, 1] - pairs[:, 0], pairs[:, 3] - pairs[:, 2]
    kept = pairs.copy()
    for column, length, allowed in zip((0, 2), (first, second), shared_room(first, second, room), strict=True):
        kept[:, column] += draw.binomial(length - allowed, 0.5)
        kept[:, column + 1] = kept[:, column] + allowed
    return kept
