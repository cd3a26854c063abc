"""Captioning as it is learnt: what a frozen encoder sees of pictures, captions, their loss, their validation.

A captioner has an `encoder` (pictures to regions) and a decoder over regions: `decode(regions, target)`,
`output_weight`, and the decoding protocol. One that has `decode_weighing` also says where it looked, and what its
`penalty` is for that.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention.drawing import watch_draws
from regard.attention.masks import real_tokens
from regard.data.batching import Place, TokenBatches, in_order_of_length
from regard.data.captions import CaptionedImage
from regard.data.images import Preprocessing
from regard.data.parts import Divisible
from regard.data.region_cache import Encode, RegionSet
from regard.data.tokenizer import Tokenizer
from regard.decoding.generate import evaluating, padded
from regard.errors import RegardError
from regard.layers.cross_entropy import linear_cross_entropy
from regard.training.loop import Loss
from regard.training.settings import Training

VALIDATION_TOKENS = 4096  # padded tokens per validation batch; changes speed, never results


@dataclass(frozen=True)
class CaptionSplit:
    """Pictures, and their captions as tokens, each with the number of its picture."""

    pictures: Sequence[CaptionedImage]
    tokens: Sequence[Sequence[int]]
    owners: NDArray[np.int64]


def tokenised(
    pictures: Sequence[CaptionedImage], tokenizer: Tokenizer, max_length: int, skipped: Counter[str]
) -> CaptionSplit:
    """The captions of a split as tokens; those that are too long are left out and counted."""
    owners = np.repeat(np.arange(len(pictures)), [len(picture.captions) for picture in pictures])
    tokens = list(tokenizer.encode_all([caption for picture in pictures for caption in picture.captions]))
    kept = [row for row, caption in enumerate(tokens) if 0 < len(caption) <= max_length]
    if len(kept) < len(tokens):
        skipped[f"captions longer than {max_length} tokens"] += len(tokens) - len(kept)
    if not kept:
        raise RegardError(f"no caption has at most {max_length} tokens; raise data.max_length")
    return CaptionSplit(pictures, [tokens[row] for row in kept], owners[kept])


@dataclass(frozen=True)
class Batch(Divisible):
    """Regions, what the decoder is told, and what it must say."""

    regions: Tensor  # [batch, regions, size]
    told: Tensor  # [batch, length]: <s> y_1 ... y_n
    said: Tensor  # [batch, length]: y_1 ... y_n </s>
    items: tuple[int, ...] = ()


See = Callable[[Sequence[CaptionedImage], bool], RegionSet]
"""What the encoder, as it is now, sees of pictures or of their mirror images."""


class Captioning:
    """The task the training loop sees (regard.training.loop.Task).

    Pictures are encoded when the first batch is asked for: by then the encoder has the weights it will keep.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        train: CaptionSplit,
        valid: CaptionSplit,
        see: See,
        mirror: bool,
        training: Training,
        device: torch.device,
    ):
        self.tokenizer, self.train, self.valid, self.see = tokenizer, train, valid, see
        self.mirror, self.training, self.device = mirror, training, device

    @cached_property
    def seen(self) -> list[RegionSet]:
        """Of the training pictures, and of their mirror images if these are wanted."""
        return [self.see(self.train.pictures, mirrored) for mirrored in (False, True)[: 1 + self.mirror]]

    @cached_property
    def seen_valid(self) -> RegionSet:
        return self.see(self.valid.pictures, False)

    def batches(self, place: Place) -> Iterator[tuple[Batch, Place]]:
        """What the encoder sees is computed here, before the clock of the first batch runs."""
        return self._follow(place, np.flatnonzero(self.seen[0].rows[self.train.owners] >= 0))

    def _follow(self, place: Place, usable: NDArray[np.int64]) -> Iterator[tuple[Batch, Place]]:
        """Batches of the captions at the `usable` places, whose pictures can be read."""
        seed = self.training.seed
        lengths = np.array([len(self.train.tokens[row]) + 1 for row in usable.tolist()])
        for items, after in TokenBatches(lengths, self.training.batch_tokens, seed).follow(place):
            rows = usable[items]
            regions = self.seen[0].batch(self.train.owners[rows])
            if self.mirror:
                chosen = np.random.default_rng((seed, place.epoch, place.batch)).random(len(rows)) < 0.5
                regions[torch.from_numpy(chosen)] = self.seen[1].batch(self.train.owners[rows[chosen]])
            yield self._batch(self.train, rows, regions), after
            place = after

    def _batch(self, split: CaptionSplit, rows: NDArray[np.int64], regions: Tensor) -> Batch:
        tokens = [split.tokens[row] for row in rows.tolist()]
        told, said = caption_rows(tokens, self.tokenizer)
        return Batch(
            regions.to(self.device), told.to(self.device), said.to(self.device), tuple(split.owners[rows].tolist())
        )

    def count(self, batch: Batch) -> int:
        return int(real_tokens(batch.said, self.tokenizer.pad).sum())

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        return caption_loss(model, batch, self.tokenizer.pad, self.training.label_smoothing)

    def validate(self, model: nn.Module) -> dict[str, float]:
        nll, count = 0.0, 0
        usable = np.flatnonzero(self.seen_valid.rows[self.valid.owners] >= 0)
        for items in in_order_of_length(
            [len(self.valid.tokens[row]) + 1 for row in usable.tolist()], VALIDATION_TOKENS
        ):
            rows = usable[items]
            batch = self._batch(self.valid, rows, self.seen_valid.batch(self.valid.owners[rows]))
            loss = caption_loss(model, batch, self.tokenizer.pad)
            nll, count = nll + loss.nll.item(), count + loss.count
        return {"nll": nll / count, "perplexity": float(np.exp(min(nll / count, 700)))}

    def lines(self, batch: Batch) -> str:
        names = [self.train.pictures[item].name for item in batch.items[:8]]
        return ", ".join(names) + (f" and {len(batch.items) - 8} more" if len(batch.items) > 8 else "")


