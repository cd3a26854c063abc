"""The arithmetic of the recurrent models, written out; what they keep is traced (see regard.plan.traced).

GRU, LSTM     for every token and direction, 3 or 4 gates of `size` read the input and the state before
rnn           encoder, bridge, decoder, readout, W_o y
bahdanau      the same with a bidirectional encoder, and for every word said, over S source words:
              W s (once), v . tanh(...) (2 S alignment), and the reading of h and of its share of the gates (2 S 5 size)
luong         with scores that are inner products: q . k and the reading, 2 S (size + encoder's size)
lstm          layers over vectors, whose first inputs need no gradient
"""

from collections.abc import Callable
from typing import Any

from regard.plan.cost import Cost, linear, product
from regard.plan.derived import Head, Work

GATES = {"gru": 3, "lstm": 4}


def layers(
    cell: str, tokens: float, inputs: int, size: int, count: int, ways: int = 1, *, moves_inputs: bool = True
) -> Cost:
    """A stack of recurrent layers; each reads both directions of the one below."""
    gates = GATES[cell] * size
    first = linear(tokens, inputs, gates, moves_inputs=moves_inputs)
    above = (count - 1) * linear(tokens, ways * size, gates)
    return ways * (first + above + count * linear(tokens, size, gates))


def bridge(rows: float, cell: str, encoder_size: int, size: int, count: int) -> Cost:
    return (2 if cell == "lstm" else 1) * count * linear(rows, encoder_size, size)


def rnn(config: Any, work: Work) -> tuple[Cost, Head]:
    read, said, ways = work.rows * work.source, work.rows * work.length, 1 + config.bidirectional
    shown = ways * config.size if config.context_everywhere else 0
    inputs = config.embedding_size + shown
    cost = layers(config.cell, read, config.embedding_size, config.size, config.layers, ways)
    cost += bridge(work.rows, config.cell, ways * config.size, config.size, config.layers)
    cost += layers(config.cell, said, inputs, config.size, config.layers)
    cost += linear(said, config.size + inputs, config.readout_size)
    return cost, Head(said, config.readout_size, config.vocabulary, tied=config.tied)


def bahdanau(config: Any, work: Work) -> tuple[Cost, Head]:
    read, said, size, align = work.rows * work.source, work.rows * work.length, config.size, config.alignment_size
    cost = layers("gru", read, config.embedding_size, size, 1, ways=2) + linear(work.rows, size, size)
    cost += linear(read, 2 * size, align) + linear(read, 2 * size, 3 * size)  # U h and the source's share of the gates
    cost += linear(said, size, align) + product(2.0 * said * work.source * (align + 5 * size))
    cost += layers("gru", said, config.embedding_size, size, 1)
    cost += linear(said, 3 * size + config.embedding_size, 2 * config.readout_size)
    return cost, Head(said, config.readout_size, config.vocabulary, tied=config.tied)


def luong(config: Any, work: Work) -> tuple[Cost, Head]:
    read, said, size, ways = work.rows * work.source, work.rows * work.length, config.size, 1 + config.bidirectional
    each = size // 2 if config.bidirectional else size
    encoded = ways * each
    cost = layers(config.cell, read, config.embedding_size, each, config.layers, ways)
    cost += bridge(work.rows, config.cell, encoded, size, config.layers)
    cost += layers(config.cell, said, config.embedding_size + (size if config.feeding else 0), size, config.layers)
    if config.score == "general":
        cost += linear(read, encoded, size)
    cost += product(2.0 * said * work.source * (size + encoded)) + linear(said, encoded + size, size)
    return cost, Head(said, size, config.vocabulary, tied=config.tied)


def lstm(config: Any, work: Work) -> tuple[Cost, None]:
    steps = work.rows * work.length
    cost = layers("lstm", steps, config.input_size, config.size, config.layers, moves_inputs=False)
    return cost + linear(steps, config.size, config.output_size), None


RECURRENT: dict[str, Callable[[Any, Work], tuple[Cost, Head | None]]] = {
    "rnn": rnn,
    "bahdanau": bahdanau,
    "luong": luong,
    "lstm": lstm,
}


def written_out(family: str, config: Any) -> bool:
    """Whether the arithmetic of this configuration is written out here."""
    if family == "luong":
        return config.align == "soft" and config.score in ("dot", "scaled_dot", "general")
    return family in RECURRENT
