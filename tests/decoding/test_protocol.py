"""What the searches share: the probabilities of the tokens that may come next."""

import pytest
import torch

from regard.decoding.protocol import log_probabilities

LOGITS = torch.tensor([[1.0, 2.0, 0.5, -1.0], [0.0, 0.0, 3.0, 1.0]])


@pytest.mark.parametrize("renormalize", [False, True])
def test_a_token_that_never_comes_has_no_probability(renormalize: bool) -> None:
    log_p = log_probabilities(LOGITS, torch.tensor([0, 3]), renormalize)
    assert (log_p[:, [0, 3]] == -torch.inf).all()
    assert torch.isfinite(log_p[:, [1, 2]]).all()


def test_what_never_comes_keeps_its_share_or_leaves_it_to_the_others() -> None:
    never = torch.tensor([0])
    kept, left = (log_probabilities(LOGITS, never, renormalize).exp() for renormalize in (False, True))
    torch.testing.assert_close(kept[:, 1:], LOGITS.softmax(-1)[:, 1:])
    torch.testing.assert_close(left[:, 1:], LOGITS[:, 1:].softmax(-1))


def test_the_logits_stay_as_they_were() -> None:
    before = LOGITS.clone()
    log_probabilities(LOGITS, torch.tensor([1]), True)
    assert torch.equal(LOGITS, before)
