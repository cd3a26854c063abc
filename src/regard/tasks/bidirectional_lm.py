"""Bidirectional language modelling as it is learnt: sentences, the loss of both directions, their validation.

The model reads characters [batch, words, characters] and offers

    states, carried = model.ends(chars)     [batch, words, 2, size]: forward and backward
    model.output_weight                     [vocabulary, size]: what states are compared with
    layers, carried = model.represent(chars)

Each sentence is read by itself, between its marks: forward every word and the end are predicted, backward every word
and the beginning.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.batching import Place, TokenBatches, in_order_of_length
from regard.data.parts import Divisible
from regard.data.plain_sentences import plain_sentences
from regard.data.spelt import NO_WORD, Speller
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError, UsageError, listed
from regard.layers.cross_entropy import linear_cross_entropy
from regard.tasks.language_model import TextData, safe_exp
from regard.tasks.verbs import TOKENIZER, Verbs
from regard.training.loop import Loss
from regard.training.settings import Training

Finished = Callable[[int], None] | None
WORDS_AT_ONCE = 4096  # padded, when nothing is learnt; changes speed, never results


@dataclass(frozen=True)
class SentenceData:
    """The `data` section: a named text, or text files of one's own, with words between blanks."""

    name: str | None = None  # wikitext2
    train: tuple[str, ...] = ()  # text files, read one after the other; .gz too
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    vocabulary: int = 10_000  # words that can be predicted; any word can be read
    lowercase: bool = False  # of what is predicted; characters are read as they are
    max_words: int = 50  # of a sentence; longer ones are read as several

    def __post_init__(self) -> None:
        if self.max_words < 1:
            raise UsageError(f"data.max_words is {self.max_words} but must be at least 1")

    def sentences(
        self, split: str, folder: str | Path | None, skipped: Counter[str] | None = None
    ) -> Iterator[list[str]]:
        """The sentences of a split, streamed. A file that is not there is an error at once."""
        text = TextData(self.name, self.train, self.valid, self.test)
        text.files(split, folder)
        return plain_sentences(text.lines(split, folder, skipped), self.max_words)

    def read(self, split: str, folder: str | Path | None, skipped: Counter[str] | None = None) -> list[list[str]]:
        """All of them."""
        found = list(self.sentences(split, folder, skipped))
        if not found:
            raise RegardError(f"the text for {split} has no word; check the data section")
        return found


@dataclass(frozen=True)
class Batch(Divisible):
    """What is read, and what must be said at each word in either direction; -1 where nothing is to be said."""

    chars: Tensor  # [sentences, words, characters]
    said: Tensor  # [sentences, words, 2]: the next word, and the one before
    items: tuple[int, ...] = ()


def make_batch(
    sentences: Sequence[Sequence[str]], speller: Speller, device: torch.device, items: Sequence[int] = ()
) -> Batch:
    spelt = speller.batch(sentences)
    numbers = torch.from_numpy(spelt.numbers)
    said = torch.stack([F.pad(numbers[:, 1:], (0, 1), value=NO_WORD), F.pad(numbers[:, :-1], (1, 0))], dim=-1)
    said[:, 0, 1] = NO_WORD
    said[numbers == NO_WORD] = NO_WORD
    return Batch(torch.from_numpy(spelt.chars).to(device), said.to(device), tuple(items))


class BidirectionalLanguageModelling:
    """The task the training loop sees (regard.training.loop.Task)."""

    def __init__(
        self,
        speller: Speller,
        train: Sequence[Sequence[str]],
        valid: Sequence[Sequence[str]],
        training: Training,
        device: torch.device,
    ):
        self.speller, self.train, self.valid = speller, train, valid
        self.training, self.device = training, device

    def batches(self, place: Place) -> Iterator[tuple[Batch, Place]]:
        lengths = np.array([len(words) + 2 for words in self.train])
        for items, after in TokenBatches(lengths, self.training.batch_tokens, self.training.seed).follow(place):
            sentences = [self.train[item] for item in items.tolist()]
            yield make_batch(sentences, self.speller, self.device, items.tolist()), after

    def count(self, batch: Batch) -> int:
        return int((batch.said != NO_WORD).sum())

    def loss(self, model: Any, batch: Batch) -> Loss:
        states, _ = model.ends(batch.chars)
        real = batch.said != NO_WORD
        smoothing = self.training.label_smoothing
        total, nll = linear_cross_entropy(states[real], model.output_weight, batch.said[real], smoothing)
        return Loss(total, nll.sum(), len(nll))

    def validate(self, model: nn.Module) -> dict[str, float]:
        return evaluate(model, self.speller, self.valid).metrics()

    def lines(self, batch: Batch) -> str:
        return f"the training sentences {listed([item + 1 for item in batch.items], 8)}"


