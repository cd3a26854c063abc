"""Attention read as word alignment, and how far it is from gold links.

For predicted links A, sure gold links S and possible gold links P (S within P), counted over the whole corpus,
Och and Ney (2003) define

    precision = |A ∩ P| / |A|
    recall    = |A ∩ S| / |S|
    AER       = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

A ratio of nothing to nothing is perfect: precision 1 without a prediction, recall 1 without a sure link.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.data.links import Links
from regard.errors import UsageError

Link = tuple[int, int]  # source word, target word


@dataclass(frozen=True)
class AlignmentScores:
    """How well predicted links meet gold ones; an error rate of 0 is perfect, precision and recall of 1 are."""

    error_rate: float
    precision: float
    recall: float


def merge_subwords(
    weights: ArrayLike,  # [..., queries, keys]
    query_words: Sequence[int],
    key_words: Sequence[int],
    *,
    query_count: int | None = None,
    key_count: int | None = None,
) -> NDArray[np.float64]:
    """Weights between words [..., query words, key words] from weights between pieces of words.

    `query_words[i]` is the word that piece i belongs to, -1 for a piece that belongs to none (such as `</s>`).
    What is paid to a word is the sum over its pieces; what a word pays is the mean over its pieces. Pieces of no
    word are dropped, and what remains of each row is scaled to sum to one. A row without weight stays zero. The
    counts say how many words there are when the last ones may have no piece.
    """
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape[-2:] != (len(query_words), len(key_words)):
        raise UsageError(
            f"weights of shape {weights.shape} do not fit {len(query_words)} query pieces and "
            f"{len(key_words)} key pieces; give one word index per piece"
        )
    asks = _membership(query_words, query_count, "query").T  # [query words, queries]
    holds = _membership(key_words, key_count, "key")  # [keys, key words]
    # The sum over query pieces in place of the mean: the scaling of the rows makes them equal.
    merged = asks @ weights @ holds
    total = merged.sum(-1, keepdims=True)
    return np.divide(merged, total, out=np.zeros_like(merged), where=total > 0)


def _membership(words: Sequence[int], count: int | None, side: str) -> NDArray[np.float64]:
    """Ones where a piece [rows] belongs to a word [columns]."""
    count = max(words, default=-1) + 1 if count is None else count
    if any(not -1 <= word < count for word in words):
        raise UsageError(f"{side} word indices {min(words)} to {max(words)} do not fit {count} words from 0; mend them")
    return (np.asarray(words, dtype=np.int64)[:, None] == np.arange(count)).astype(np.float64)


def hard_links(weights: ArrayLike) -> set[Link]:
    """Each target word's strongest source word, from weights [target words, source words].

    The first of equals is taken; a target word that pays no attention has no link.
    """
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim != 2:
        raise UsageError(f"weights of shape {weights.shape} are not [target words, source words]; choose one head")
    if weights.shape[1] == 0:
        return set()
    return {(int(row.argmax()), target) for target, row in enumerate(weights) if row.max() > 0}


def alignment_scores(predicted: Iterable[AbstractSet[Link]], gold: Iterable[Links]) -> AlignmentScores:
    """Precision, recall and alignment error rate over a corpus."""
    predictions, golds = list(predicted), list(gold)
    if len(predictions) != len(golds):
        raise UsageError(f"{len(predictions)} predictions for {len(golds)} gold pairs; give one set of links per pair")
    both = list(zip(predictions, golds, strict=True))
    found = sum(len(links) for links in predictions)
    sure = sum(len(links.sure) for links in golds)
    found_sure = sum(len(links & known.sure) for links, known in both)
    found_possible = sum(len(links & known.possible) for links, known in both)
    return AlignmentScores(
        error_rate=1 - _ratio(found_sure + found_possible, found + sure),
        precision=_ratio(found_possible, found),
        recall=_ratio(found_sure, sure),
    )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def alignment_error_rate(predicted: Iterable[AbstractSet[Link]], gold: Iterable[Links]) -> float:
    """1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|) over a corpus."""
    return alignment_scores(predicted, gold).error_rate
