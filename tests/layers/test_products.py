"""Products while a model learns: torch's numbers, there and back, whatever lies in memory how."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import MultiHeadAttention, multihead
from regard.layers import products
from regard.layers.products import Linear, Projection, add_outer, linear, multiply, quicken

needs_onednn = pytest.mark.skipif(not products.has_onednn(), reason="this torch has no such product")


@pytest.fixture(autouse=True)
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """On any processor, and for few rows."""
    monkeypatch.setattr(products, "are_better", products.has_onednn)
    monkeypatch.setattr(products, "LEAST", 1)


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


STATES: dict[str, Callable[[], Tensor]] = {
    "rows": lambda: drawn(37, 48),
    "a batch": lambda: drawn(3, 5, 48),
    "every second": lambda: drawn(3, 10, 48)[:, ::2],
    "half as wide": lambda: drawn(9, 96)[:, 48:],
    "turned": lambda: drawn(48, 9).T,
    "one": lambda: drawn(48),
    "none": lambda: drawn(2, 0, 48),
}
MATRICES: dict[str, Callable[[], Tensor]] = {
    "whole": lambda: drawn(31, 48),
    "some outputs": lambda: drawn(70, 48)[8:39],
    "some inputs": lambda: drawn(31, 96)[:, 48:],
    "turned": lambda: drawn(48, 31).T,
}


@needs_onednn
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("states", STATES.values(), ids=STATES)
def test_outputs_and_gradients_are_those_of_torch(
    states: Callable[[], Tensor], matrix: Callable[[], Tensor], bias: bool
) -> None:
    def found(product: Callable[..., Tensor]) -> list[Tensor]:
        given = [states().requires_grad_(), matrix().requires_grad_()] + [drawn(31).requires_grad_()] * bias
        outputs = product(*given)
        (outputs * drawn(*outputs.shape)).sum().backward()
        return [outputs, *(each.grad for each in given)]  # type: ignore[misc]

    for ours, torchs in zip(found(linear), found(F.linear), strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-4)


@needs_onednn
def test_no_gradient_is_made_that_nobody_wants() -> None:
    weight = drawn(31, 48).requires_grad_()
    linear(drawn(9, 48), weight).sum().backward()
    assert weight.grad is not None
    states = drawn(9, 48).requires_grad_()
    linear(states, drawn(31, 48)).sum().backward()
    torch.testing.assert_close(states.grad, drawn(31, 48).sum(0).expand(9, 48))


@needs_onednn
def test_a_part_of_a_matrix_is_multiplied_as_fast_as_a_copy_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN would take a plain loop for it, thousands of times slower."""
    asked: list[Tensor] = []
    known = torch.ops.mkldnn._linear_pointwise.default

    class Watched:
        @staticmethod
        def default(states: Tensor, weight: Tensor, *others: object) -> Tensor:
            asked.append(weight)
            return known(states, weight, *others)

    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", Watched)
    for matrix in MATRICES.values():
        multiply(drawn(9, 48), matrix())
    assert len(asked) == len(MATRICES)
    assert all(each.is_contiguous() or each.T.is_contiguous() for each in asked)


@pytest.mark.parametrize("outputs", [1, 5])
def test_a_matrix_of_few_outputs_is_left_to_torch(outputs: int) -> None:
    total = add_outer(torch.ones(outputs, 48), drawn(9, outputs), drawn(9, 48))
    torch.testing.assert_close(total, 1 + drawn(9, outputs).T @ drawn(9, 48))


@needs_onednn
def test_a_quick_model_learns_what_a_plain_one_learns() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 8))
    quick = copy.deepcopy(plain)
    quicken(quick)
    assert [type(layer) for layer in quick] == [Linear, nn.Tanh, Linear]
    for model in (plain, quick):
        model(drawn(10, 16)).square().sum().backward()
    for ours, torchs in zip(quick.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, torchs.grad, rtol=1e-4, atol=1e-5)


@needs_onednn
def test_attention_is_quick_in_all_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    attention, query = MultiHeadAttention(32, 4), drawn(2, 3, 32)
    plain = attention(query, attention.remember(drawn(2, 5, 32))).context
    quicken(attention)
    calls: list[int] = []
    monkeypatch.setattr(products, "linear", lambda *given: calls.append(1) or linear(*given))
    assert isinstance(attention.query_key_value, Projection)
    torch.testing.assert_close(attention(query, attention.remember(drawn(2, 5, 32))).context, plain)
    attention(query)
    assert len(calls) == 5  # keys and values, query, output; all three, output


def test_a_quick_model_is_copied_and_saved_like_a_plain_one() -> None:
    plain = nn.Sequential(nn.Linear(4, 3), multihead.Projection(3, 9))
    quick = copy.deepcopy(plain)
    quicken(quick)
    quicken(quick)  # once more changes nothing
    assert repr(quick) == repr(plain)
    assert quick.state_dict().keys() == plain.state_dict().keys()
    assert isinstance(copy.deepcopy(quick)[1], Projection)


def test_layers_of_other_kinds_are_left_alone() -> None:
    class Own(nn.Linear):
        pass

    model = nn.Sequential(Own(4, 3), nn.Bilinear(3, 3, 2))
    quicken(model)
    assert [type(layer) for layer in model] == [Own, nn.Bilinear]


@needs_onednn
@pytest.mark.parametrize("kind", ["double", "bfloat16", "few rows", "no gradient", "autocast", "traced"])
def test_torch_multiplies_what_onednn_should_not(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: object) -> None:
        raise AssertionError("this is torch's")

    monkeypatch.setattr(products._Product, "apply", never)
    states, weight = drawn(9, 48), drawn(31, 48).requires_grad_()
    if kind in ("double", "bfloat16"):
        linear(states.to(getattr(torch, kind)), weight.to(getattr(torch, kind)))
    elif kind == "few rows":
        monkeypatch.setattr(products, "LEAST", 9 * 31 * 48 + 1)
        linear(states, weight)
    elif kind == "no gradient":
        with torch.no_grad():
            linear(states, weight)
    elif kind == "autocast":
        with torch.autocast("cpu", torch.bfloat16):
            assert linear(states, weight).dtype == torch.bfloat16
    else:
        monkeypatch.setattr(torch.jit, "is_tracing", lambda: True)
        linear(states, weight)
