"""Multi-head attention against its equation, against torch's own, and step by step against the full pass."""

import math

import pytest
import torch
from torch import Tensor, nn

from regard.attention import MultiHeadAttention, masks
from regard.errors import RegardError

SIZE, HEADS = 8, 2


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    torch.manual_seed(0)


def randomise(module: nn.Module) -> None:
    """Biases start at zero; a test that never moves them cannot see them."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)


def torch_twin(ours: MultiHeadAttention, key_size: int, value_size: int, bias: bool) -> nn.MultiheadAttention:
    """torch's own multi-head attention with the same weights."""
    twin = nn.MultiheadAttention(ours.size, ours.heads, bias=bias, kdim=key_size, vdim=value_size, batch_first=True)
    with torch.no_grad():
        if ours.shares_projection:
            twin.in_proj_weight.copy_(ours.query_key_value.weight)
            if bias:
                twin.in_proj_bias.copy_(ours.query_key_value.bias)
        else:
            twin.q_proj_weight.copy_(ours.query.weight)
            twin.k_proj_weight.copy_(ours.key.weight)
            twin.v_proj_weight.copy_(ours.value.weight)
            if bias:
                twin.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        twin.out_proj.load_state_dict(ours.output.state_dict())
    return twin


def test_each_head_is_a_scaled_dot_product_attention_of_its_own() -> None:
    attention = MultiHeadAttention(SIZE, HEADS)
    randomise(attention)
    states = torch.randn(2, 5, SIZE)
    attended = attention(states)
    query, keys, values = attention.query_key_value(states).chunk(3, dim=-1)
    size = SIZE // HEADS
    for b in range(2):
        for t in range(5):
            read = []
            for r in range(HEADS):
                of_head = slice(r * size, (r + 1) * size)
                scores = torch.stack([query[b, t, of_head] @ keys[b, s, of_head] for s in range(5)])
                weights = torch.softmax(scores / math.sqrt(size), 0)
                torch.testing.assert_close(attended.weights[b, r, t], weights)
                read.append(sum(weights[s] * values[b, s, of_head] for s in range(5)))
            torch.testing.assert_close(attended.context[b, t], attention.output(torch.cat(read)))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("key_size", "value_size"), [(SIZE, SIZE), (6, 6), (SIZE, 3), (6, SIZE), (5, 3)])
