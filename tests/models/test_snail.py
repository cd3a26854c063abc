"""SNAIL over episodes: what it may know, and what must not matter."""

import pytest
import torch
from torch import Tensor

from regard.attention import record
from regard.errors import UsageError
from regard.models.snail import PRESETS, Config, Snail

SMALL = dict(image_size=8, filters=4, layers=2, embedding_size=6, blocks=("att 4 3", "tc 3", "att 5 4"))


def build(**changes: object) -> Snail:
    torch.manual_seed(0)
    return Snail(Config(**{**SMALL, "ways": 3, "shots": 1, **changes})).eval()


def pictures(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, 1, 8, 8, generator=torch.Generator().manual_seed(seed))


def test_the_papers_network_has_the_papers_sizes() -> None:
    with torch.device("meta"):
        model = Snail(Config(ways=5, shots=1, **PRESETS["omniglot"]))
    # 64 + 5 in; Att adds 32, 128 and 256; each TC covers 6 elements with three dense blocks of 128.
    assert model.temporal.output_size == 69 + 32 + 3 * 128 + 128 + 3 * 128 + 256
    assert len(model.temporal.blocks) == 3 + 2 * 3
    assert len([layer for layer in model.embedding if isinstance(layer, torch.nn.Conv2d)]) == 4


def test_queries_share_the_examples_and_know_nothing_of_one_another() -> None:
    model, images, labels, queries = (
        build(),
        pictures(2, 3),
        torch.tensor([[0, 1, 2], [2, 0, 1]]),
        pictures(2, 4, seed=1),
    )
    together = model(images, labels, queries)
    assert together.shape == (2, 4, 3)
    for number in range(4):
        alone = model(images, labels, queries[:, number : number + 1])
        torch.testing.assert_close(together[:, number], alone[:, 0])


def test_the_answer_depends_on_the_labels_of_the_examples() -> None:
    model, images, queries = build(), pictures(1, 3), pictures(1, 1, seed=1)
    said = [model(images, torch.tensor([labels]), queries) for labels in ([0, 1, 2], [1, 0, 2])]
    assert not torch.allclose(*said)


def test_embedding_first_and_answering_later_is_the_same() -> None:
    model, images, labels, queries = (
        build(),
        pictures(2, 3),
        torch.tensor([[0, 1, 2], [2, 0, 1]]),
        pictures(2, 2, seed=1),
    )
    vectors, asked = model.embed(images.flatten(0, 1)), model.embed(queries.flatten(0, 1))
    answer = model.answer(vectors.unflatten(0, (2, 3)), labels, asked.unflatten(0, (2, 2)))
    torch.testing.assert_close(answer, model(images, labels, queries))


def test_padding_does_not_enter_the_statistics_of_the_batch() -> None:
    images, labels, queries = pictures(1, 3), torch.tensor([[0, 1, 2]]), pictures(1, 1, seed=1)
    padded, mask = (
        torch.cat([images, 100 * pictures(1, 2, seed=2)], 1),
        torch.tensor([[True, True, True, False, False]]),
    )
    plain, filled = build().train(), build().train()
    expected = plain(images, labels, queries)
    said = filled(padded, torch.tensor([[0, 1, 2, 0, 0]]), queries, mask)
    torch.testing.assert_close(said, expected)
    torch.testing.assert_close(filled.embedding[1].running_var, plain.embedding[1].running_var)


def test_the_query_may_look_at_every_example_and_at_itself() -> None:
    model = build()
    with record(model, queries=-1) as tape:
        model(pictures(1, 3), torch.tensor([[0, 1, 2]]), pictures(1, 1, seed=1))
    assert list(tape) == ["temporal.blocks.0.attention", "temporal.blocks.3.attention"]
    for weights in tape.values():
        assert weights.shape == (1, 1, 1, 4)
        assert (weights > 0).all()
        torch.testing.assert_close(weights.sum(), torch.tensor(1.0))


def test_the_relu_behind_the_pool_says_what_the_papers_relu_before_it_says() -> None:
    inputs = torch.randn(2, 3, 8, 8)
    before = torch.nn.functional.max_pool2d(inputs.relu(), 2)
    assert torch.equal(torch.nn.functional.max_pool2d(inputs, 2).relu(), before)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (dict(ways=1), "at least 2"),
        (dict(shots=0), "model.shots is 0"),
        (dict(layers=4), "halve a picture of 8 pixels away"),
        (dict(blocks=("lstm 8",)), "write att KEYS VALUES"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        build(**changes)
