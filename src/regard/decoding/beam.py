"""Beam search with length penalty, n-best, and sentences that leave the batch when they are done.

Each sentence keeps `beams` unfinished hypotheses. A hypothesis that ends is ranked by log p / length^penalty, its
end token counted; a sentence is done when it has `beams` of them and no unfinished one could still, at its present
length, beat the worst. A hypothesis cut by its sentence's limit competes as it stands.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.beams import carry
from regard.decoding.protocol import Decoder, Hypothesis, Vocabulary, log_probabilities


@dataclass
class _Sentence:
    """One sentence's search: where it belongs, how long it may get, and what it has finished."""

    index: int
    limit: int
    finished: list[Hypothesis] = field(default_factory=list)

    def add(self, hypothesis: Hypothesis, beams: int) -> None:
        self.finished.append(hypothesis)
        self.finished.sort(key=lambda known: -known.score)
        del self.finished[beams:]

    def is_done(self, beams: int, best_possible: float) -> bool:
        return len(self.finished) == beams and best_possible <= self.finished[-1].score


@dataclass(frozen=True)
class Expanded:
    """What one step of a search weighed up, for whoever watches."""

    sentences: list[int]  # those still searched, by their places in the batch
    length: int  # of the candidates, in tokens
    totals: Float[Tensor, "live candidates"]  # log-probabilities, the best first; -inf: not a candidate
    parents: Int[Tensor, "live candidates"]  # which of the beams of the step before is continued
    tokens: Int[Tensor, "live candidates"]  # with which token
    kept: Int[Tensor, "live beams"]  # the candidates that are the beams of the next step


@torch.inference_mode()
def beam_search(
    decoder: Decoder,
    source: Int[Tensor, "batch length"],
    vocabulary: Vocabulary,
    limits: list[int],
    *,
    beams: int,
    length_penalty: float = 1.0,
    renormalize: bool = False,
    watch: Callable[[Expanded], None] | None = None,
) -> list[list[Hypothesis]]:
    """For each sentence its best hypotheses, at most `beams`, the best first; `limits` count the end token."""
    device = source.device
    sentences = [_Sentence(index, limit) for index, limit in enumerate(limits)]
    live = list(sentences)
    carried = carry(decoder, source)
    scores = torch.zeros(len(live), 1, device=device)  # one beam begins, and its best tokens are the others
    history = torch.empty(len(live), 1, 0, dtype=torch.long, device=device)
    tokens = torch.full((len(live), 1), vocabulary.start, dtype=torch.long, device=device)
    never = torch.tensor(list(vocabulary.never), dtype=torch.long, device=device)
    length = 0
    while live:
        length += 1
        log_p = log_probabilities(carried.step(tokens), never, renormalize)
        totals = (scores.unsqueeze(-1) + log_p).flatten(1)
        # 2 * beams candidates: even if half of them end, enough go on.
        best, flat = totals.topk(min(2 * beams, totals.shape[1]), dim=1)
        parent, word = flat // log_p.shape[-1], flat % log_p.shape[-1]
        ends = word == vocabulary.end
        norm = length**length_penalty
        _collect(live, best, parent, ends, history, beams, norm)

        # The best candidates that go on, in their order; impossible ones fill up where there are too few.
        going_on = best.masked_fill(ends, -torch.inf)
        order = going_on.argsort(dim=1, descending=True, stable=True)[:, :beams]
        if watch is not None:
            watch(Expanded([sentence.index for sentence in live], length, best, parent, word, order))
        scores, parent, word = going_on.gather(1, order), parent.gather(1, order), word.gather(1, order)
        history = torch.cat([history.gather(1, parent.unsqueeze(-1).expand(-1, -1, length - 1)), word[..., None]], 2)

        keep = []
        for row, (sentence, best_going_on) in enumerate(zip(live, scores[:, 0].tolist(), strict=True)):
            if length >= sentence.limit:
                _cut(sentence, scores[row], history[row], beams, norm)
            elif best_going_on > -torch.inf and not sentence.is_done(beams, best_going_on / norm):
                keep.append(row)
        kept = torch.tensor(keep, dtype=torch.long, device=device)
        live = [live[row] for row in keep]
        scores, history, tokens = scores[kept], history[kept], word[kept]
        carried.go_on(kept, parent[kept])
    return [sentence.finished for sentence in sentences]


def _collect(
    live: list[_Sentence], best: Tensor, parent: Tensor, ends: Tensor, history: Tensor, beams: int, norm: float
) -> None:
    """Hypotheses that end now and are among the `beams` best candidates of their sentence."""
    ending = ends[:, :beams] & (best[:, :beams] > -torch.inf)
    for row, rank in ending.nonzero().tolist():
        log_probability = best[row, rank].item()
        tokens = history[row, parent[row, rank]].tolist()
        live[row].add(Hypothesis(tokens, log_probability, log_probability / norm, True), beams)


def _cut(sentence: _Sentence, scores: Tensor, history: Tensor, beams: int, norm: float) -> None:
    """The limit is reached: what has not ended competes as it stands."""
    for log_probability, tokens in zip(scores.tolist(), history.tolist(), strict=True):
        if log_probability > -torch.inf:
            sentence.add(Hypothesis(tokens, log_probability, log_probability / norm, False), beams)
