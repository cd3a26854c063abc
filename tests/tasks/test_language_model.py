"""Language modelling as the loop sees it: chunks, loss, validation."""

import math
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.data.batching import Place
from regard.data.streams import TokenStream, write_stream
from regard.data.tokenizer import Tokenizer
from regard.errors import UsageError
from regard.models.lstmn import LSTMN, Config
from regard.tasks import language_model
from regard.tasks.language_model import LanguageModelling, TextData, stream_nll
from regard.training.settings import Training

LINES = ["the cat sat on the mat .", "", "the dog sat on the log .", "a cat saw a dog ."] * 3


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train("word", LINES, 60)


@pytest.fixture
def stream(tokenizer: Tokenizer, tmp_path: Path) -> TokenStream:
    return write_stream(LINES, tokenizer, tmp_path / "train")


@pytest.fixture
def model(tokenizer: Tokenizer) -> nn.Module:
    torch.manual_seed(0)
    return LSTMN(Config(vocabulary=len(tokenizer), size=8, embedding_size=8, span=3, pad=tokenizer.pad)).eval()


def task(tokenizer: Tokenizer, stream: TokenStream, **data: int) -> LanguageModelling:
    section = TextData(**{"chunk": 5, "context": 4, **data})
    training = Training(batch_tokens=20, label_smoothing=0.0)
    return LanguageModelling(tokenizer, stream, stream, section, training, torch.device("cpu"))


def test_a_chunk_says_what_follows_what_it_is_told(tokenizer: Tokenizer, stream: TokenStream) -> None:
    known = task(tokenizer, stream)
    everything = stream[0 : len(stream) + 1]
    said = 0
    for planned, after in known.batches(Place()):
        batch = planned.made()
        for row, (first, _) in enumerate(planned.items):
            real = batch.said[row] != tokenizer.pad
            count = int(real.sum())
            assert batch.said[row][real].tolist() == everything[first + 1 : first + 1 + count]
            assert batch.told[row][real].tolist() == everything[first : first + count]
            before = batch.context[row][batch.context[row] != tokenizer.pad].tolist()
            assert before == everything[max(0, first - 4) : first]
        said += known.count(planned)
        if after.epoch:
            break
    assert said == len(stream)


def test_the_loss_of_a_chunk_knows_its_context(tokenizer: Tokenizer, stream: TokenStream, model: nn.Module) -> None:
    known = task(tokenizer, stream)
    planned, _ = next(iter(known.batches(Place())))
    batch = planned.made()
    expected = 0.0
    for row in range(len(batch.said)):
        before = batch.context[row][batch.context[row] != tokenizer.pad]
        real = batch.said[row] != tokenizer.pad
        logits = model(torch.cat([before, batch.told[row][real]])[None])[0, len(before) :]
        expected += F.cross_entropy(logits, batch.said[row][real], reduction="sum")
    loss = known.loss(model, batch)
    torch.testing.assert_close(loss.total.float(), torch.as_tensor(expected))
    torch.testing.assert_close(loss.nll.float(), torch.as_tensor(expected).detach())
    assert loss.count == known.count(planned)
    loss.total.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_without_context_a_chunk_begins_from_nothing(
    tokenizer: Tokenizer, stream: TokenStream, model: nn.Module
) -> None:
    known = task(tokenizer, stream, context=0)
    planned, _ = next(iter(known.batches(Place())))
    batch = planned.made()
    assert batch.context.shape[1] == 0
    assert math.isfinite(known.loss(model, batch).total.item())


def test_a_loss_depends_on_the_weights_and_the_place_alone(
    tokenizer: Tokenizer, stream: TokenStream, model: nn.Module
) -> None:
    """This is why a resumed run is the same run: nothing else is carried from step to step."""
    whole = list(islice(task(tokenizer, stream).batches(Place()), 5))
    losses = [task(tokenizer, stream).loss(model, batch.made()).total.item() for batch, _ in whole]
    resumed, _ = next(iter(task(tokenizer, stream).batches(whole[2][1])))
    assert task(tokenizer, stream).loss(model, resumed.made()).total.item() == losses[3]


def test_one_lane_reads_the_whole_stream_in_one_go(
    tokenizer: Tokenizer, stream: TokenStream, model: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(language_model, "TOKENS_AT_ONCE", 7)
    tokens = torch.tensor(stream[0 : len(stream) + 1])
    expected = F.cross_entropy(model(tokens[None, :-1])[0], tokens[1:], reduction="sum").item()
    assert stream_nll(model, stream, tokenizer.pad) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("lanes", [2, 5, 1000])
def test_each_lane_begins_anew_and_no_token_is_left_out(
    lanes: int, tokenizer: Tokenizer, stream: TokenStream, model: nn.Module
) -> None:
    tokens = stream[0 : len(stream) + 1]
    length = math.ceil(len(stream) / lanes)
    expected = 0.0
    for first in range(0, len(stream), length):
        lane = torch.tensor(tokens[first : first + length + 1])
        expected += F.cross_entropy(model(lane[None, :-1])[0], lane[1:], reduction="sum").item()
    assert stream_nll(model, stream, tokenizer.pad, lanes) == pytest.approx(expected, rel=1e-5)


def test_validation_reports_perplexity_per_token_and_per_word(
    tokenizer: Tokenizer, stream: TokenStream, model: nn.Module
) -> None:
    metrics = task(tokenizer, stream).validate(model)
    assert metrics["perplexity"] == pytest.approx(math.exp(metrics["nll"]))
    # Words and tokens are the same for a word tokenizer that knows all of them.
    assert metrics["word_perplexity"] == pytest.approx(metrics["perplexity"])


@pytest.mark.parametrize(
    ("section", "why"),
    [
        (dict(chunk=0), "data.chunk is 0"),
        (dict(context=-1), "data.context is -1"),
    ],
)
def test_impossible_sections_are_refused(section: dict[str, int], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        TextData(**section)


def test_files_that_are_missing_or_named_twice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no files for the train split"):
        TextData().files("train", None)
    with pytest.raises(UsageError, match="no such file"):
        TextData(train=(str(tmp_path / "a.txt"),)).files("train", None)
    with pytest.raises(UsageError, match="no file there"):
        TextData(train=(str(tmp_path),)).files("train", None)
    with pytest.raises(UsageError, match="names both"):
        TextData(name="wikitext2", train=("a.txt",)).files("train", None)
    with pytest.raises(UsageError, match="no split called"):
        TextData(name="wikitext2").files("dev", None)
