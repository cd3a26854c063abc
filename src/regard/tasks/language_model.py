"""Language modelling as it is learnt: running text in chunks, their loss, their validation.

A language model offers three things:

    states, carried = model.read(tokens, carried)    tokens [batch, length], padding anywhere; carried: a nest of
                                                     batch-first tensors, None before the first token
    model.output_weight                              [vocabulary, size]: what states are compared with
    model.logits(states)                             their inner products

and a model that can hold only so many tokens at once says how many in `model.context`. Reading a text in pieces must
say the same as reading it at once.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.masks import real_tokens
from regard.data.batching import Place
from regard.data.parts import Divisible, Planned
from regard.data.places import shards
from regard.data.running_text import TEXTS, Part, existing, named_text, text_lines
from regard.data.streams import ChunkBatches, TokenStream
from regard.data.tokenizer import Tokenizer
from regard.decoding.generate import padded
from regard.errors import UsageError
from regard.layers.cross_entropy import linear_cross_entropy
from regard.tasks.data_section import own_part
from regard.training.loop import Loss
from regard.training.settings import Training

Finished = Callable[[int], None] | None
VALIDATION_LANES = 16  # places in the text that are read side by side; each begins without a past
TOKENS_AT_ONCE = 1024  # read together in an evaluation; changes speed, never results


@dataclass(frozen=True)
class TextData:
    """The `data` section of a language-model recipe: a named data set, or text files of one's own."""

    name: str | None = None  # wikitext2 or shakespeare
    train: tuple[str, ...] = ()  # text files (.gz too) or .jsonl and .parquet tables; folders and patterns of them
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    tokenizer: str = "bpe"  # bpe, unigram, wordpiece or word, line by line; bytes or char, to the last character
    vocabulary: int = 8000
    lowercase: bool = False
    chunk: int = 32  # tokens a training example predicts
    context: int = 32  # tokens read before them, without learning, to know what was said
    text_column: str = "text"  # of tables

    def __post_init__(self) -> None:
        for name, least in (("chunk", 1), ("context", 0)):
            if getattr(self, name) < least:
                raise UsageError(f"data.{name} is {getattr(self, name)} but must be at least {least}")

    def files(self, split: str, folder: str | Path | None) -> Sequence[str | Path | Part]:
        """Where the text of a split lies."""
        own = own_part(self, split)
        if self.name is not None:
            return [named_text(self.name, folder, split)]
        return [existing(path) for path in shards(own, TEXTS)]

    def lines(self, split: str, folder: str | Path | None, skipped: Counter[str] | None = None) -> Iterator[str]:
        """The lines of a split, streamed."""
        return text_lines(self.files(split, folder), skipped, self.text_column)


@dataclass(frozen=True)
class Chunks(Divisible):
    """Token tensors: what is only read, what is told, and what must be said after each told token."""

    context: Tensor  # [rows, context]
    told: Tensor  # [rows, chunk]
    said: Tensor  # [rows, chunk]


