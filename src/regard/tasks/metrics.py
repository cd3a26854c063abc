"""How good a translation is: BLEU and chrF with their uncertainty.

Scores and signatures are sacreBLEU's. The intervals are a bootstrap over sentences (Koehn 2004): the corpus is
drawn again with replacement, many times, each draw is scored, and 95 % of those scores lie in the interval. The
draws are the ones sacreBLEU makes for the same seed, so that its signature stays true; they are made here
because sacreBLEU takes the seed from the environment only and keeps the bounds to itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import RegardError, UsageError

Interval = tuple[float, float]
DRAWN_AT_ONCE = 1 << 18  # sentences of the bootstrap samples in memory; changes speed, never results


@dataclass(frozen=True)
class TranslationScores:
    """What a set of translations scores against its references; BLEU and chrF run from 0 to 100."""

    bleu: float
    bleu_interval: Interval
    bleu_signature: str
    chrf: float
    chrf_interval: Interval
    chrf_signature: str
    length_ratio: float  # words of the hypotheses per word of the references
    count: int  # sentences


@dataclass(frozen=True)
class LengthBucket:
    """BLEU over the sentences whose source has about the same length."""

    label: str  # source words, such as "11-20" or "61+"
    count: int
    bleu: float
    interval: Interval


def translation_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    samples: int = 1000,
    seed: int = 12345,
) -> TranslationScores:
    """Score detokenised translations; text that is tokenised already is scored with `tokenize="none"`."""
    from sacrebleu.metrics import CHRF

    _check(samples, hypotheses=hypotheses, references=references)
    bleu, chrf = _bleu(tokenize, lowercase), CHRF(lowercase=lowercase)
    bleu_statistics = _statistics(bleu, hypotheses, references)
    chrf_statistics = _statistics(chrf, hypotheses, references)
    for metric in (bleu, chrf):  # these go into the signature
        metric.n_bootstrap, metric.seed = samples, seed
    hypothesis_words, reference_words = bleu_statistics[:, :2].sum(0).tolist()
    return TranslationScores(
        bleu=total_score(bleu, bleu_statistics.sum(0)),
        bleu_interval=bootstrap_interval(bleu, bleu_statistics, samples, seed),
        bleu_signature=str(bleu.get_signature()),
        chrf=total_score(chrf, chrf_statistics.sum(0)),
        chrf_interval=bootstrap_interval(chrf, chrf_statistics, samples, seed),
        chrf_signature=str(chrf.get_signature()),
        length_ratio=hypothesis_words / reference_words if reference_words else 0.0,
        count=len(hypotheses),
    )


def bleu_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    edges: Sequence[int] = (10, 20, 30, 40, 50, 60),
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    samples: int = 1000,
    seed: int = 12345,
) -> list[LengthBucket]:
    """BLEU by the number of source words: up to the first edge, then up to the next, ..., beyond the last.

    Buckets without a sentence are left out.
    """
    _check(samples, sources=sources, hypotheses=hypotheses, references=references)
    if not edges or edges[0] < 1 or any(low >= high for low, high in pairwise(edges)):
        raise UsageError(f"the edges {tuple(edges)} of the lengths must be positive and rise; try 10, 20, 30")
    metric = _bleu(tokenize, lowercase)
    statistics = _statistics(metric, hypotheses, references)
    # An edge belongs to the bucket below it.
    bucket_of = np.searchsorted(edges, [len(source.split()) for source in sources])
    labels = [f"{low + 1}-{high}" for low, high in pairwise((0, *edges))] + [f"{edges[-1] + 1}+"]
    buckets = []
    for index, label in enumerate(labels):
        own = statistics[bucket_of == index]
        if len(own):
            bleu, interval = total_score(metric, own.sum(0)), bootstrap_interval(metric, own, samples, seed)
            buckets.append(LengthBucket(label, len(own), bleu, interval))
    return buckets


def _check(samples: int, **texts: Sequence[str]) -> None:
    counts = {name: len(lines) for name, lines in texts.items()}
    if len(set(counts.values())) != 1:
        told = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise UsageError(f"cannot score {told}; there must be as many of each")
    if 0 in counts.values():
        raise UsageError("cannot score 0 hypotheses; give at least one")
    if samples < 1:
        raise UsageError(f"cannot draw {samples} bootstrap samples; draw at least 1")


def _bleu(tokenize: str, lowercase: bool) -> Any:
    from sacrebleu.metrics import BLEU

    if tokenize not in BLEU.TOKENIZERS:
        raise UsageError(f"unknown BLEU tokenizer {tokenize!r}; choose one of {', '.join(BLEU.TOKENIZERS)}")
    try:
        # force: sacreBLEU's warning of text that looks tokenised is ours to give, once and in our words.
        return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    except (ImportError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise RegardError(f"BLEU tokenizer {tokenize!r} cannot be used ({reason}); choose '13a'") from error


def _statistics(metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.int64]:
    """Per sentence, the counts whose sum over a corpus is all that its score depends on."""
    return np.array(metric._extract_corpus_statistics(hypotheses, [references]), dtype=np.int64)


def total_score(metric: Any, total: NDArray[np.int64]) -> float:
    """The score of a corpus from the sum of its sentences' statistics."""
    return float(metric._compute_score_from_stats(total.tolist()).score)


def bootstrap_interval(metric: Any, statistics: NDArray[np.int64], samples: int, seed: int) -> Interval:
    """Where 95 % of the scores of corpora drawn from these sentences lie."""
    scores = sorted(total_score(metric, total) for totals in _resampled(statistics, samples, seed) for total in totals)
    tail = samples // 40
    return scores[tail], scores[-1 - tail]


def _resampled(statistics: NDArray[np.int64], samples: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """The summed statistics of each bootstrap sample, [some samples, counts] at a time, so that memory stays small."""
    count, draw = len(statistics), np.random.default_rng(seed)
    at_once = max(1, DRAWN_AT_ONCE // count)
    for start in range(0, samples, at_once):
        rows = min(at_once, samples - start)
        drawn = draw.integers(count, size=(rows, count)) + count * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count)
        # Float products are quicker, and exact for counts below 2 ** 53.
        yield (times.astype(np.float64) @ statistics.astype(np.float64)).astype(np.int64)
