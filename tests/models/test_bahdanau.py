"""Bahdanau's translator, against a loop that spells out the paper's equations."""

import pytest
import torch
from torch import Tensor

from equations import cell_step, read, shaken, softmax, weighted_sum
from regard.attention import record
from regard.errors import UsageError
from regard.models.bahdanau import PRESETS, Bahdanau, Config

SIZES = dict(vocabulary=9, embedding_size=4, size=3, alignment_size=6, readout_size=5)
SOURCES = [[3, 1, 4, 1, 5], [8], [2, 6, 7]]
TARGETS = [[5, 2], [1, 7, 3, 3], [4]]


def network(**changes: object) -> Bahdanau:
    torch.manual_seed(0)
    model = Bahdanau(Config(**{**SIZES, **changes}))
    shaken(model)
    return model


def table(rows: list[list[int]], side: str) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[0] * (width - len(r)) + r if side == "left" else r + [0] * (width - len(r)) for r in rows])


def spelled_out(model: Bahdanau, source: list[int], target: list[int]) -> tuple[Tensor, Tensor]:
    """Logits [target, vocabulary] and weights [target, source], word by word."""
    embedding, size = model.words.embedding.weight, model.config.size
    annotations, _ = read(model.encoder.rnn, embedding[source])
    s = torch.tanh(model.first_state.weight @ annotations[0, size:] + model.first_state.bias)  # h<-_1
    score = model.attention.score
    w, u, v = score.query.weight, score.key.weight, score.energy.weight[0]
    logits, alphas = [], []
    for word in target:
        y = embedding[word]
        energies = [v @ torch.tanh(w @ s + u @ h) for h in annotations]  # of s_{i-1}
        alpha = softmax(energies)
        c = weighted_sum(alpha, annotations)
        t = model.readout.weight @ torch.cat([s, y, c]) + model.readout.bias  # of s_{i-1} too
        t = torch.stack([torch.maximum(t[2 * k], t[2 * k + 1]) for k in range(model.config.readout_size)])
        logits.append((embedding if model.config.tied else model.words.output.weight) @ t)
        alphas.append(torch.stack(alpha))
        s, _ = cell_step(model.decoder.rnn, "l0", torch.cat([y, c]), (s, s))
    return torch.stack(logits), torch.stack(alphas)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("changes", [dict(), dict(readout_size=4, tied=True), dict(alignment_size=1)], ids=str)
def test_the_network_is_the_papers_equations(changes: dict[str, object], side: str) -> None:
    model, source, target = network(**changes), table(SOURCES, side), table(TARGETS, side)
    with record(model) as tape:
        logits = model(source, target)
    for row in range(len(SOURCES)):
        expected, alphas = spelled_out(model, SOURCES[row], TARGETS[row])
        torch.testing.assert_close(logits[row, target[row] != 0], expected)
        found = tape["attention"][row, 0, : len(alphas)]  # rows in the order of saying
        torch.testing.assert_close(found[:, source[row] != 0], alphas)
        assert not found[:, source[row] == 0].any()


def test_the_first_state_is_that_of_the_reader_who_came_back_to_the_first_word() -> None:
    model = network()
    first = model.start(torch.tensor([[3, 1, 4, 0]])).hidden.top
    states, _ = model.encoder(model.words(torch.tensor([[3, 1, 4]])))
    torch.testing.assert_close(first, torch.tanh(model.first_state(states[:, 0, 3:])))


def test_the_next_word_is_chosen_before_the_state_moves_on() -> None:
    """p(y_i) hears s_{i-1} and y_{i-1}: without the recurrent weights' help, only the step after hears the GRU."""
    model, source, target = network(), table(SOURCES, "right"), torch.tensor([[5, 2, 6]] * 3)
    before = model(source, target)
    with torch.no_grad():
        model.decoder.rnn.bias_ih_l0.add_(1.0)
    after = model(source, target)
    torch.testing.assert_close(after[:, 0], before[:, 0])
    assert not torch.allclose(after[:, 1], before[:, 1], atol=1e-3)


def test_a_fresh_model_looks_at_every_word_alike() -> None:
    torch.manual_seed(0)
    model = Bahdanau(Config(vocabulary=9, embedding_size=16, size=16, alignment_size=16, readout_size=8)).eval()
    for weight in (model.attention.score.query.weight, model.attention.score.key.weight):
        assert 0.0005 < weight.std() < 0.002
    assert model.attention.score.energy.weight.all()  # or W and U would have no gradient
    with record(model) as tape:
        model(torch.tensor([[3, 1, 4, 7]]), torch.tensor([[5, 2]]))
    torch.testing.assert_close(tape["attention"], torch.full((1, 1, 2, 4), 0.25), atol=1e-3, rtol=0)


# Sizes


def gru(inputs: int, size: int) -> int:
    return 3 * size * (inputs + size + 2)


def count(vocabulary: int, preset: str) -> int:
    with torch.device("meta"):
        model = Bahdanau(Config(vocabulary=vocabulary, **PRESETS[preset]))
    return sum(parameter.numel() for parameter in model.parameters())


def by_formula(embedding: int, size: int, alignment: int, readout: int) -> int:
    encoder, first_state = 2 * gru(embedding, size), size * size + size
    score = alignment * (size + 2 * size + 1)  # W, U, v
    decoder = gru(embedding + 2 * size, size)
    maxout = 2 * readout * (size + embedding + 2 * size + 1)
    return encoder + first_state + score + decoder + maxout


def test_the_papers_size_has_the_papers_parameters() -> None:
    words = 30_000 * 620 + 500 * 30_000
    assert count(30_000, "paper") == words + by_formula(620, 1000, 1000, 500)


def test_small_is_small() -> None:
    assert count(5000, "small") == 5000 * 256 + by_formula(256, 256, 256, 256)
    assert set(PRESETS) == {"small", "paper"}


# Refusals


def test_tied_words_need_equal_sizes() -> None:
    with pytest.raises(UsageError, match=r"read as 4 numbers but said from 5: model\.tied") as error:
        network(tied=True)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("dropout", [1.0, -0.1])
def test_an_impossible_dropout_is_refused(dropout: float) -> None:
    with pytest.raises(UsageError, match=rf"dropout must lie in \[0, 1\), not {dropout}"):
        network(dropout=dropout)
