"""What every family of models must satisfy. A new family is one row in MODELS."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from regard import families
from regard.attention import Attended, MultiHeadAttention, attentions, record
from regard.decoding.protocol import take_rows
from regard.models import transformer
from regard.training import checkpoints

PAD, VOCABULARY = 0, 11
WIDTH = 5
TOLERANCE = dict(atol=1e-5, rtol=1e-5)

SMALL = dict(vocabulary=VOCABULARY, size=8, hidden_size=12, heads=2, encoder_layers=2, decoder_layers=2, pad=PAD)
MODELS: dict[str, dict[str, Any]] = {
    "transformer": {
        "post-norm": lambda: transformer.Config(**SMALL, dropout=0.1),
        "pre-norm, learned positions": lambda: transformer.Config(
            **SMALL, dropout=0.1, pre_norm=True, positions="learned", max_length=16
        ),
    }
}
EVERY = [pytest.param(family, kind, id=f"{family}, {kind}") for family in MODELS for kind in MODELS[family]]
every_model = pytest.mark.parametrize(("family", "kind"), EVERY)


def build(family: str, kind: str, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return families.build_model(family, MODELS[family][kind]())


def draw(rows: int, length: int, seed: int = 0) -> Tensor:
    """Random tokens without padding."""
    return torch.randint(1, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


def sentences(*lengths: int, seed: int = 0) -> list[Tensor]:
    return [draw(1, length, seed + number)[0] for number, length in enumerate(lengths)]


def padded(rows: list[Tensor], side: str, extra: int = 0) -> Tensor:
    """Rows of different lengths as one batch, filled up on the left or the right, and `extra` columns more."""
    width = max(len(row) for row in rows) + extra
    filled = [(width - len(row), 0) if side == "left" else (0, width - len(row)) for row in rows]
    return torch.stack([F.pad(row, fill, value=PAD) for row, fill in zip(rows, filled, strict=True)])


def loss_of(model: Any, source: Tensor, target: Tensor) -> Tensor:
    """Of the tokens after each real target token; the last one predicts the first."""
    real = target != PAD
    return F.cross_entropy(model(source, target)[real], target.roll(-1, 1).clamp(min=1)[real], reduction="sum")


def test_no_family_is_missing_here() -> None:
    assert set(MODELS) == set(families.FAMILIES)
    assert all(MODELS.values())


# The padding patterns of a batch: any row may be any pattern, even a single token or nothing at all.
rows = st.lists(st.lists(st.booleans(), min_size=WIDTH, max_size=WIDTH), min_size=1, max_size=3)
ONE_TOKEN = [[True] + [False] * (WIDTH - 1), [True] * WIDTH]


@every_model
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(source_rows=rows, target_rows=rows, with_single=st.booleans())
def test_no_padding_makes_an_output_or_a_gradient_that_is_not_a_number(
    family: str, kind: str, source_rows: list[list[bool]], target_rows: list[list[bool]], with_single: bool
) -> None:
    if with_single:
        source_rows, target_rows = [*source_rows, *ONE_TOKEN], [*target_rows, *reversed(ONE_TOKEN)]
    count = min(len(source_rows), len(target_rows))
    source_mask, target_mask = torch.tensor(source_rows[:count]), torch.tensor(target_rows[:count])
    source = draw(count, WIDTH).masked_fill(~source_mask, PAD)
    target = draw(count, WIDTH, 1).masked_fill(~target_mask, PAD)
    model = build(family, kind)
    logits = model(source, target)
    assert torch.isfinite(logits).all()
    logits.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name


@every_model
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(
    lengths=st.lists(st.tuples(st.integers(1, WIDTH), st.integers(1, WIDTH)), min_size=1, max_size=4),
    sides=st.tuples(*[st.sampled_from(["left", "right"])] * 2),
    extra=st.tuples(*[st.integers(0, 3)] * 2),
)
def test_padding_and_company_change_nothing(
    family: str, kind: str, lengths: list[tuple[int, int]], sides: tuple[str, str], extra: tuple[int, int]
) -> None:
    model = build(family, kind).eval()
    sources = sentences(*(source for source, _ in lengths))
    targets = sentences(*(target for _, target in lengths), seed=100)
    source, target = padded(sources, sides[0], extra[0]), padded(targets, sides[1], extra[1])
    together = model(source, target)
    for row, (one_source, one_target) in enumerate(zip(sources, targets, strict=True)):
        alone = model(one_source[None], one_target[None])[0]
        torch.testing.assert_close(together[row][target[row] != PAD], alone, **TOLERANCE)


@every_model
def test_padding_and_company_change_no_gradient(family: str, kind: str) -> None:
    model = build(family, kind).eval()
    sources, targets = sentences(4, 1, 3), sentences(2, 4, 1, seed=100)
    apart = sum(loss_of(model, s[None], t[None]) for s, t in zip(sources, targets, strict=True))
    # The loss rolls targets, so they are given without padding here: one batch per side of the sources.
    wanted = torch.autograd.grad(apart, list(model.parameters()))
    for side in ("left", "right"):
        source = padded(sources, side, extra=2)
        whole = sum(loss_of(model, source[row : row + 1], target[None]) for row, target in enumerate(targets))
        found = torch.autograd.grad(whole, list(model.parameters()))
        for gradient, expected in zip(found, wanted, strict=True):
            torch.testing.assert_close(gradient, expected, **TOLERANCE)


@every_model
def test_every_parameter_gets_a_gradient(family: str, kind: str) -> None:
    model = build(family, kind)
    loss_of(model, draw(4, WIDTH), draw(4, WIDTH, 1)).backward()
    silent = [name for name, known in model.named_parameters() if known.grad is None or not known.grad.any()]
    assert silent == []


@every_model
def test_a_saved_model_comes_back_exactly(family: str, kind: str, tmp_path: Path) -> None:
    model = build(family, kind).eval()
    folder = tmp_path / "1"
    config = families.config_json(family, model.config, "translate")
    checkpoints.save(folder, model, {"config.json": config}, {}, checkpoints.Progress(step=1))

    values = checkpoints.load_json(folder / "config.json")
    loaded_family, loaded_config, task = families.config_from_json(values, "config.json")
    assert (loaded_family, loaded_config, task) == (family, model.config, "translate")
    torch.manual_seed(99)
    loaded = families.build_model(loaded_family, loaded_config).eval()
    source, target = draw(2, WIDTH), draw(2, WIDTH, 1)
    assert not torch.equal(loaded(source, target), model(source, target))
    checkpoints.load_weights(loaded, folder)
    assert model.state_dict().keys() == loaded.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    assert torch.equal(loaded(source, target), model(source, target))


@every_model
def test_recording_changes_nothing(family: str, kind: str) -> None:
    model = build(family, kind).eval()
    source, target = padded(sentences(5, 1, 3), "left"), padded(sentences(2, 4, 1, seed=9), "right")
    unwatched = model(source, target)
    with record(model) as tape:
        assert torch.equal(model(source, target), unwatched)
    assert set(tape) == {name for name, _ in attentions(model)}
    model.train()
    torch.manual_seed(5)
    unwatched = model(source, target)
    torch.manual_seed(5)
    with record(model):
        assert torch.equal(model(source, target), unwatched)


def naive(module: nn.Module, states: Tensor, attended: Attended, causal: bool) -> Tensor:
    """softmax(q k^T / sqrt(d)), head by head and row by row."""
    assert isinstance(module, MultiHeadAttention), f"spell the equation of {type(module).__name__} here"
    size, head_size = module.size, module.size // module.heads
    query = F.linear(states, module.query_key_value.weight[:size], module.query_key_value.bias[:size])
    keys, mask = attended.memory.keys, attended.memory.mask
    weights = torch.zeros(len(states), module.heads, states.shape[1], keys.shape[2])
    for row in range(len(states)):
        for head in range(module.heads):
            for place in range(states.shape[1]):
                seen = [
                    key
                    for key in range(keys.shape[2])
                    if (mask is None or mask[row, key]) and not (causal and key > place)
                ]
                if seen:
                    asked = query[row, place, head * head_size : (head + 1) * head_size]
                    scores = keys[row, head, seen] @ asked / math.sqrt(head_size)
                    weights[row, head, place, seen] = scores.softmax(0)
    return weights


@every_model
def test_recorded_weights_are_the_naive_ones(family: str, kind: str) -> None:
    model = build(family, kind).eval()
    source, target = padded(sentences(4, 1, 3), "left"), padded(sentences(2, 4, 1, seed=9), "left")
    expected: dict[str, Tensor] = {}

    def remember(name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, options: Any, output: Attended) -> None:
            expected[name] = naive(module, inputs[0], output, model.attention_kind(name) == "decoder")

        return hook

    handles = [module.register_forward_hook(remember(name), with_kwargs=True) for name, module in attentions(model)]
    with torch.no_grad(), record(model) as tape:
        model(source, target)
    for handle in handles:
        handle.remove()
    assert set(tape) == set(expected)
    for name, weights in tape.items():
        torch.testing.assert_close(weights, expected[name], **TOLERANCE, msg=lambda text, name=name: f"{name}: {text}")


@every_model
def test_one_seed_gives_one_model_and_one_training(family: str, kind: str) -> None:
    def trained(seed: int) -> dict[str, Tensor]:
        model = build(family, kind, seed).train()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for step in range(2):
            optimizer.zero_grad()
            loss_of(model, draw(3, WIDTH, step), draw(3, WIDTH, 10 + step)).backward()
            optimizer.step()
        return model.state_dict()

    first, again, other = trained(3), trained(3), trained(4)
    for name, tensor in first.items():
        assert torch.equal(again[name], tensor), name
    assert any(not torch.equal(other[name], tensor) for name, tensor in first.items())


@every_model
@pytest.mark.parametrize("side", ["left", "right"])
def test_steps_say_what_the_full_pass_says(family: str, kind: str, side: str) -> None:
    model = build(family, kind).eval()
    source, target = padded(sentences(5, 1, 3), side), draw(3, WIDTH, 7)
    whole = model(source, target)
    state = model.start(source)
    for place in range(WIDTH):
        logits, state = model.step(target[:, place], state)
        torch.testing.assert_close(logits, whole[:, place], **TOLERANCE)


@every_model
def test_a_search_may_drop_copy_and_reorder_rows_of_the_state(family: str, kind: str) -> None:
    model = build(family, kind).eval()
    source, target = padded(sentences(5, 1, 3), "right"), draw(3, 3, 7)
    state = model.start(source)
    for place in range(2):
        _, state = model.step(target[:, place], state)
    chosen = torch.tensor([2, 0, 0])
    logits, _ = model.step(target[chosen, 2], take_rows(state, chosen))
    torch.testing.assert_close(logits, model(source, target)[chosen, 2], **TOLERANCE)


@every_model
def test_every_attention_knows_its_kind_and_its_layer(family: str, kind: str) -> None:
    model = build(family, kind)
    found = attentions(model)
    assert found
    layers: dict[str, list[int]] = {}
    for name, _ in found:
        assert model.attention_kind(name) in ("encoder", "decoder", "cross")
        layers.setdefault(model.attention_kind(name), []).append(model.attention_layer(name))
    for numbers in layers.values():
        assert numbers == list(range(1, len(numbers) + 1))
