"""Our models as graphs: tensors in, tensors out, one path for every input.

A model decides by looking at its input (is anything padded? is a position table long enough?), and it counts; tracing
freezes both. So these modules run the model's own layers with every mask given, and count with tensors. What goes in
and comes out has the names that Hugging Face users know: `attention_mask` is 1 for real tokens,
`past_key_values.N.key` is what layer N remembers, and may be empty.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.attention import Memory, masks
from regard.layers.pooling import mean_state

Axes = dict[int, str]
ROW, TEXT = {0: "batch"}, {0: "batch", 1: "length"}


class Graph(Protocol):
    """A module, the names of what goes in and comes out, and an example with padding to trace it with."""

    def inputs(self) -> dict[str, Axes]:
        """Names, in order, each with the axes that may have any length."""

    def outputs(self) -> dict[str, Axes]: ...

    def example(self) -> tuple[Tensor, ...]: ...


class Encoder(nn.Module):
    """A BERT with its head. The embedder also gives the state of each token."""

    def __init__(self, model: Any, family: str):
        super().__init__()
        self.model, self.family = model, family

    def inputs(self) -> dict[str, Axes]:
        return dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), TEXT)

    def outputs(self) -> dict[str, Axes]:
        if self.family == "bert-embedder":
            return {"sentence_embedding": ROW, "last_hidden_state": TEXT}
        if self.family == "bert" and self.model.next is not None:
            return {"logits": TEXT, "next_sentence_logits": ROW}
        return {"logits": ROW if self.family == "bert-classifier" else TEXT}

    def example(self) -> tuple[Tensor, ...]:
        mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
        return torch.ones_like(mask), mask, torch.zeros_like(mask)

    def forward(self, tokens: Tensor, attention_mask: Tensor, segments: Tensor) -> tuple[Tensor, ...]:
        encoder, mask = self.model.encoder, attention_mask.bool()
        positions = encoder.positions.table[masks.positions(mask)]
        states = encoder.norm(encoder.embedding(tokens) + encoder.segments(segments) + positions)
        for layer in encoder.layers:
            states = layer(states, mask)
        return self.said(states, mask)

    def said(self, states: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        model = self.model
        if self.family == "bert-embedder":
            pool = mean_state if model.config.pooling == "mean" else first_state
            vectors = pool(states, mask)
            return nn.functional.normalize(vectors, dim=-1) if model.config.normalize else vectors, states
        if self.family == "bert-tagger":
            return (model.label(states),)
        if self.family == "bert-classifier":
            return (model.label(pooled(model.pooler, states, mask)),)
        if model.next is None:
            return (model.logits(states),)
        return model.logits(states), model.next(pooled(model.pooler, states, mask))


def pooled(pooler: Any, states: Tensor, mask: Tensor) -> Tensor:
    return torch.tanh(pooler.dense(first_state(states, mask)))


def first_state(states: Tensor, mask: Tensor) -> Tensor:
    """As regard.layers.pooling has it, without counting the rows."""
    place = mask.int().argmax(1)[:, None, None].expand(-1, 1, states.shape[-1])
    return states.gather(1, place).squeeze(1)


class Pictures(nn.Module):
    """A ViT for pictures of one size, that of its preprocessing; positions for another are interpolated here, once."""

    def __init__(self, model: Any, shape: tuple[int, int]):
        super().__init__()
        self.model, self.shape = model, shape
        with torch.no_grad():
            self.positions = model._positions(*model.grid(*shape)).clone()

    def inputs(self) -> dict[str, Axes]:
        return {"pixel_values": ROW}

    def outputs(self) -> dict[str, Axes]:
        return {"logits": ROW}

    def example(self) -> tuple[Tensor, ...]:
        return (torch.zeros(2, self.model.config.channels, *self.shape),)

    def forward(self, pixels: Tensor) -> Tensor:
        model = self.model
        patches = model.patches(pixels).flatten(2).transpose(1, 2)
        first = model.class_token + torch.zeros_like(patches[:, :1])
        states = torch.cat([first, patches], dim=1) + self.positions
        for layer in model.layers:
            states = layer(states, None)
        logits: Tensor = model.head(model.norm(states)[:, 0])
        return logits


class Source(nn.Module):
    """The encoder of a translator: from a source to what each layer of the decoder remembers of it."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def inputs(self) -> dict[str, Axes]:
        return {name: {0: "batch", 1: "source"} for name in ("input_ids", "attention_mask")}

    def outputs(self) -> dict[str, Axes]:
        return cache("source", self.model.config.decoder_layers, "source")

    def example(self) -> tuple[Tensor, ...]:
        mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
        return torch.ones_like(mask), mask

    def forward(self, tokens: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        model, mask = self.model, attention_mask.bool()
        states = embedded(model, tokens, masks.positions(mask))
        return flat(model.decoder.remember(model.encoder(states, mask), mask))


class Target(nn.Module):
    """The decoder of a translator: the next tokens after those of the past, one or several."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def inputs(self) -> dict[str, Axes]:
        layers = self.model.config.decoder_layers
        sources = cache("source", layers, "source")
        pasts = cache("past_key_values", layers, "past")
        return {"input_ids": TEXT, "encoder_attention_mask": {0: "batch", 1: "source"}} | sources | pasts

    def outputs(self) -> dict[str, Axes]:
        return {"logits": TEXT} | cache("present", self.model.config.decoder_layers, "whole")

    def example(self) -> tuple[Tensor, ...]:
        config = self.model.config
        mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
        sources = empty_cache(config.decoder_layers, config, 4)
        pasts = empty_cache(config.decoder_layers, config, 3)
        return torch.ones(2, 2, dtype=torch.long), mask, *sources, *pasts

    def forward(self, tokens: Tensor, source_mask: Tensor, *cached: Tensor) -> tuple[Tensor, ...]:
        model = self.model
        half = len(cached) // 2
        sources = memories(cached[:half], source_mask.bool())
        pasts = memories(cached[half:])
        known = torch.cat([torch.ones_like(cached[half][:, 0, :, 0]), torch.ones_like(tokens).float()], dim=1).bool()
        allowed, places = looking_back(known, cached[half])
        states, present = embedded(model, tokens, places), []
        for layer, source, past in zip(model.decoder.layers, sources, pasts, strict=True):
            states, memory = block(layer, states, allowed, past, source)
            present.append(memory)
        return model.logits(model.decoder.norm(states)), *flat(present)


class Text(nn.Module):
    """A GPT-2: the tokens after those of the past. `attention_mask` is over both; padding may stand anywhere."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def inputs(self) -> dict[str, Axes]:
        pasts = cache("past_key_values", self.model.config.layers, "past")
        return {"input_ids": TEXT, "attention_mask": {0: "batch", 1: "whole"}} | pasts

    def outputs(self) -> dict[str, Axes]:
        return {"logits": TEXT} | cache("present", self.model.config.layers, "whole")

    def example(self) -> tuple[Tensor, ...]:
        mask = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 1, 0]])
        return torch.ones(2, 2, dtype=torch.long), mask, *empty_cache(self.model.config.layers, self.model.config, 3)

    def forward(self, tokens: Tensor, attention_mask: Tensor, *pasts: Tensor) -> tuple[Tensor, ...]:
        model = self.model
        allowed, places = looking_back(attention_mask.bool(), pasts[0])
        states, present = model.embedding(tokens) + model.positions(places), []
        for layer, past in zip(model.layers, memories(pasts), strict=True):
            states, memory = block(layer, states, allowed, past)
            present.append(memory)
        return model.logits(model.norm(states)), *flat(present)