@dataclass(frozen=True)
class BidirectionalEvaluation:
    """Everything `regard evaluate` reports of a bidirectional language model."""

    forward_nll: float  # nats, of all sentences
    backward_nll: float
    words: int  # predicted in each direction, a mark for every sentence among them
    sentences: int
    unknown: int  # words outside the vocabulary; each makes the text look more probable than it is

    def metrics(self) -> dict[str, float]:
        return {
            "nll": (self.forward_nll + self.backward_nll) / (2 * self.words),
            "perplexity": safe_exp((self.forward_nll + self.backward_nll) / (2 * self.words)),
            "forward_perplexity": safe_exp(self.forward_nll / self.words),
            "backward_perplexity": safe_exp(self.backward_nll / self.words),
        }

    def as_dict(self) -> dict[str, Any]:
        return {**self.metrics(), "words": self.words, "sentences": self.sentences, "unknown": self.unknown}

    def told(self) -> str:
        found = self.metrics()
        return (
            f"perplexity {found['perplexity']:.2f} per word: forward {found['forward_perplexity']:.2f}, "
            f"backward {found['backward_perplexity']:.2f}\n"
            f"{self.sentences:,} sentences, each by itself; {self.words:,} words with a mark for each sentence, "
            f"{self.unknown:,} of them unknown"
        )


@torch.no_grad()
def evaluate(
    model: Any, speller: Speller, sentences: Sequence[Sequence[str]], finished: Finished = None
) -> BidirectionalEvaluation:
    """Both directions over sentences, each by itself."""
    device = next(model.parameters()).device
    totals, words, unknown = np.zeros(2), 0, 0
    for items in in_order_of_length([len(known) + 2 for known in sentences], WORDS_AT_ONCE):
        batch = make_batch([sentences[item] for item in items], speller, device)
        states, _ = model.ends(batch.chars)
        for way in (0, 1):
            real = batch.said[..., way] != NO_WORD
            said = batch.said[..., way][real]
            _, nll = linear_cross_entropy(states[:, :, way][real], model.output_weight, said)
            totals[way] += float(nll.double().sum()) if nll.device.type != "mps" else float(nll.sum())
        words += len(said)
        unknown += int((said == speller.tokenizer.unknown).sum())
        if finished is not None:
            finished(len(items))
    return BidirectionalEvaluation(float(totals[0]), float(totals[1]), words, len(sentences), unknown)


class BidirectionalLM(Verbs):
    """`embed` the words of sentences; `regard.load` makes one."""

    def __init__(self, model: nn.Module, tokenizer: Tokenizer, config_json: str = "{}"):
        super().__init__(model, config_json)
        self.tokenizer, self.speller = tokenizer, Speller(tokenizer, self.model.config.max_chars)

    def embed(self, sentences: Sequence[str | Sequence[str]]) -> list[NDArray[np.float32]]:
        """For each sentence [1 + layers, words, 2 size]: every layer of every word, the words by themselves first.

        A sentence is a list of words, or a text with blanks between them. Each is read by itself.
        """
        known = [words.split() if isinstance(words, str) else list(words) for words in sentences]
        found: list[NDArray[np.float32]] = [np.zeros(0, dtype=np.float32)] * len(known)
        for items in in_order_of_length([len(words) + 2 for words in known], WORDS_AT_ONCE):
            chars = torch.from_numpy(self.speller.characters.batch([known[item] for item in items])).to(self.device)
            with torch.inference_mode():
                layers = self.model.represent(chars)[0].float().cpu().numpy()
            for row, item in enumerate(items):
                found[item] = layers[:, row, 1 : 1 + len(known[item])]
        return found

    def evaluate(self, sentences: Sequence[Sequence[str]], finished: Finished = None) -> BidirectionalEvaluation:
        return evaluate(self.model, self.speller, sentences, finished)

    def files(self) -> dict[str, str]:
        return super().files() | {TOKENIZER: self.tokenizer.to_json()}
