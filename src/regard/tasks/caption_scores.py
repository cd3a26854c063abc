"""How good are captions that have several references? BLEU-1 to 4, chrF, CIDEr-D, ROUGE-L, and their uncertainty.

BLEU and chrF are sacreBLEU's. CIDEr-D (Vedantam, Zitnick and Parikh 2015) and ROUGE-L (Lin 2004) are computed here, as
the COCO caption evaluation does:

    CIDEr-D   10 / 4 sum_n mean_j  min(g_n(c), g_n(s_j)) . g_n(s_j) / |g_n(c)| / |g_n(s_j)| exp(-(l_c - l_j)^2 / 72)
              g_n: counts of n-grams, each times log(pictures / pictures with a reference that has it)
    ROUGE-L   (1 + b^2) P R / (R + b^2 P), b = 1.2, of the longest common subsequence; P and R the best over references

A word of chance: CIDEr-D rewards what is said of this picture and of few others, so a caption that fits every picture,
which can reach a good BLEU, gets next to nothing. Texts are scored as they are, split at blanks; whoever compares
captions lower-cases them and takes off the punctuation first (regard.data.captions.plain). Intervals are a bootstrap
over pictures, the document frequencies held fixed.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import UsageError
from regard.tasks.metrics import Interval, bootstrap_interval, total_score

ORDERS = (1, 2, 3, 4)
SIGMA = 6.0
BETA = 1.2
Grams = Counter[tuple[str, ...]]
References = Sequence[Sequence[str]]
"""For each picture its captions."""


@dataclass(frozen=True)
class CaptionScores:
    """What a set of captions scores; BLEU and chrF run from 0 to 100, ROUGE-L to 1, CIDEr-D to 10."""

    bleu: dict[str, float]  # "1" to "4"
    bleu_intervals: dict[str, Interval]
    chrf: float
    chrf_interval: Interval
    cider: float
    cider_interval: Interval
    rouge: float
    rouge_interval: Interval
    length_ratio: float  # words of the captions per word of the reference of nearest length
    distinct: int  # different captions among them
    count: int  # pictures
    signatures: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def told(self) -> str:
        lines = [f"BLEU-{n} {self.bleu[n]:.1f}  {_told(self.bleu_intervals[n], 1)}" for n in self.bleu]
        lines += [
            f"CIDEr-D {self.cider:.3f}  {_told(self.cider_interval, 3)}",
            f"ROUGE-L {self.rouge:.3f}  {_told(self.rouge_interval, 3)}",
            f"chrF {self.chrf:.1f}  {_told(self.chrf_interval, 1)}",
            f"{self.count} pictures, {self.distinct} different captions, length ratio {self.length_ratio:.3f}",
        ]
        return "\n".join([*lines, *(f"{name}: {text}" for name, text in self.signatures.items())])


def _told(interval: Interval, digits: int) -> str:
    return f"[{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]"


def caption_scores(
    captions: Sequence[str], references: References, *, samples: int = 1000, seed: int = 12345
) -> CaptionScores:
    """Score one caption per picture against the references of each."""
    from sacrebleu.metrics import BLEU, CHRF

    if len(captions) != len(references) or not captions:
        raise UsageError(f"cannot score {len(captions)} captions of {len(references)} pictures; give one for each")
    if not all(references):
        raise UsageError("a picture without a reference cannot be scored; leave it out")
    bleu, intervals, signatures = {}, {}, {}
    streams = _streams(references)
    for order in ORDERS:
        # The text is tokenised already, which force tells sacreBLEU.
        metric = BLEU(tokenize="none", force=True, max_ngram_order=order)
        statistics = _statistics(metric, captions, streams)
        bleu[str(order)] = total_score(metric, statistics.sum(0))
        intervals[str(order)] = bootstrap_interval(metric, statistics, samples, seed)
        said, wanted = statistics[:, :2].sum(0).tolist()
    signatures["BLEU-4"] = _signature(metric, samples, seed)
    chrf = CHRF()
    statistics = _statistics(chrf, captions, streams)
    signatures["chrF"] = _signature(chrf, samples, seed)
    ciders, rouges = cider(captions, references), rouge(captions, references)
    return CaptionScores(
        bleu=bleu,
        bleu_intervals=intervals,
        chrf=total_score(chrf, statistics.sum(0)),
        chrf_interval=bootstrap_interval(chrf, statistics, samples, seed),
        cider=float(ciders.mean()),
        cider_interval=mean_interval(ciders, samples, seed),
        rouge=float(rouges.mean()),
        rouge_interval=mean_interval(rouges, samples, seed),
        length_ratio=said / wanted if wanted else 0.0,
        distinct=len(set(captions)),
        count=len(captions),
        signatures=signatures,
    )


def _streams(references: References) -> list[list[str | None]]:
    """As sacreBLEU wants them: the first reference of every picture, the second of every picture, ..."""
    most = max(map(len, references))
    return [[known[place] if place < len(known) else None for known in references] for place in range(most)]


def _statistics(metric: Any, captions: Sequence[str], streams: Sequence[Sequence[str | None]]) -> NDArray[np.int64]:
    return np.array(metric._extract_corpus_statistics(list(captions), streams), dtype=np.int64)


def _signature(metric: Any, samples: int, seed: int) -> str:
    metric.n_bootstrap, metric.seed = samples, seed
    return str(metric.get_signature())


def mean_interval(values: NDArray[np.float64], samples: int, seed: int) -> Interval:
    """Of a mean over pictures: each sample draws as many of them again, with replacement."""
    draw, count = np.random.default_rng(seed), len(values)
    means = np.sort([values[draw.integers(count, size=count)].mean() for _ in range(samples)])
    tail = samples // 40
    return float(means[tail]), float(means[-1 - tail])


def grams(text: str, order: int) -> Grams:
    """How often each run of `order` words occurs."""
    words = text.split()
    return Counter(tuple(words[first : first + order]) for first in range(len(words) - order + 1))


class Cider:
    """CIDEr-D against the document frequencies of one set of references."""

    def __init__(self, references: References):
        self.documents = len(references)
        self.frequency: Counter[tuple[str, ...]] = Counter()
        for known in references:
            self.frequency.update({gram for text in known for order in ORDERS for gram in grams(text, order)})

    def vector(self, text: str, order: int) -> dict[tuple[str, ...], float]:
        """g_n: counts weighted by how few pictures have the n-gram; one that nobody has counts as if one had."""
        total = math.log(self.documents)
        return {
            gram: count * (total - math.log(max(1, self.frequency[gram]))) for gram, count in grams(text, order).items()
        }

    def score(self, caption: str, references: Sequence[str]) -> float:
        """Of one caption against its references."""
        total, said = 0.0, len(caption.split())
        for order in ORDERS:
            ours = self.vector(caption, order)
            length = _norm(ours)
            for reference in references:
                theirs = self.vector(reference, order)
                norms = length * _norm(theirs)
                if norms:
                    common = sum(min(ours[gram], theirs[gram]) * theirs[gram] for gram in ours.keys() & theirs.keys())
                    distance = said - len(reference.split())
                    total += common / norms * math.exp(-(distance**2) / (2 * SIGMA**2))
        return 10 * total / len(ORDERS) / len(references)


def _norm(vector: dict[tuple[str, ...], float]) -> float:
    return math.sqrt(sum(weight * weight for weight in vector.values()))


def cider(captions: Sequence[str], references: References) -> NDArray[np.float64]:
    """CIDEr-D of each caption; n-grams are weighed by the references of all pictures scored together."""
    judge = Cider(references)
    return np.array([judge.score(caption, known) for caption, known in zip(captions, references, strict=True)])


def rouge(captions: Sequence[str], references: References) -> NDArray[np.float64]:
    """ROUGE-L of each caption."""
    return np.array([_rouge(caption, known) for caption, known in zip(captions, references, strict=True)])


def _rouge(caption: str, references: Sequence[str]) -> float:
    said = caption.split()
    if not said:
        return 0.0
    common = [(longest_common(said, known.split()), len(known.split())) for known in references]
    precision = max(shared for shared, _ in common) / len(said)
    recall = max(shared / length if length else 0.0 for shared, length in common)
    if not precision or not recall:
        return 0.0
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


def longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """Words of the longest subsequence that both have."""
    row = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0
        for place, other in enumerate(second, 1):
            diagonal, row[place] = row[place], diagonal + 1 if word == other else max(row[place], row[place - 1])
    return row[-1]