class LanguageModelling:
    """The task the training loop sees (regard.training.loop.Task)."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        train: TokenStream,
        valid: TokenStream,
        data: TextData,
        training: Training,
        device: torch.device,
    ):
        self.tokenizer, self.train, self.valid, self.data = tokenizer, train, valid, data
        self.training, self.device = training, device

    def batches(self, place: Place) -> Iterator[tuple[Planned, Place]]:
        rows = max(1, self.training.batch_tokens // self.data.chunk)
        plan = ChunkBatches(len(self.train), self.data.chunk, rows, self.training.seed)
        for chunks, after in plan.follow(place):
            yield Planned(chunks, [last - first for first, last in chunks], self._chunks), after

    def _chunks(self, places: Sequence[tuple[int, int]]) -> Chunks:
        pad, context = self.tokenizer.pad, self.data.context
        before = [self.train[max(0, first - context) : first] for first, _ in places]
        told = [self.train[first:last] for first, last in places]
        said = [self.train[first + 1 : last + 1] for first, last in places]
        return Chunks(
            padded(before, pad).to(self.device),
            padded(told, pad).to(self.device),
            padded(said, pad).to(self.device),
        )

    def count(self, batch: Planned) -> int:
        return batch.count

    def loss(self, model: Any, batch: Chunks) -> Loss:
        carried = None
        if batch.context.shape[1]:
            with torch.no_grad():
                _, carried = model.read(batch.context)
        states, _ = model.read(batch.told, carried)
        real = real_tokens(batch.said, self.tokenizer.pad)
        total, nll = linear_cross_entropy(
            states[real], model.output_weight, batch.said[real], self.training.label_smoothing
        )
        return Loss(total, nll.sum(), int(real.sum()))

    def validate(self, model: nn.Module) -> dict[str, float]:
        stride = context_of(model)  # windows side by side: quick, and how others measure
        nll = text_nll(model, self.valid, self.tokenizer.pad, stride=stride, lanes=VALIDATION_LANES)
        return {
            "nll": nll / len(self.valid),
            "perplexity": safe_exp(nll / len(self.valid)),
            "word_perplexity": safe_exp(nll / self.valid.words),
        }

    def lines(self, batch: Planned) -> str:
        shown = ", ".join(str(first + 1) for first, _ in batch.items[:8])
        more = f" and {len(batch) - 8} more places" if len(batch) > 8 else ""
        return f"chunks of the training text from token {shown}{more}"


def context_of(model: nn.Module) -> int | None:
    """The most tokens the model can hold at once; None: it carries its past on and on."""
    return getattr(model, "context", None)


def text_nll(
    model: nn.Module,
    stream: TokenStream,
    pad: int,
    *,
    stride: int | None = None,
    lanes: int = 1,
    finished: Finished = None,
) -> float:
    """Negative log-likelihood of every token of a stream, in nats, as the kind of model allows.

    One with a limited context is asked window by window, each `stride` tokens after the one before (half a window
    unless given); any other reads on and on, in `lanes` places at once.
    """
    context = context_of(model)
    if context is not None:
        return windows_nll(model, stream, pad, context, max(1, context // 2) if stride is None else stride, finished)
    if stride is not None:
        raise UsageError(f"a stride of {stride} is for models with a limited context; this one reads on: leave it out")
    return stream_nll(model, stream, pad, lanes, finished)


def windows_nll(
    model: nn.Module, stream: TokenStream, pad: int, context: int, stride: int, finished: Finished = None
) -> float:
    """The stream in windows of `context` tokens that begin `stride` tokens apart, each token asked for once.

    So a token knows at least `context - stride` tokens before it, unless the text begins later than that.
    """
    if not 1 <= stride <= context:
        raise UsageError(f"a stride of {stride} must be at least 1 and at most the {context} tokens of the context")
    device = next(model.parameters()).device
    last = max(0, math.ceil((len(stream) - context) / stride)) * stride
    total, at_once = 0.0, max(1, TOKENS_AT_ONCE // context)
    begin = iter(range(0, last + 1, stride))
    while begins := list(islice(begin, at_once)):
        told = [stream[first : min(first + context, len(stream))] for first in begins]
        said = [stream[first + 1 : first + context + 1] for first in begins]
        known = [context - stride if first else 0 for first in begins]  # asked for in the window before
        new = [[pad] * count + goal[count:] for count, goal in zip(known, said, strict=True)]
        rows = rows_nll(model, padded(told, pad).to(device), padded(new, pad).to(device), pad, finished)
        total += float(rows.sum())
    return total


def stream_nll(model: Any, stream: TokenStream, pad: int, lanes: int = 1, finished: Finished = None) -> float:
    """Negative log-likelihood of every token of a stream, in nats. With one lane each token knows all before it."""
    length = math.ceil(len(stream) / lanes)
    rows = [(first, min(first + length, len(stream))) for first in range(0, len(stream), length)]
    device = next(model.parameters()).device
    told = padded([stream[first:end] for first, end in rows], pad)
    said = padded([stream[first + 1 : end + 1] for first, end in rows], pad)
    return float(rows_nll(model, told.to(device), said.to(device), pad, finished).sum())


@torch.no_grad()
def rows_nll(model: Any, told: Tensor, said: Tensor, pad: int, finished: Finished = None) -> Tensor:
    """For each row the negative log-likelihood of its `said` tokens [rows], read in pieces however long it is."""
    wide = torch.float32 if told.device.type == "mps" else torch.float64  # MPS has no doubles
    total = torch.zeros(len(told), dtype=wide, device=told.device)
    carried = None
    width = max(1, TOKENS_AT_ONCE // max(1, len(told)))
    for piece, goal in zip(told.split(width, dim=1), said.split(width, dim=1), strict=True):
        states, carried = model.read(piece, carried)
        real = real_tokens(goal, pad)
        nll = F.cross_entropy(model.logits(states[real]).float(), goal[real], reduction="none")
        total.index_add_(0, real.nonzero()[:, 0], nll.to(wide))
        if finished is not None:
            finished(int(real.sum()))
    return total


def safe_exp(value: float) -> float:
    return math.exp(min(value, 700.0))
