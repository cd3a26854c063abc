"""Texts made by a GPT-2: exact to the last character, stopped, streamed, drawn, and longer than its window."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from regard import families
from regard.cli import app
from regard.data.streams import TokenStream, write_stream
from regard.data.tokenizer import Tokenizer
from regard.decoding.settings import Decoding
from regard.errors import UsageError
from regard.models.gpt2 import GPT2, Config
from regard.tasks.continuation import Listener, cut
from regard.tasks.language_model import stream_nll, text_nll, windows_nll
from regard.tasks.language_verbs import LanguageModel

TEXT = "the cat\n\n  sat on thé mat.\nA dog saw it,\nand sat.\n"
PROMPTS = ["the cat", "", "\n\nsat on the mat."]


def speaker(kind: str, context: int = 8) -> LanguageModel:
    pieces = [TEXT] if kind in ("char", "bytes") else TEXT.split("\n")
    tokenizer = Tokenizer.train(kind, pieces, 300 if kind == "bytes" else 40)
    torch.manual_seed(0)
    config = Config(len(tokenizer), context, 8, 16, 2, 1, pad=tokenizer.pad)
    model = GPT2(config)
    for parameter in model.parameters():  # so that it has preferences
        torch.nn.init.normal_(parameter, std=0.5)
    text = families.config_json("gpt2", config, "language-model")
    return LanguageModel(model, tokenizer, Decoding(num_beams=1, max_new_tokens=12), text)


@pytest.fixture(scope="module", params=["char", "bytes"])
def exact(request: pytest.FixtureRequest) -> LanguageModel:
    return speaker(request.param)


@pytest.mark.parametrize("kind", ["char", "bytes", "bpe"])
@pytest.mark.parametrize(
    "way",
    [dict(), dict(num_beams=3), dict(do_sample=True, seed=3), dict(do_sample=True, num_return_sequences=2)],
    ids=["greedy", "beam", "sample", "samples"],
)
def test_what_is_made_of_a_prompt_does_not_depend_on_its_company(kind: str, way: dict[str, object]) -> None:
    """Prompts of different lengths, texts longer than the window, finished ones that leave."""
    model = speaker(kind)
    together = model.generate(PROMPTS, **way)
    assert any(len(result.tokens) > 8 for result in together)
    for number, (prompt, result) in enumerate(zip(PROMPTS, together, strict=True)):
        (alone,) = model.generate([prompt], first_number=number, **way)
        assert [one.text for one in alone.nbest] == [one.text for one in result.nbest]
        assert result.prompt == prompt


def test_a_prompt_comes_back_to_the_last_blank(exact: LanguageModel) -> None:
    for prompt in ("the  cat ", "\n", " sat\n\n"):
        assert exact.generate(prompt)[0].text.startswith(prompt)


def test_making_a_text_leaves_the_model_as_it_was(exact: LanguageModel) -> None:
    exact.generate("a", max_new_tokens=1)
    assert not any(module.training for module in exact.model.modules())


def test_samples_are_several_and_follow_their_seed(exact: LanguageModel) -> None:
    (first,) = exact.generate("the", do_sample=True, num_return_sequences=5, seed=1)
    (again,) = exact.generate("the", do_sample=True, num_return_sequences=5, seed=1)
    assert [one.text for one in first.nbest] == [one.text for one in again.nbest]
    assert len({one.text for one in first.nbest}) > 1
    assert first.nbest[0] is first


def test_whoever_asks_for_beams_does_not_draw(exact: LanguageModel) -> None:
    drawing = LanguageModel(exact.model, exact.tokenizer, Decoding(num_beams=1, do_sample=True, max_new_tokens=6))
    assert drawing.generate("the", num_beams=1)[0].text == exact.generate("the", max_new_tokens=6)[0].text
    assert len(drawing.generate("the", num_beams=3, num_return_sequences=3)[0].nbest) == 3
    assert drawing.generate("the", seed=1)[0].text != drawing.generate("the", seed=2)[0].text


def test_a_beam_gives_its_best_in_order(exact: LanguageModel) -> None:
    (found,) = exact.generate("the", num_beams=4, num_return_sequences=3)
    scores = [one.score for one in found.nbest]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("way", [dict(), dict(num_beams=3), dict(do_sample=True, seed=5)])
def test_a_stop_string_ends_the_text_and_is_not_in_it(exact: LanguageModel, way: dict[str, object]) -> None:
    whole = exact.generate("the cat", **way)[0].text
    stop = whole[len("the cat") + 4 : len("the cat") + 6]
    (stopped,) = exact.generate("the cat", stop=["never said", stop], **way)
    assert stopped.text == "the cat" + cut(whole[len("the cat") :], [stop])
    if not way.get("num_beams"):
        assert len(stopped.tokens) < 12


def test_the_prompt_may_hold_the_stop_string(exact: LanguageModel) -> None:
    assert exact.generate("the cat", stop=["the"], max_new_tokens=1)[0].text.startswith("the cat")


def test_a_single_string_is_one_stop_string(exact: LanguageModel) -> None:
    """Not a list of its characters, each of which would end the text."""
    whole = exact.generate("the cat")[0].text
    said = whole[len("the cat") :]
    assert exact.generate("the cat", stop=said[2:4])[0].text == "the cat" + cut(said, [said[2:4]])
    never = "\x07" + said[1]
    assert exact.generate("the cat", stop=never)[0].text == whole
    assert exact.generate("the cat", stop=list(never))[0].text != whole
    assert exact.generate("the cat", stop="")[0].text == whole


@pytest.mark.parametrize("kind", ["char", "bytes", "bpe"])
@pytest.mark.parametrize("way", [dict(), dict(num_beams=2), dict(do_sample=True, seed=2), dict(stop=["a", "e t"])])
def test_the_parts_of_a_streamed_text_make_the_text(kind: str, way: dict[str, object]) -> None:
    model, parts = speaker(kind), []
    (result,) = model.generate("the cat", streamed=parts.append, **way)
    assert "".join(parts) == result.text == model.generate("the cat", **way)[0].text
    if not way:
        assert len(parts) > 3


def test_half_a_character_and_the_beginning_of_a_stop_string_wait() -> None:
    told: list[str] = []
    texts = {1: "a", 2: "a\ufffd", 3: "aé", 4: "aé E", 5: "aé EN", 6: "aé ENx", 7: "aé ENx END of"}
    listener = Listener(lambda item, tokens: texts[len(tokens)], ["END"], told.append)
    ended = [listener(0, [0] * count) for count in texts]
    assert told == ["a", "é", " ", "ENx", " "]
    assert ended == [False] * 6 + [True]


def test_wrong_wishes_are_refused(exact: LanguageModel) -> None:
    with pytest.raises(UsageError, match="need as many beams"):
        exact.generate("a", num_return_sequences=2)
    with pytest.raises(UsageError, match="at least 1"):
        exact.generate("a", num_return_sequences=0)
    with pytest.raises(UsageError, match="do_sample needs num_beams=1, but num_beams is 3"):
        exact.generate("a", num_beams=3, do_sample=True)
    with pytest.raises(UsageError, match="max_new_tokens is 0"):
        exact.generate("a", max_new_tokens=0)
    with pytest.raises(UsageError, match="only a single text"):
        exact.generate(["a", "b"], streamed=print)


def stream_of(model: LanguageModel, folder: Path) -> TokenStream:
    return write_stream((TEXT * 2).removesuffix("\n").split("\n"), model.tokenizer, folder / "test")


def test_half_a_window_at_a_time_is_what_reading_on_and_on_gives(exact: LanguageModel, tmp_path: Path) -> None:
    stream = stream_of(exact, tmp_path)
    read = stream_nll(exact.model, stream, exact.tokenizer.pad)
    assert text_nll(exact.model, stream, exact.tokenizer.pad) == pytest.approx(read, rel=1e-5)
    assert exact.evaluate(stream).nll == pytest.approx(read, rel=1e-5)


@pytest.mark.parametrize("stride", [1, 3, 8])
def test_windows_ask_for_every_token_once_and_tell_it_what_they_hold(stride: int, tmp_path: Path) -> None:
    model = speaker("char")
    stream = stream_of(model, tmp_path)
    tokens, expected = torch.tensor(stream[0 : len(stream) + 1]), 0.0
    for place in range(len(stream)):
        first = max(0, -(-(place + 1 - 8) // stride)) * stride
        expected -= model.model(tokens[None, first : place + 1])[0, -1].log_softmax(-1)[tokens[place + 1]].item()
    asked: list[int] = []
    found = windows_nll(model.model, stream, model.tokenizer.pad, 8, stride, asked.append)
    assert found == pytest.approx(expected, rel=1e-5)
    assert sum(asked) == len(stream)


@pytest.mark.parametrize("stride", [0, 9])
def test_an_impossible_stride_is_refused(stride: int, exact: LanguageModel, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"a stride of {stride}"):
        exact.evaluate(stream_of(exact, tmp_path), stride=stride)


def test_the_score_of_an_exact_text_has_no_end_in_it(exact: LanguageModel) -> None:
    text, empty = exact.score(["the cat\nsat", ""])
    tokens = torch.tensor(exact.encode("the cat\nsat"))
    told = torch.cat([torch.tensor([exact.tokenizer.end]), tokens[:-1]])
    expected = exact.model(told[None])[0].log_softmax(-1).gather(1, tokens[:, None]).sum().item()
    assert text.log_probability == pytest.approx(expected, rel=1e-5)
    assert (text.words, text.tokens) == (4, len(tokens))
    assert (empty.log_probability, empty.tokens, empty.perplexity) == (0.0, 0, 1.0)


def test_looking_shows_that_every_token_sees_itself(exact: LanguageModel) -> None:
    for number, known in enumerate(exact.look("the"), 1):
        assert known.name == f"self-attention, layer {number}"
        assert known.visible == tuple(range(2, len(known.keys) + 1))
        assert known.weights.sum(-1) == pytest.approx(1.0, rel=1e-5)
        assert (known.weights[:, range(len(known.queries)), range(1, len(known.keys))] > 0).all()
    with pytest.raises(UsageError, match="sees 7 of them at once"):
        exact.look("the cat sat on the mat. the cat sat on the mat.")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("speaker")
    speaker("char").save_pretrained(folder / "model")
    (folder / "prompts.txt").write_text("the cat\n\nA dog\n", "utf-8")
    return str(folder / "model")


def told(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["generate", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_the_command_line_says_what_python_says(saved: str) -> None:
    model = speaker("char")
    assert told(saved, "the cat") == model.generate("the cat")[0].text + "\n"
    assert told(saved, "the cat", "--beam", "2") == model.generate("the cat", num_beams=2)[0].text + "\n"
    drawn = model.generate("the", do_sample=True, num_return_sequences=3, seed=4)[0].nbest
    lines = [json.loads(line) for line in told(saved, "the", "--samples", "3", "--seed", "4", "--json").splitlines()]
    assert [line["text"] for line in lines] == [one.text for one in drawn]
    assert told(saved, "the", "--samples", "3", "--seed", "4") == "".join(f"{one.text}\n\n" for one in drawn)


def test_a_file_of_prompts_is_gone_on_from_line_by_line(saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are read at once."""
    path = str(Path(saved).parent / "prompts.txt")
    whole = told(saved, "--file", path, "--sample", "--seed", "2", "--json")
    assert [json.loads(line)["prompt"] for line in whole.splitlines()] == ["the cat", "", "A dog"]
    monkeypatch.setattr("regard.cli.generate.PROMPTS_AT_ONCE", 1)
    apart = told(saved, "--file", path, "--sample", "--seed", "2", "--json")
    assert [json.loads(line)["text"] for line in apart.splitlines()] == [
        json.loads(line)["text"] for line in whole.splitlines()
    ]
    with pytest.raises(UsageError, match="leave one of them out"):
        told(saved, "a prompt", "--file", path)
