"""Results show themselves in a notebook: escaped, in a frame of their own, and without a network."""

import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import config as shape_checks

import regard
from browser import assert_drawn, chromium
from fewshot_folders import SIDE, sign
from regard.data.images import Preprocessing
from regard.data.tokenizer import Tokenizer
from regard.decoding.settings import Decoding
from regard.errors import UsageError
from regard.models import attend_tell, bert, encoder_decoder, gpt2, han, ntm, snail, transformer, vit
from regard.tasks.algorithm import AlgorithmData
from regard.tasks.algorithm_runner import AlgorithmRunner
from regard.tasks.captioner import Captioner
from regard.tasks.classifier import Classifier
from regard.tasks.image_classifier import ImageClassifier
from regard.tasks.language_verbs import LanguageModel
from regard.tasks.mask_filler import MaskFiller
from regard.tasks.matcher import Matcher
from regard.tasks.tagger import Tagged
from regard.tasks.token_tagger import TokenTagger
from regard.tasks.translator import Translator
from regard.views.look import Look, Shown, fitting_maps
from regard.views.maps import AttentionMap

ATTACK = "<script>alert(1)</script>"
TEXTS = ["the cat sat on the mat .", "a dog chased the cat .", f'{ATTACK} & "quotes" \''] * 3
PICTURE = np.random.default_rng(0).integers(0, 255, (8, 8, 3), dtype=np.uint8)


@pytest.fixture(autouse=True)
def shapes_go_unchecked() -> Iterator[None]:
    """The shapes are checked in the tests of the models; here the checks would cost far more than the models."""
    before = shape_checks.jaxtyping_disable
    shape_checks.update("jaxtyping_disable", True)
    yield
    shape_checks.update("jaxtyping_disable", before)


