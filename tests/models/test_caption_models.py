"""Show and Tell, and Show, Attend and Tell: equations spelled out word by word, the penalty, the gate, the draws."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from equations import cell_step, shaken, softmax, weighted_sum
from regard.attention import drawing, record
from regard.attention.alignments import Hard
from regard.errors import RegardError, UsageError
from regard.models import attend_tell, show_tell
from regard.tasks.caption import Batch, caption_loss

SMALL: dict[str, Any] = dict(vocabulary=7, backbone="tiny_cnn", image_size=32, dropout=0.0)
CLOSE = dict(atol=1e-5, rtol=1e-4)


def captioner(**changes: Any) -> attend_tell.AttendTell:
    torch.manual_seed(0)
    config = attend_tell.Config(**{**SMALL, **dict(embedding_size=3, size=4, alignment_size=5), **changes})
    return shaken(attend_tell.AttendTell(config))


def regions(count: int = 1, places: int = 4, seed: int = 0) -> Tensor:
    return torch.randn(count, places, 8, generator=torch.Generator().manual_seed(seed))


def test_show_and_tell_shows_the_picture_once_and_then_tells() -> None:
    torch.manual_seed(0)
    model = shaken(show_tell.ShowTell(show_tell.Config(**SMALL, embedding_size=3, size=4)))
    seen, words = regions(), [1, 5, 2]
    rnn, state = model.decoder.rnn, (torch.zeros(4), torch.zeros(4))
    mean = sum(seen[0]) / 4
    state = cell_step(rnn, "l0", model.image.weight @ mean + model.image.bias, state)  # x_{-1}
    expected = []
    for word in words:
        state = cell_step(rnn, "l0", model.words.embedding.weight[word], state)
        expected.append(model.words.output.weight @ state[0])
    said = model.logits(model.decode(seen, torch.tensor([words])))[0]
    torch.testing.assert_close(said, torch.stack(expected), **CLOSE)


def spelled_out(model: attend_tell.AttendTell, seen: Tensor, words: list[int]) -> tuple[Tensor, Tensor]:
    """Logits and alpha of one caption, equation by equation."""
    score, mean = model.attention.score, sum(seen) / len(seen)
    h = torch.tanh(model.first_state.weight @ mean + model.first_state.bias)
    c = torch.tanh(model.first_cell.weight @ mean + model.first_cell.bias)
    logits, alphas = [], []
    for word in words:
        energies = [
            (score.energy.weight @ torch.tanh(score.query.weight @ h + score.key.weight @ a)).squeeze() for a in seen
        ]
        alpha = softmax(energies)
        beta = torch.sigmoid(model.gate.weight @ h + model.gate.bias)
        z = beta * weighted_sum(alpha, seen)
        embedded = model.words.embedding.weight[word]
        h, c = cell_step(model.decoder.rnn, "l0", torch.cat([embedded, z]), (h, c))
        inner = embedded + model.say_state.weight @ h + model.say_state.bias + model.say_context.weight @ z
        logits.append(model.words.output_weight @ inner)
        alphas.append(torch.stack(alpha))
    return torch.stack(logits), torch.stack(alphas)


@pytest.mark.parametrize("tied", [False, True])
def test_show_attend_and_tell_follows_its_equations(tied: bool) -> None:
    model, seen, words = captioner(tied=tied), regions(), [1, 5, 2, 2]
    logits, alphas = spelled_out(model, seen[0], words)
    with record(model) as tape:
        states, weights = model.decode_weighing(seen, torch.tensor([words]))
    torch.testing.assert_close(model.logits(states)[0], logits, **CLOSE)
    torch.testing.assert_close(weights[0], alphas, **CLOSE)
    torch.testing.assert_close(tape["attention"][0, 0], alphas, **CLOSE)


def test_a_closed_gate_makes_the_picture_count_for_nothing_but_the_start() -> None:
    model = captioner()
    with torch.no_grad():
        model.gate.weight.zero_()
        model.gate.bias.fill_(-40.0)
    first, other = regions(seed=1), regions(seed=2)
    other = other + (first.mean(1) - other.mean(1))  # the LSTM begins with the mean
    target = torch.tensor([[1, 3, 4]])
    torch.testing.assert_close(model.decode(first, target), model.decode(other, target), **CLOSE)
    with torch.no_grad():
        model.gate.bias.fill_(40.0)
    assert not torch.allclose(model.decode(first, target), model.decode(other, target), atol=1e-3)


def test_the_penalty_asks_every_region_to_be_looked_at_once() -> None:
    model = captioner(doubly_stochastic=0.5)
    weights = torch.tensor([[[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]], [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]])
    by_hand = (1 - 1.0) ** 2 + (1 - 0.5) ** 2 + (1 - 0.5) ** 2 + (1 - 1.0) ** 2 + 1 + 1
    assert model.penalty(weights).item() == pytest.approx(0.5 * by_hand)
    assert model.penalty(torch.full((1, 3, 3), 1 / 3)).item() == pytest.approx(0.0)


def caption_batch(count: int = 1, places: int = 4) -> Batch:
    """Token 1 starts and token 6 ends a caption; the second is shorter."""
    told = torch.tensor([[1, 3, 2], [1, 4, 0]])[:count]
    said = torch.tensor([[3, 2, 6], [4, 6, 0]])[:count]
    return Batch(regions(count, places), told, said)


def test_the_penalty_counts_while_training_only_and_never_padding() -> None:
    plain, fined = captioner(doubly_stochastic=0.0), captioner(doubly_stochastic=1.0)
    batch = caption_batch(2)
    assert caption_loss(fined, batch, 0).total == caption_loss(plain, batch, 0).total  # they evaluate
    found = caption_loss(fined.train(), batch, 0).total - caption_loss(plain.train(), batch, 0).total
    wanted = 0.0
    for row, length in ((0, 3), (1, 2)):
        _, alphas = spelled_out(fined, batch.regions[row], batch.told[row, :length].tolist())
        wanted += ((1 - alphas.sum(0)) ** 2).sum().item()
    assert found.item() == pytest.approx(wanted, rel=1e-4)


def test_the_loss_is_the_likelihood_of_the_real_words() -> None:
    model, batch = captioner(), caption_batch(2)
    logits = model.logits(model.decode(batch.regions, batch.told))
    wanted = F.cross_entropy(logits.flatten(0, 1), batch.said.flatten(), reduction="sum", ignore_index=0)
    loss = caption_loss(model, batch, 0)
    torch.testing.assert_close(loss.nll.float(), wanted, **CLOSE)
    assert loss.count == 5


# Hard attention, all of whose draws are enumerated


def force(monkeypatch: pytest.MonkeyPatch, choices: tuple[int, ...]) -> None:
    """Make the draws of one caption come out as chosen."""
    waiting = list(choices)
    monkeypatch.setattr(Hard, "_sample", staticmethod(lambda probabilities: torch.tensor([[[waiting.pop(0)]]])))


def hard_captioner() -> attend_tell.AttendTell:
    return captioner(align="hard", expected=0.0, doubly_stochastic=0.0).train()


@pytest.mark.parametrize("baseline", [0.0, -2.5])
def test_over_all_draws_the_gradient_is_that_of_the_expected_loss(
    baseline: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every parameter, exactly: what is looked at is judged by all the words it led to, and by nothing else."""
    monkeypatch.setattr(drawing, "ENTROPY_WEIGHT", 0.0)
    model = hard_captioner()
    batch = Batch(regions(1, 3), torch.tensor([[1, 3]]), torch.tensor([[3, 6]]))
    parameters = [known for name, known in model.named_parameters() if not name.startswith("encoder")]
    expected_loss, total = torch.zeros(()), 0.0
    mean = [torch.zeros_like(parameter) for parameter in parameters]
    for choices in itertools.product(range(3), repeat=2):
        chances: list[Tensor] = []
        handle = model.attention.align.register_forward_hook(
            lambda module, given, told, chances=chances: chances.append(told.log_probability)
        )
        force(monkeypatch, choices)
        logits = model.logits(model.decode(batch.regions, batch.told))
        handle.remove()
        log_p, nll = sum(chances).sum(), F.cross_entropy(logits[0], batch.said[0], reduction="sum")
        expected_loss = expected_loss + log_p.exp() * nll
        force(monkeypatch, choices)
        model.attention.align.baseline.fill_(baseline)
        found = torch.autograd.grad(caption_loss(model, batch, 0).total, parameters)
        total += log_p.exp().item()
        mean = [known + log_p.exp().item() * gradient for known, gradient in zip(mean, found, strict=True)]
    assert total == pytest.approx(1.0, abs=1e-5)
    for found_mean, wanted in zip(mean, torch.autograd.grad(expected_loss, parameters), strict=True):
        torch.testing.assert_close(found_mean, wanted, atol=1e-4, rtol=1e-3)


def test_a_hard_captioner_reads_one_region_and_the_likeliest_when_it_does_not_learn() -> None:
    model, target = hard_captioner().eval(), torch.tensor([[1, 3, 2]])
    _, weights = model.decode_weighing(regions(), target)
    assert set(weights.unique().tolist()) == {0.0, 1.0}
    assert weights.sum(-1).tolist() == [[1.0, 1.0, 1.0]]
    soft = captioner(align="soft")
    _, wanted = soft.decode_weighing(regions(), target[:, :1])
    assert weights[0, 0].argmax() == wanted[0, 0].argmax()


@pytest.mark.parametrize(
    "changes",
    [{"align": "local_p"}, {"doubly_stochastic": -1.0}, {"expected": 1.0, "align": "hard"}, {"image_size": 40}],
)
def test_captioners_that_cannot_be_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises((UsageError, RegardError)):
        captioner(**changes)
