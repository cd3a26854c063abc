"""Words from characters, against the equations spelt out for one word at a time."""

import pytest
import torch
from torch import Tensor

from regard.data import characters
from regard.data.characters import Characters
from regard.errors import UsageError
from regard.layers import char_cnn
from regard.layers.char_cnn import CharCNN

WORDS = ["a", "attention", "über", "a", "incomprehensibilities"]


def network(**changes: object) -> CharCNN:
    torch.manual_seed(0)
    sizes: dict[str, object] = dict(char_size=3, filters=(2, 0, 4), highways=2, output_size=5)
    return CharCNN(**{**sizes, **changes}).double()  # type: ignore[arg-type]


def spelt(words: list[str], width: int = 20) -> Tensor:
    known = Characters(width)
    return torch.tensor([known.word(word).tolist() for word in words])


def spelt_out(net: CharCNN, word: Tensor, activation: str = "relu") -> Tensor:
    embedded = net.embedding.weight[word]
    found = []
    for convolution in net.filters:
        weight, bias = convolution.weight, convolution.bias  # [filters, char, width]
        width = weight.shape[-1]
        windows = [embedded[place : place + width].T for place in range(len(word) - width + 1)]
        found += [max((w * window).sum() for window in windows) + b for w, b in zip(weight, bias, strict=True)]
    y = getattr(torch, activation)(torch.stack(found))
    for highway in net.highways:
        t = torch.sigmoid(highway.gate.weight @ y + highway.gate.bias)
        y = t * torch.relu(highway.transform.weight @ y + highway.transform.bias) + (1 - t) * y
    return net.output.weight @ y + net.output.bias


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_each_word_follows_the_equations(activation: str) -> None:
    net, words = network(activation=activation), spelt(WORDS)
    torch.testing.assert_close(net(words), torch.stack([spelt_out(net, word, activation) for word in words]))


def test_what_fills_a_word_up_counts_even_where_it_is_not_read() -> None:
    net = network()
    short = spelt(["a"], width=50)
    torch.testing.assert_close(net(short), spelt_out(net, short[0])[None])


def test_the_company_of_a_word_changes_nothing() -> None:
    net = network()
    torch.testing.assert_close(net(spelt(WORDS))[:1], net(spelt(WORDS[:1])))


def test_no_words_give_no_vectors() -> None:
    assert network()(torch.zeros(0, 20, dtype=torch.long)).shape == (0, 5)


def test_equal_words_share_their_gradient() -> None:
    net = network()
    net(spelt(["a", "a"])).sum().backward()
    twice = net.embedding.weight.grad.clone()
    net.zero_grad()
    net(spelt(["a"])).sum().backward()
    torch.testing.assert_close(twice, 2 * net.embedding.weight.grad)


def test_data_and_network_agree_on_the_characters() -> None:
    assert characters.FILL == char_cnn.FILL == char_cnn.CHARACTERS - 1


@pytest.mark.parametrize(
    "changes", [dict(activation="gelu"), dict(filters=()), dict(filters=(0, 0)), dict(filters=(-1,))]
)
def test_a_network_that_cannot_be_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=f"model.{next(iter(changes))}"):
        network(**changes)