def looking_back(known: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
    """What each new token may see of all tokens [batch, new, all], and the places of the new ones [batch, new]."""
    before = past.shape[-2]
    columns = torch.ones_like(known).long().cumsum(1)
    allowed = known[:, None, :] & (columns[:, None, :] <= columns[:, before:, None])
    return allowed, masks.positions(known)[:, before:]


def block(
    layer: Any, states: Tensor, allowed: Tensor, past: Memory, source: Memory | None = None
) -> tuple[Tensor, Memory]:
    """A block of a decoder that is told what it may see; what it looked back at is the past of the next step."""
    remembered: list[Memory] = []

    def look_back(queries: Tensor) -> Tensor:
        attended = layer.self_attention(queries, mask=allowed, past=past)
        remembered.append(attended.memory)
        context: Tensor = attended.context
        return context

    states = layer.around_self_attention(states, look_back)
    if source is not None:
        states = layer.around_cross_attention(states, lambda x: layer.cross_attention(x, source).context)
    return layer.around_feed_forward(states, layer.feed_forward), remembered[0]


def embedded(model: Any, tokens: Tensor, places: Tensor) -> Tensor:
    states: Tensor = model.scale * model.embedding(tokens) + model.positions.table[places]
    return states


def cache(kind: str, layers: int, length: str) -> dict[str, Axes]:
    """Names of keys and values [batch, heads, length, size of a head], layer by layer."""
    return {f"{kind}.{layer}.{part}": {0: "batch", 2: length} for layer in range(layers) for part in ("key", "value")}


def empty_cache(layers: int, config: Any, length: int, rows: int = 2) -> tuple[Tensor, ...]:
    """Keys and values of `length` places, all zero."""
    return tuple(torch.zeros(rows, config.heads, length, config.size // config.heads) for _ in range(2 * layers))


def memories(tensors: Sequence[Tensor], mask: Tensor | None = None) -> Iterator[Memory]:
    return (Memory(keys, values, mask) for keys, values in zip(tensors[::2], tensors[1::2], strict=True))


def flat(several: Sequence[Memory]) -> tuple[Tensor, ...]:
    return tuple(tensor for memory in several for tensor in (memory.keys, memory.values))
