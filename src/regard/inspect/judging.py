"""How well a model says what it should: the loss of examples, for each kind of model, teacher forced.

translator          pairs (source, target)        the target's tokens and its end
language model      texts                         every token of the text
mask filler         texts                         every token, each hidden once, a seventh of them at a time
classifier          pairs (text, label)           the label; a pair of texts is (text, text)
image classifier    pairs (picture, label)        the label
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.batching import in_order_of_length
from regard.data.frames import Frame
from regard.decoding.generate import padded
from regard.errors import UsageError
from regard.layers.cross_entropy import linear_cross_entropy
from regard.tasks.batches import make_batch
from regard.tasks.classifier import Classifier
from regard.tasks.classify import model_inputs
from regard.tasks.image_classifier import ImageClassifier
from regard.tasks.language_verbs import LanguageModel
from regard.tasks.mask_filler import MaskFiller
from regard.tasks.translate import sequence_loss
from regard.tasks.translator import Translator

TOKENS_AT_ONCE = 1 << 11  # padded tokens read together; changes speed, never results
ONE_OF = 7  # tokens of a text that a mask filler must guess at once: about as many as it learnt with


@dataclass(frozen=True)
class Judged:
    """A batch of examples: `nll` makes the pass and returns what it cost, in nats, summed, with its gradient."""

    nll: Callable[[], Tensor]
    count: int  # of what was said: tokens or labels
    examples: Sequence[int]  # for each row of the pass the number of its example


def judged(loaded: Any, examples: Iterable[Any]) -> list[Judged]:
    """The examples in batches that a model of this kind can be asked for."""
    known = list(examples)
    if not known:
        raise UsageError("there are no examples to judge by: give at least one")
    for kind, judge in JUDGES.items():
        if isinstance(loaded, kind):
            return judge(loaded, known)
    kinds = ", ".join(kind.__name__ for kind in JUDGES)
    raise UsageError(f"a {type(loaded).__name__} cannot be judged by examples here; these can: {kinds}")


def _translations(loaded: Translator, pairs: list[tuple[str, str]]) -> list[Judged]:
    sources = [loaded.encode(source) for source, _ in pairs]
    targets = [loaded.encode_target(target) for _, target in pairs]
    lengths = [max(len(source), len(target)) + 1 for source, target in zip(sources, targets, strict=True)]
    device = next(loaded.model.parameters()).device

    def batch(items: list[int]) -> Judged:
        tokens = make_batch([sources[i] for i in items], [targets[i] for i in items], loaded.tokenizer).to(device)
        return Judged(
            lambda: sequence_loss(loaded.model, tokens, loaded.tokenizer.pad).total,
            sum(len(targets[i]) + 1 for i in items),
            items,
        )

    return _in_batches(batch, lengths)


def _texts(loaded: LanguageModel, texts: list[str]) -> list[Judged]:
    rows, pad = [loaded.encode(text) for text in texts], loaded.tokenizer.pad
    model: Any = loaded.model
    _refuse_empty(rows, texts)

    def batch(items: list[int]) -> Judged:
        said = padded([rows[item] for item in items], pad).to(loaded.device)
        told = padded([[loaded.tokenizer.end, *rows[item]][: len(rows[item])] for item in items], pad).to(loaded.device)
        real = padded([[1] * len(rows[item]) for item in items], 0).bool().to(loaded.device)

        def nll() -> Tensor:
            states, _ = model.read(told)
            return linear_cross_entropy(states[real], model.output_weight.detach(), said[real])[0]

        return Judged(nll, int(real.sum()), items)

    return _in_batches(batch, [len(row) for row in rows])


def _gaps(loaded: MaskFiller, texts: list[str]) -> list[Judged]:
    frame = Frame(loaded.tokenizer, loaded.max_length)
    rows = [frame.encode(text)[0].tokens for text in texts]
    _refuse_empty(rows, texts)
    special = (loaded.tokenizer.start, loaded.tokenizer.end)
    gapped: list[tuple[int, np.ndarray, np.ndarray]] = []  # example, tokens, which of them are hidden
    for example, row in enumerate(rows):
        words = np.flatnonzero(~np.isin(row, special))
        for first in range(min(ONE_OF, len(words))):
            hidden = np.isin(np.arange(len(row)), words[first::ONE_OF])
            gapped.append((example, row, hidden))

    def batch(items: list[int]) -> Judged:
        chosen = [gapped[item] for item in items]
        tokens = padded([row.tolist() for _, row, _ in chosen], loaded.tokenizer.pad).to(loaded.device)
        hidden = padded([mask.tolist() for _, _, mask in chosen], 0).bool().to(loaded.device)
        read = tokens.masked_fill(hidden, loaded.tokenizer.mask)

        def nll() -> Tensor:
            states, words = loaded.model.comparison(loaded.model.encoder(read)[0][hidden])
            return linear_cross_entropy(states, words.detach(), tokens[hidden])[0]

        return Judged(nll, int(hidden.sum()), [example for example, _, _ in chosen])

    return _in_batches(batch, [len(row) for _, row, _ in gapped])


def _labelled(loaded: Classifier, pairs: list[tuple[Any, str]]) -> list[Judged]:
    rows = [loaded.row(text) for text, _ in pairs]
    _refuse_empty([row.tokens for row in rows], [text for text, _ in pairs])
    labels = _numbers(loaded.labels, [label for _, label in pairs])
    device = next(loaded.model.parameters()).device

    def batch(items: list[int]) -> Judged:
        inputs = model_inputs(loaded.reads, [rows[item] for item in items], loaded.tokenizer.pad).to(device)
        return _of_labels(loaded.model, inputs, labels[items].to(device), items)

    return _in_batches(batch, [len(row.tokens) for row in rows])


def _pictures(loaded: ImageClassifier, pairs: list[tuple[Any, str]]) -> list[Judged]:
    labels = _numbers(loaded.labels, [label for _, label in pairs])
    device = next(loaded.model.parameters()).device

    def batch(items: list[int]) -> Judged:
        pixels = np.stack([loaded.preprocessing.pixels(pairs[item][0]) for item in items])
        inputs = loaded.preprocessing.normalise(torch.from_numpy(pixels.copy()).to(device))
        return _of_labels(loaded.model, inputs, labels[items].to(device), items)

    return [batch(list(items)) for items in np.array_split(np.arange(len(pairs)), -(-len(pairs) // loaded.at_once))]


def _of_labels(model: Any, inputs: Tensor, labels: Tensor, items: list[int]) -> Judged:
    return Judged(lambda: F.cross_entropy(model(inputs), labels, reduction="sum"), len(labels), items)


def _in_batches(batch: Callable[[list[int]], Judged], lengths: list[int]) -> list[Judged]:
    return [batch(items.tolist()) for items in in_order_of_length(lengths, TOKENS_AT_ONCE)]


def _refuse_empty(rows: Sequence[Any], texts: Sequence[Any]) -> None:
    for number, (row, text) in enumerate(zip(rows, texts, strict=True)):
        if not len(row):
            raise UsageError(f"example {number} is the text {text!r}, which has no word to judge by: leave it out")


def _numbers(labels: Sequence[str], wanted: Sequence[str]) -> Tensor:
    for label in wanted:
        if label not in labels:
            raise UsageError(f"there is no label {label!r}: choose one of {', '.join(labels)}")
    return torch.tensor([labels.index(label) for label in wanted])


JUDGES: dict[type, Callable[[Any, list[Any]], list[Judged]]] = {
    Translator: _translations,
    LanguageModel: _texts,
    MaskFiller: _gaps,
    Classifier: _labelled,
    ImageClassifier: _pictures,
}
