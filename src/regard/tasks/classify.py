"""Classification as it is learnt: labelled texts, their loss, their validation.

A model says with its class attribute `reads` what it wants: `documents`, tokens [documents, sentences, words], or
`tokens`, [batch, length], padded on the right. Called with either it gives logits [batch, labels]. A reader of tokens
with `frames = True` gets rows [CLS] a [SEP], and pairs of texts as [CLS] a [SEP] b [SEP]. One whose attentions keep a
window has `over_tokens(weights)`, which places recorded weights by the token looked at.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.data.batching import Place, TokenBatches, in_order_of_length
from regard.data.documents import MAX_WORDS, Encoded, padded_documents, padded_rows
from regard.data.held_out import held_out
from regard.data.labelled import TABLES, Labelled, read_labelled
from regard.data.named import data_folder, named_labelled
from regard.data.parts import Divisible, Planned
from regard.data.places import in_turn, shards
from regard.data.token_documents import DocumentBatches, TokenDocuments, documents_in_order
from regard.data.tokenizer import Tokenizer
from regard.errors import UsageError, listed
from regard.tasks.choosing import choice_loss, choice_metrics
from regard.tasks.data_section import check_split, is_undivided, own_part
from regard.training.loop import Loss
from regard.training.settings import Training

WORDS_AT_ONCE = 1 << 15  # padded words per batch when nothing is learnt; changes speed, never results


@dataclass(frozen=True)
class ClassificationData:
    """The `data` section of a classification recipe: a named data set, or files of one's own."""

    name: str | None = None  # imdb, sst2 or mrpc
    options: dict[str, Any] = field(default_factory=dict)  # of the named data set
    train: tuple[str, ...] = ()  # .jsonl, .tsv, .csv (each also .gz) or .parquet; folders and patterns of them too
    valid: tuple[str, ...] = ()  # without valid and test, one training text in twenty is held out for each
    test: tuple[str, ...] = ()
    text_column: str = "text"
    second_column: str | None = None  # of the other text, where pairs are classified
    label_column: str = "label"
    tokenizer: str = "word"  # word, bpe, unigram, wordpiece or bert
    vocabulary: int = 20_000  # tokens
    lowercase: bool = True
    max_words: int = MAX_WORDS  # of a sentence; longer ones are read as several
    max_sentences: int = 200  # of a document while training; what comes after is not learnt from, and counted
    max_length: int = 512  # tokens, for models that read one row of tokens; the rest is not read, and counted

    def __post_init__(self) -> None:
        for name in ("max_words", "max_sentences", "max_length"):
            if getattr(self, name) < 1:
                raise UsageError(f"data.{name} is {getattr(self, name)} but must be at least 1")

    def texts(self, split: str, folder: str | Path | None, skipped: Counter[str] | None = None) -> Iterable[Labelled]:
        """The labelled texts of a split, streamed."""
        if is_undivided(self):
            check_split(split)
            return held_out(self._read(self.train, skipped), split)
        files = own_part(self, split)
        if self.name is not None:
            return named_labelled(self.name, data_folder(folder), split, **self.options)
        return self._read(files, skipped)

    def _read(self, files: Sequence[str], skipped: Counter[str] | None) -> Iterable[Labelled]:
        columns: dict[str, Any] = {
            "text_column": self.text_column,
            "second_column": self.second_column,
            "label_column": self.label_column,
        }
        found = shards(files, TABLES)
        return in_turn([partial(read_labelled, file, **columns, skipped=skipped) for file in found])


@dataclass(frozen=True)
class Reading:
    """How texts are read: what of a recipe a checkpoint must remember."""

    max_words: int = MAX_WORDS
    max_length: int = 512


@dataclass(frozen=True)
class Batch(Divisible):
    """What the model reads, and the numbers of the right labels."""

    inputs: Tensor
    labels: Tensor
    items: tuple[int, ...] = ()


class Classification:
    """The task the training loop sees (regard.training.loop.Task)."""

    def __init__(
        self,
        reads: str,
        train: TokenDocuments,
        valid: TokenDocuments,
        training: Training,
        tokenizer: Tokenizer,
        device: torch.device,
    ):
        self.reads, self.train, self.valid, self.training = reads, train, valid, training
        self.tokenizer, self.device = tokenizer, device

    def batches(self, place: Place) -> Iterator[tuple[Planned, Place]]:
        budget, seed = self.training.batch_tokens, self.training.seed
        if self.reads == "documents":
            plan: TokenBatches = DocumentBatches(self.train.shapes(), budget, seed)
        else:
            plan = TokenBatches(self.train.token_counts(), budget, seed)
        for items, after in plan.follow(place):
            yield Planned(items.tolist(), [1] * len(items), partial(self._batch, self.train)), after

    def _batch(self, documents: TokenDocuments, items: Sequence[int]) -> Batch:
        inputs = model_inputs(self.reads, [documents[item] for item in items], self.tokenizer.pad)
        labels = torch.from_numpy(np.asarray(documents.labels[items]))
        return Batch(inputs.to(self.device), labels.to(self.device), tuple(items))

    def count(self, batch: Planned) -> int:
        return batch.count

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        return choice_loss(model(batch.inputs), batch.labels, self.training.label_smoothing)

    def validate(self, model: nn.Module) -> dict[str, float]:
        plan = in_batches(self.reads, self.valid.shapes(), self.valid.token_counts())
        batches = (self._batch(self.valid, items.tolist()) for items in plan)
        return choice_metrics((model(batch.inputs), batch.labels) for batch in batches)

    def lines(self, batch: Planned) -> str:
        return f"the training texts {listed([item + 1 for item in batch.items], 8)}"


def model_inputs(reads: str, documents: Sequence[Encoded], pad: int) -> Tensor:
    """One tensor of what a model of this kind reads."""
    if reads == "documents":
        return torch.from_numpy(padded_documents(documents, pad))
    return torch.from_numpy(padded_rows([document.tokens for document in documents], pad))


def in_batches(reads: str, shapes: NDArray[np.int64], counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Every document once, in batches of like size."""
    if reads == "documents":
        return documents_in_order(shapes, WORDS_AT_ONCE)
    return in_order_of_length(counts.tolist(), WORDS_AT_ONCE)
