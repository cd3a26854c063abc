"""Choosing among labels, whatever is read: the loss, and how many choices are right."""

from collections.abc import Iterable

from torch import Tensor
from torch.nn import functional as F

from regard.training.loop import Loss


def choice_loss(logits: Tensor, right: Tensor, smoothing: float) -> Loss:
    """Of logits [choices, labels] and the numbers of the right labels [choices]."""
    total = F.cross_entropy(logits, right, reduction="sum", label_smoothing=smoothing)
    return Loss(total, F.cross_entropy(logits.detach(), right, reduction="sum"), len(right))


def choice_metrics(batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Over batches of logits and right labels, the mean loss and the share of right choices."""
    nll, hits, count = 0.0, 0, 0
    for logits, right in batches:
        nll += F.cross_entropy(logits, right, reduction="sum").item()
        hits += int((logits.argmax(-1) == right).sum())
        count += len(right)
    return {"nll": nll / count, "accuracy": hits / count}
