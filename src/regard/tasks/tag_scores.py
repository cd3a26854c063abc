"""How good is a tagger? Accuracy with its interval, on words it knows and words it does not, and F1 of every tag."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.conllu import TaggedSentence
from regard.tasks.classification_scores import ClassificationScores, classification_scores

MISTAKES_TOLD = 3  # of each tag


@dataclass(frozen=True)
class TagScores:
    """Everything `regard evaluate` reports of a tagger. A word is known if the vocabulary holds it."""

    words: ClassificationScores
    known_count: int
    known_accuracy: float
    unknown_accuracy: float
    sentences: int
    whole_sentences: float  # the share of sentences without a mistake

    @property
    def accuracy(self) -> float:
        return self.words.accuracy

    def as_dict(self) -> dict[str, Any]:
        others = {name: value for name, value in asdict(self).items() if name != "words"}
        return {**self.words.as_dict(), "unknown_count": self.words.count - self.known_count, **others}

    def told(self) -> str:
        low, high = self.words.accuracy_interval
        unknown = self.words.count - self.known_count
        lines = [
            f"accuracy {100 * self.accuracy:.2f} %  [{100 * low:.2f}, {100 * high:.2f}] of {self.words.count:,} words",
            f"known words {100 * self.known_accuracy:.2f} % of {self.known_count:,}, "
            f"unknown words {100 * self.unknown_accuracy:.2f} % of {unknown:,}",
            f"sentences without a mistake {100 * self.whole_sentences:.2f} % of {self.sentences:,}",
            f"macro-F1 {100 * self.words.macro_f1:.2f} %, NLL {self.words.nll:.4f} per word",
        ]
        for tag, scores in self.words.labels.items():
            taken = sorted(self.words.confusion[tag].items(), key=lambda pair: -pair[1])
            mistaken = [f"{count} as {said}" for said, count in taken if said != tag and count][:MISTAKES_TOLD]
            told = f"{tag}: F1 {100 * scores.f1:.2f} %, {scores.count:,} words"
            lines.append(told + (f", most often mistaken: {', '.join(mistaken)}" if mistaken else ""))
        return "\n".join(lines)


def tag_scores(
    chances: NDArray[np.float64],
    tags: Sequence[str],
    sentences: Sequence[TaggedSentence],
    known: NDArray[np.bool_],
) -> TagScores:
    """Scores of `chances` [words, tags], all sentences one after the other; `known` says which words are."""
    gold = [tag for sentence in sentences for tag in sentence.tags]
    all_tags = [*tags, *sorted(set(gold) - set(tags))]  # one that was never learnt has no chance
    chances = np.pad(chances, ((0, 0), (0, len(all_tags) - len(tags))))
    numbers = {tag: number for number, tag in enumerate(all_tags)}
    right_numbers = [numbers[tag] for tag in gold]
    right = chances.argmax(-1) == np.array(right_numbers)
    ends = np.cumsum([len(sentence.words) for sentence in sentences])
    faultless = [bool(part.all()) for part in np.split(right, ends[:-1])]
    return TagScores(
        words=classification_scores(chances, right_numbers, all_tags),
        known_count=int(known.sum()),
        known_accuracy=_mean(right[known]),
        unknown_accuracy=_mean(right[~known]),
        sentences=len(sentences),
        whole_sentences=_mean(np.array(faultless)),
    )


def _mean(right: NDArray[np.bool_]) -> float:
    return float(right.mean()) if len(right) else 0.0
