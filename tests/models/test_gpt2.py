"""GPT-2: its equations spelled out, its window, its cache, its sizes."""

import math

import pytest
import torch
from torch import Tensor

from regard import families
from regard.decoding.protocol import take_rows
from regard.errors import UsageError
from regard.models.gpt2 import GPT2, PRESETS, Config, public_config, public_names, to_public_config

SIZES = dict(vocabulary=13, size=8, hidden_size=12, heads=2, layers=3, context=6)


def small(**changes: object) -> GPT2:
    """A model whose every parameter matters."""
    torch.manual_seed(0)
    model = GPT2(Config(**SIZES | changes)).eval().double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def layer_norm(x: Tensor, norm: torch.nn.LayerNorm) -> Tensor:
    deviation = torch.sqrt(((x - x.mean()) ** 2).mean() + 1e-5)
    return (x - x.mean()) / deviation * norm.weight + norm.bias


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def spelled_out(model: GPT2, tokens: list[int]) -> Tensor:
    """Logits after each token of a text that fits into the window, one token and one head at a time."""
    states = [model.embedding.weight[token] + model.positions.weight[place] for place, token in enumerate(tokens)]
    for block in model.layers:
        attention, forward, size = block.self_attention, block.feed_forward, model.config.size
        width = size // model.config.heads
        normed = [layer_norm(x, block.around_self_attention.norm) for x in states]
        projected = [attention.query_key_value.weight @ x + attention.query_key_value.bias for x in normed]
        for place in range(len(states)):
            context = []
            for head in range(0, size, width):
                query = projected[place][head : head + width]
                keys = [row[size + head : size + head + width] for row in projected[: place + 1]]
                values = [row[2 * size + head : 2 * size + head + width] for row in projected[: place + 1]]
                powers = [torch.exp(query @ key / math.sqrt(width)) for key in keys]
                context.append(sum(p / sum(powers) * v for p, v in zip(powers, values, strict=True)))
            states[place] = states[place] + attention.output.weight @ torch.cat(context) + attention.output.bias
        for place, x in enumerate(states):
            hidden = gelu(forward.expand.weight @ layer_norm(x, block.around_feed_forward.norm) + forward.expand.bias)
            states[place] = x + forward.contract.weight @ hidden + forward.contract.bias
    return torch.stack([model.embedding.weight @ layer_norm(x, model.norm) for x in states])


def test_the_model_is_its_equations() -> None:
    model, tokens = small(), [3, 1, 4, 1, 5]
    torch.testing.assert_close(model(torch.tensor([tokens]))[0], spelled_out(model, tokens))


def windowed(model: GPT2, tokens: list[int]) -> Tensor:
    """What is said after each token of a longer text: each from a pass over its own window."""
    context, said = model.config.context, []
    forgotten = max(1, context // 2)
    for place in range(len(tokens)):
        windows_before = max(0, math.ceil((place + 1 - context) / forgotten))
        window = tokens[windows_before * forgotten : place + 1]
        assert len(window) <= context
        said.append(model(torch.tensor([window]))[0, -1])
    return torch.stack(said)


@pytest.mark.parametrize("context", [1, 2, 5, 6])
def test_a_full_window_forgets_its_older_half(context: int) -> None:
    model = small(context=context)
    tokens = torch.randint(1, 13, (17,)).tolist()
    torch.testing.assert_close(model(torch.tensor([tokens]))[0], windowed(model, tokens))


@pytest.mark.parametrize("sizes", [[1] * 17, [5, 1, 6, 5], [2, 15]])
@pytest.mark.parametrize("context", [7, 32])
def test_a_text_read_in_pieces_is_the_same_text(sizes: list[int], context: int) -> None:
    model, carried, states = small(context=context), None, []
    tokens = torch.randint(1, 13, (2, 17))
    for piece in tokens.split(sizes, dim=1):
        some, carried = model.read(piece, carried)
        states.append(some)
    torch.testing.assert_close(model.logits(torch.cat(states, dim=1)), model(tokens))
    assert carried is not None
    assert carried.tokens.shape[1] <= context


@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_of_different_lengths_slide_each_at_its_own_time(side: str) -> None:
    """And what they carry can be reordered, as a beam search does."""
    model = small(context=4)
    rows = [torch.randint(1, 13, (length,)) for length in (9, 1, 4, 6)]
    alone = [model(row[None])[0] for row in rows]
    filled = torch.full((4, 11), -1)
    for number, row in enumerate(rows):
        filled[number, slice(11 - len(row), 11) if side == "left" else slice(0, len(row))] = row
    for row, said, expected in zip(filled, model(filled), alone, strict=True):
        torch.testing.assert_close(said[row != -1], expected)

    order, more = torch.tensor([2, 0, 0, 3]), torch.randint(1, 13, (4, 5))
    _, carried = model.read(filled)
    said = model.logits(model.read(more, take_rows(carried, order))[0])
    for number, row in enumerate(order.tolist()):
        expected = model(torch.cat([rows[row], more[number]])[None])[0, -5:]
        torch.testing.assert_close(said[number], expected)


def test_no_token_is_told_what_follows_it() -> None:
    model = small()
    tokens = torch.tensor([[3, 1, 4, 1, 5]])
    changed = torch.tensor([[3, 1, 4, 9, 2]])
    torch.testing.assert_close(model(tokens)[:, :3], model(changed)[:, :3])


@pytest.mark.parametrize(
    ("size", "parameters"),
    [("small", 124_439_808), ("medium", 354_823_168), ("large", 774_030_080), ("xl", 1_557_611_200)],
)
def test_the_presets_have_as_many_parameters_as_the_published_models(size: str, parameters: int) -> None:
    with torch.device("meta"):
        model = GPT2(Config(**PRESETS[size]))
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


def test_what_adds_to_the_residual_stream_begins_smaller() -> None:
    torch.manual_seed(0)
    model = GPT2(Config(vocabulary=500, size=64, hidden_size=256, heads=4, layers=8, context=100))
    expected = {"embedding": 0.02, "positions": 0.01, "query_key_value": 0.02, "expand": 0.02}
    expected |= {"output": 0.005, "contract": 0.005}
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            assert parameter.std().item() == pytest.approx(expected[name.split(".")[-2]], rel=0.1), name
        elif name.endswith("bias"):
            assert not parameter.any()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("size", PRESETS)
def test_a_config_goes_to_the_public_form_and_back(size: str, tied: bool) -> None:
    config = Config(**PRESETS[size], tied=tied)
    assert public_config(to_public_config(config)) == config
    with torch.device("meta"):
        assert public_names(config).keys() == GPT2(config).state_dict().keys()


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is True"),
        ({"model_type": "bert"}, "model_type is 'bert'"),
        ({"activation_function": "mish"}, "activation_function 'mish'"),
    ],
)
def test_a_public_setting_we_do_not_know_is_refused(setting: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        public_config({"n_embd": 8, **setting})


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(UsageError, match=r"model\.context is 0"):
        families.check({"preset": "gpt2:tiny", "context": 0}, vocabulary=5)
