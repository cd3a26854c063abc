"""The hierarchical attention network, against loops that spell out Yang et al.'s equations."""

import pytest
import torch
from torch import Tensor

from regard.attention import record
from regard.errors import UsageError
from regard.models import han
from regard.models.han import PRESETS, Config, HierarchicalAttention

SIZES = dict(vocabulary=13, labels=3, embedding_size=6, size=4, context_size=5)


def network(**changes: object) -> HierarchicalAttention:
    torch.manual_seed(0)
    return HierarchicalAttention(Config(**{**SIZES, **changes})).eval()


def table(*documents: list[list[int]]) -> Tensor:
    """Documents of sentences of tokens as one padded table."""
    sentences, words = max(map(len, documents)), max(len(row) for document in documents for row in document)
    padded = torch.zeros(len(documents), sentences, words, dtype=torch.long)
    for i, document in enumerate(documents):
        for j, row in enumerate(document):
            padded[i, j, : len(row)] = torch.tensor(row)
    return padded


def gru(rnn: torch.nn.GRU, inputs: Tensor) -> Tensor:
    """One row [length, size] in both directions."""
    return rnn(inputs[None])[0][0]


def pooled(level: han.Level, states: Tensor) -> tuple[Tensor, Tensor]:
    """Equations 5-7 (or 8-10): u = tanh(W h + b), weights = softmax(u . u_w), the weighted sum of the states."""
    hidden, context = level.pooling.hidden, level.pooling.context
    scores = []
    for state in states:
        u = torch.tanh(hidden.weight @ state + hidden.bias)
        scores.append(torch.exp(u @ context))
    weights = torch.stack([score / sum(scores) for score in scores])
    return sum(weight * state for weight, state in zip(weights, states, strict=True)), weights


DOCUMENTS = [[[1, 2, 3], [4], [5, 6]], [[7, 8, 9, 10]], [[11, 12], [1, 5]]]


def test_the_network_is_the_papers_equations() -> None:
    model = network()
    with record(model) as tape:
        logits = model(table(*DOCUMENTS))
    sentence_row = 0
    for number, document in enumerate(DOCUMENTS):
        vectors = []
        for sentence in document:
            states = gru(model.words.encoder.rnn, model.embedding(torch.tensor(sentence)))
            vector, weights = pooled(model.words, states)
            vectors.append(vector)
            found = tape["words.pooling.attention"][sentence_row, 0, 0]
            torch.testing.assert_close(found[: len(sentence)], weights)
            assert not found[len(sentence) :].any()
            sentence_row += 1
        vector, weights = pooled(model.sentences, gru(model.sentences.encoder.rnn, torch.stack(vectors)))
        torch.testing.assert_close(tape["sentences.pooling.attention"][number, 0, 0, : len(document)], weights)
        torch.testing.assert_close(logits[number], model.output(vector))


@pytest.mark.parametrize("pooling", ["average", "max"])
def test_the_baselines_pool_real_states_only(pooling: str) -> None:
    model = network(pooling=pooling)
    reduce = {"average": lambda states: states.mean(0), "max": lambda states: states.amax(0)}[pooling]
    logits = model(table(*DOCUMENTS))
    for number, document in enumerate(DOCUMENTS):
        embedded = [model.embedding(torch.tensor(sentence)) for sentence in document]
        vectors = torch.stack([reduce(gru(model.words.encoder.rnn, rows)) for rows in embedded])
        torch.testing.assert_close(logits[number], model.output(reduce(gru(model.sentences.encoder.rnn, vectors))))


@pytest.mark.parametrize("pooling", han.POOLINGS)
def test_blank_sentences_between_and_around_change_nothing(pooling: str) -> None:
    model = network(pooling=pooling)
    plain = model(table([[1, 2], [3]]))
    spread = torch.tensor([[[0, 0, 0, 0], [0, 1, 2, 0], [0, 0, 0, 0], [0, 0, 0, 3], [0, 0, 0, 0]]])
    torch.testing.assert_close(model(spread), plain)


@pytest.mark.parametrize("pooling", han.POOLINGS)
def test_a_document_without_a_word_gets_the_logits_of_a_blank_page(pooling: str) -> None:
    model = network(pooling=pooling)
    blank = torch.zeros(1, 2, 3, dtype=torch.long)
    torch.testing.assert_close(model(blank)[0], model.output.bias)
    together = model(torch.cat([blank, table([[1, 2], [3, 4, 5]])]))
    torch.testing.assert_close(together[:1], model(blank))
    torch.testing.assert_close(together[1:], model(table([[1, 2], [3, 4, 5]])))
    loss = model(blank).square().sum()
    loss.backward()
    assert all(torch.isfinite(known.grad).all() for known in model.parameters() if known.grad is not None)


def test_reading_in_parts_changes_nothing_and_is_recorded_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network()
    documents = table(*DOCUMENTS)
    with record(model) as whole:
        logits = model(documents)
    monkeypatch.setattr(han, "WORDS_AT_ONCE", 3 * documents.shape[-1])  # three sentences of six, then three
    longer = table([*DOCUMENTS[0], [1, 1, 1, 1]], *DOCUMENTS[1:])  # seven sentences: the last part is not full
    torch.testing.assert_close(model(documents), logits)
    with record(model) as parts:
        model(longer)
    weights = parts["words.pooling.attention"][:, 0].transpose(0, 1).flatten(0, 1)[:7]
    expected = whole["words.pooling.attention"][:, 0, 0]
    torch.testing.assert_close(weights[[0, 1, 2, 4, 5, 6]], expected)


def test_ten_thousand_sentences_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network()
    with torch.inference_mode():
        logits = model(torch.randint(1, 13, (1, 10_000, 8)))
    assert torch.isfinite(logits).all()


def test_an_unknown_pooling_is_refused() -> None:
    with pytest.raises(UsageError, match="no pooling called 'sum': choose one of attention, average, max"):
        Config(**SIZES, pooling="sum")


def test_the_papers_sizes_are_the_base_preset() -> None:
    model = HierarchicalAttention(Config(vocabulary=100, labels=5, **PRESETS["base"]))
    assert model.embedding.weight.shape == (100, 200)
    assert model.words.output_size == model.sentences.output_size == 100
    assert model.words.pooling.context.shape == (100,)


def test_the_network_learns_which_word_decides() -> None:
    """The label is whether word 1 or word 2 occurs, somewhere among others: attention should find it."""
    torch.manual_seed(0)
    model = HierarchicalAttention(Config(**{**SIZES, "labels": 2}))
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(60):
        documents = torch.randint(3, 13, (16, 3, 4))
        labels = torch.randint(0, 2, (16,))
        places = torch.randint(0, 12, (16,))
        documents.flatten(1)[torch.arange(16), places] = labels + 1
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(documents), labels)
        loss.backward()
        optimizer.step()
    with record(model.eval()) as tape:
        model(torch.tensor([[[5, 6, 7, 8], [9, 1, 4, 10], [11, 12, 3, 6]]]))
    assert loss.item() < 0.1
    assert tape["words.pooling.attention"][1, 0, 0].argmax() == 1
