"""How good is a classifier? Accuracy with its interval, F1, likelihood, and what is taken for what."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Z = 1.959964  # a normal variable lies within so many standard deviations in 95 of 100 cases


@dataclass(frozen=True)
class LabelScores:
    """How well one label is told from the others."""

    count: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class ClassificationScores:
    """Everything `regard evaluate` reports of a classifier."""

    count: int
    accuracy: float
    accuracy_interval: tuple[float, float]  # Wilson, 95 %
    macro_f1: float
    nll: float  # nats per text or picture
    labels: dict[str, LabelScores]
    confusion: dict[str, dict[str, int]]  # from the right label to the label given to how often
    unit: str = "text"  # what was classified

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def told(self) -> str:
        low, high = self.accuracy_interval
        lines = [
            f"accuracy {100 * self.accuracy:.2f} %  [{100 * low:.2f}, {100 * high:.2f}]",
            f"macro-F1 {100 * self.macro_f1:.2f} %, NLL {self.nll:.4f} per {self.unit}, {self.count} {self.unit}s",
        ]
        for label, known in self.labels.items():
            mistaken = ", ".join(f"{n} as {said}" for said, n in self.confusion[label].items() if said != label and n)
            lines.append(
                f"{label}: precision {100 * known.precision:.2f} %, recall {100 * known.recall:.2f} %, "
                f"F1 {100 * known.f1:.2f} %, {known.count} {self.unit}s"
                + (f", of which {mistaken}" if mistaken else "")
            )
        return "\n".join(lines)


def classification_scores(
    probabilities: NDArray[np.floating], gold: Sequence[int], labels: Sequence[str], unit: str = "text"
) -> ClassificationScores:
    """Scores of `probabilities` [texts or other units, labels] against the numbers of the right labels."""
    right = np.asarray(gold)
    said = probabilities.argmax(axis=1)
    table = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(table, (right, said), 1)
    hits, wanted, given = table.diagonal(), table.sum(axis=1), table.sum(axis=0)
    # A label that nobody wanted or nobody gave counts as zero, not as undefined.
    precision, recall = hits / np.maximum(given, 1), hits / np.maximum(wanted, 1)
    f1 = 2 * hits / np.maximum(wanted + given, 1)
    chance = probabilities[np.arange(len(right)), right]
    return ClassificationScores(
        count=len(right),
        accuracy=float(hits.sum() / len(right)),
        accuracy_interval=wilson(int(hits.sum()), len(right)),
        macro_f1=float(f1.mean()),
        nll=float(-np.log(np.maximum(chance, np.finfo(np.float64).tiny)).mean()),
        labels={
            label: LabelScores(int(wanted[i]), float(precision[i]), float(recall[i]), float(f1[i]))
            for i, label in enumerate(labels)
        },
        confusion={
            label: dict(zip(labels, row.tolist(), strict=True)) for label, row in zip(labels, table, strict=True)
        },
        unit=unit,
    )


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share: honest near 0 and 1 too."""
    share, spread = hits / count, Z * Z / count
    centre = share + spread / 2
    half = Z * math.sqrt(share * (1 - share) / count + spread / (4 * count))
    return max(0.0, (centre - half) / (1 + spread)), min(1.0, (centre + half) / (1 + spread))
