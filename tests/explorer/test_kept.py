"""A kept pass gives back exact weights, by row, by tile and by thumbnail, without ever holding the whole matrix."""

import numpy as np
import pytest
import torch

from regard.attention import record
from regard.errors import UsageError
from regard.explorer import kept as module
from regard.explorer.kept import as_bytes, keep, pooled, statistics
from regard.models import gpt2, luong

TOKENS = torch.randint(1, 20, (1, 50), generator=torch.Generator().manual_seed(0))


def language_model() -> gpt2.GPT2:
    torch.manual_seed(0)
    sizes = dict(vocabulary=20, size=8, hidden_size=16, heads=2, layers=2, context=64, pad=0)
    return gpt2.GPT2(gpt2.Config(**sizes)).eval()  # type: ignore[arg-type]


def translator() -> luong.Luong:
    torch.manual_seed(0)
    sizes = dict(vocabulary=20, embedding_size=8, size=8, layers=1)
    return luong.Luong(luong.Config(**sizes)).eval()  # type: ignore[arg-type]


def test_rows_are_those_that_record_shows() -> None:
    model = language_model()
    with keep(model) as kept, record(model) as tape:
        model(TOKENS)
    assert list(kept) == list(tape)
    for name, weights in tape.items():
        assert np.array_equal(kept[name].rows(range(50)), weights[0].numpy())
        assert np.array_equal(kept[name].rows([49, 3], head=1), weights[0, 1:, [49, 3]].numpy())


def test_a_decoder_that_steps_has_one_row_per_step() -> None:
    model = translator()
    source, target = TOKENS[:, :7], TOKENS[:, 7:12]
    with keep(model) as kept, record(model) as tape:
        model(source, target)
    (name,) = tape
    assert kept[name].queries == tape[name].shape[2]
    assert np.array_equal(kept[name].rows(range(kept[name].queries)), tape[name][0].numpy())


def test_tiles_of_every_level_are_the_maxima_of_their_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TILE", 8)
    monkeypatch.setattr(module, "AT_ONCE", 100)  # many small parts
    model = language_model()
    with keep(model) as kept, record(model) as tape:
        model(TOKENS)
    attention, weights = kept["layers.1.self_attention"], tape["layers.1.self_attention"][0, 1].numpy()
    for level, row, column in ((0, 0, 0), (0, 6, 6), (1, 3, 0), (2, 1, 1), (3, 0, 0), (9, 0, 0)):
        side = 8 << level
        own = weights[row * side : (row + 1) * side, column * side : (column + 1) * side]
        cell = 1 << level
        expected = [
            [own[i : i + cell, j : j + cell].max() for j in range(0, own.shape[1], cell)]
            for i in range(0, own.shape[0], cell)
        ]
        assert np.array_equal(attention.tile(1, level, row, column), as_bytes(np.array(expected)))


def test_a_thumbnail_of_a_long_text_reads_some_rows_and_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAMPLED_ROWS", 10)
    model = language_model()
    with keep(model) as kept, record(model) as tape:
        model(TOKENS)
    pictures, numbers, count = kept["layers.0.self_attention"].thumbnails()
    read = tape["layers.0.self_attention"][0, :, ::5].numpy()
    assert count == 10
    assert np.array_equal(pictures, as_bytes(pooled(read, 1, 2)))
    head, rows = read[1], range(0, 50, 5)
    entropy = np.mean([-sum(p * np.log(p) for p in row if p > 0) for row in head])
    distance = np.mean([sum(p * abs(key - query) for key, p in enumerate(head[i])) for i, query in enumerate(rows)])
    assert numbers["entropy"][1] == pytest.approx(entropy, abs=1e-5)
    assert numbers["distance"][1] == pytest.approx(distance, abs=1e-5)
    assert numbers["first"][1] == pytest.approx(head[:, 0].mean(), abs=1e-5)


def test_statistics_know_a_head_that_looks_one_back() -> None:
    back = np.zeros((1, 4, 4), np.float32)
    back[0, [0, 1, 2, 3], [0, 0, 1, 2]] = 1
    assert statistics(back, np.arange(4)) == {"entropy": [0.0], "first": [0.5], "previous": [1.0], "distance": [0.75]}


@pytest.mark.parametrize(("head", "level", "row", "column"), [(2, 0, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (0, -1, 0, 0)])
def test_what_is_not_there_is_refused(head: int, level: int, row: int, column: int) -> None:
    model = language_model()
    with keep(model) as kept:
        model(TOKENS)
    with pytest.raises(UsageError):
        kept["layers.0.self_attention"].tile(head, level, row, column)
    with pytest.raises(UsageError, match="there is no attention called"):
        kept["layers.9.self_attention"]
    with pytest.raises(UsageError, match="batch of one"), keep(model):
        model(TOKENS.repeat(2, 1))
