"""How hard attention learns: REINFORCE against exact expectations, on problems small enough to enumerate."""

import itertools
import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Hard, Memory, drawing
from regard.attention.alignments import Aligned, Queries
from regard.attention.drawing import BASELINE_DECAY, ENTROPY_WEIGHT, watch_draws
from regard.models import bahdanau, luong
from regard.tasks.batches import Batch
from regard.tasks.translate import _rewards, sequence_loss

REWARDS = torch.tensor([-2.0, 0.5, -1.0])  # of each of three keys
SCORES = torch.tensor([0.3, -0.8, 0.6])


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    torch.manual_seed(0)


def draw(hard: Hard, scores: Tensor) -> Aligned:
    """From scores [batch, queries, keys] of a memory whose contents do not matter."""
    batch, queries, keys = scores.shape
    memory = Memory(torch.zeros(batch, keys, 1), torch.zeros(batch, keys, 1))
    return hard(scores, None, Queries(torch.zeros(batch, queries, 1), torch.arange(queries)), memory)


def everything(rewards: Tensor) -> Tensor:
    return torch.ones_like(rewards, dtype=torch.bool)


# One choice among three keys


def sampled_gradients(baseline: float, count: int = 20_000) -> Tensor:
    """The gradient of the scores from each of many draws [count, 3], without the entropy's share."""
    hard = Hard().train()
    hard.baseline.fill_(baseline)
    scores = SCORES.expand(1, count, 3).clone().requires_grad_()
    with watch_draws(hard) as draws:
        chosen = draw(hard, scores).weights.argmax(-1)
    (gradient,) = torch.autograd.grad(draws.loss(REWARDS[chosen], everything(chosen)), scores)
    return gradient[0]


@pytest.mark.parametrize("baseline", [0.0, -1.2, 3.0])
def test_the_mean_of_many_draws_is_the_gradient_of_the_expected_reward(baseline: float) -> None:
    scores = SCORES.clone().requires_grad_()
    p = scores.softmax(-1)
    objective = -(p * REWARDS).sum() + ENTROPY_WEIGHT * (p * p.log()).sum()
    (exact,) = torch.autograd.grad(objective, scores)
    gradients = sampled_gradients(baseline)
    errors = gradients.std(0) / math.sqrt(len(gradients))
    assert ((gradients.mean(0) - exact).abs() <= 4 * errors).all()
    assert (exact.abs() > 8 * errors).any()  # or the claim above would mean nothing


def test_a_baseline_near_the_expected_reward_makes_the_gradients_vary_less() -> None:
    near = (SCORES.softmax(-1) * REWARDS).sum().item()
    assert sampled_gradients(near).var(0).sum() < 0.5 * sampled_gradients(3.0).var(0).sum()
    assert sampled_gradients(near).var(0).sum() < sampled_gradients(0.0).var(0).sum()


def test_the_reward_can_count_for_less() -> None:
    losses = {}
    for weight in (0.0, 0.1, 1.0):
        torch.manual_seed(0)
        hard = Hard(reward_weight=weight).train()
        with watch_draws(hard) as draws:
            chosen = draw(hard, torch.zeros(1, 4, 3)).weights.argmax(-1)
        losses[weight] = draws.loss(REWARDS[chosen], everything(chosen)).item()
    whole = losses[1.0] - losses[0.0]  # without the entropy's share
    assert whole != 0
    assert losses[0.1] - losses[0.0] == pytest.approx(0.1 * whole, rel=1e-4)


def test_a_draw_that_pays_becomes_likely() -> None:
    hard, scores = Hard().train(), torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([scores], lr=1.0)
    for _ in range(20):
        with watch_draws(hard) as draws:
            chosen = draw(hard, scores.expand(1, 64, 3)).weights.argmax(-1)
        optimizer.zero_grad()
        (draws.loss(REWARDS[chosen], everything(chosen)) / 64).backward()
        optimizer.step()
    assert scores.softmax(-1)[REWARDS.argmax()] > 0.9