class Outside(HTMLParser):
    """The tags of a cell, and the pages in its frames."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.frames: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "iframe":
            self.frames.append(dict(attrs))


def assert_harmless(shown: str) -> None:
    """No text has become a tag, and nothing is fetched, in the cell or in its frame."""
    cell = Outside(shown)
    assert "script" not in cell.tags
    pages = [known["srcdoc"] or "" for known in cell.frames]
    assert all(known["sandbox"] == "allow-scripts" for known in cell.frames)
    for text in (shown, *pages):
        assert ATTACK not in text
        assert re.findall(r"(?:src|href)=[\"']?(?:https?:)?//", text) == []
        assert "@import" not in text
        assert "url(http" not in text


def bert_sizes(tokenizer: Tokenizer) -> dict[str, Any]:
    sizes = dict(size=8, hidden_size=8, heads=2, layers=2, max_length=64, labels=2)
    return dict(vocabulary=len(tokenizer), pad=tokenizer.pad, separator=tokenizer.end, **sizes)


def words(kind: str = "word") -> Tokenizer:
    return Tokenizer.train(kind, TEXTS, 290)


def translator() -> Translator:
    tokenizer = words()
    sizes = dict(size=8, hidden_size=8, heads=2, encoder_layers=1, decoder_layers=1)
    model = transformer.Transformer(transformer.Config(len(tokenizer), **sizes))
    return Translator(model, tokenizer, Decoding(num_beams=1, max_new_tokens=5))


def filler() -> MaskFiller:
    tokenizer = words("bert")
    return MaskFiller(bert.Bert(bert.Config(**bert_sizes(tokenizer))), tokenizer)


def tagger() -> TokenTagger:
    tokenizer = words("bert")
    return TokenTagger(bert.BertTagger(bert.Config(**bert_sizes(tokenizer))), tokenizer, [ATTACK, "NOUN"])


def row_classifier() -> Classifier:
    tokenizer = words("bert")
    return Classifier(bert.BertClassifier(bert.Config(**bert_sizes(tokenizer))), tokenizer, [ATTACK, "good"])


def document_classifier() -> Classifier:
    tokenizer = words()
    model = han.HierarchicalAttention(han.Config(len(tokenizer), 2, embedding_size=4, size=4, context_size=4))
    return Classifier(model, tokenizer, [ATTACK, "good"])


def language_model() -> LanguageModel:
    tokenizer = words("bytes")
    model = gpt2.GPT2(gpt2.Config(len(tokenizer), context=64, size=8, hidden_size=8, heads=2, layers=2))
    return LanguageModel(model, tokenizer, Decoding(num_beams=1, max_new_tokens=3))


def image_classifier() -> ImageClassifier:
    config = vit.Config(2, image_size=8, patch_size=4, channels=3, size=8, hidden_size=8, heads=2, layers=2)
    return ImageClassifier(
        vit.VisionTransformer(config), [ATTACK, "dog"], Preprocessing((8, 8), (0.5,) * 3, (0.5,) * 3)
    )


def matcher() -> Matcher:
    sizes = dict(ways=2, image_size=SIDE, layers=2, filters=4, embedding_size=8, blocks=("att 8 8", "tc 8", "att 8 8"))
    return Matcher(snail.Snail(snail.Config(**sizes)), Preprocessing((SIDE, SIDE), (0.5,), (0.5,)))


def captioner() -> Captioner:
    tokenizer = words()
    sizes = dict(embedding_size=8, size=8, alignment_size=8, backbone="tiny_cnn", image_size=32)
    model = attend_tell.AttendTell(attend_tell.Config(len(tokenizer), **sizes))
    return Captioner(
        model, tokenizer, Decoding(num_beams=1, max_new_tokens=4), Preprocessing((32, 32), (0.5,) * 3, (0.5,) * 3)
    )


def runner() -> AlgorithmRunner:
    model = ntm.NeuralTuringMachine(ntm.Config(4, 3, controller_size=6, cells=6, cell_size=4))
    return AlgorithmRunner(model, AlgorithmData(bits=3, longest=4, test_lengths=(2,)))


RESULTS: dict[str, Callable[[], Any]] = {
    "translation": lambda: translator().translate([TEXTS[2]])[0],
    "fill": lambda: filler().fill([f"the [MASK] {ATTACK}"])[0],
    "tags": lambda: tagger().tag([TEXTS[2]])[0],
    "label of a row": lambda: row_classifier().classify([TEXTS[2]])[0],
    "label of a pair": lambda: row_classifier().classify([(TEXTS[2], ATTACK)])[0],
    "label of a document": lambda: document_classifier().classify([TEXTS[2]])[0],
    "text": lambda: language_model().generate([TEXTS[2]])[0],
    "label of a picture": lambda: image_classifier().classify(PICTURE)[0],
    "match": lambda: matcher().match({ATTACK: [sign(1, 0)], "b": [sign(2, 0)]}, sign(1, 1))[0],
    "caption": lambda: captioner().caption(PICTURE)[0],
}


@pytest.fixture(scope="module", params=list(RESULTS))
def result(request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(0)
    return RESULTS[request.param]()


def test_a_notebook_shows_a_result_with_its_attention(result: Any) -> None:
    assert isinstance(result, Shown)
    shown = result._repr_html_()
    assert len(Outside(shown).frames) == 1
    assert_harmless(shown)
    assert shown.count("alert(1)") > 0 or "caption" in type(result).__name__.lower()  # what was said is shown


@pytest.mark.parametrize("suffix", [".html", ".svg"])
def test_what_is_shown_can_be_saved(result: Any, tmp_path: Path, suffix: str) -> None:
    path = result.look().save(tmp_path / f"seen{suffix}")
    assert path.stat().st_size > 1000
    if suffix == ".html":
        assert ATTACK not in path.read_text("utf-8")


def test_a_look_has_the_weights_that_are_drawn(result: Any) -> None:
    weights = result.look().weights
    assert weights
    for known in weights.values():
        assert np.isfinite(known).all()
        assert (known >= 0).all()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Tagged((ATTACK, "sat"), ("NOUN", "VERB"), (0.5, 0.9)), "VERB"),
        (lambda: Tagged((), (), ()), "<p"),
        (lambda: tagger().tag([""])[0], "<p"),
        (lambda: document_classifier().classify([" "])[0], "without a word"),
        (lambda: image_classifier().classify(["no.png"], unreadable=lambda _: None)[0], "could not be read"),
        (lambda: language_model().generate(["the cat " * 40])[0], "the cat"),  # longer than one look
        (lambda: plain_translator().translate([TEXTS[2]])[0], "→"),
    ],
    ids=["tags alone", "no words", "no words, attending", "empty", "unreadable", "long", "no attention"],
)
def test_what_cannot_be_looked_at_is_told(make: Callable[[], Any], told: str) -> None:
    torch.manual_seed(0)
    shown = make()._repr_html_()
    assert told in shown
    assert Outside(shown).frames == []
    assert_harmless(shown)


def plain_translator() -> Translator:
    tokenizer = words()
    sizes = dict(embedding_size=8, size=8, readout_size=8)
    model = encoder_decoder.EncoderDecoder(encoder_decoder.Config(len(tokenizer), **sizes))
    return Translator(model, tokenizer, Decoding(num_beams=1, max_new_tokens=5))


# ---- regard.look ----


def test_look_at_a_run_by_its_place_or_loaded(tmp_path: Path) -> None:
    torch.manual_seed(0)
    loaded = language_model()
    loaded.config_json = regard_config(loaded)
    loaded.save_pretrained(tmp_path / "saved")
    from_place = regard.look(tmp_path / "saved", "the cat")
    from_loaded = regard.look(regard.load(tmp_path / "saved"), text="the cat")
    assert list(from_place.weights) == ["self-attention, layer 1", "self-attention, layer 2"]
    for name, weights in from_place.weights.items():
        np.testing.assert_array_equal(weights, from_loaded.weights[name])
    assert from_place.tokens[0] == "<|endoftext|>"
    assert from_place.target_tokens == from_place.tokens
    assert "the cat" in from_place._repr_html_()


def regard_config(loaded: LanguageModel) -> str:
    from regard import families

    return families.config_json("gpt2", loaded.model.config, "language-model")


@pytest.mark.parametrize(
    ("make", "given", "names"),
    [
        (translator, "a cat sat", ["encoder self-attention, layer 1", "decoder self-attention, layer 1"]),
        (filler, "the [MASK] sat", ["self-attention, layer 1", "self-attention, layer 2"]),
        (filler, ("the cat", "a dog"), ["self-attention, layer 1", "self-attention, layer 2"]),
        (row_classifier, "the cat", None),
        (document_classifier, "the cat sat . a dog .", ["sentences", "words of sentence 1"]),
        (image_classifier, PICTURE, ["class token", "rollout"]),
        (captioner, PICTURE, ["regions"]),
        (runner, "copy:2", ["read", "write"]),
    ],
    ids=["translator", "filler", "pair", "row", "document", "image", "caption", "memory"],
)
def test_look_draws_what_every_kind_of_run_reads(
    make: Callable[[], Any], given: Any, names: list[str] | None, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    look = regard.look(make(), given)
    assert isinstance(look, Look)
    assert names is None or list(look.weights)[: len(names)] == names
    assert_harmless(look._repr_html_())
    assert look.save(tmp_path / "page.html").read_text("utf-8").startswith("<!doctype html>")
    assert look.save(tmp_path / "map.svg").stat().st_size > 1000


def test_look_shows_a_given_target_and_chosen_heads(tmp_path: Path) -> None:
    look = regard.look(translator(), "a cat sat", target="the dog", heads=[1, 0])
    assert look.target_tokens == ("the", "dog", "</s>")
    assert look.tokens == ("a", "cat", "sat", "</s>")
    assert look.score is None
    assert {weights.shape[0] for weights in look.weights.values()} == {2}
    assert look.by_head
    assert look.save(tmp_path / "heads.png").exists()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (lambda: regard.look(translator(), "  "), "give a text"),
        (lambda: regard.look(translator()), "give a text"),
        (lambda: regard.look("no/such/run", "the cat"), "no such run"),
        (lambda: regard.look(filler(), "the cat", target="a dog"), "a target is for translations and captions"),
        (lambda: regard.look(runner(), "copy:2", heads=[0]), "do not choose any"),
        (lambda: regard.look(document_classifier(), "<br />"), "it has no word"),
        (lambda: regard.look(matcher(), "picture.png"), "a matcher has nothing to look at"),
        (lambda: regard.look(plain_translator(), "a cat"), "no attention"),
        (lambda: regard.look(translator().model, "a cat"), "give a transformers model and its tokenizer"),
        (lambda: regard.look(filler(), "the cat").save("page.pdf"), "a page is called .html"),
    ],
)
def test_a_look_that_cannot_be_taken_is_refused_in_one_line(asked: Callable[[], Any], told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)) as caught:
        asked()
    assert "\n" not in str(caught.value)


def test_a_text_too_long_for_a_cell_is_shown_by_the_means_of_its_heads() -> None:
    weights = np.random.default_rng(0).random((4, 6, 6), dtype=np.float32)
    tokens, numbers = tuple("abcdef"), tuple(range(6))
    maps = tuple(
        AttentionMap(f"layer {layer}", "encoder", layer, weights, tokens, tokens, numbers, numbers) for layer in (1, 2)
    )
    assert fitting_maps(maps, 2 * 4 * 36) is maps
    means = fitting_maps(maps, 2 * 4 * 36 - 1) or ()
    assert [known.name for known in means] == ["layer 1, mean of 4 heads", "layer 2, mean of 4 heads"]
    np.testing.assert_allclose(means[1].weights[0], weights.mean(0), rtol=1e-6)
    assert [known.layer for known in fitting_maps(maps, 36) or ()] == [2]
    assert fitting_maps(maps, 35) is None


def test_a_look_too_large_for_any_cell_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    look = regard.look(filler(), "the cat")
    monkeypatch.setattr("regard.views.look.fitting_maps", lambda maps: None)
    assert "tokens are more than a cell can show" in look._repr_html_()


@pytest.mark.browser
def test_the_page_runs_in_its_frame(tmp_path: Path) -> None:
    """As a notebook holds it: the cell inside another page. The frame is opened by itself to read its marks."""
    torch.manual_seed(0)
    shown = translator().translate([TEXTS[0]])[0]._repr_html_()
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html><meta charset=utf-8><body>{shown}</body>", "utf-8")
    _, console = chromium(tmp_path, notebook.as_uri())
    assert [line for line in console.splitlines() if "CONSOLE" in line] == []
    page = tmp_path / "page.html"
    page.write_text(Outside(shown).frames[0]["srcdoc"] or "", "utf-8")
    assert_drawn(*chromium(tmp_path, page.as_uri()))
