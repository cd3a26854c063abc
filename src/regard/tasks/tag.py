"""Tagging as it is learnt: tagged sentences, their loss, their validation.

Called with word numbers [batch, words] and characters [batch, words, characters] (see regard.data.spelt) a model gives
logits [batch, words, tags]. Sentences stand between their marks; what is said of marks is not listened to.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.batching import Place, TokenBatches, in_order_of_length
from regard.data.conllu import COLUMNS, TaggedSentence, read_conllu
from regard.data.documents import padded_rows
from regard.data.named import data_folder
from regard.data.parts import Divisible
from regard.data.spelt import Speller
from regard.data.tokenizer import Tokenizer
from regard.data.treebanks import named_treebank
from regard.errors import UsageError
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
        files: dict[str, str],
        device: torch.device,
    ):
        self.speller, self.train, self.valid, self.training = speller, train, valid, training
        self.checkpoint_files, self.device = files, device
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
        real = batch.tags != NO_TAG
        logits, tags = model(batch.words, batch.chars)[real], batch.tags[real]
        total = F.cross_entropy(logits, tags, reduction="sum", label_smoothing=self.training.label_smoothing)
        nll = F.cross_entropy(logits.detach(), tags, reduction="sum")
        return Loss(total, nll, len(tags))

    def validate(self, model: nn.Module) -> dict[str, float]:
        nll, right, count = 0.0, 0, 0
        for items in in_order_of_length([len(known.words) + 2 for known in self.valid], WORDS_AT_ONCE):
            batch = self._batch(self.valid, items.tolist())
            real = batch.tags != NO_TAG
            logits, tags = model(batch.words, batch.chars)[real], batch.tags[real]
            nll += F.cross_entropy(logits, tags, reduction="sum").item()
            right += int((logits.argmax(-1) == tags).sum())
            count += len(tags)
        return {"nll": nll / count, "accuracy": right / count}

    def files(self) -> dict[str, str]:
        return self.checkpoint_files

    def lines(self, batch: Batch) -> str:
        shown = "; ".join(self.train[item].place for item in batch.items[:3])
        more = f" and {len(batch.items) - 3} more" if len(batch.items) > 3 else ""
        return f"the training sentences at {shown}{more}"


def model_files(config_json: str, tokenizer: Tokenizer, tags: Sequence[str]) -> dict[str, str]:
    """What must lie beside the weights for a tagger to be loaded from them."""
    return {
        "config.json": config_json,
        "tokenizer.json": tokenizer.to_json(),
        "tags.json": json.dumps({"tags": list(tags)}, indent=1, ensure_ascii=False),
    }
