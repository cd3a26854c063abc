"""A sample of benchmarks/fuzz_calls.py, and what it has found."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from regard.attention import dot_product
from regard.errors import RegardError
from regard.kernels import ops
from regard.layers.int8 import Int8Linear

COMMAND = Path(__file__).parent.parent.parent / "benchmarks" / "fuzz_calls.py"
needs_kernels = pytest.mark.skipif(not ops.is_available(), reason="there is no C compiler here, or no GNU OpenMP")


@needs_kernels
def test_wrong_operands_give_torchs_answer_or_an_exception() -> None:
    """In a process of its own: a crash fails this test alone, and shapes are not checked before the kernels do it."""
    command = [sys.executable, str(COMMAND), "--cases", "500", "--no-result"]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "0 failures" in answer.stdout


def test_int8_without_kernels_takes_a_single_row(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, row = Int8Linear.of(torch.randn(6, 5), torch.randn(6)), torch.randn(5)
    monkeypatch.setattr(ops, "library", lambda: None)
    assert torch.equal(layer(row), layer(row[None])[0])


def between_bytes(*shape: int) -> Tensor:
    count = torch.Size(shape).numel()
    return torch.frombuffer(bytearray(4 * count + 1), dtype=torch.float32, offset=1).view(shape)


def without_memory(*shape: int) -> Tensor:
    return torch._efficientzerotensor(shape)


@needs_kernels
@pytest.mark.parametrize("wrong", [between_bytes, without_memory])
def test_no_kernel_computes_with_numbers_that_it_cannot_read(wrong: Callable[..., Tensor]) -> None:
    """Those that begin between two, as `torch.frombuffer` allows, and zeros of which torch keeps the shape alone."""
    with torch.inference_mode():
        assert ops.linear(wrong(2, 8), torch.ones(8, 8), None) is None
        assert ops.linear(torch.ones(2, 8), wrong(8, 8), None) is None
        assert ops.add_norm(wrong(2, 8), torch.ones(2, 8), torch.ones(8), torch.ones(8), 1e-5) is None
        keys = torch.ones(1, 1, 4, 16)
        for queries in (1, 20):
            assert ops.attention(wrong(1, 1, queries, 16), keys, keys, None, False, 1.0) is None
        assert not ops.accumulate_weight_grad(wrong(8, 8), torch.ones(3, 8), torch.ones(3, 8))
        assert not ops.gru_step(wrong(1, 2, 3), *torch.ones(3, 1, 2, 9), torch.ones(1, 2, 3))
        assert ops.fingerprint(wrong(8)) is None
        assert not ops.is_ordinary(wrong(8))
        matrix = ops.Int8Matrix.pack(*int8_operands()) if ops.has_int8() else None
        assert matrix is None or matrix(wrong(2, 8)) is None


def int8_operands() -> list[Tensor | None]:
    columns = torch.zeros(0, dtype=torch.int64)
    return [torch.ones(4, 8, dtype=torch.int8), torch.ones(4), None, columns, torch.zeros(4, 0)]


WRONG_BIASES = """
import torch
from torch import nn
from torch.nn import functional as F
from regard.layers import packed, products

packed.FEWEST, packed.ENOUGH, products.LEAST = 1, 4, 1
torch.manual_seed(0)
states = torch.randn(80, 16)
for bias in (torch.randn(1), torch.randn(()), torch.randn(64)[::2], torch.randn(1).expand(32)):
    layer = nn.Linear(16, 32)
    layer._parameters["bias"] = bias
    weight = layer.weight.detach()
    expected = F.linear(states, weight, bias)
    with torch.inference_mode(), packed.packed(layer):
        torch.testing.assert_close(layer(states), expected)
    torch.testing.assert_close(products.linear(states.clone().requires_grad_(), weight, bias), expected)
    torch.testing.assert_close(products.multiply(states, weight, bias), expected)
"""


def test_a_bias_that_onednn_would_misread_is_added_by_torch() -> None:
    """oneDNN reads as many adjacent numbers as there are outputs. (In a process in which nobody checks shapes.)"""
    answer = subprocess.run([sys.executable, "-c", WRONG_BIASES], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize("inference", [True, False])
def test_keys_and_values_must_be_as_many(inference: bool) -> None:
    """torch's fused kernel reads beyond the values. (The tests check shapes around the function.)"""
    attend = inspect.unwrap(dot_product.attend)
    query, keys, values = torch.randn(1, 2, 9, 16), torch.randn(1, 2, 40, 16), torch.randn(1, 2, 7, 16)
    with torch.inference_mode(inference), pytest.raises(RegardError, match="40 keys have 7 values"):
        attend(query, keys, values)
