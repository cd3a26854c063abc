"""Looking at finished sentences: one teacher-forced pass under `record`.

Generation is never slowed to collect weights. Whatever a search came up with, its whole attention is there after one
more pass, for every layer and head, however the hypothesis was found.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regard.attention import attentions, record_own
from regard.data.batching import in_order_of_length
from regard.data.tokenizer import Tokenizer
from regard.decoding.generate import evaluating
from regard.errors import UsageError
from regard.layers.packed import packed
from regard.tasks.batches import make_batch
from regard.views.maps import AttentionMap

Tokens = Sequence[int]
REPLAY_TOKENS = 2048  # padded tokens per pass; changes memory, never results


def replay(
    model: Any,
    tokenizer: Tokenizer,
    sources: Sequence[Tokens],
    targets: Sequence[Tokens],
    *,
    layers: Any = None,
    heads: Any = None,
) -> list[dict[str, NDArray[np.float32]]]:
    """For each pair, the weights [heads, queries, keys] of every chosen attention, without the padding.

    Decoder rows belong to the token they *say* (the target and its end), keys of the decoder's self-attention to the
    tokens it was *told* (the start and the target).
    """
    results: list[dict[str, NDArray[np.float32]]] = [{} for _ in sources]
    device = next(model.parameters()).device
    lengths = [max(len(source), len(target)) + 1 for source, target in zip(sources, targets, strict=True)]
    with evaluating(model), packed(model), torch.inference_mode():
        for items in in_order_of_length(lengths, REPLAY_TOKENS):
            batch = make_batch([sources[i] for i in items], [targets[i] for i in items], tokenizer).to(device)
            with record_own(model, layers=layers, heads=heads) as tape:
                model.decode(batch.source, batch.told)
            for name, weights in tape.items():
                kind = model.attention_kind(name)
                for row, item in enumerate(items):
                    queries = len(sources[item]) + 1 if kind == "encoder" else len(targets[item]) + 1
                    keys = len(targets[item]) + 1 if kind == "decoder" else len(sources[item]) + 1
                    results[item][name] = weights[row, :, :queries, :keys].cpu().numpy()
    return results


def cross_attentions(model: nn.Module) -> list[str]:
    """The names of the attentions that look from the target to the source."""
    return [name for name, _ in attentions(model) if model.attention_kind(name) == "cross"]  # type: ignore[operator]


def aligning_attentions(model: nn.Module) -> list[str]:
    """The same for whoever cannot do without: a model that has none is refused."""
    names = cross_attentions(model)
    if not names:
        raise UsageError(
            f"{type(model).__name__} has no attention to read alignments from; use a run of a model that attends"
        )
    return names


def attention_maps(
    model: Any,
    tokenizer: Tokenizer,
    source: Tokens,
    target: Tokens,
    *,
    layers: Any = None,
    heads: Any = None,
) -> tuple[AttentionMap, ...]:
    """The attention of one pair, ready to be drawn."""
    weights = replay(model, tokenizer, [source], [target], layers=layers, heads=heads)[0]
    read = [*source, tokenizer.end]
    said, told = [*target, tokenizer.end], [tokenizer.start, *target]
    tokens = {"encoder": (read, read), "decoder": (said, told), "cross": (said, read)}
    titles = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "cross-attention"}
    maps = []
    for name, matrix in weights.items():
        kind = model.attention_kind(name)
        queries, keys = tokens[kind]
        layer = model.attention_layer(name)
        maps.append(
            AttentionMap(
                name=f"{titles[kind]}, layer {layer}",
                kind=kind,
                layer=layer,
                weights=matrix,
                queries=tuple(tokenizer.pieces(queries)),
                keys=tuple(tokenizer.pieces(keys)),
                query_words=tuple(_own_words(tokenizer.words(queries))),
                key_words=tuple(_own_words(tokenizer.words(keys))),
                causal=kind == "decoder",
            )
        )
    return tuple(maps)


def _own_words(words: Sequence[int]) -> list[int]:
    """Word numbers in which a special token at the end is a word of its own (one at the start keeps -1)."""
    last = max(words, default=-1) + 1
    return [last if word < 0 and index else word for index, word in enumerate(words)]
