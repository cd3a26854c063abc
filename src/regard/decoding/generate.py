"""Whole inputs of any size: sorted, batched by token budget, decoded, and back in their order."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.batching import in_order_of_length
from regard.decoding.beam import beam_search
from regard.decoding.protocol import Hypothesis, Vocabulary
from regard.decoding.settings import Decoding
from regard.decoding.stepwise import Choose, Stopped, decode_stepwise, greedy, sampler
from regard.layers.packed import packed


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
) -> list[list[Hypothesis]]:
    """The hypotheses for each source, the best first.

    `numbers` are the sources' places in a larger input, from which their random draws follow (default: 0, 1, 2, ...).
    `finished` is told how many sentences were done each time. `stopped`, asked after every token with the number of
    its source, may end a sentence early; a beam search, which keeps several, does not ask.
    """
    numbers = range(len(sources)) if numbers is None else numbers
    device = next(model.parameters()).device
    results: list[list[Hypothesis]] = [[] for _ in sources]
    budget = max(1, settings.batch_tokens // settings.num_beams)
    with evaluating(model), packed(model):
        for items in in_order_of_length([len(source) for source in sources], budget):
            batch = padded([sources[item] for item in items], pad).to(device)
            limits = [settings.limit(len(sources[item])) for item in items]
            ask = None if stopped is None else _among(stopped, items.tolist())
            found = search(model, batch, vocabulary, limits, settings, [numbers[item] for item in items], ask)
            for item, hypotheses in zip(items, found, strict=True):
                results[item] = hypotheses
            if finished is not None:
                finished(len(items))
    return results


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout inside the block, and as it was afterwards."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def search(
    model: Any,
    batch: Tensor,
    vocabulary: Vocabulary,
    limits: list[int],
    settings: Decoding,
    numbers: Sequence[int],
    stopped: Stopped | None = None,
) -> list[list[Hypothesis]]:
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
