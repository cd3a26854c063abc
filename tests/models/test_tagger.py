"""The tagger: what it reads, and what becomes of the ELMo inside it."""

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data.characters import Characters
from regard.errors import UsageError
from regard.models.tagger import PRESETS, Config, WordTagger

ELMO: dict[str, Any] = dict(
    size=4, cell_size=6, layers=2, char_size=3, filters=[3, 4], max_chars=12, highways=1, dropout=0.5
)
SENTENCES = [["the", "red", "car"], ["attention"]]


def model(**changes: Any) -> WordTagger:
    torch.manual_seed(0)
    sizes: dict[str, Any] = dict(vocabulary=9, tags=3, embedding_size=5, filters=(3, 4), max_chars=12)
    sizes |= dict(spelling_size=4, size=6, cell_size=8, dropout=0.0)
    return WordTagger(Config(**{**sizes, **changes}))


def inputs() -> tuple[Tensor, Tensor]:
    return torch.tensor([[1, 4, 5, 6, 2], [1, 7, 2, -1, -1]]), torch.from_numpy(Characters(12).batch(SENTENCES))


def test_a_word_counts_by_its_number_and_by_its_spelling() -> None:
    tagger = model()
    words, chars = inputs()
    said = tagger(words, chars)
    other_words, other_chars = words.clone(), chars.clone()
    other_words[0, 1] = 8
    other_chars[0, 1, 1] = 7
    assert not torch.allclose(tagger(other_words, chars)[0], said[0])
    assert not torch.allclose(tagger(words, other_chars)[0], said[0])


def test_every_tag_depends_on_the_whole_sentence() -> None:
    tagger = model()
    words, chars = inputs()
    said = tagger(words, chars)
    words[0, 2] = 8
    assert (tagger(words, chars)[0] != said[0]).any(-1).all()


def test_a_frozen_elmo_neither_learns_nor_drops() -> None:
    tagger = model(elmo=ELMO).train()
    words, chars = inputs()
    assert torch.equal(tagger.contextual(chars), tagger.contextual(chars))
    tagger(words, chars).square().sum().backward()
    assert tagger.elmo is not None
    assert all(parameter.grad is None for parameter in tagger.elmo.parameters())
    assert tagger.mix is not None
    assert tagger.mix.weights.grad is not None
    assert tagger.mix.weights.grad.any()


def test_a_tuned_elmo_learns_and_drops() -> None:
    tagger = model(elmo=ELMO, tune=True).train()
    words, chars = inputs()
    assert not torch.equal(tagger.contextual(chars), tagger.contextual(chars))
    tagger(words, chars).square().sum().backward()
    assert tagger.elmo is not None
    assert all(parameter.grad is not None for parameter in tagger.elmo.parameters())


def test_one_layer_is_taken_as_it_is() -> None:
    mixed = model(elmo=ELMO).eval()
    _, chars = inputs()
    assert mixed.elmo is not None
    layers, _ = mixed.elmo(chars)
    for number in range(3):
        tagger = model(elmo=ELMO, elmo_layer=number).eval()
        assert tagger.elmo is not None
        tagger.elmo.load_state_dict({name: mixed.elmo.state_dict()[name] for name in tagger.elmo.state_dict()})
        torch.testing.assert_close(tagger.contextual(chars), layers[number])
    torch.testing.assert_close(mixed.contextual(chars), layers.mean(0))


def test_a_tagger_without_elmo_has_nothing_contextual() -> None:
    with pytest.raises(UsageError, match="without an ELMo"):
        model().contextual(inputs()[1])


@pytest.mark.parametrize(
    "changes", [dict(elmo_layer=3, elmo=ELMO), dict(elmo_layer=-1, elmo=ELMO), dict(size=0), dict(tags=0)]
)
def test_sizes_that_cannot_be_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"model.{next(iter(changes))}"):
        model(**changes)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_built(name: str) -> None:
    with torch.device("meta"):
        WordTagger(Config(vocabulary=10, tags=3, **PRESETS[name]))  # type: ignore[arg-type]
