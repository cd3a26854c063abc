"""The logit lens: the last layer is the model itself, the others are models that stop there."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from inspected import a_bahdanau, a_bert, a_gpt2, a_transformer, a_vit, tokens

from regard import inspect
from regard.errors import UsageError
from regard.models.caption_transformer import CaptionTransformer, Config

MODELS: dict[str, Any] = {
    "gpt2": (lambda: a_gpt2(layers=3), (tokens(2, 5),)),
    "transformer, pre-norm": (lambda: a_transformer(pre_norm=True), (tokens(2, 4), tokens(2, 5, seed=1))),
    "transformer, post-norm": (a_transformer, (tokens(2, 4), tokens(2, 5, seed=1))),
    "bert": (a_bert, (tokens(2, 5),)),
}


def layers_of(model: Any) -> Any:
    return next(
        part for part in (getattr(model, "decoder", model), getattr(model, "encoder", model)) if hasattr(part, "layers")
    )


@pytest.mark.parametrize("name", MODELS)
@torch.inference_mode()
def test_each_layer_says_what_a_model_that_stops_there_would(name: str) -> None:
    build, inputs = MODELS[name]
    model = build()
    found = inspect.logit_lens(model, *inputs, top=3, row=1)
    count = len(layers_of(model).layers)
    assert found.tokens.shape == (count + 1, 5, 3)
    for layer in range(1, count + 1):
        shorter = copy.deepcopy(model)
        layers_of(shorter).layers = layers_of(shorter).layers[:layer]
        said = shorter(*inputs)[1].softmax(-1)
        best = said.topk(3)
        assert np.array_equal(found.tokens[layer], best.indices)
        np.testing.assert_allclose(found.probabilities[layer], best.values, rtol=1e-5)
        entropy = [-sum(p * np.log(p) for p in row) for row in said.double().tolist()]
        np.testing.assert_allclose(found.entropy[layer], entropy, rtol=1e-4)
        final = model(*inputs)[1].softmax(-1).double()
        divergence = [
            sum(p * np.log(p / q) for p, q in zip(*rows, strict=True))
            for rows in zip(final.tolist(), said.double().tolist(), strict=True)
        ]
        np.testing.assert_allclose(found.divergence[layer], divergence, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
@torch.inference_mode()
def test_the_last_layer_is_the_model_itself_to_the_last_bit(name: str) -> None:
    build, inputs = MODELS[name]
    model = build()
    found = inspect.logit_lens(model, *(one[:1] for one in inputs), top=11)
    best = model(*(one[:1] for one in inputs))[0].softmax(-1).topk(11)
    assert np.array_equal(found.probabilities[-1], best.values)
    assert np.array_equal(found.tokens[-1], best.indices)
    assert not found.divergence[-1].any()


@torch.inference_mode()
def test_layer_zero_is_the_embedding_read_at_once() -> None:
    model, read = a_gpt2(), tokens(1, 4)
    found = inspect.logit_lens(model, read, top=1)
    embedded = model.embedding(read) + model.positions(torch.arange(4))
    assert np.array_equal(found.tokens[0, :, 0], model.logits(model.norm(embedded))[0].argmax(-1))


def test_places_are_chosen_and_written() -> None:
    model, read = a_gpt2(), tokens(1, 6)
    whole, last = inspect.logit_lens(model, read), inspect.logit_lens(model, read, places=[0, -1])
    assert last.places.tolist() == [0, 5]
    np.testing.assert_allclose(last.probabilities, whole.probabilities[:, [0, 5]], rtol=1e-5)
    assert last.as_dict()["tokens"] == last.tokens.tolist()
    assert inspect.logit_lens(model, read, places=-1).places.tolist() == [5]


@torch.inference_mode()
def test_a_captioner_of_blocks_has_a_lens_too() -> None:
    torch.manual_seed(0)
    model = CaptionTransformer(Config(vocabulary=11, image_size=32, size=8, hidden_size=12, heads=2, layers=2)).eval()
    picture, caption = torch.rand(1, 3, 32, 32), tokens(1, 4)
    found = inspect.logit_lens(model, picture, caption, top=11)
    assert np.array_equal(found.probabilities[-1], model(picture, caption)[0].softmax(-1).topk(11).values)


def test_models_without_words_or_layers_are_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match="VisionTransformer says no words"):
        inspect.logit_lens(a_vit(), torch.ones(1, 1, 6, 6))
    with pytest.raises(UsageError, match="Bahdanau is no stack of layers"):
        inspect.logit_lens(a_bahdanau(), tokens(1, 3), tokens(1, 3))
    with pytest.raises(UsageError, match="longer than the model's window"):
        inspect.logit_lens(a_gpt2(context=4), tokens(1, 6))
    with pytest.raises(UsageError, match="there is no place 7: the model read 5"):
        inspect.logit_lens(a_gpt2(), tokens(1, 5), places=7)