def test_the_entropy_term_keeps_the_choice_open() -> None:
    hard, scores = Hard().train(), SCORES.expand(1, 5, 3).clone().requires_grad_()
    with watch_draws(hard) as draws:
        draw(hard, scores)
    loss = draws.loss(torch.zeros(1, 5), torch.ones(1, 5, dtype=torch.bool))  # as usual: no advantage
    p = SCORES.softmax(-1)
    entropy = -sum(chance * math.log(chance) for chance in p.tolist())
    torch.testing.assert_close(loss.detach(), torch.tensor(-ENTROPY_WEIGHT * 5 * entropy))
    (gradient,) = torch.autograd.grad(loss, scores)
    after = (SCORES - 10 * gradient[0, 0]).softmax(-1)
    assert -(after * after.log()).sum() > entropy


def test_a_choice_that_is_all_but_made_has_a_finite_gradient() -> None:
    hard = Hard().train()
    scores = torch.tensor([[[200.0, -200.0, 0.0], [0.0, -torch.inf, 0.0]]], requires_grad=True)
    with watch_draws(hard) as draws:
        draw(hard, scores)
    loss = draws.loss(-torch.ones(1, 2), torch.ones(1, 2, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(loss, scores)
    assert loss.isfinite()
    assert gradient[0, 0].isfinite().all()


def test_expectations_that_are_read_instead_of_draws_have_no_reinforce_term() -> None:
    hard, scores = Hard(expected=0.5).train(), SCORES.expand(1, 400, 3).clone().requires_grad_()
    with watch_draws(hard) as draws:
        weights = draw(hard, scores).weights[0]
    (gradient,) = torch.autograd.grad(draws.loss(torch.full((1, 400), -5.0), everything(weights[None, :, 0])), scores)
    was_drawn = ((weights == 0) | (weights == 1)).all(-1)
    assert 150 < was_drawn.sum() < 250
    torch.testing.assert_close(weights[~was_drawn], SCORES.softmax(-1).expand(int((~was_drawn).sum()), 3))
    p = SCORES.clone().requires_grad_()
    (entropy,) = torch.autograd.grad(ENTROPY_WEIGHT * (p.softmax(-1) * p.log_softmax(-1)).sum(), p)
    torch.testing.assert_close(gradient[0, ~was_drawn], entropy.expand_as(gradient[0, ~was_drawn]))
    assert (gradient[0, was_drawn].abs().amax(-1) > 0.1).all()


def test_in_evaluation_nothing_is_drawn_nor_expected() -> None:
    hard = Hard(expected=0.5).eval()
    weights = draw(hard, SCORES.expand(1, 50, 3)).weights
    assert torch.equal(weights, torch.tensor([0.0, 0.0, 1.0]).expand(1, 50, 3))


# The baseline


def test_the_baseline_moves_a_tenth_of_the_way_to_the_mean_reward_of_each_step() -> None:
    hard = Hard().train()
    real = torch.tensor([[True, True, False]])
    rewards = torch.tensor([[-3.0, -1.0, 100.0]])  # padding earns nothing
    expected = 0.0
    for _ in range(3):
        with watch_draws(hard) as draws:
            draw(hard, SCORES.expand(1, 3, 3))
        draws.loss(rewards, real)
        expected = BASELINE_DECAY * expected + (1 - BASELINE_DECAY) * -2.0
        assert hard.baseline.item() == pytest.approx(expected)
    assert BASELINE_DECAY == 0.9


def test_a_draw_is_judged_by_the_baseline_before_it_moves() -> None:
    hard = Hard().train()
    hard.baseline.fill_(-2.0)
    with watch_draws(hard) as draws:
        aligned = draw(hard, SCORES.expand(1, 1, 3))
    loss = draws.loss(torch.tensor([[-3.0]]), torch.ones(1, 1, dtype=torch.bool))
    expected = -(-3.0 - -2.0) * aligned.log_probability.sum() - ENTROPY_WEIGHT * aligned.entropy.sum()
    torch.testing.assert_close(loss, expected)
    assert hard.baseline.item() == pytest.approx(-2.1)


@pytest.mark.parametrize("why", ["evaluation", "nothing real"])
def test_the_baseline_stands_still_without_a_lesson(why: str) -> None:
    hard = Hard().train(why != "evaluation")
    hard.baseline.fill_(-2.0)
    with watch_draws(hard) as draws:
        draw(hard, SCORES.expand(1, 2, 3))
    real = torch.full((1, 2), why == "evaluation")
    assert draws.loss(torch.zeros(1, 2), real).isfinite()
    assert hard.baseline.item() == -2.0


def test_the_baseline_is_saved_with_the_model_and_is_no_parameter() -> None:
    model = translator(feeding=False)
    model.attention.align.baseline.fill_(-1.5)
    saved = model.state_dict()
    assert saved["attention.align.baseline"].item() == -1.5
    assert not any("baseline" in name for name, _ in model.named_parameters())
    other = translator(feeding=False)
    other.load_state_dict(saved)
    assert other.attention.align.baseline.item() == -1.5


# Watching


def hooks(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) for module in model.modules())


def test_nobody_watches_before_or_after() -> None:
    model = translator(feeding=True)
    with watch_draws(model):
        assert hooks(model) == 1
    assert hooks(model) == 0


def test_nobody_watches_after_a_failure() -> None:
    model = translator(feeding=True)
    with pytest.raises(ZeroDivisionError), watch_draws(model):
        raise ZeroDivisionError
    assert hooks(model) == 0
    with pytest.raises(IndexError):
        sequence_loss(model, batch([[99]], [[2]]), pad=0)  # no such word
    assert hooks(model) == 0


def test_a_model_that_draws_nothing_has_nothing_to_be_watched() -> None:
    soft = luong.Luong(luong.Config(vocabulary=7, embedding_size=2, size=2, layers=1))
    additive = bahdanau.Bahdanau(bahdanau.Config(7, embedding_size=2, size=2, alignment_size=2, readout_size=2))
    for model in (soft, additive, nn.Linear(2, 2)):
        with watch_draws(model) as draws:
            assert draws is None
            assert hooks(model) == 0
    assert sequence_loss(additive.train(), batch([[3, 4]], [[2]]), pad=0).total.isfinite()


# Rewards


def test_without_feeding_a_draw_earns_its_own_token_and_with_it_all_that_follow() -> None:
    nll = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0])
    real = torch.tensor([[True, True, True, False], [True, True, False, False]])
    alone = _rewards(SimpleNamespace(config=SimpleNamespace(feeding=False)), nll, real)
    assert alone.tolist() == [[-1, -2, -4, 0], [-8, -16, 0, 0]]
    to_the_end = _rewards(SimpleNamespace(config=SimpleNamespace(feeding=True)), nll, real)
    assert to_the_end[real].tolist() == [-7, -6, -4, -24, -16]


