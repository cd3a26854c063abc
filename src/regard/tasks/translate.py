"""Translation as it is learnt: pairs of sentences, their loss, their validation."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.drawing import watch_draws
from regard.attention.masks import real_tokens
from regard.data.batching import Place, TokenBatches, in_order_of_length
from regard.data.held_out import held_out
from regard.data.joined import joined
from regard.data.named import data_folder, named
from regard.data.pairs import Pair
from regard.data.parallel import TABLES, read_pairs
from regard.data.parts import Planned
from regard.data.places import in_turn, shards
from regard.data.token_pairs import TokenPairs
from regard.data.tokenizer import Tokenizer
from regard.errors import UsageError, listed
from regard.layers.cross_entropy import linear_cross_entropy
from regard.tasks.batches import Batch, make_batch
from regard.tasks.data_section import check_split, is_undivided, own_part
from regard.training.loop import Loss
from regard.training.settings import Training

VALIDATION_TOKENS = 8192  # padded tokens per validation batch; changes speed, never results


@dataclass(frozen=True)
class TranslationData:
    """The `data` section of a translation recipe: a named data set, or files of one's own."""

    name: str | None = None  # corpus, multi30k
    options: dict[str, Any] = field(default_factory=dict)  # of the named data set, such as source: en
    train: tuple[str, ...] = ()  # two text files, or .tsv/.jsonl/.parquet tables; folders and patterns of them too
    valid: tuple[str, ...] = ()  # without valid and test, one training pair in twenty is held out for each
    test: tuple[str, ...] = ()
    source_column: str = "source"
    target_column: str = "target"
    join: int = 1  # read up to so many consecutive pairs as one: long sentences from a corpus of short ones
    tokenizer: str = "bpe"  # bpe, unigram, wordpiece or word
    vocabulary: int = 8000  # tokens, one vocabulary for both sides
    lowercase: bool = False
    max_length: int = 256  # tokens; longer pairs are left out of the training, and counted
    bleu_tokenize: str = "13a"  # sacreBLEU's tokenisation; "none" for text that is tokenised already

    def __post_init__(self) -> None:
        if self.join < 1:
            raise UsageError(f"data.join is {self.join} but must be at least 1")

    def pairs(self, split: str, folder: str | Path | None, skipped: Counter[str] | None = None) -> Iterable[Pair]:
        """The pairs of a split, streamed."""
        pairs = self._single_pairs(split, folder, skipped)
        return pairs if self.join == 1 else joined(pairs, self.join, split)

    def _single_pairs(self, split: str, folder: str | Path | None, skipped: Counter[str] | None) -> Iterable[Pair]:
        if is_undivided(self):
            check_split(split)
            return held_out(self._read(self.train, "train", skipped), split)
        files = own_part(self, split)
        if self.name is not None:
            return named(self.name, data_folder(folder), split, **self.options)
        return self._read(files, split, skipped)

    def _read(self, files: Sequence[str], split: str, skipped: Counter[str] | None) -> Iterable[Pair]:
        read = partial(read_pairs, source_column=self.source_column, target_column=self.target_column, skipped=skipped)
        found = [shards([entry], TABLES) for entry in files]
        if all(file.lower().endswith(TABLES) for side in found for file in side):
            return in_turn([partial(read, file) for side in found for file in side])
        if len(found) != 2 or len(found[0]) != len(found[1]):
            counted = " and ".join(str(len(side)) for side in found)
            raise UsageError(
                f"data.{split} names {counted} files: give tables, or two text files (or two lists as long)"
            )
        return in_turn([partial(read, source, target_path=target) for source, target in zip(*found, strict=True)])


class Translation:
    """The task the training loop sees (regard.training.loop.Task)."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        train: TokenPairs,
        valid: TokenPairs,
        training: Training,
        device: torch.device,
    ):
        self.tokenizer, self.train, self.valid = tokenizer, train, valid
        self.training, self.device = training, device

    def batches(self, place: Place) -> Iterator[tuple[Planned, Place]]:
        lengths = self.train.lengths() + 1
        for items, after in TokenBatches(lengths, self.training.batch_tokens, self.training.seed).follow(place):
            yield Planned(items.tolist(), lengths[items, 1].tolist(), partial(self._batch, self.train)), after

    def _batch(self, pairs: TokenPairs, items: Sequence[int]) -> Batch:
        sources, targets = zip(*(pairs[item] for item in items), strict=True)
        return make_batch(sources, targets, self.tokenizer, items).to(self.device)

    def count(self, batch: Planned) -> int:
        return batch.count

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        return sequence_loss(model, batch, self.tokenizer.pad, self.training.label_smoothing)

    def validate(self, model: nn.Module) -> dict[str, float]:
        nll, count = 0.0, 0
        lengths = (self.valid.lengths() + 1).max(axis=1)
        for items in in_order_of_length(lengths.tolist(), VALIDATION_TOKENS):
            loss = sequence_loss(model, self._batch(self.valid, items.tolist()), self.tokenizer.pad)
            nll, count = nll + loss.nll.item(), count + loss.count
        return {"nll": nll / count, "perplexity": float(np.exp(min(nll / count, 700)))}

    def lines(self, batch: Planned) -> str:
        return f"the training pairs {listed([item + 1 for item in batch.items], 8)}"


def sequence_loss(model: Any, batch: Batch, pad: int, smoothing: float = 0.0) -> Loss:
    """Summed over the real target tokens; padding never reaches the vocabulary."""
    real = real_tokens(batch.said, pad)
    with watch_draws(model) as draws:
        states = model.decode(batch.source, batch.told)
    said = states.flatten(0, 1).index_select(0, real.flatten().nonzero().squeeze(1))
    total, nll = linear_cross_entropy(*_compared(model, said), batch.said[real], smoothing)
    if draws is not None and model.training:
        total = total + draws.loss(_rewards(model, nll, real), real)
    return Loss(total, nll.sum(dtype=torch.float64 if nll.device.type != "mps" else None), int(real.sum()))


def _compared(model: Any, states: Tensor) -> tuple[Tensor, Tensor]:
    """States and words whose inner products are the logits; a model whose logits have a bias says how."""
    return model.comparison(states) if hasattr(model, "comparison") else (states, model.output_weight)


def _rewards(model: Any, nll: Tensor, real: Tensor) -> Tensor:
    """What each draw led to: the likelihood of its own token and, if it is fed on, of all that follow."""
    gained = torch.zeros_like(real, dtype=nll.dtype).masked_scatter(real, -nll)
    return gained.flip(1).cumsum(1).flip(1) if model.config.feeding else gained
