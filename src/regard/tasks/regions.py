"""Learning to see from captions: which frequent words do people use of a picture?

The encoder that comes out of it is what captioners look at (task `caption`, `start: RUN`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.captions import CaptionedImage
from regard.data.images import ImageSet, Picture, Preprocessing
from regard.errors import UsageError
from regard.tasks.picture_task import Batch, PictureTask
from regard.tasks.verbs import LABELS, PREPROCESSING, Verbs, as_json
from regard.training.loop import Loss

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
class SeenWords:
    """Pictures as bytes, and their words; `images.labels` are the pictures' rows of `shares`."""

    images: ImageSet
    shares: NDArray[np.float32]

    def batch(self, items: Any) -> tuple[Tensor, Tensor]:
        """Bytes and shares of these pictures."""
        pixels, rows = self.images.batch(items)
        return pixels, torch.from_numpy(self.shares[rows.numpy()])

    def __len__(self) -> int:
        return len(self.images)


class WordLearning(PictureTask):
    """The task the training loop sees (regard.training.loop.Task)."""

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """Cross-entropy of every word by itself, summed: what is lost at best is how much the captions disagree."""
        total = F.binary_cross_entropy_with_logits(model(batch.images), batch.wanted, reduction="sum")
        return Loss(total, total.detach(), len(batch.wanted))

    def validate(self, model: nn.Module) -> dict[str, float]:
        scores = word_scores(*predictions(model, self.held_out(AT_ONCE), self.preprocessing))
        return {"nll": scores.nll, "precision": scores.mean_precision}


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


class WordFinder(Verbs):
    """`find` the words people would use of pictures; `regard.load` makes one, and captioners start from it."""

    def __init__(self, model: nn.Module, words: Sequence[str], preprocessing: Preprocessing, config_json: str = "{}"):
        super().__init__(model, config_json)
        self.words, self.preprocessing = tuple(words), preprocessing

    def find(self, picture: Picture, top: int = 10) -> dict[str, float]:
        """The likeliest words and their probabilities."""
        pixels = torch.from_numpy(self.preprocessing.pixels(picture)[None].copy())
        with torch.inference_mode():
            logits = self.model(self.preprocessing.normalise(pixels.to(self.device)))[0]
        chances = logits.double().sigmoid().cpu().numpy()
        return {self.words[row]: float(chances[row]) for row in np.argsort(-chances)[:top]}

    def files(self) -> dict[str, str]:
        words = as_json({"labels": self.words})
        return super().files() | {LABELS: words, PREPROCESSING: self.preprocessing.to_json()}
