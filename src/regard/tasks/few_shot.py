"""Few-shot learning as it is learnt: episodes of classes that are new each time, and the loss of their queries.

A model says `embed(images)` and `answer(examples, labels, queries)`, and, called with the pictures themselves, does
both. What is learnt is how to compare; the classes of the validation never appear in the training.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.batching import Place
from regard.data.drawings import DrawingPreprocessing
from regard.data.episodes_fewshot import HELD_OUT, EpisodeDraws, Episodes, Shape, turned
from regard.data.images import ImageSet, Preprocessing
from regard.data.parts import Divisible
from regard.errors import UsageError
from regard.tasks.choosing import choice_loss
from regard.tasks.picture_data import LabelledPictures
from regard.training.loop import Loss
from regard.training.settings import Training

VALIDATION_EPISODES = 400
PICTURES_AT_ONCE, EPISODES_AT_ONCE = 256, 50  # when nothing is learnt; changes speed, never results


@dataclass(frozen=True)
class FewShotData(LabelledPictures):
    """The `data` section of a few-shot recipe: the labels are classes of which an episode has a few."""

    ways: int = 5  # classes of an episode
    shots: int = 1  # examples of each
    queries: int = 1  # of each class, while training
    rotations: bool = True  # while training a class turned by 90, 180 or 270 degrees is another class
    drawings: bool = True  # pictures become black on white (see regard.data.drawings); else they are taken as they are
    mean: tuple[float, ...] = (1.0,)  # white is zero: nothing
    std: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        self.shape()

    def shape(self) -> Shape:
        return Shape(self.ways, self.shots, self.queries)

    def preprocessing(self, image_size: int, channels: int) -> Preprocessing:
        if self.drawings and channels != 1:
            raise UsageError(f"drawings are grey, but the model reads {channels} channels: set data.drawings=false")
        kind = DrawingPreprocessing if self.drawings else Preprocessing
        return kind((image_size, image_size), *self.brightness(channels))


@dataclass(frozen=True)
class Batch(Divisible):
    """Normalised pixels [rows, pictures, channels, height, width] and labels [rows, pictures]."""

    images: Tensor
    labels: Tensor
    queries: Tensor
    answers: Tensor
    number: int  # of the first episode

    shared = ("number",)


class FewShot:
    """The task the training loop sees (regard.training.loop.Task)."""

    def __init__(
        self,
        train: ImageSet,
        valid: ImageSet,
        data: FewShotData,
        training: Training,
        preprocessing: Preprocessing,
        device: torch.device,
    ):
        self.train, self.valid, self.data, self.training = train, valid, data, training
        self.preprocessing, self.device = preprocessing, device
        self.draws = EpisodeDraws(train.labels, data.shape(), data.rotations)
        self.valid_draws = EpisodeDraws(valid.labels, Shape(data.ways, data.shots))

    def batches(self, place: Place) -> Iterator[tuple[Batch, Place]]:
        """As many episodes at once as their pictures fit into `training.batch_tokens`."""
        rows = max(1, self.training.batch_tokens // self.data.shape().pictures)
        for episodes, after in self.draws.follow(rows, self.training.seed, place):
            yield self._batch(episodes), after

    def _batch(self, episodes: Episodes) -> Batch:
        return Batch(
            self._pixels(episodes.examples, episodes.example_turns),
            torch.from_numpy(episodes.labels).to(self.device),
            self._pixels(episodes.queries, episodes.query_turns),
            torch.from_numpy(episodes.answers).to(self.device),
            episodes.number,
        )

    def _pixels(self, items: NDArray[np.int64], turns: NDArray[np.int64]) -> Tensor:
        pixels, _ = self.train.batch(items.ravel())
        upright = self.preprocessing.normalise(pixels.to(self.device))
        return turned(upright, turns.ravel()).unflatten(0, items.shape)

    def count(self, batch: Batch) -> int:
        return batch.answers.numel()

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        logits = model(batch.images, batch.labels, batch.queries).flatten(0, 1)
        return choice_loss(logits, batch.answers.flatten(), self.training.label_smoothing)

    def validate(self, model: nn.Module) -> dict[str, float]:
        vectors = embedded(model, self.valid, self.preprocessing, self.device)
        rows = list(answered(model, vectors, self.valid_draws, "valid", VALIDATION_EPISODES))
        right, nll = (np.concatenate(part) for part in zip(*rows, strict=True))
        return {"nll": float(nll.mean()), "accuracy": float(right.mean())}

    def lines(self, batch: Batch) -> str:
        return f"the episodes {batch.number + 1} to {batch.number + len(batch.answers)}"


def embedded(model: Any, images: ImageSet, preprocessing: Preprocessing, device: torch.device) -> Tensor:
    """One vector per picture of a set: in evaluation it depends on nothing else, so once is enough for all episodes."""
    parts = []
    for first in range(0, len(images), PICTURES_AT_ONCE):
        pixels, _ = images.batch(slice(first, first + PICTURES_AT_ONCE))
        parts.append(model.embed(preprocessing.normalise(pixels.to(device))))
    return torch.cat(parts)


def answered(
    model: Any, vectors: Tensor, draws: EpisodeDraws, split: str, episodes: int
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Of each held-out episode of a split the share of right answers and the mean nll, some [episodes] at a time."""
    for first in range(0, episodes, EPISODES_AT_ONCE):
        drawn = draws.draw(HELD_OUT[split], first, min(EPISODES_AT_ONCE, episodes - first))
        examples, labels, queries, answers = (
            torch.from_numpy(table).to(vectors.device)
            for table in (drawn.examples, drawn.labels, drawn.queries, drawn.answers)
        )
        logits = model.answer(vectors[examples], labels, vectors[queries])
        nll = F.cross_entropy(logits.flatten(0, 1), answers.flatten(), reduction="none").view(answers.shape).mean(1)
        right = (logits.argmax(-1) == answers).double().mean(1)
        yield right.cpu().numpy(), nll.cpu().double().numpy()
