"""What only the LSTMN promises; the contract suite holds it to the rest."""

import torch
from torch import nn
from torch.nn import functional as F

from regard.attention import attentions, record
from regard.models import lstmn, lstmn_classifier
from regard.models.lstmn import LSTMN, PRESETS, Config


def tokens(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(1, 11, (rows, length), generator=torch.Generator().manual_seed(seed))


def test_the_baseline_is_torchs_lstm_and_has_no_attention() -> None:
    model = LSTMN(Config(vocabulary=11, size=8, embedding_size=8, intra_attention=False)).eval()
    assert attentions(model) == []
    (layer,) = model.stack.layers
    assert isinstance(layer.rnn, nn.LSTM)
    x = tokens(2, 5)
    states, _ = layer.rnn(model.embedding(x))
    torch.testing.assert_close(model(x), F.linear(states, model.embedding.weight))


def test_the_embeddings_predict_whatever_the_width() -> None:
    model = LSTMN(Config(vocabulary=11, size=8, embedding_size=5))
    assert model.output_weight is model.embedding.weight
    assert model.read(tokens(1, 3))[0].shape == (1, 3, 5)


def test_no_token_knows_the_future() -> None:
    model = LSTMN(Config(vocabulary=11, size=8, embedding_size=8, layers=2, span=3)).eval()
    x = tokens(1, 8)
    changed = x.clone()
    changed[0, 5:] = (x[0, 5:] + 1).clamp(max=10)
    torch.testing.assert_close(model(x)[:, :5], model(changed)[:, :5], rtol=0, atol=0)
    assert not torch.equal(model(x)[:, 5:], model(changed)[:, 5:])


def test_recorded_weights_are_laid_over_the_tokens_they_belong_to() -> None:
    torch.manual_seed(0)
    model = LSTMN(Config(vocabulary=11, size=8, embedding_size=8, span=3)).eval()
    with record(model) as tape:
        model(tokens(1, 7))
    (weights,) = tape.values()
    placed = model.over_tokens(weights)
    assert placed.shape == (1, 1, 7, 7)
    seen = placed[0, 0] > 0
    for row in range(7):
        assert seen[row].nonzero().flatten().tolist() == list(range(max(0, row - 3), row))
    torch.testing.assert_close(placed[0, 0].sum(1), torch.tensor([0.0] + [1.0] * 6))


def test_a_classifier_reads_the_mean_of_its_states() -> None:
    torch.manual_seed(0)
    model = lstmn_classifier.LSTMNClassifier(
        lstmn_classifier.Config(vocabulary=11, labels=3, size=8, embedding_size=6, span=2)
    ).eval()
    x = tokens(2, 5)
    states, _ = model.stack(model.embedding(x))
    torch.testing.assert_close(model(x), model.label(states.mean(1)))
    nothing = torch.zeros(1, 4, dtype=torch.long)
    torch.testing.assert_close(model(nothing)[0], model.label.bias)


def test_the_presets_are_built() -> None:
    for sizes in PRESETS.values():
        assert LSTMN(Config(vocabulary=11, **sizes)).config.vocabulary == 11
    for sizes in lstmn_classifier.PRESETS.values():
        model = lstmn_classifier.LSTMNClassifier(lstmn_classifier.Config(vocabulary=11, labels=2, **sizes))
        assert model.reads == "tokens"
    assert PRESETS["paper"]["size"] == 300  # as in the authors' code
    assert lstmn.PRESETS is PRESETS


def test_the_attention_learns_to_find_what_was_said_long_ago() -> None:
    """The last token repeats the first, several steps earlier: a lookup that the attention makes easy."""
    torch.manual_seed(0)
    model = LSTMN(Config(vocabulary=5, size=16, embedding_size=16, span=8))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for step in range(40):
        x = tokens(32, 4, seed=step) % 4 + 1
        loss = F.cross_entropy(model(x)[:, -1], x[:, 0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    x = tokens(64, 4, seed=1000) % 4 + 1
    assert (model.eval()(x)[:, -1].argmax(-1) == x[:, 0]).float().mean() > 0.8
