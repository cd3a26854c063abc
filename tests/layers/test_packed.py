"""Faster products: the same numbers, only inside the block, only where no gradient is wanted."""

import gc
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import regard
from export import tiny_runs
from regard.attention import MultiHeadAttention
from regard.decoding.generate import generate
from regard.decoding.protocol import Vocabulary
from regard.decoding.settings import Decoding
from regard.kernels import ops
from regard.layers import packed as module
from regard.layers.packed import packed, remember_order
from regard.models import gpt2, transformer

needs_kernel = pytest.mark.skipif(not module._available(), reason="this processor or torch has no such product")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENOUGH", 0)


@pytest.fixture
def layer() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(512, 600)


def shapes() -> list[Tensor]:
    states = torch.randn(3, 7, 512, generator=torch.Generator().manual_seed(1))
    return [states, states[:, ::2], states.transpose(0, 1), states[:1, :1], states[0, 0], states[:, :0]]


@needs_kernel
@pytest.mark.parametrize("number", range(6))
def test_products_are_the_same(layer: nn.Linear, number: int) -> None:
    states = shapes()[number]
    with packed(layer), torch.inference_mode():
        assert "forward" in vars(layer)
        torch.testing.assert_close(layer(states), F.linear(states, layer.weight, layer.bias))


