"""Tagging as it is learnt: tagged sentences, their loss, their validation.

Called with word numbers [batch, words] and characters [batch, words, characters] (see regard.data.spelt) a model gives
logits [batch, words, tags]. Sentences stand between their marks; what is said of marks is not listened to.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batching import Place, TokenBatches, in_order_of_length
from regard.data.conllu import COLUMNS, TaggedSentence, read_conllu
from regard.data.documents import padded_rows
from regard.data.named import data_folder
from regard.data.parts import Divisible
from regard.data.spelt import Speller
from regard.data.treebanks import named_treebank
from regard.errors import UsageError
from regard.tasks.choosing import choice_loss, choice_metrics
from regard.tasks.data_section import own_part
from regard.training.loop import Loss
from regard.training.settings import Training

WORDS_AT_ONCE = 8192  # padded, when nothing is learnt; changes speed, never results
NO_TAG = -1  # of marks and of padding


@dataclass(frozen=True)
class TagData:
    """The `data` section of a tagging recipe: a named treebank, or CoNLL-U files of one's own."""

    name: str | None = None  # ewt
    train: tuple[str, ...] = ()  # .conllu, .gz too; several are read one after the other
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    column: str = "upos"  # or xpos: which tags are learnt
    vocabulary: int = 8000  # words that have an embedding; the others have their characters
    lowercase: bool = True  # of what is looked up; characters are read as they are
    elmo: str | None = None  # a run of a bidirectional language model, or a folder with options.json and weights

    def __post_init__(self) -> None:
        if self.column not in COLUMNS:
            raise UsageError(f"data.column is {self.column!r} but must be one of {', '.join(COLUMNS)}")

    def sentences(
        self, split: str, folder: str | Path | None, skipped: Counter[str] | None = None
    ) -> Iterator[TaggedSentence]:
        """The sentences of a split, streamed. A file that is not there is an error at once."""
        files: Sequence[str | Path] = own_part(self, split)
        if self.name is not None:
            files = [named_treebank(self.name, data_folder(folder), split)]
        return chain.from_iterable([read_conllu(file, self.column, skipped) for file in files])


@dataclass(frozen=True)
class Batch(Divisible):
    """What the model reads, and the numbers of the right tags."""

    words: Tensor  # [sentences, words], -1 at padding
    chars: Tensor  # [sentences, words, characters]
    tags: Tensor  # [sentences, words], -1 at marks and padding
    items: tuple[int, ...] = ()


def inputs(sentences: Sequence[Sequence[str]], speller: Speller, device: torch.device) -> tuple[Tensor, Tensor]:
    """Words and characters, as the model reads them."""
    spelt = speller.batch(sentences)
    return torch.from_numpy(spelt.numbers).to(device), torch.from_numpy(spelt.chars).to(device)


class Tagging:
    """The task the training loop sees (regard.training.loop.Task)."""

    def __init__(
        self,
        speller: Speller,
        tags: Sequence[str],
        train: Sequence[TaggedSentence],
        valid: Sequence[TaggedSentence],
        training: Training,
        device: torch.device,
    ):
        self.speller, self.train, self.valid = speller, train, valid
        self.training, self.device = training, device
        self.numbers = {tag: number for number, tag in enumerate(tags)}

    def batches(self, place: Place) -> Iterator[tuple[Batch, Place]]:
        lengths = np.array([len(sentence.words) + 2 for sentence in self.train])
        for items, after in TokenBatches(lengths, self.training.batch_tokens, self.training.seed).follow(place):
            yield self._batch(self.train, items.tolist()), after

    def _batch(self, sentences: Sequence[TaggedSentence], items: Sequence[int]) -> Batch:
        chosen = [sentences[item] for item in items]
        tags = padded_rows(
            [np.array([NO_TAG, *(self.numbers[tag] for tag in known.tags), NO_TAG]) for known in chosen], NO_TAG
        )
        words, chars = inputs([known.words for known in chosen], self.speller, self.device)
        return Batch(words, chars, torch.from_numpy(tags).to(self.device), tuple(items))

    def count(self, batch: Batch) -> int:
        return int((batch.tags != NO_TAG).sum())

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        return choice_loss(*_choices(model, batch), self.training.label_smoothing)

    def validate(self, model: nn.Module) -> dict[str, float]:
        plan = in_order_of_length([len(known.words) + 2 for known in self.valid], WORDS_AT_ONCE)
        return choice_metrics(_choices(model, self._batch(self.valid, items.tolist())) for items in plan)

    def lines(self, batch: Batch) -> str:
        shown = "; ".join(self.train[item].place for item in batch.items[:3])
        more = f" and {len(batch.items) - 3} more" if len(batch.items) > 3 else ""
        return f"the training sentences at {shown}{more}"


def _choices(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits and tags of the real words."""
    real = batch.tags != NO_TAG
    return model(batch.words, batch.chars)[real], batch.tags[real]
