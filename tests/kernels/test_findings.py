"""Calls that version 0.1.0 answered with foreign memory, a wrong result, a damaged heap or the end of the process."""

from collections.abc import Iterator

import pytest
import torch
from jaxtyping import config as shape_checks
from torch import Tensor, nn

import regard
from regard.errors import RegardError
from regard.layers.blocks import BlockSizes, EncoderBlock
from regard.layers.packed import packed


@pytest.fixture(autouse=True)
def as_users_run_it() -> Iterator[None]:
    """Without the checks of shapes that only the tests have."""
    torch.manual_seed(0)
    shape_checks.update("jaxtyping_disable", True)
    yield
    shape_checks.update("jaxtyping_disable", False)


def attend(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    with torch.inference_mode():
        return regard.attend(query, keys, values).context


@pytest.mark.parametrize("queries", [1, 40])
def test_keys_of_another_width_than_queries_are_refused(queries: int) -> None:
    with pytest.raises(RuntimeError):
        attend(torch.randn(1, 2, queries, 64), torch.randn(1, 2, 40, 32), torch.randn(1, 2, 40, 64))


@pytest.mark.parametrize("queries", [1, 40])
@pytest.mark.parametrize(("keys", "values"), [(5, 5000), (5000, 5)])
def test_keys_that_are_not_as_many_as_values_are_refused(queries: int, keys: int, values: int) -> None:
    with pytest.raises(RegardError, match=f"{keys} keys have {values} values"):
        attend(torch.randn(1, 2, queries, 64), torch.randn(1, 2, keys, 64), torch.randn(1, 2, values, 64))


@pytest.mark.parametrize("queries", [1, 40])
def test_keys_on_another_device_are_refused(queries: int) -> None:
    with pytest.raises(RuntimeError):
        attend(torch.randn(1, 2, queries, 64), torch.randn(1, 2, 40, 64, device="meta"), torch.randn(1, 2, 40, 64))


@pytest.mark.parametrize("queries", [1, 40])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int32])
def test_keys_of_another_dtype_are_refused(queries: int, dtype: torch.dtype) -> None:
    with pytest.raises(RuntimeError):
        attend(torch.randn(1, 2, queries, 64), torch.ones(1, 2, 40, 64, dtype=dtype), torch.randn(1, 2, 40, 64))


@pytest.mark.parametrize("rows", [1, 4, 40, 200])
@pytest.mark.parametrize("width", [256, 1024])
def test_a_prepacked_layer_refuses_inputs_of_another_width(rows: int, width: int) -> None:
    layer = nn.Linear(512, 512)
    with torch.inference_mode(), packed(layer), pytest.raises(RuntimeError):
        layer(torch.randn(rows, width))


def test_a_post_norm_block_under_autocast_gives_torchs_result(monkeypatch: pytest.MonkeyPatch) -> None:
    block = EncoderBlock(BlockSizes(64, 128, 4, 0.0, pre_norm=False)).eval()
    states = torch.randn(2, 9, 64)
    with torch.inference_mode():
        exact = block(states, None)
        with torch.autocast("cpu", torch.bfloat16):
            found = block(states, None)
    assert (found.float() - exact).abs().max() < 0.05  # the precision of bfloat16
