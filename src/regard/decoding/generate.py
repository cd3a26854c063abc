"""Whole inputs of any size: sorted, batched by token budget, decoded, and back in their order."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.data.batching import in_order_of_length
from regard.decoding.beam import beam_search
from regard.decoding.protocol import Hypothesis, Vocabulary
from regard.decoding.settings import Decoding
from regard.decoding.stepwise import Choose, Stopped, decode_stepwise, greedy, sampler
from regard.layers.packed import packed

if TYPE_CHECKING:
    from regard.decoding.workers import Workers

Found = list[list[Hypothesis]]  # the best first, for each source


@dataclass(frozen=True)
class Batch:
    """Sources that are decoded together, and all that must be known for it."""

    sources: Sequence[Sequence[int]]
    pad: int
    vocabulary: Vocabulary
    settings: Decoding
    numbers: Sequence[int]  # of the sources in the whole input

    @property
    def tokens(self) -> int:
        """How much work it is."""
        return sum(map(len, self.sources))


def generate(
    model: nn.Module,
    sources: Sequence[Sequence[int]],
    vocabulary: Vocabulary,
    settings: Decoding,
    *,
    pad: int,
    numbers: Sequence[int] | None = None,
    finished: Callable[[int], None] | None = None,
    stopped: Stopped | None = None,
    workers: "Workers | None" = None,
) -> Found:
    """The hypotheses for each source, the best first.

    `numbers` are the sources' places in a larger input, from which their random draws follow (default: 0, 1, 2, ...).
    `finished` is told how many sentences were done each time. `stopped`, asked after every token with the number of
    its source, may end a sentence early; a beam search, which keeps several, does not ask. `workers` decode side by
    side; somebody who may stop a sentence is in this process, and then they are not asked.
    """
    numbers = range(len(sources)) if numbers is None else numbers
    results: Found = [[] for _ in sources]
    lengths = [len(source) for source in sources]
    budget = max(1, settings.batch_tokens // settings.num_beams)
    if workers is not None:
        budget = workers.share(budget, sum(lengths))
    parts = [items.tolist() for items in in_order_of_length(lengths, budget)]
    batches = [
        Batch([sources[item] for item in items], pad, vocabulary, settings, [numbers[item] for item in items])
        for items in parts
    ]
    with reading(model):
        done: Iterator[tuple[int, Found]]
        if stopped is not None:
            asked = zip(batches, parts, strict=True)
            done = enumerate(decode(model, batch, _among(stopped, items)) for batch, items in asked)
        elif workers is not None:
            done = workers.decode(batches, model)
        else:
            done = enumerate(map(partial(decode, model), batches))
        for number, found in done:
            for item, hypotheses in zip(parts[number], found, strict=True):
                results[item] = hypotheses
            if finished is not None:
                finished(len(found))
    return results


def decode(model: Any, batch: Batch, stopped: Stopped | None = None) -> Found:
    """What the settings of a batch find for its sources."""
    device = next(model.parameters()).device
    limits = [batch.settings.limit(len(source)) for source in batch.sources]
    padded_sources = padded(batch.sources, batch.pad).to(device)
    return search(model, padded_sources, batch.vocabulary, limits, batch.settings, batch.numbers, stopped)


@contextmanager
def reading(model: nn.Module) -> Iterator[None]:
    """As fast as a model can read inside the block."""
    with evaluating(model), packed(model):
        yield


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout inside the block, and as it was afterwards."""
    learning = [module for module in model.modules() if module.training]
    for module in learning:
        module.training = False
    try:
        yield
    finally:
        for module in learning:
            module.training = True


def search(
    model: Any,
    batch: Tensor,
    vocabulary: Vocabulary,
    limits: list[int],
    settings: Decoding,
    numbers: Sequence[int],
    stopped: Stopped | None = None,
) -> Found:
    """The hypotheses for each row of one batch, found as the settings say."""
    penalty, renormalize = settings.length_penalty, settings.renormalize_logits
    if settings.num_beams > 1:
        return beam_search(
            model,
            batch,
            vocabulary,
            limits,
            beams=settings.num_beams,
            length_penalty=penalty,
            renormalize=renormalize,
        )
    choose: Choose = greedy
    if settings.do_sample:
        choose = sampler(numbers, settings.seed, settings.temperature, settings.top_k, settings.top_p)
    return decode_stepwise(
        model, batch, vocabulary, limits, choose, length_penalty=penalty, renormalize=renormalize, stopped=stopped
    )


def _among(stopped: Stopped, items: Sequence[int]) -> Stopped:
    """The same question about a batch: sentence i of it is item `items[i]` of all."""
    return lambda sentence, tokens: stopped(items[sentence], tokens)


def padded(rows: Sequence[Sequence[int]], pad: int) -> Tensor:
    """Rows of different lengths as one tensor, filled up on the right."""
    longest = max((len(row) for row in rows), default=0)
    batch = torch.full((len(rows), longest), pad, dtype=torch.long)
    for index, row in enumerate(rows):
        batch[index, : len(row)] = torch.as_tensor(row, dtype=torch.long)
    return batch
