"""The verbs of a language model."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard import families, load
from regard.data.streams import write_stream
from regard.data.tokenizer import Tokenizer
from regard.decoding.settings import Decoding
from regard.errors import UsageError
from regard.looking import draw
from regard.models.lstmn import LSTMN, Config
from regard.tasks.language_verbs import LanguageModel, own_words
from regard.views import merge_words

LINES = ["the cat sat on the mat .", "the dog sat on the log .", "a cat saw a dog ."]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train("bpe", LINES, 28)


def speaker(tokenizer: Tokenizer, **sizes: object) -> LanguageModel:
    torch.manual_seed(0)
    values = {"size": 8, "embedding_size": 8, "span": 4, "layers": 2, **sizes}
    config = Config(vocabulary=len(tokenizer), pad=tokenizer.pad, **values)
    model = LSTMN(config)
    torch.nn.init.normal_(model.embedding.weight)  # so that it has preferences
    return LanguageModel(
        model, tokenizer, Decoding(num_beams=1), families.config_json("lstmn", config, "language-model")
    )


def greedy(model: LanguageModel, prompt: str, count: int) -> list[int]:
    """One token after the other, each from a pass over the whole text."""
    tokenizer = model.tokenizer
    told, said = [tokenizer.end, *model.encode(prompt)[:-1]], []
    for _ in range(count):
        logits = model.model(torch.tensor([told + said]))[0, -1]
        logits[[tokenizer.pad, tokenizer.start]] = -torch.inf
        said.append(int(logits.argmax()))
        if said[-1] == tokenizer.end:
            return said[:-1]
    return said


PROMPTS = ["", "the cat", "the dog sat on the log . a dog sat", "a\nthe"]


def test_greedy_generation_takes_the_best_token_each_time_whatever_the_company(tokenizer: Tokenizer) -> None:
    model = speaker(tokenizer)
    with torch.no_grad():
        expected = [greedy(model, prompt, 9) for prompt in PROMPTS]
    together = model.generate(PROMPTS, max_new_tokens=9)
    assert [result.tokens for result in together] == expected
    for prompt, tokens in zip(PROMPTS, expected, strict=True):
        (alone,) = model.generate(prompt, max_new_tokens=9)
        assert alone.tokens == tokens
        assert alone.text.startswith(prompt)


def test_samples_follow_their_seed_and_a_beam_is_no_worse_than_greedy(tokenizer: Tokenizer) -> None:
    model = speaker(tokenizer)

    def drawn(seed: int) -> list[int]:
        return model.generate("the", do_sample=True, top_k=20, temperature=1.5, seed=seed, max_new_tokens=12)[0].tokens

    assert drawn(1) == drawn(1)
    assert len({tuple(drawn(seed)) for seed in range(4)}) > 1
    found = model.generate("the", num_beams=4, max_new_tokens=4, length_penalty=0.0)[0]
    assert found.score >= model.generate("the", max_new_tokens=4, length_penalty=0.0)[0].score - 1e-5


@pytest.mark.parametrize("text", ["", "cat", "the cat sat", "the cat\n\nsat on the mat ."])
def test_the_score_of_a_text_is_the_sum_of_its_tokens(text: str, tokenizer: Tokenizer) -> None:
    model = speaker(tokenizer)
    said = torch.tensor(model.encode(text))
    told = torch.cat([torch.tensor([tokenizer.end]), said[:-1]])
    expected = F.cross_entropy(model.model(told[None])[0], said, reduction="sum").item()
    for texts in ([text], [text, "the dog sat on the log . the dog sat on the log .", ""]):
        scored = model.score(texts)[0]
        assert scored.log_probability == pytest.approx(-expected, rel=1e-4)
        assert scored.words == len(text.split()) + text.count("\n") + 1
    assert model.perplexity(text) == pytest.approx(math.exp(expected / scored.words), rel=1e-4)


def test_an_evaluation_reads_a_split_as_one_text(tokenizer: Tokenizer, tmp_path: Path) -> None:
    model = speaker(tokenizer)
    found = model.evaluate(write_stream(LINES, tokenizer, tmp_path / "test"))
    assert found.word_perplexity == pytest.approx(model.perplexity("\n".join(LINES)), rel=1e-4)
    assert found.token_perplexity < found.word_perplexity
    assert set(found.as_dict()) >= {"word_perplexity", "token_perplexity", "words", "tokens", "nll", "unknown"}
    assert f"{found.word_perplexity:.2f} per word" in found.told()


def test_looking_shows_every_layer_and_only_the_span(tokenizer: Tokenizer) -> None:
    model = speaker(tokenizer, span=3)
    text = "the cat sat on the mat ."  # more pieces than the span
    maps = model.look(text)
    count = len(model.encode(text)) - 1
    assert [known.layer for known in maps] == [1, 2]
    for known in maps:
        assert known.keys[0] == "</s>"
        assert known.weights.shape == (1, count, count + 1)
        np.testing.assert_allclose(known.weights.sum(-1), 1.0, rtol=1e-5)
        for row in range(count):
            seen = known.weights[0, row].nonzero()[0].tolist()
            assert seen == list(range(max(0, row - 2), row + 1))
        words = merge_words(known)
        assert words.keys == ("</s>", *text.split())
        assert words.queries == tuple(text.split())


def test_looking_at_one_word_works_and_at_nothing_does_not(tokenizer: Tokenizer) -> None:
    assert merge_words(speaker(tokenizer).look("a")[0]).keys == ("</s>", "a")
    with pytest.raises(UsageError, match="nothing to look at"):
        speaker(tokenizer).look(" ")
    with pytest.raises(UsageError, match="no attention"):
        speaker(tokenizer, intra_attention=False).look("the cat")


@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
def test_pictures_are_drawn(suffix: str, tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / f"map.{suffix}"
    assert draw(speaker(tokenizer), "the cat sat\non the mat", None, None, None, str(path)) == f"wrote {path}"
    assert path.stat().st_size > 1000


def test_the_terminal_shows_words(tokenizer: Tokenizer) -> None:
    assert "intra-attention, layer 2" in draw(speaker(tokenizer), "the cat sat", None, None, None, None)


def test_a_saved_model_is_loaded_again(tokenizer: Tokenizer, tmp_path: Path) -> None:
    model = speaker(tokenizer)
    model.save_pretrained(tmp_path / "saved")
    loaded = load(tmp_path / "saved", device="cpu")
    assert isinstance(loaded, LanguageModel)
    assert loaded.perplexity("the cat") == model.perplexity("the cat")
    assert loaded.generate("the", max_new_tokens=5)[0].text == model.generate("the", max_new_tokens=5)[0].text


@pytest.mark.parametrize(
    ("words", "own"), [([], []), ([-1, 0, 0, 1, -1, -1, 2], [0, 1, 1, 2, 3, 4, 5]), ([0, 0, 1], [0, 0, 1])]
)
def test_every_special_token_is_a_word_of_its_own(words: list[int], own: list[int]) -> None:
    assert own_words(words) == own
