"""Bytes of a device: whole copies, shards, and what is alive at once."""

import pytest

from regard.plan.cost import Cost
from regard.plan.derived import Bill, Head
from regard.plan.memory import Memory, memory
from regard.plan.planning import numbers_of
from regard.plan.shards import Numbers, sharded
from regard.plan.simulation import parameter_bytes
from regard.plan.subjects import subject

THOUSAND = Numbers(
    parameters=1000,
    learnt=1000,
    optimizer=2000,
    matrices=900,
    shapes=((10, 100),),
    root=200,
    largest=40,
)
SMALL = ("model.size=16", "model.hidden_size=24", "model.heads=2", "model.vocabulary=50", "model.layers=2")


def held(bill: Bill, **changes: object) -> Memory:
    known: dict[str, object] = {"precision": "fp32", "strategy": "ddp", "devices": 1}
    return memory(THOUSAND, bill, **known | changes)  # type: ignore[arg-type]


def test_with_few_activations_the_gradients_make_the_peak() -> None:
    assert held(Bill(Cost(narrow=10))).peak == 4 * (1000 + 2000 + 1000)


def test_with_many_activations_gradients_come_when_they_go() -> None:
    assert held(Bill(Cost(narrow=5000), working=7)).peak == 4 * (1000 + 2000 + 5000 + 7)


def test_buckets_of_gradients_are_there_all_the_time() -> None:
    assert held(Bill(Cost(narrow=5000)), devices=2).peak == 4 * (1000 + 2000 + 5000 + 1000)


def test_mixed_precision_halves_activations_and_copies_matrices() -> None:
    found = held(Bill(Cost(narrow=5000, wide=10, marks=3)), precision="bf16")
    assert found.activations == 2 * 5000 + 4 * 10 + 3
    assert found.copies == 2 * 900


def test_a_head_pays_for_both_its_sides_when_the_way_back_begins() -> None:
    head = Head(vectors=1, size=10, vocabulary=90)
    assert held(Bill(Cost(narrow=5000), head)).passing == 4 * (2 * 10 + 2 * 900)


def test_when_the_loss_is_made_a_part_of_the_logits_is_there() -> None:
    head = Head(vectors=30, size=10, vocabulary=90, biased=True)
    assert held(Bill(Cost(narrow=5000), head)).passing == 4 * (2 * 300 + 2 * 900 + 30 * 90)


def test_shards_are_rows_rounded_up() -> None:
    assert sharded([(10, 100), (7,)], 4) == 3 * 100 + 2
    found = held(Bill(Cost()), strategy="fsdp", devices=4)
    assert found.parameters == 4 * 300
    assert found.optimizer == 4 * 600
    assert found.copies == 2 * 4 * (200 + 2 * 40)


def test_muon_keeps_one_number_for_each_of_a_hidden_matrix() -> None:
    adam, muon = (numbers_of(subject("gpt2:tiny", (*SMALL, f"training.optimizer={name}"))) for name in ("adam", "muon"))
    assert adam.optimizer == 2 * adam.parameters
    assert adam.optimizer - muon.optimizer == 2 * (3 * 16 * 16 + 16 * 16 + 2 * 16 * 24)


@pytest.mark.parametrize(("name", "ranks"), [("gpt2:tiny", 3), ("bert:tiny", 3), ("gpt2:tiny", 1024)])
def test_torch_shards_fake_tensors_among_fake_ranks_as_planned(name: str, ranks: int) -> None:
    planned = subject(name, (*SMALL, "model.layers=1"))
    assert parameter_bytes(planned.family, planned.config, ranks) == 4 * sharded(numbers_of(planned).shapes, ranks)


def test_the_last_ranks_have_less() -> None:
    planned = subject("gpt2:tiny", SMALL)
    first, last = (parameter_bytes("gpt2", planned.config, 3, rank) for rank in (0, 2))
    assert last < first