# A whole translator, all of whose draws are enumerated


def translator(feeding: bool, expected: float = 0.0) -> luong.Luong:
    torch.manual_seed(1)
    model = luong.Luong(
        luong.Config(
            vocabulary=7,
            embedding_size=3,
            size=3,
            layers=1,
            cell="gru",
            align="hard",
            expected=expected,
            feeding=feeding,
            dropout=0.0,
        )
    )
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model.train()


def batch(sources: list[list[int]], targets: list[list[int]], side: str = "right", extra: int = 0) -> Batch:
    """Token 1 starts and token 6 ends a target."""

    def table(rows: list[list[int]]) -> Tensor:
        width = max(map(len, rows)) + extra
        fills = [(width - len(row), 0) if side == "left" else (0, width - len(row)) for row in rows]
        return torch.stack([F.pad(torch.tensor(row), fill) for row, fill in zip(rows, fills, strict=True)])

    return Batch(table(sources), table([[1, *row] for row in targets]), table([[*row, 6] for row in targets]))


def force(monkeypatch: pytest.MonkeyPatch, choices: list[list[int]]) -> None:
    """Make the draws of each row come out as chosen, whether they are made at once or one by one."""
    drawn = torch.tensor(choices)
    place = 0

    def sample(probabilities: Tensor) -> Tensor:
        nonlocal place
        count = probabilities.shape[-2]
        place += count
        return drawn[:, place - count : place, None]

    monkeypatch.setattr(Hard, "_sample", staticmethod(sample))


def log_probability_and_nll(model: luong.Luong, example: Batch) -> tuple[Tensor, Tensor]:
    """Of the draws, and of the sentence given them."""
    seen: list[Tensor] = []
    handle = model.attention.align.register_forward_hook(lambda module, given, told: seen.append(told.log_probability))
    logits = model(example.source, example.told)
    handle.remove()
    nll = F.cross_entropy(logits.flatten(0, 1), example.said.flatten(), reduction="sum")
    return torch.cat(seen, dim=-1).sum(), nll


