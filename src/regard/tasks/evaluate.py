"""How good is a translator? Scores, likelihood, the length curve, and its attention against gold word links."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batching import in_order_of_length
from regard.data.links import Links
from regard.data.pairs import Pair
from regard.tasks.alignment import AlignmentScores, alignment_scores, hard_links
from regard.tasks.batches import make_batch
from regard.tasks.metrics import LengthBucket, TranslationScores, bleu_by_length, translation_scores
from regard.tasks.replay import cross_attentions, replay
from regard.tasks.translate import VALIDATION_TOKENS, sequence_loss
from regard.tasks.translator import Translator

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """Everything `regard evaluate` reports."""

    scores: TranslationScores
    nll: float  # nats per target token, the end included, without label smoothing
    perplexity: float
    lengths: list[LengthBucket]
    alignment: dict[str, AlignmentScores] = field(default_factory=dict)  # by reading: "mean", "layer 2 head 1", ...
    chosen: str | None = None  # the reading that did best on the validation split
    translations: list[str] = field(default_factory=list)
    looks_tokenised: bool = False  # the references, though they are scored as plain text

    def as_dict(self) -> dict[str, Any]:
        """For JSON, without the translations themselves."""
        return {
            **asdict(self.scores),
            "nll": self.nll,
            "perplexity": self.perplexity,
            "bleu_by_length": [asdict(bucket) for bucket in self.lengths],
            "alignment": {name: asdict(scores) for name, scores in self.alignment.items()},
            "alignment_chosen": self.chosen,
        }

    def told(self) -> str:
        """For people, with sacreBLEU's signatures."""
        scores = self.scores
        lines = [
            f"BLEU {scores.bleu:.2f}  [{scores.bleu_interval[0]:.2f}, {scores.bleu_interval[1]:.2f}]"
            f"  {scores.bleu_signature}",
            f"chrF {scores.chrf:.2f}  [{scores.chrf_interval[0]:.2f}, {scores.chrf_interval[1]:.2f}]"
            f"  {scores.chrf_signature}",
            f"{scores.count} sentences, length ratio {scores.length_ratio:.3f}, "
            f"NLL {self.nll:.4f} per token, perplexity {self.perplexity:.3f}",
            "BLEU by source words: "
            + ", ".join(f"{bucket.label}: {bucket.bleu:.1f} ({bucket.count})" for bucket in self.lengths),
        ]
        lines += [
            f"alignment error rate {known.error_rate:.3f} (precision {known.precision:.3f}, recall {known.recall:.3f})"
            f" reading {name}{', best on the validation split' * (name == self.chosen)}"
            for name, known in self.alignment.items()
        ]
        if self.looks_tokenised:
            lines.append(
                "(most references end in ' .': of text that is tokenised already, data.bleu_tokenize=none is usual)"
            )
        return "\n".join(lines)


def evaluate(
    translator: Translator,
    pairs: Sequence[Pair],
    *,
    bleu_tokenize: str = "13a",
    num_beams: int | None = None,
    length_penalty: float | None = None,
    replace_unknowns: bool = False,
    valid: Sequence[Pair] = (),
    finished: Callable[[int], None] | None = None,
) -> Evaluation:
    """Translate and score; where pairs have gold links, the attention's alignment error too.

    Which head to read the alignment from is chosen on `valid`, never on the pairs that are scored.
    """
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    results = translator.translate(
        sources,
        num_beams=num_beams,
        length_penalty=length_penalty,
        replace_unknowns=replace_unknowns,
        finished=finished,
    )
    hypotheses = [result.text for result in results]
    nll = likelihood(translator, pairs)
    alignment, chosen = alignment_errors(translator, pairs, valid)
    return Evaluation(
        scores=translation_scores(hypotheses, references, tokenize=bleu_tokenize),
        nll=nll,
        perplexity=float(np.exp(min(nll, 700.0))),
        lengths=bleu_by_length(sources, hypotheses, references, tokenize=bleu_tokenize),
        alignment=alignment,
        chosen=chosen,
        translations=hypotheses,
        looks_tokenised=bleu_tokenize != "none" and tokenised(references),
    )


