"""One token at a time: greedy decoding and sampling."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoding.protocol import Decoder, Hypothesis, Vocabulary, log_probabilities, take_rows

Choose = Callable[[Float[Tensor, "rows vocabulary"], list[int]], Int[Tensor, "rows"]]
"""Picks a token for each row; the list says which sentence each row is."""
Stopped = Callable[[int, list[int]], bool]
"""Told after every token which sentence it is and what is written of it; True ends the sentence there."""


@torch.inference_mode()
def decode_stepwise(
    decoder: Decoder,
    source: Int[Tensor, "batch length"],
    vocabulary: Vocabulary,
    limits: list[int],
    choose: Choose,
    *,
    length_penalty: float = 1.0,
    renormalize: bool = False,
    stopped: Stopped | None = None,
) -> list[list[Hypothesis]]:
    """One hypothesis per sentence. Finished sentences leave the batch."""
    device = source.device
    live = list(range(len(limits)))
    written: list[list[int]] = [[] for _ in limits]
    totals = [0.0] * len(limits)
    results: list[list[Hypothesis]] = [[] for _ in limits]
    state = decoder.start(source)
    tokens = torch.full((len(limits),), vocabulary.start, dtype=torch.long, device=device)
    never = torch.tensor(list(vocabulary.never), dtype=torch.long, device=device)
    while live:
        logits, state = decoder.step(tokens, state)
        log_p = log_probabilities(logits, never, renormalize)
        tokens = choose(log_p, live)
        picked = log_p.gather(1, tokens[:, None]).squeeze(1).tolist()
        keep = []
        for row, (sentence, token) in enumerate(zip(live, tokens.tolist(), strict=True)):
            totals[sentence] += picked[row]
            ended = token == vocabulary.end
            if not ended:
                written[sentence].append(token)
            done = ended or (stopped is not None and stopped(sentence, written[sentence]))
            if done or len(written[sentence]) >= limits[sentence]:
                length = len(written[sentence]) + ended
                score = totals[sentence] / length**length_penalty
                results[sentence] = [Hypothesis(written[sentence], totals[sentence], score, done)]
            else:
                keep.append(row)
        if len(keep) < len(live):
            kept = torch.tensor(keep, dtype=torch.long, device=device)
            state, tokens, live = take_rows(state, kept), tokens[kept], [live[row] for row in keep]
    return results


def greedy(log_p: Float[Tensor, "rows vocabulary"], sentences: list[int]) -> Int[Tensor, "rows"]:
    """The most probable token."""
    if log_p.is_cpu:  # numpy finds it six times as fast
        return torch.from_numpy(log_p.numpy().argmax(-1))
    return log_p.argmax(-1)


def sampler(
    numbers: Sequence[int],
    seed: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Choose:
    """Draws from the model's distribution, sharpened or flattened by `temperature` and cut to its head.

    `numbers[i]` is sentence i's number in the whole input: it draws from a generator of its own, so its sample does
    not depend on the batch it happens to be in.
    """
    # torch's CPU generator heeds only 32 bits of a seed, so both numbers are mixed into those.
    seeds = [int(np.random.SeedSequence((seed, int(number))).generate_state(1)[0]) for number in numbers]
    generators = [torch.Generator().manual_seed(mixed) for mixed in seeds]

    def choose(log_p: Float[Tensor, "rows vocabulary"], sentences: list[int]) -> Int[Tensor, "rows"]:
        log_p = head(log_p / temperature, top_k, top_p)
        # Gumbel's trick: argmax of log p - log(Exp(1)) is a draw from p.
        noise = torch.stack([torch.empty(log_p.shape[1]).exponential_(generator=generators[i]) for i in sentences])
        return (log_p - noise.to(log_p.device).log()).argmax(-1)

    return choose


def head(log_p: Float[Tensor, "rows vocabulary"], top_k: int | None, top_p: float | None) -> Tensor:
    """Leaves the `top_k` best tokens, and of these the fewest that hold `top_p` of the probability.

    No more than `top_k` tokens stay, however many are equally probable: the ones with the lowest numbers.
    """
    if top_k is not None and top_k < log_p.shape[1]:
        log_p = log_p.masked_fill(~_best(log_p, top_k), -torch.inf)
    if top_p is not None and top_p < 1:
        ranked, order = log_p.sort(dim=1, descending=True)
        probability = ranked.softmax(-1)
        before = probability.cumsum(-1) - probability  # a token stays if the better ones do not hold enough
        dropped = torch.zeros_like(log_p, dtype=torch.bool).scatter(1, order, before >= top_p)
        log_p = log_p.masked_fill(dropped, -torch.inf)
    return log_p


def _best(log_p: Float[Tensor, "rows vocabulary"], count: int) -> Bool[Tensor, "rows vocabulary"]:
    """Which tokens are the `count` best, but not all, of their row; of equals, the ones with the lowest numbers."""
    ranked = log_p.topk(count + 1, dim=1).values
    least, next_one = ranked[:, -2:-1], ranked[:, -1:]
    if not bool((least == next_one).any()):
        return log_p >= least
    better, tied = log_p > least, log_p == least  # ties at the edge are rare, and take longer
    return better | (tied & (tied.cumsum(1) <= count - better.sum(1, keepdim=True)))