@pytest.mark.parametrize("baseline", [0.0, -2.5])
@pytest.mark.parametrize("feeding", [False, True], ids=["no feeding", "feeding"])
def test_over_all_draws_the_gradient_is_that_of_the_expected_loss(
    feeding: bool, baseline: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every parameter, exactly: what is drawn is judged by what it led to, and by nothing else."""
    monkeypatch.setattr(drawing, "ENTROPY_WEIGHT", 0.0)
    model, example = translator(feeding), batch([[3, 4, 5]], [[2]])
    parameters = list(model.parameters())
    expected_loss = torch.zeros(())
    mean = [torch.zeros_like(parameter) for parameter in parameters]
    total = 0.0
    for choices in itertools.product(range(3), repeat=2):  # for <s> and for the word
        force(monkeypatch, [list(choices)])
        log_p, nll = log_probability_and_nll(model, example)
        expected_loss = expected_loss + log_p.exp() * nll
        force(monkeypatch, [list(choices)])
        model.attention.align.baseline.fill_(baseline)
        loss = sequence_loss(model, example, pad=0)
        torch.testing.assert_close(loss.nll, nll.detach().double())
        found = torch.autograd.grad(loss.total, parameters)
        chance = log_p.exp().item()
        total += chance
        mean = [known + chance * gradient for known, gradient in zip(mean, found, strict=True)]
    assert total == pytest.approx(1.0, abs=1e-5)
    exact = torch.autograd.grad(expected_loss, parameters)
    for (name, _), found_mean, wanted in zip(model.named_parameters(), mean, exact, strict=True):
        torch.testing.assert_close(
            found_mean, wanted, atol=1e-4, rtol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("feeding", [False, True], ids=["no feeding", "feeding"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_and_company_add_nothing_to_the_loss_of_draws(
    feeding: bool, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, targets = [[3, 4, 5], [5, 2]], [[2, 5, 3], [4]]
    choices = [[2, 0, 1, 1], [1, 0]]
    model = translator(feeding)
    parameters = list(model.parameters())

    def gradient(examples: Batch, drawn: list[list[int]]) -> tuple[Tensor, list[Tensor]]:
        width = examples.told.shape[1]
        place = {"right": 0, "left": examples.source.shape[1]}[side]
        shifted = [
            [choice + (place and place - len(sources[choices.index(row)])) for choice in row] for row in drawn
        ]  # draws count the keys of the batch
        force(monkeypatch, [row + [0] * (width - len(row)) for row in shifted])
        model.attention.align.baseline.fill_(-0.5)
        loss = sequence_loss(model, examples, pad=0)
        return loss.total.detach(), list(torch.autograd.grad(loss.total, parameters))

    apart = [gradient(batch([s], [t], side), [c]) for s, t, c in zip(sources, targets, choices, strict=True)]
    total, together = gradient(batch(sources, targets, side, extra=2), choices)
    torch.testing.assert_close(total, apart[0][0] + apart[1][0], atol=1e-4, rtol=1e-4)
    for found, first, second in zip(together, apart[0][1], apart[1][1], strict=True):
        torch.testing.assert_close(found, first + second, atol=1e-4, rtol=1e-4)


def test_validation_neither_draws_nor_teaches() -> None:
    model, example = translator(feeding=True, expected=0.5).eval(), batch([[3, 4, 5], [2]], [[2, 5], [3]])
    first, again = (sequence_loss(model, example, pad=0) for _ in range(2))
    assert torch.equal(first.total, again.total)
    torch.testing.assert_close(first.total, first.nll)
    assert model.attention.align.baseline.item() == 0


def test_every_parameter_of_the_score_is_taught_by_draws_alone() -> None:
    """Nothing but REINFORCE reaches the score of a hard attention."""
    model, example = translator(feeding=False), batch([[3, 4, 5], [2, 4, 4]], [[2, 5], [3, 3]])
    weight = model.attention.score.weight.weight
    nll = F.cross_entropy(model(example.source, example.told).flatten(0, 1), example.said.flatten())
    (gradient,) = torch.autograd.grad(nll, weight, allow_unused=True)
    assert gradient is None or not gradient.any()
    (gradient,) = torch.autograd.grad(sequence_loss(model, example, pad=0).total, weight)
    assert gradient.any()
