"""What the plan says is kept, against what autograd keeps."""

from typing import Any

import pytest
import torch

from regard.families import build_model
from regard.plan.derived import Bill, Work
from regard.plan.inputs import inputs
from regard.plan.planning import make_bill
from regard.plan.subjects import Subject, subject
from regard.plan.traced import keeping, kept_bytes

CLOSE = 0.05
BLOCK = ("model.size=32", "model.hidden_size=48", "model.heads=2")
WORDS = "model.vocabulary=50"
PLANNED = {
    "relu, post-norm": subject("transformer:tiny", (*BLOCK, WORDS)),
    "silu, pre-norm": subject("transformer:opus", (*BLOCK, WORDS, "model.pre_norm=true")),
    "no dropout": subject("transformer:tiny", (*BLOCK, WORDS, "model.dropout=0")),
    "gpt2": subject("gpt2:tiny", (*BLOCK, WORDS)),
    "bert": subject("bert:tiny", (*BLOCK, WORDS)),
    "bert-tagger": subject("bert-tagger:tiny", (*BLOCK, WORDS)),
    "vit": subject("vit:grey28", BLOCK),
}


def with_head(bill: Bill, width: int) -> float:
    """A model that says all logits keeps its last states, which the planned loss does not."""
    head = 0.0 if bill.head is None else bill.head.vectors * bill.head.size
    return bill.cost.kept_bytes(width) + width * head


@pytest.mark.parametrize("planned", PLANNED.values(), ids=PLANNED)
def test_what_is_kept_is_what_autograd_keeps(planned: Subject) -> None:
    work = Work(6, 20, 15)
    kept = sum(kept_bytes(planned.family, planned.config, work, 6))
    assert with_head(make_bill(planned, work), 4) == pytest.approx(kept, rel=CLOSE)


def test_mixed_precision_keeps_two_bytes_of_what_products_read() -> None:
    planned, work = PLANNED["gpt2"], Work(6, 40, 0)
    model: Any = build_model("gpt2", planned.config).train()
    with keeping(model) as kept, torch.autocast("cpu", torch.bfloat16):
        states, _ = model.read(*inputs(model, planned.config, work, 6))
    assert states.requires_grad
    copies = {
        2 * parameter.numel() for parameter in model.parameters() if parameter.dim() == 2
    }  # of weights, which are not activations
    activations = sum(size for size in (storage.nbytes() for storage in kept.values()) if size not in copies)
    assert make_bill(planned, work).cost.kept_bytes(2) == pytest.approx(activations, rel=CLOSE)


@pytest.mark.parametrize("name", ["lstmn:tiny", "han:tiny"])
def test_one_row_and_two_foretell_what_five_keep(name: str) -> None:
    planned, work = subject(name, (WORDS,)), Work(5, 6, 0)
    kept = sum(kept_bytes(planned.family, planned.config, work, 5))
    assert make_bill(planned, work).cost.kept_bytes(4) == pytest.approx(kept, rel=CLOSE)