def tokenised(texts: Sequence[str]) -> bool:
    """Whether most end in a full stop with a blank before it, as nobody writes."""
    return 2 * sum(text.endswith(" .") for text in texts) > len(texts)


def likelihood(translator: Translator, pairs: Sequence[Pair]) -> float:
    """Negative log-likelihood of the references, in nats per token."""
    encoded = [(translator.encode(pair.source), translator.encode_target(pair.target)) for pair in pairs]
    device = next(translator.model.parameters()).device
    nll, count = 0.0, 0
    for items in in_order_of_length([max(map(len, pair)) + 1 for pair in encoded], VALIDATION_TOKENS):
        batch = make_batch([encoded[i][0] for i in items], [encoded[i][1] for i in items], translator.tokenizer)
        with torch.inference_mode():
            loss = sequence_loss(translator.model, batch.to(device), translator.tokenizer.pad)
        nll, count = nll + loss.nll.item(), count + loss.count
    return nll / count


def alignment_errors(
    translator: Translator, pairs: Sequence[Pair], valid: Sequence[Pair] = ()
) -> tuple[dict[str, AlignmentScores], str | None]:
    """Alignment error of the cross-attention while the references are said, by reading; and the reading to trust.

    Three readings: the mean of all heads and layers, the best layer, the best single head. What is best is chosen on
    `valid`. A word's row is the one that *says* it, or the next one, in which the word has just been read: in a
    Transformer the later one can be the sharper, so both are tried on `valid`. A model without attention has no
    alignment, and so no error.
    """
    known = [pair for pair in pairs if pair.links is not None]
    chosen_on = [pair for pair in valid if pair.links is not None]
    if not known or not cross_attentions(translator.model):
        return {}, None
    found = _errors(_word_weights(translator, known), known)
    if not chosen_on:
        return {"mean": found["mean"]}, None
    tried = _errors(_word_weights(translator, chosen_on), chosen_on)
    kinds = [list(tried), list(filter(_is_layer, tried)), list(filter(_is_head, tried))]
    best, *others = (min(names, key=lambda name: tried[name].error_rate) for names in kinds if names)
    return {name: found[name] for name in ("mean", *others, best)}, best


def _is_layer(name: str) -> bool:
    return name.startswith("layer") and not _is_head(name)


def _is_head(name: str) -> bool:
    return "head" in name


def _gold(pair: Pair) -> Links:
    return Links(frozenset(pair.links or ()))


def _errors(readings: Sequence[dict[str, Matrix]], pairs: Sequence[Pair]) -> dict[str, AlignmentScores]:
    gold = [_gold(pair) for pair in pairs]
    return {name: alignment_scores([hard_links(matrices[name]) for matrices in readings], gold) for name in readings[0]}


def _word_weights(translator: Translator, pairs: Sequence[Pair]) -> list[dict[str, Matrix]]:
    """For each pair, [target words, source words] under every reading of the cross-attention."""
    sources = [translator.encode(pair.source) for pair in pairs]
    targets = [translator.encode_target(pair.target) for pair in pairs]
    names = cross_attentions(translator.model)
    replayed = replay(translator.model, translator.tokenizer, sources, targets, layers=names)
    results = []
    for source, target, weights in zip(sources, targets, replayed, strict=True):
        stack = np.stack([weights[name] for name in names])  # [layers, heads, said, read]
        readings: dict[str, Matrix] = {}
        for shift, note in ((0, ""), (1, " (row after the word)")):
            # Row t says token t; one row later the same token has been read.
            rows = np.concatenate([stack[:, :, shift:], stack[:, :, -1:].repeat(shift, axis=2)], axis=2)
            words = translator.merge(rows, source, target)
            readings[f"mean{note}"] = words.mean((0, 1))
            layer_count, head_count = words.shape[:2]
            if head_count > 1:  # a layer of one head is that head
                for layer, head in product(range(layer_count), range(head_count)):
                    readings[f"layer {layer + 1} head {head + 1}{note}"] = words[layer, head]
            if layer_count > 1:  # and one layer is the mean
                for layer in range(layer_count):
                    readings[f"layer {layer + 1}{note}"] = words[layer].mean(0)
        results.append(readings)
    return results
