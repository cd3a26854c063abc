"""Filling gaps as it is learnt: pairs of texts with hidden words, their loss, their validation.

A model offers

    states, mask = model.encoder(tokens)           tokens [batch, length], padding anywhere
    states, weight = model.comparison(states)      whose inner products are the logits of the words
    model.next_logits(states, mask)                [batch, 2]: B follows A, or not (where config.next_sentence)

The loss of a batch is that of its hidden words plus that of its verdicts; the latter are weighed so that over an epoch
both means count alike. The weight is a constant of the run: splitting a batch changes nothing.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.batching import Place, in_order_of_length
from regard.data.masking import Masked, MaskedPairs, row_lengths
from regard.data.sentences import DOCUMENT_STARTS, TokenSentences, compiled, documents
from regard.data.tokenizer import Tokenizer
from regard.errors import UsageError, listed
from regard.layers.cross_entropy import linear_cross_entropy
from regard.tasks.language_model import TextData, safe_exp
from regard.training.loop import Loss
from regard.training.settings import Training

VALIDATION_TOKENS = 1 << 13  # padded tokens read together; changes speed, never results
VALIDATION_SEED = 0  # the same gaps in every validation of every run


@dataclass(frozen=True)
class MaskFillData:
    """The `data` section of a mask-fill recipe: a named data set, or text files of one's own."""

    name: str | None = None  # wikitext2
    train: tuple[str, ...] = ()  # text files with an empty line between documents; .gz too
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    document_start: str | None = None  # a regular expression of the lines that begin a document, if not empty lines do
    tokenizer: str = "bert"
    vocabulary: int = 8000
    lowercase: bool = True
    max_length: int = 128  # tokens of a pair, [CLS] and both [SEP] included
    masked: float = 0.15  # share of the words that are hidden
    short: float = 0.1  # share of the pairs that aim at a shorter length

    def __post_init__(self) -> None:
        if self.max_length < 8:
            raise UsageError(f"data.max_length is {self.max_length} but a pair of texts needs at least 8 tokens")
        for name in ("masked", "short"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"data.{name} is {getattr(self, name)} but must be between 0 and 1")
        compiled(self.document_start)

    def text(self) -> TextData:
        """Where the lines are."""
        return TextData(name=self.name, train=self.train, valid=self.valid, test=self.test)

    def documents(
        self, split: str, folder: str | Path | None, skipped: Counter[str] | None = None
    ) -> Iterator[list[str]]:
        """The documents of a split, streamed, each a list of sentences."""
        begins = self.document_start or DOCUMENT_STARTS.get(self.name or "")
        return documents(self.text().lines(split, folder, skipped), begins)

    def pairs(self, sentences: TokenSentences, tokenizer: Tokenizer, seed: int) -> MaskedPairs:
        options: dict[str, Any] = {"max_length": self.max_length, "share": self.masked, "short": self.short}
        return MaskedPairs(sentences, tokenizer, **options, seed=seed)


@dataclass(frozen=True)
class MaskFillScores:
    """Everything `regard evaluate` reports of a model that fills gaps."""

    words: int  # hidden ones
    nll: float  # nats per hidden word
    accuracy: float  # share of the hidden words that come first among all words
    pairs: int
    next_accuracy: float | None  # share of the right verdicts on whether B follows A

    @property
    def perplexity(self) -> float:
        return safe_exp(self.nll)

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "perplexity": self.perplexity}

    def told(self) -> str:
        share = f"accuracy {100 * self.accuracy:.2f} %"
        told = [f"hidden words: {share}, perplexity {self.perplexity:.2f}, {self.words:,} words"]
        if self.next_accuracy is not None:
            told.append(f"next sentence: accuracy {100 * self.next_accuracy:.2f} %, {self.pairs:,} pairs")
        return "\n".join(told)


class MaskFilling:
    """The task the training loop sees (regard.training.loop.Task)."""

    def __init__(self, train: MaskedPairs, valid: MaskedPairs, training: Training, device: torch.device):
        self.train, self.valid, self.training, self.device = train, valid, training, device
        lengths = row_lengths(train.pairs(0)) - 3
        self.words_per_pair = max(1.0, train.share * float(lengths.mean()))

    def batches(self, place: Place) -> Iterator[tuple[Masked, Place]]:
        for batch, after in self.train.follow(place, self.training.batch_tokens):
            yield batch.to(self.device), after

    def count(self, batch: Masked) -> int:
        return len(batch.words)

    def loss(self, model: Any, batch: Masked) -> Loss:
        states, mask = model.encoder(batch.tokens)
        hidden, words = model.comparison(states[batch.chosen])
        total, nll = linear_cross_entropy(hidden, words, batch.words, self.training.label_smoothing)
        if model.config.next_sentence:
            verdicts = F.cross_entropy(model.next_logits(states, mask), batch.verdicts, reduction="sum")
            total = total + self.words_per_pair * verdicts
        return Loss(total, nll.sum(), len(batch.words))

    def validate(self, model: Any) -> dict[str, float]:
        scores = mask_fill_scores(model, self.valid, self.device)
        found = {"nll": scores.nll, "perplexity": scores.perplexity, "accuracy": scores.accuracy}
        return found if scores.next_accuracy is None else {**found, "next_accuracy": scores.next_accuracy}

    def lines(self, batch: Masked) -> str:
        return f"the pairs {listed([item + 1 for item in batch.items], 8)} of the epoch"


@torch.no_grad()
def mask_fill_scores(
    model: Any, pairs: MaskedPairs, device: torch.device, finished: Callable[[int], None] | None = None
) -> MaskFillScores:
    """One pass over the pairs of epoch 0, each with the gaps of that epoch."""
    plan = pairs.pairs(0)
    words, right, verdicts, nll = 0, 0, 0, 0.0
    for items in in_order_of_length(row_lengths(plan).tolist(), VALIDATION_TOKENS):
        batch = pairs.batch(plan, 0, items.tolist()).to(device)
        states, mask = model.encoder(batch.tokens)
        logits: Tensor = model.logits(states[batch.chosen]).float()
        nll += F.cross_entropy(logits, batch.words, reduction="sum").item()
        words, right = words + len(batch.words), right + int((logits.argmax(-1) == batch.words).sum())
        if model.config.next_sentence:
            verdicts += int((model.next_logits(states, mask).argmax(-1) == batch.verdicts).sum())
        if finished is not None:
            finished(len(items))
    share = verdicts / len(plan) if model.config.next_sentence else None
    return MaskFillScores(words, nll / words if words else math.nan, right / max(words, 1), len(plan), share)
