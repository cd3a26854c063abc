"""`load(RUN, int8=True)`: near the whole model, the same in any company, for the families that have it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import regard
from export import tiny_runs
from regard.errors import UsageError
from regard.export import export_run
from regard.int8 import is_int8, to_int8
from regard.layers.int8 import Int8Linear
from regard.models import bahdanau

TEXTS = ["the animal is tired", "a man in a hat is looking at two dogs !", "two dogs"]

MAKERS: dict[str, Callable[[Path], Any]] = {
    "transformer": tiny_runs.translator,
    "gpt2": tiny_runs.language_model,
    "gpt2, untied": lambda folder: tiny_runs.language_model(folder, tied=False),
    "bert": lambda folder: tiny_runs.encoder("bert", folder),
    "bert-classifier": lambda folder: tiny_runs.encoder("bert-classifier", folder),
    "vit": tiny_runs.pictures,
}


def logits_of(family: str, loaded: Any) -> list[Tensor]:
    """One row of logits at a time, so that nothing is padding."""
    if family == "vit":
        return [loaded.model(torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)))]
    rows = [torch.tensor([loaded.tokenizer.encode(text)]) for text in TEXTS]
    if family == "transformer":
        return [loaded.model(row, row) for row in rows]
    return [loaded.model(row) for row in rows]


@pytest.mark.parametrize("family", MAKERS)
def test_it_is_near_the_whole_model(family: str, tmp_path: Path) -> None:
    MAKERS[family](tmp_path / "run")
    whole, small = regard.load(tmp_path / "run"), regard.load(tmp_path / "run", int8=True)
    assert any(isinstance(module, Int8Linear) for module in small.model.modules())
    with torch.inference_mode():
        for exact, near in zip(logits_of(family, whole), logits_of(family, small), strict=True):
            assert (exact - near).std() < 0.1 * exact.std()
            assert not torch.equal(exact, near)


def test_texts_go_on_the_same_in_any_company(tmp_path: Path) -> None:
    tiny_runs.language_model(tmp_path / "run")
    model = regard.load(tmp_path / "run", int8=True)
    together = model.generate(TEXTS, max_new_tokens=12)
    for text, answer in zip(TEXTS, together, strict=True):
        assert model.generate([text], max_new_tokens=12)[0].text == answer.text


@pytest.mark.parametrize("beams", [1, 4])
def test_sentences_are_translated_the_same_in_any_company(beams: int, tmp_path: Path) -> None:
    tiny_runs.translator(tmp_path / "run")
    model = regard.load(tmp_path / "run", int8=True)
    together = model.translate(TEXTS, num_beams=beams)
    for text, answer in zip(TEXTS, together, strict=True):
        assert model.translate([text], num_beams=beams)[0].text == answer.text


def test_cached_steps_say_what_one_reading_says(tmp_path: Path) -> None:
    tiny_runs.language_model(tmp_path / "run")
    model = regard.load(tmp_path / "run", int8=True).model
    tokens = torch.randint(0, 200, (2, 20), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        whole, carried = model(tokens), None
        for place in range(20):
            states, carried = model.read(tokens[:, place : place + 1], carried)
            torch.testing.assert_close(model.logits(states)[:, 0], whole[:, place], rtol=1e-3, atol=1e-3)


def test_recurrent_models_have_none() -> None:
    sizes = dict(embedding_size=8, size=8, alignment_size=8, readout_size=8)
    model = bahdanau.Bahdanau(bahdanau.Config(vocabulary=20, **sizes))
    with pytest.raises(UsageError, match="int8 is for models of attention blocks"):
        to_int8(model)


@pytest.mark.parametrize("family", MAKERS)
def test_what_is_saved_in_8_bits_is_opened_in_8_bits_and_says_the_same(family: str, tmp_path: Path) -> None:
    MAKERS[family](tmp_path / "run")
    small = regard.load(tmp_path / "run", int8=True)
    small.save_pretrained(tmp_path / "small")
    again = regard.load(tmp_path / "small")
    assert is_int8(again.model)
    with torch.inference_mode():
        for one, other in zip(logits_of(family, small), logits_of(family, again), strict=True):
            assert torch.equal(one, other)
    tensors = load_file(tmp_path / "small" / "model.safetensors")
    assert any(name.endswith("expand.weight") and known.dtype == torch.int8 for name, known in tensors.items())


def test_a_model_in_8_bits_is_not_exported_further(tmp_path: Path) -> None:
    tiny_runs.translator(tmp_path / "run")
    regard.load(tmp_path / "run", int8=True).save_pretrained(tmp_path / "small")
    with pytest.raises(UsageError, match="is in 8 bits: export the whole model"):
        export_run(tmp_path / "small", "hf", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_inputs_far_larger_than_most_stay_whole_and_are_saved(tmp_path: Path) -> None:
    tiny_runs.encoder("bert", tmp_path / "run")
    whole, loaded = regard.load(tmp_path / "run"), regard.load(tmp_path / "run")
    for model in (whole.model, loaded.model):
        model.encoder.norm.bias.data[3] = 60.0  # what every block adds to: an outlier, as training makes them
    to_int8(loaded.model)
    layers = {name: layer for name, layer in loaded.model.named_modules() if isinstance(layer, Int8Linear)}
    first = next(name for name in layers if name.endswith("layers.0.self_attention.query_key_value"))
    assert layers[first].columns.tolist() == [3]
    assert any(not len(layer.columns) for layer in layers.values())
    vectors, small = whole.embed(TEXTS, normalize=True), loaded.embed(TEXTS, normalize=True)
    assert (vectors * small).sum(1).min() > 0.99
    loaded.save_pretrained(tmp_path / "small")
    assert (regard.load(tmp_path / "small").embed(TEXTS, normalize=True) == small).all()