def caption_rows(tokens: Sequence[Sequence[int]], tokenizer: Tokenizer) -> tuple[Tensor, Tensor]:
    """What the decoder is told and what it must say, padded."""
    start, end, pad = tokenizer.start, tokenizer.end, tokenizer.pad
    return padded([[start, *row] for row in tokens], pad), padded([[*row, end] for row in tokens], pad)


def caption_loss(model: Any, batch: Batch, pad: int, smoothing: float = 0.0) -> Loss:
    """Summed over the real words; while training, with the penalty of a soft and the draws of a hard attention."""
    real = real_tokens(batch.said, pad)
    with watch_draws(model) as draws:
        states, penalty = _decoded(model, batch)
    total, nll = linear_cross_entropy(states[real], model.output_weight, batch.said[real], smoothing)
    if model.training and penalty is not None:
        total = total + penalty
    if model.training and draws is not None:
        gained = torch.zeros_like(real, dtype=nll.dtype).masked_scatter(real, -nll)
        # What is looked at is fed on: a draw is judged by its own word and all that follow.
        rewards = gained.flip(1).cumsum(1).flip(1)
        total = total + draws.loss(rewards, real)
    return Loss(total, nll.sum(dtype=torch.float64 if nll.device.type != "mps" else None), int(real.sum()))


def _decoded(model: Any, batch: Batch) -> tuple[Tensor, Tensor | None]:
    if not hasattr(model, "decode_weighing"):
        return model.decode(batch.regions, batch.told), None
    states, weights = model.decode_weighing(batch.regions, batch.told)
    return states, model.penalty(weights)


def encoding(model: Any, preprocessing: Preprocessing) -> Encode:
    """The captioner's encoder over bytes [pictures, channels, height, width]."""

    def encode(pixels: NDArray[np.uint8]) -> Tensor:
        device = next(model.parameters()).device
        with evaluating(model.encoder), torch.inference_mode():
            regions: Tensor = model.encoder(preprocessing.normalise(torch.from_numpy(pixels).to(device)))
        return regions

    return encode