@needs_kernel
def test_a_matrix_is_put_in_order_once_enough_rows_have_come(layer: nn.Linear, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENOUGH", 30)
    states = shapes()[0]  # 21 rows
    with packed(layer), torch.inference_mode():
        faster = vars(layer)["forward"]
        for come, ordered in ((states[:1, :1], False), (states, False), (states, True)):
            torch.testing.assert_close(layer(come), F.linear(come, layer.weight, layer.bias))
            assert (faster.ordered is not None) == ordered


@needs_kernel
def test_a_few_rows_need_no_order(layer: nn.Linear, monkeypatch: pytest.MonkeyPatch) -> None:
    if not ops.is_available():
        pytest.skip("no kernels here: torch's product does it")
    monkeypatch.setattr(module, "ENOUGH", 100)
    with packed(layer), torch.inference_mode():
        faster = vars(layer)["forward"]
        most = ops.MAX_ROWS_UNPACKED
        for rows, ordered in ((ops.MAX_ROWS, False), (most, False), (most + 5, True)):
            states = torch.randn(rows, 512)
            for _ in range(1 + (rows == ops.MAX_ROWS) * 20):  # which are not counted
                torch.testing.assert_close(layer(states), F.linear(states, layer.weight, layer.bias))
            assert (faster.ordered is not None) == ordered


def test_the_block_leaves_nothing_behind(layer: nn.Linear) -> None:
    with packed(layer), packed(layer):
        pass
    assert "forward" not in vars(layer)
    with pytest.raises(ZeroDivisionError), packed(layer):
        raise ZeroDivisionError
    assert "forward" not in vars(layer)


def test_a_weight_changed_between_two_blocks_is_seen(layer: nn.Linear) -> None:
    states = shapes()[0]
    for _ in range(2):
        with packed(layer), torch.inference_mode():
            torch.testing.assert_close(layer(states), F.linear(states, layer.weight, layer.bias))
        layer.weight.data.mul_(2)  # which counts no version, as people do who try what a weight is for


@pytest.fixture
def put_in_order(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The weights that were put in order, one after the other."""
    found: list[Tensor] = []
    made = module._Order.of

    def watched(order: module._Order, weight: Tensor) -> Tensor:
        before = order.matrix
        matrix = made(order, weight)
        if matrix is not before:
            found.append(weight)
        return matrix

    monkeypatch.setattr(module._Order, "of", watched)
    return found


@needs_kernel
@pytest.mark.parametrize(("remembers", "times"), [(False, 3), (True, 1)])
def test_a_model_that_is_there_to_be_read_remembers_its_order(
    layer: nn.Linear, put_in_order: list[Tensor], remembers: bool, times: int
) -> None:
    if not ops.is_available():
        pytest.skip("no kernels here, so nobody could look for changes")
    if remembers:
        remember_order(layer)
    states = shapes()[0]
    for _ in range(3):
        with packed(layer), torch.inference_mode():
            torch.testing.assert_close(layer(states), F.linear(states, layer.weight, layer.bias))
            layer(states)
    assert len(put_in_order) == times


def with_another_weight(layer: nn.Linear) -> None:
    layer.weight.data = torch.randn(600, 512) / 20


CHANGES: dict[str, Callable[[nn.Linear], object]] = {
    "one number": lambda layer: layer.weight.data[300, 7].add_(1.0),
    "every sign": lambda layer: layer.weight.data.neg_(),
    "two rows": lambda layer: layer.weight.data[:2].copy_(layer.weight.data[:2].flip(0)),
    "a head": lambda layer: layer.weight.data[:, 64:128].zero_(),
    "another tensor": with_another_weight,
}


@needs_kernel
@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_who_remembers_sees_what_has_changed(layer: nn.Linear, change: Callable[[nn.Linear], object]) -> None:
    remember_order(layer)
    states = shapes()[0]
    for _ in range(2):
        with packed(layer), torch.inference_mode():
            torch.testing.assert_close(layer(states), F.linear(states, layer.weight, layer.bias))
        change(layer)


@needs_kernel
def test_a_loaded_model_remembers_and_sees_what_somebody_tries_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put_in_order: list[Tensor]
) -> None:
    if not ops.is_available():
        pytest.skip("no kernels here, so nobody could look for changes")
    monkeypatch.setattr(module, "FEWEST", 0)
    tiny_runs.encoder("bert", tmp_path / "run")
    loaded = regard.load(tmp_path / "run")
    texts = ["two dogs are looking at a man in a hat"]
    first = loaded.embed(texts)
    times = len(put_in_order)
    assert times > 0
    assert (loaded.embed(texts) == first).all()
    assert len(put_in_order) == times
    layer = put_in_order[-1]
    layer.data[0, 0] += 1.0
    assert (loaded.embed(texts) != first).any()
    assert len(put_in_order) == times + 1


def test_an_order_is_forgotten_with_its_model(layer: nn.Linear) -> None:
    gc.collect()
    held = len(module._REMEMBERED)
    other = nn.Sequential(nn.Linear(512, 600))
    remember_order(other)
    with packed(other), torch.inference_mode():
        other(shapes()[0])
    assert len(module._REMEMBERED) == held + 2
    del other
    gc.collect()
    assert len(module._REMEMBERED) == held


def test_gradients_flow_inside_the_block(layer: nn.Linear) -> None:
    with packed(layer):
        layer(shapes()[0]).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.abs().sum() > 0


def test_other_numbers_and_small_matrices_stay_as_they_are() -> None:
    for other in (nn.Linear(16, 16), nn.Linear(512, 600).double(), nn.Linear(512, 600).bfloat16()):
        with packed(other):
            assert "forward" not in vars(other)


def test_a_model_too_large_to_be_held_twice_is_not(layer: nn.Linear, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 1000)
    with packed(layer):
        assert "forward" not in vars(layer)


@needs_kernel
def test_parts_of_a_projection() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(512, 8)
    states, source = torch.randn(2, 5, 512), torch.randn(2, 9, 512)
    with torch.inference_mode():
        plain = attention(states, attention.remember(source)).context
        with packed(attention):
            faster = attention(states, attention.remember(source)).context
            assert len(vars(attention.query_key_value)["rows"].products) == 2
    torch.testing.assert_close(faster, plain)


@needs_kernel
@pytest.mark.parametrize("beams", [1, 3])
def test_a_search_says_the_same_with_packed_matrices_and_without(beams: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    config = transformer.Config(
        vocabulary=1000, size=256, hidden_size=1024, heads=4, encoder_layers=2, decoder_layers=2
    )
    model = transformer.Transformer(config).eval()
    sources = [torch.randint(3, 1000, (length,)).tolist() for length in (5, 3, 9)]
    words, settings = Vocabulary(1, 2, never=(0, 1)), Decoding(num_beams=beams, max_new_tokens=12)
    faster = generate(model, sources, words, settings, pad=0)
    monkeypatch.setattr(module, "_available", lambda: False)
    plain = generate(model, sources, words, settings, pad=0)
    for one, two in zip(faster, plain, strict=True):
        assert one[0].tokens == two[0].tokens
        assert one[0].score == pytest.approx(two[0].score, abs=1e-4)


@needs_kernel
def test_the_words_of_a_language_model_are_compared_in_one_product() -> None:
    torch.manual_seed(0)
    model = gpt2.GPT2(gpt2.Config(vocabulary=2000, size=256, hidden_size=1024, heads=4, layers=1)).eval()
    tokens = torch.randint(0, 2000, (2, 6))
    with torch.inference_mode():
        plain = model(tokens)
        with packed(model):
            assert "logits" in vars(model)
            torch.testing.assert_close(model(tokens), plain, atol=1e-5, rtol=1e-5)
