"""A sample of benchmarks/million_masks.py, and proof that it finds what it looks for."""

import pytest
import torch
from torch import Tensor

import million_masks as masks


@pytest.mark.parametrize("kind", masks.SHARES)
def test_no_mask_makes_a_number_that_is_none(kind: str) -> None:
    turns = len(masks.DTYPES) * len(masks.calls(kind))
    if kind == "models":  # a third of them here; each under its own masks in the contract suite
        turns //= 3
    tally = masks.Tally()
    masks.run(kind, turns * 20, 7, tally, rows=20)
    assert tally.failures == []
    assert tally.cases[kind] >= turns * 20
    assert tally.formats["float32"] > 0


def test_masks_of_every_kind_are_drawn() -> None:
    draw = masks.Drawn(torch.Generator().manual_seed(0), torch.float32)
    mask = draw.mask(600, 5)
    counts = mask.sum(-1)
    assert {int(count) for count in counts.unique()} == {0, 1, 2, 3, 4, 5}
    assert (counts == 0).float().mean() > 0.1
    assert (counts == 5).float().mean() > 0.1
    assert (~mask[:, 0] & mask[:, 1] & ~mask[:, 2] & mask[:, 3]).any()  # holes
    assert torch.equal(masks.Drawn(torch.Generator().manual_seed(0), torch.float32).mask(600, 5), mask)


class Careless(torch.nn.Module):
    """A softmax that has not heard of rows without keys."""

    @staticmethod
    def weights(scores: Tensor, allowed: Tensor) -> Tensor:
        return scores.masked_fill(~allowed, -torch.inf).softmax(-1)


def test_a_softmax_that_gives_nan_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "masked_softmax", Careless.weights)
    tally = masks.Tally()
    masks.run("softmax", 200, 0, tally, rows=100)
    assert tally.failures
    assert "weights has" in tally.failures[0]


def test_a_row_without_keys_that_reads_something_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "mean_state", lambda states, mask: states.mean(1))
    tally = masks.Tally()
    masks.run("pooling", 400, 0, tally, rows=100)
    assert any("is not zero where nothing may be attended to" in failure for failure in tally.failures)
