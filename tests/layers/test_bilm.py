"""The reader inside ELMo: who knows of whom, and what is carried."""

import pytest
import torch
from torch import Tensor

from regard.data.characters import Characters
from regard.errors import UsageError
from regard.layers.bilm import BidirectionalReader, ReaderSizes
from regard.layers.projected_lstm import Rows

SENTENCES = [["the", "red", "car"], ["attention"], ["so", "it", "goes", "on"]]


def reader(**changes: object) -> BidirectionalReader:
    torch.manual_seed(0)
    sizes: dict[str, object] = dict(size=4, cell_size=6, char_size=3, filters=(3, 4), max_chars=12, highways=1)
    return BidirectionalReader(ReaderSizes(**{**sizes, **changes})).double().eval()  # type: ignore[arg-type]


def spelt(sentences: list[list[str]]) -> Tensor:
    return torch.from_numpy(Characters(12).batch(sentences))


def test_the_lowest_layer_is_the_word_itself_twice() -> None:
    model, chars = reader(), spelt(SENTENCES)
    layers, _ = model(chars)
    words = model.words(chars[0])
    torch.testing.assert_close(layers[0, 0, :5], torch.cat([words, words], dim=-1)[:5])
    assert not layers[0, 1, 3:].any()


def test_each_direction_knows_only_its_own_side() -> None:
    model = reader()
    layers, _ = model(spelt([["the", "red", "car"]]))
    changed, _ = model(spelt([["the", "blue", "car"]]))  # word 2, between its marks
    equal = torch.isclose(layers, changed)  # in other company, products may be rounded otherwise
    same, ahead, back = equal.all(-1), equal[..., :4].all(-1), equal[..., 4:].all(-1)
    assert ahead[1:, 0].tolist() == [[True, True, False, False, False]] * 2
    assert back[1:, 0].tolist() == [[False, False, False, True, True]] * 2
    assert same[0, 0].tolist() == [True, True, False, True, True]


def test_from_the_second_layer_on_layers_add_to_what_they_read() -> None:
    plain, adding = reader(residual=False), reader(residual=True)
    chars = spelt(SENTENCES)
    without, with_it = plain(chars)[0], adding(chars)[0]
    torch.testing.assert_close(with_it[1], without[1])
    torch.testing.assert_close(with_it[2], without[2] + without[1])


def test_the_layers_of_a_direction_never_see_the_other() -> None:
    model, chars = reader(), spelt(SENTENCES)
    before = model(chars)[0]
    with torch.no_grad():
        for layer in model.layers:
            layer.weight[1] += 1.0
    after = model(chars)[0]
    assert torch.equal(after[..., :4], before[..., :4])
    assert not torch.equal(after[2, ..., 4:], before[2, ..., 4:])


def test_rows_of_later_batches_go_on_with_their_own_state() -> None:
    model = reader()
    _, carried = model(spelt(SENTENCES))
    together, _ = model(spelt([["a"], ["b", "c"], ["d"]]), carried)
    _, alone_carried = model(spelt(SENTENCES[1:2]))
    alone, _ = model(spelt([["b", "c"]]), alone_carried)
    torch.testing.assert_close(together[:, 1:2], alone)
    fresh, _ = model(spelt([["b", "c"]]))
    assert not torch.allclose(fresh[1:], alone[1:])


def test_rows_know_where_words_are() -> None:
    mask = torch.tensor([[True, False, True], [False, True, True]])
    rows = Rows(mask)
    batch = torch.randn(2, 3, 2)
    torch.testing.assert_close(rows.in_place(rows.real_ones(batch)), batch * mask.unsqueeze(-1))


@pytest.mark.parametrize("changes", [dict(size=0), dict(cell_size=0), dict(layers=-1), dict(highways=-1)])
def test_sizes_that_cannot_be_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=f"model.{next(iter(changes))}"):
        reader(**changes)


def test_words_must_be_longer_than_the_widest_filter() -> None:
    with pytest.raises(UsageError, match="max_chars"):
        reader(filters=(1, 1, 1, 1, 1), max_chars=4)
