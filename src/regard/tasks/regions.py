"""Learning to see from captions: which frequent words do people use of a picture?

The encoder that comes out of it is what captioners look at (task `caption`, `start: RUN`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.augment import Augmentation, augment
from regard.data.batching import Place, TokenBatches
from regard.data.captions import CaptionedImage
from regard.data.images import ImageSet, Picture, Preprocessing
from regard.data.parts import Divisible
from regard.errors import UsageError, listed
from regard.tasks.classify_images import model_files
from regard.training import checkpoints
from regard.training.loop import Loss
from regard.training.settings import Training

AT_ONCE = 128  # pictures at once when nothing is learnt; changes speed, never results


def frequent_words(pictures: Iterable[CaptionedImage], count: int, frequent: int) -> list[str]:
    """The words said of at least `frequent` pictures, the most frequent first, at most `count`."""
    said: Counter[str] = Counter()
    for picture in pictures:
        said.update({word for caption in picture.captions for word in caption.split()})
    words = sorted((word for word in said if said[word] >= frequent), key=lambda word: (-said[word], word))
    if not words:
        raise UsageError(f"no word is said of {frequent} training pictures; lower data.frequent")
    return words[:count]


def word_shares(pictures: Sequence[CaptionedImage], words: Sequence[str]) -> NDArray[np.float32]:
    """[pictures, words]: the share of a picture's captions that use the word."""
    numbers = {word: number for number, word in enumerate(words)}
    shares = np.zeros((len(pictures), len(words)), dtype=np.float32)
    for row, picture in enumerate(pictures):
        for caption in picture.captions:
            known = {numbers[word] for word in caption.split() if word in numbers}
            shares[row, list(known)] += 1 / len(picture.captions)
    return shares


@dataclass(frozen=True)
class Batch(Divisible):
    """Normalised pixels, and how many of each picture's captions use each word."""

    images: Tensor
    shares: Tensor
    items: tuple[int, ...]


@dataclass(frozen=True)
class SeenWords:
    """Pictures as bytes, and their words; `images.labels` are the pictures' rows of `shares`."""

    images: ImageSet
    shares: NDArray[np.float32]

    def batch(self, items: Any) -> tuple[Tensor, Tensor]:
        """Bytes and shares of these pictures."""
        pixels, rows = self.images.batch(items)
        return pixels, torch.from_numpy(self.shares[rows.numpy()])

    def all(self) -> Iterator[tuple[Tensor, Tensor]]:
        return (self.batch(slice(first, first + AT_ONCE)) for first in range(0, len(self.images), AT_ONCE))


class WordLearning:
    """The task the training loop sees (regard.training.loop.Task)."""

    def __init__(
        self,
        train: SeenWords,
        valid: SeenWords,
        regions: int,
        training: Training,
        preprocessing: Preprocessing,
        augmentation: Augmentation,
        files: dict[str, str],
        device: torch.device,
    ):
        self.train, self.valid, self.regions, self.training = train, valid, regions, training
        self.preprocessing, self.augmentation = preprocessing, augmentation
        self.checkpoint_files, self.device = files, device

    def batches(self, place: Place) -> Iterator[tuple[Batch, Place]]:
        """As many pictures at once as their regions fit into `training.batch_tokens`."""
        seed = self.training.seed
        plan = TokenBatches(np.full(len(self.train.images), self.regions), self.training.batch_tokens, seed)
        for items, after in plan.follow(place):
            pixels, shares = self.train.batch(items)
            pixels = augment(pixels.to(self.device), self.augmentation, (seed, place.epoch, place.batch))
            yield Batch(self.preprocessing.normalise(pixels), shares.to(self.device), tuple(items.tolist())), after
            place = after

    def count(self, batch: Batch) -> int:
        return len(batch.shares)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """Cross-entropy of every word by itself, summed: what is lost at best is how much the captions disagree."""
        total = F.binary_cross_entropy_with_logits(model(batch.images), batch.shares, reduction="sum")
        return Loss(total, total.detach(), len(batch.shares))

    def validate(self, model: nn.Module) -> dict[str, float]:
        scores = word_scores(*predictions(model, self.valid.all(), self.preprocessing))
        return {"nll": scores.nll, "precision": scores.mean_precision}

    def files(self) -> dict[str, str]:
        return self.checkpoint_files

    def lines(self, batch: Batch) -> str:
        return f"the training pictures {listed([item + 1 for item in batch.items], 8)}"


def predictions(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], preprocessing: Preprocessing
) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Logits and shares [pictures, words] of batches of bytes and shares."""
    device = next(model.parameters()).device
    logits, shares = [], []
    for pixels, wanted in batches:
        with torch.inference_mode():
            logits.append(model(preprocessing.normalise(pixels.to(device))).cpu().double().numpy())
        shares.append(wanted.numpy())
    return np.concatenate(logits), np.concatenate(shares)


@dataclass(frozen=True)
class WordScores:
    """How well words are guessed from pictures."""

    count: int  # pictures
    words: int
    nll: float  # nats per picture, all words together
    mean_precision: float  # average precision of a word's ranking of the pictures, mean over words
    base_precision: float  # the same for a ranking by chance

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def told(self) -> str:
        return (
            f"mean average precision {100 * self.mean_precision:.2f} % of {self.words} words "
            f"(by chance {100 * self.base_precision:.2f} %), NLL {self.nll:.3f} per picture, {self.count} pictures"
        )


def word_scores(logits: NDArray[np.floating], shares: NDArray[np.floating]) -> WordScores:
    """A word counts as said when any caption uses it; words that nobody says are left out of the mean."""
    nll = np.logaddexp(0, logits) - shares * logits
    said = shares > 0
    known = said.any(axis=0)
    order = np.argsort(-logits[:, known], axis=0, kind="stable")
    hits = np.take_along_axis(said[:, known], order, axis=0)
    precision = np.cumsum(hits, axis=0) / np.arange(1, len(hits) + 1)[:, None]
    averages = (precision * hits).sum(axis=0) / hits.sum(axis=0)
    return WordScores(
        count=len(logits),
        words=logits.shape[1],
        nll=float(nll.sum(axis=1).mean()),
        mean_precision=float(averages.mean()) if known.any() else 0.0,
        base_precision=float(hits.mean(axis=0).mean()) if known.any() else 0.0,
    )


class WordFinder:
    """`find` the words people would use of pictures; `regard.load` makes one, and captioners start from it."""

    def __init__(self, model: nn.Module, words: Sequence[str], preprocessing: Preprocessing, config_json: str = "{}"):
        self.model, self.words, self.preprocessing = model.eval(), tuple(words), preprocessing
        self.config_json = config_json

    def find(self, picture: Picture, top: int = 10) -> dict[str, float]:
        """The likeliest words and their probabilities."""
        pixels = torch.from_numpy(self.preprocessing.pixels(picture)[None].copy())
        with torch.inference_mode():
            logits = self.model(self.preprocessing.normalise(pixels.to(next(self.model.parameters()).device)))[0]
        chances = logits.double().sigmoid().cpu().numpy()
        return {self.words[row]: float(chances[row]) for row in np.argsort(-chances)[:top]}

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a checkpoint folder that `regard.load` opens, without the training state."""
        checkpoints.save(Path(folder), self.model, model_files(self.config_json, self.words, self.preprocessing))
