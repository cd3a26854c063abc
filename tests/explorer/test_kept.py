"""A kept pass gives back exact weights, by row, by tile and by thumbnail, without ever holding the whole matrix."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.attention import MultiHeadAttention, record
from regard.attention.dot_product import ExactWeights
from regard.errors import UsageError
from regard.explorer import kept as module
from regard.explorer.kept import as_bytes, by_token, keep, pooled, statistics
from regard.layers.intra_attention import over_tokens
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


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("whole", [1024, 16])  # every level from one reading; levels 0 and 1 band by band
def test_tiles_of_every_level_are_the_maxima_of_their_cells(
    whole: int, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TILE", 8)
    monkeypatch.setattr(module, "WHOLE", whole)
    monkeypatch.setattr(module, "AT_ONCE", 100)  # many small parts
    model = language_model()
    with keep(model) as kept, record(model) as tape:
        model(TOKENS)
    attention, weights = kept["layers.1.self_attention"], tape["layers.1.self_attention"][0, 1].numpy().copy()
    assert attention.finest == {1024: 0, 16: 2}[whole]
    if apart:
        weights[:, 0] = 0
    for level, row, column in ((0, 0, 0), (0, 6, 6), (1, 3, 0), (2, 1, 1), (2, 0, 0), (3, 0, 0), (9, 0, 0)):
        side = 8 << level
        own = weights[row * side : (row + 1) * side, column * side : (column + 1) * side]
        cell = 1 << level
        expected = [
            [own[i : i + cell, j : j + cell].max() for j in range(0, own.shape[1], cell)]
            for i in range(0, own.shape[0], cell)
        ]
        assert np.array_equal(attention.tile(1, level, row, column, apart), as_bytes(np.array(expected)))


@pytest.mark.parametrize(("whole", "read"), [(1024, 50), (16, 50 + 50 + 8)])
def test_no_row_is_computed_twice_for_tiles_and_margins(whole: int, read: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tiles of levels 1 and 2 with the first key in its place and apart, the margins, and a band of level 0."""
    monkeypatch.setattr(module, "TILE", 8)
    monkeypatch.setattr(module, "WHOLE", whole)
    model = language_model()
    with keep(model) as kept:
        model(TOKENS)
    attention, rows = kept["layers.0.self_attention"], []
    exact = attention.rows
    monkeypatch.setattr(attention, "rows", lambda asked, head: rows.extend(asked) or exact(asked, head))
    for apart in (False, True):
        for level, sides in ((2, 2), (1, 4)):
            for row in range(sides):
                for column in range(sides):
                    attention.tile(0, level, row, column, apart)
    assert attention.survey(0).paid == pytest.approx(np.ones(50), abs=1e-5)
    for column in range(7):
        attention.tile(0, 0, 3, column)
    assert len(rows) == read
    assert set(rows) == set(range(50))


def test_what_was_read_is_counted_and_the_oldest_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_READ", 2)
    model = language_model()
    with keep(model) as kept:
        model(TOKENS)
    first, second = kept.values()
    for attention, head in ((first, 0), (first, 1), (second, 0)):
        attention.survey(head)
    surveys = [first.survey(1), second.survey(0)]
    assert kept.reads.bytes == sum(survey.bytes for survey in surveys) > 2 * 50 * 50
    assert surveys[1] is second.survey(0)  # not read again


def test_a_window_is_placed_row_by_row_as_the_model_places_it() -> None:
    recorded = torch.rand(1, 2, 9, 4, generator=torch.Generator().manual_seed(0))
    placed = over_tokens(recorded, span=4)[0]
    rows = torch.tensor([8, 0, 3])
    assert torch.equal(by_token(recorded[0], span=4)(None, rows), placed[:, rows])
    assert torch.equal(by_token(recorded[0], span=4)(torch.tensor([1]), None), placed[1:])


def above_model() -> float:
    """Megabytes at the most, above the model, while a long text is run and everything is asked of it."""
    import resource

    from starlette.testclient import TestClient

    from explorer.test_looking import Looking
    from export.tiny_runs import randomised
    from regard import families
    from regard.data.tokenizer import Tokenizer
    from regard.decoding.settings import Decoding
    from regard.explorer.app import make_app
    from regard.tasks.language_verbs import LanguageModel

    tokenizer = Tokenizer.train("bytes", ["a b"], 258)
    sizes = dict(size=48, hidden_size=64, heads=12, layers=4, context=LENGTH + 8)
    config = gpt2.Config(vocabulary=len(tokenizer), pad=tokenizer.pad, **sizes)  # type: ignore[arg-type]
    told = families.config_json("gpt2", config, "language-model")
    model = LanguageModel(randomised("gpt2", config), tokenizer, Decoding(num_beams=1), told)
    client = TestClient(make_app({"long": model}))
    Looking(client, text="a b").ask("steps", attention="layers.0.self_attention", query=0, head=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    looking = Looking(client, text="a" * LENGTH)
    name, length = (looking.told["attentions"][-1][each] for each in ("name", "queries"))
    assert length >= LENGTH
    for each in looking.told["attentions"]:
        looking.ask("overview", attention=each["name"])
    for level, row in ((0, 3), (1, 1), (4, 0)):
        assert looking.reply("tile", attention=name, head=3, level=level, row=row, column=0).status_code == 200
    assert looking.reply("margins", attention=name, head=3).status_code == 200
    assert looking.reply("row", attention=name, head=3, query=length - 1, count=16).status_code == 200
    looking.ask("steps", attention=name, query=length - 1, head=3)
    looking.ask("next", place=length - 1)
    looking.ask("whatif", off={name: [3]})
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


LENGTH = 2000
ONE_LAYER = 12 * LENGTH**2 * 4 / 2**20  # megabytes of the weights of twelve heads


def test_a_long_text_takes_less_memory_than_the_weights_of_a_single_layer() -> None:
    code = "import sys; sys.path.insert(0, 'tests'); from explorer.test_kept import above_model; print(above_model())"
    run = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(run, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) < ONE_LAYER


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


def test_what_is_kept_has_no_values_in_it() -> None:
    """Queries, keys and values are one tensor where one matrix makes them; the values are let go of."""
    attention = MultiHeadAttention(8, 2)
    with torch.no_grad():
        attended = attention(torch.randn(1, 6, 8), causal=True)
    assert isinstance(attended.weights_of, ExactWeights)
    kept = attended.weights_of.compact()
    assert torch.equal(kept(None, None), attended.weights)
    assert [part.untyped_storage().nbytes() for part in (kept.query, kept.keys)] == [6 * 8 * 4] * 2
    assert attended.weights_of.query.untyped_storage().nbytes() == 3 * 6 * 8 * 4
    assert kept.compact().query is kept.query
