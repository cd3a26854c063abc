"""What the Transformers cost, written out: one function per family, as its forward pass goes.

    transformer   e encoder blocks over the source, d decoder blocks over the target, E y over the vocabulary
    gpt2          blocks, a last norm, E x over the vocabulary
    bert          blocks, and the words' head over the predicted tokens alone; classifier and tagger have their labels
    vit           patches times E (whose inputs, the pixels, need no gradient), blocks, a last norm, the labels

Rows are taken as full: the masks of padded rows are small beside all else. `cache` is what one row keeps while it is
generated: keys and values of every layer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from regard.layers.blocks import BlockSizes
from regard.plan.blocks import Tokens, decoder_block, encoder_block, working_numbers
from regard.plan.cost import Cost, activation, dropout, linear, norm


@dataclass(frozen=True)
class Work:
    """What a training step reads on one device."""

    rows: float  # sentences, texts, pictures, episodes
    length: int  # tokens of a row, of the target where there is a source
    source: int  # tokens of its source
    predicted: float = 1.0  # the share of the tokens that are predicted


@dataclass(frozen=True)
class Head:
    """The comparison with every word of a vocabulary, which regard.layers.cross_entropy does a part at a time."""

    vectors: float
    size: int
    vocabulary: int
    tied: bool = True  # the words are the embeddings: their gradient comes from two sides
    biased: bool = False  # the bias is one more column of a copy of the words

    @property
    def cost(self) -> Cost:
        return linear(self.vectors, self.size, self.vocabulary, keeps=False)


@dataclass(frozen=True)
class Bill:
    """All that a model asks for in one step on one device."""

    cost: Cost  # the head included
    head: Head | None = None
    working: float = 0.0  # numbers of gradients alive at once on the way back
    cache: float = 0.0  # numbers a row keeps while it is generated
    how: str = "derived"  # or traced, by a pass over a row or two


def transformer(config: Any, work: Work) -> Bill:
    sizes = BlockSizes(
        config.size, config.hidden_size, config.heads, config.dropout, config.pre_norm, config.activation
    )
    source, target = Tokens(work.rows, work.source), Tokens(work.rows, work.length)
    head = Head(target.count, config.size, config.vocabulary, biased=config.output_bias)
    cost = dropout((source.count + target.count) * config.size, config.dropout)
    cost += config.encoder_layers * encoder_block(source, sizes)
    cost += Cost(narrow=source.count * config.size)  # what the encoder says, for all layers of the decoder
    cost += config.decoder_layers * decoder_block(target, source, sizes)
    if config.pre_norm:
        cost += norm(source.count + target.count, config.size)
    cache = 2 * config.size * config.decoder_layers * (work.source + work.length)
    return Bill(cost + head.cost, head, working_numbers(target, sizes), cache)


def gpt2(config: Any, work: Work) -> Bill:
    sizes = BlockSizes(config.size, config.hidden_size, config.heads, config.dropout, True, config.activation)
    tokens = Tokens(work.rows, work.length)
    head = Head(tokens.count, config.size, config.vocabulary, tied=config.tied)
    cost = dropout(tokens.count * config.size, config.dropout) + config.layers * encoder_block(tokens, sizes)
    cost += norm(tokens.count, config.size)
    cache = 2 * config.size * config.layers * work.length
    return Bill(cost + head.cost, head, working_numbers(tokens, sizes), cache)


def bert(config: Any, work: Work) -> Bill:
    tokens, encoder, sizes = _bert_encoder(config, work)
    predicted = tokens.count * work.predicted
    head = Head(predicted, config.size, config.vocabulary, biased=True)
    words = linear(predicted, config.size, config.size) + activation(predicted * config.size, config.activation)
    cost = encoder + words + norm(predicted, config.size) + head.cost
    if config.next_sentence:
        cost += _pooler(config, work) + linear(work.rows, config.size, 2)
    return Bill(cost, head, working_numbers(tokens, sizes))


def bert_classifier(config: Any, work: Work) -> Bill:
    tokens, encoder, sizes = _bert_encoder(config, work)
    cost = encoder + _pooler(config, work) + linear(work.rows, config.size, config.labels)
    return Bill(cost, working=working_numbers(tokens, sizes))


def bert_tagger(config: Any, work: Work) -> Bill:
    tokens, encoder, sizes = _bert_encoder(config, work)
    label = linear(tokens.count, config.size, config.labels) + dropout(tokens.count * config.size, config.dropout)
    return Bill(encoder + label, working=working_numbers(tokens, sizes))


def bert_embedder(config: Any, work: Work) -> Bill:
    tokens, encoder, sizes = _bert_encoder(config, work)
    return Bill(encoder, working=working_numbers(tokens, sizes))


def _bert_encoder(config: Any, work: Work) -> tuple[Tokens, Cost, BlockSizes]:
    sizes = BlockSizes(config.size, config.hidden_size, config.heads, config.dropout, False, config.activation)
    tokens = Tokens(work.rows, work.length)
    embedded = norm(tokens.count, config.size) + dropout(tokens.count * config.size, config.dropout)
    return tokens, embedded + config.layers * encoder_block(tokens, sizes), sizes


def _pooler(config: Any, work: Work) -> Cost:
    return linear(work.rows, config.size, config.size) + Cost(narrow=work.rows * config.size)  # tanh keeps its result


def vit(config: Any, work: Work) -> Bill:
    sizes = BlockSizes(config.size, config.hidden_size, config.heads, config.dropout, True, config.activation)
    patches, pixels = patches_of(config), config.channels * config.patch_size**2
    tokens = Tokens(work.rows, patches + 1)
    cost = linear(work.rows * patches, pixels, config.size, moves_inputs=False)
    cost += dropout(tokens.count * config.size, config.dropout) + config.layers * encoder_block(tokens, sizes)
    cost += norm(tokens.count, config.size) + linear(work.rows, config.size, config.labels)
    return Bill(cost, working=working_numbers(tokens, sizes))


def patches_of(config: Any) -> int:
    side: int = config.image_size // config.patch_size
    return side * side


DERIVED: dict[str, Callable[[Any, Work], Bill]] = {
    "transformer": transformer,
    "gpt2": gpt2,
    "bert": bert,
    "bert-classifier": bert_classifier,
    "bert-tagger": bert_tagger,
    "bert-embedder": bert_embedder,
    "vit": vit,
}