@pytest.mark.parametrize("masked", ["nothing", "padding", "pairs", "both"])
def test_the_result_is_that_of_torchs_own_module(key_size: int, value_size: int, bias: bool, masked: str) -> None:
    ours = MultiHeadAttention(SIZE, HEADS, key_size=key_size, value_size=value_size, bias=bias)
    randomise(ours)
    twin = torch_twin(ours, key_size, value_size, bias)
    query, keys, values = torch.randn(3, 4, SIZE), torch.randn(3, 6, key_size), torch.randn(3, 6, value_size)
    padding = pairs = None
    if masked in ("padding", "both"):
        padding = masks.padding(torch.tensor([6, 2, 4]))
    if masked in ("pairs", "both"):
        pairs = torch.rand(4, 6) > 0.4
        pairs[:, 0] = True  # torch's module gives NaN where nothing may be seen; ours is tested elsewhere
    attended = ours(query, ours.remember(keys, padding, values), mask=None if pairs is None else pairs.unsqueeze(0))
    expected, weights = twin(
        query,
        keys,
        values,
        key_padding_mask=None if padding is None else ~padding,  # torch's masks say what is hidden
        attn_mask=None if pairs is None else ~pairs,
        average_attn_weights=False,
    )
    torch.testing.assert_close(attended.context, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(attended.weights, weights, atol=1e-6, rtol=1e-5)


def test_causal_self_attention_is_that_of_torchs_own_module() -> None:
    ours = MultiHeadAttention(SIZE, HEADS)
    randomise(ours)
    twin = torch_twin(ours, SIZE, SIZE, bias=True)
    states = torch.randn(3, 6, SIZE)
    mask = masks.padding(torch.tensor([6, 2, 4]))
    attended = ours(states, mask=mask, causal=True)
    expected, _ = twin(states, states, states, key_padding_mask=~mask, attn_mask=~masks.causal(6, 6))
    torch.testing.assert_close(attended.context, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("has_mask", [False, True])
def test_self_attention_is_to_remember_and_then_to_ask(causal: bool, has_mask: bool) -> None:
    attention = MultiHeadAttention(SIZE, HEADS)
    randomise(attention)
    states = torch.randn(2, 5, SIZE)
    mask = masks.padding(torch.tensor([3, 5])) if has_mask else None
    itself = attention(states, mask=mask, causal=causal)
    asked = attention(states, attention.remember(states, mask), causal=causal)
    torch.testing.assert_close(itself.context, asked.context, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(itself.weights, asked.weights, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("key_size", [SIZE, 6])
def test_values_are_the_states_unless_others_are_given(key_size: int) -> None:
    attention = MultiHeadAttention(SIZE, HEADS, key_size=key_size)
    states, others = torch.randn(2, 5, key_size), torch.randn(2, 5, key_size)
    own, given = attention.remember(states), attention.remember(states, values=others)
    torch.testing.assert_close(attention.remember(states, values=states).values, own.values)
    torch.testing.assert_close(given.keys, own.keys)
    torch.testing.assert_close(given.values, attention.remember(others).values)


def grow(attention: MultiHeadAttention, states: Tensor, mask: Tensor | None, steps: list[int]) -> list:
    """Attend in pieces of the given lengths, each remembering what came before."""
    past, results, start = None, [], 0
    for length in steps:
        piece = slice(start, start + length)
        own = None if mask is None else mask[:, piece]
        results.append(attention(states[:, piece], mask=own, causal=True, past=past))
        past, start = results[-1].memory, start + length
    return results


@pytest.mark.parametrize("steps", [[1] * 6, [3, 1, 1, 1], [2, 3, 1], [6], [1, 5]])
@pytest.mark.parametrize("padded", ["no", "left", "right"])
def test_a_memory_that_grows_step_by_step_is_the_full_causal_pass(steps: list[int], padded: str) -> None:
    attention = MultiHeadAttention(SIZE, HEADS)
    randomise(attention)
    states = torch.randn(2, 6, SIZE)
    mask = None if padded == "no" else masks.padding(torch.tensor([4, 6]))
    mask = mask.flip(-1) if padded == "left" else mask
    full = attention(states, mask=mask, causal=True)
    results = grow(attention, states, mask, steps)
    context = torch.cat([result.context for result in results], dim=1)
    torch.testing.assert_close(context, full.context, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(results[-1].memory.keys, full.memory.keys, atol=1e-5, rtol=1e-5)
    last_rows = full.weights[:, :, 6 - steps[-1] :]
    torch.testing.assert_close(results[-1].weights, last_rows, atol=1e-5, rtol=1e-5)
    assert len(results[-1].memory) == 6


def test_a_memory_may_begin_without_a_mask_and_grow_with_one() -> None:
    attention = MultiHeadAttention(SIZE, HEADS)
    states = torch.randn(2, 4, SIZE)
    first = attention(states[:, :2], causal=True)
    second = attention(states[:, 2:], mask=torch.tensor([[True, False]] * 2), causal=True, past=first.memory)
    assert second.memory.mask.tolist() == [[True, True, True, False]] * 2
    assert first.memory.mask is None
    assert len(first.memory) == 2  # growing makes a new memory: a beam may grow the old one differently


def test_a_mask_with_a_query_axis_hides_pairs() -> None:
    attention = MultiHeadAttention(SIZE, HEADS)
    states = torch.randn(2, 4, SIZE)
    banded = attention(states, mask=masks.window(4, 4, before=1, after=0).unsqueeze(0))
    assert (banded.weights > 0)[0, 0].tolist() == masks.window(4, 4, before=1, after=0).tolist()
    for t in range(4):
        seen = states[:, max(0, t - 1) : t + 1]
        alone = attention(states[:, t : t + 1], attention.remember(seen))
        torch.testing.assert_close(banded.context[:, t : t + 1], alone.context, atol=1e-5, rtol=1e-5)


def test_a_mask_with_a_query_axis_narrows_the_mask_of_the_memory() -> None:
    attention = MultiHeadAttention(SIZE, HEADS)
    memory = attention.remember(torch.randn(2, 5, SIZE), masks.padding(torch.tensor([3, 5])))
    pairs = torch.rand(2, 4, 5) > 0.5
    attended = attention(torch.randn(2, 4, SIZE), memory, mask=pairs)
    assert torch.equal(attended.weights[:, 0] > 0, pairs & memory.mask[:, None])


def test_a_mask_over_keys_is_never_silently_ignored() -> None:
    """A memory brings its own mask; a second one over its keys either counts or is refused."""
    attention = MultiHeadAttention(SIZE, HEADS)
    memory = attention.remember(torch.randn(2, 5, SIZE))
    hidden = masks.padding(torch.tensor([3, 5]))
    try:
        weights = attention(torch.randn(2, 4, SIZE), memory, mask=hidden).weights
    except RegardError:
        return
    assert not weights[0, :, :, 3:].any()


def test_a_past_is_never_silently_ignored() -> None:
    """Only states that attend to themselves have a past; beside a memory it is refused."""
    attention = MultiHeadAttention(SIZE, HEADS)
    memory, past = attention.remember(torch.randn(2, 5, SIZE)), attention.remember(torch.randn(2, 2, SIZE))
    with pytest.raises(RegardError):
        attention(torch.randn(2, 4, SIZE), memory, past=past)


@pytest.mark.parametrize("heads", [3, 0, -2, 16])
def test_heads_that_do_not_divide_the_size_are_refused(heads: int) -> None:
    with pytest.raises(RegardError, match=f"size of 8 cannot be split over {heads} heads"):
        MultiHeadAttention(SIZE, heads)


@pytest.mark.parametrize(("key_size", "value_size"), [(SIZE, SIZE), (6, 6), (6, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_every_parameter_gets_a_gradient(key_size: int, value_size: int, bias: bool) -> None:
    attention = MultiHeadAttention(SIZE, HEADS, key_size=key_size, value_size=value_size, bias=bias)
    randomise(attention)
    memory = attention.remember(torch.randn(2, 5, key_size), values=torch.randn(2, 5, value_size))
    attention(torch.randn(2, 4, SIZE), memory).context.square().sum().backward()
    for name, parameter in attention.named_parameters():
        assert parameter.grad is not None, name
        gradient = parameter.grad
        if name == "query_key_value.bias":
            # A key bias adds the same to every score of a row: the softmax cannot see it.
            gradient = gradient[[*range(SIZE), *range(2 * SIZE, 3 * SIZE)]]
        if name != "key.bias":
            assert (gradient != 0).all(), name


@pytest.mark.parametrize("key_size", [SIZE, 6])
def test_projections_start_by_xavier_each_by_itself_and_biases_at_zero(key_size: int) -> None:
    attention = MultiHeadAttention(64, 4, key_size=64 if key_size == SIZE else key_size)
    for name, parameter in attention.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
            continue
        for projection in parameter.split(64):
            bound = math.sqrt(6 / sum(projection.shape))
            assert projection.abs().max() <= bound
            assert projection.abs().max() > 0.95 * bound


def test_a_model_without_gradients_reads_the_same() -> None:
    attention = MultiHeadAttention(SIZE, HEADS)
    states = torch.randn(2, 5, SIZE)
    with torch.inference_mode():
        quick = attention(states, causal=True)
        assert not quick.weights.requires_grad
    torch.testing.assert_close(quick.context.clone(), attention(states, causal=True).context.detach())
