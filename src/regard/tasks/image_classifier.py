"""The verbs: a trained model, its way to read pictures and its labels, ready to classify and to be looked into."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention import record_own
from regard.attention.rollout import rollout
from regard.data.images import Picture, Preprocessing
from regard.errors import RegardError, UsageError
from regard.layers.packed import packed
from regard.tasks.classify_images import TOKENS_AT_ONCE, token_count
from regard.tasks.verbs import LABELS, PREPROCESSING, Verbs, as_json
from regard.views.image import ImageMap
from regard.views.look import Look, Shown


@dataclass(eq=False)
class ClassifiedImage(Shown):
    """One picture: its label, the probability of every label, and, when somebody looks, what was attended to.

    A picture that could not be read has no label: it is empty, and so are the probabilities.
    """

    name: str  # its file, or its number
    label: str
    probabilities: dict[str, float]
    picture: Picture = field(repr=False)
    classifier: "ImageClassifier" = field(repr=False)

    @property
    def probability(self) -> float:
        """Of the label."""
        return self.probabilities.get(self.label, 0.0)

    @cached_property
    def attention(self) -> ImageMap:
        """What the class token paid to every patch in the last layer, and the rollout of all layers."""
        return self.classifier.look(self.picture)

    def told(self) -> str:
        if not self.label:
            return f"{self.name}: a picture that could not be read"
        return f"{self.name}: {self.label} ({self.probability:.1%})"

    def look(self) -> Look | None:
        return Look(self.name, self.attention, score=self.probability) if self.label else None


class ImageEmbedder(Verbs):
    """`embed` pictures, `look` at what the class token looks at: what every model of images can do."""

    labels: tuple[str, ...] = ()  # the names of what comes out, if it has any

    def __init__(self, model: nn.Module, preprocessing: Preprocessing, config_json: str = "{}"):
        super().__init__(model, config_json)
        self.preprocessing = preprocessing

    @property
    def at_once(self) -> int:
        """Pictures run together; changes speed and memory, never results."""
        return max(1, TOKENS_AT_ONCE // token_count(self.model, self.preprocessing))

    def embed(
        self,
        pictures: Picture | Sequence[Picture],
        *,
        pooling: str | None = None,
        normalize: bool | None = None,
        finished: Callable[[int], None] | None = None,
    ) -> NDArray[np.float32]:
        """One vector per picture [pictures, size]: the state of the class token (cls), or the mean of the patches'."""
        if pooling not in (None, "cls", "mean"):
            raise UsageError(f"there is no pooling called {pooling!r}: choose cls or mean")
        several, model = _as_list(pictures), cast(Any, self.model)
        rows = [np.zeros((0, model.config.size), np.float32)]
        with packed(model), torch.inference_mode():
            for first in range(0, len(several), self.at_once):
                part = several[first : first + self.at_once]
                states = model.states(self._inputs(np.stack([self.preprocessing.pixels(one) for one in part])))
                vectors = states[:, 1:].mean(1) if pooling == "mean" else states[:, 0]
                vectors = nn.functional.normalize(vectors, dim=-1) if normalize else vectors
                rows.append(vectors.float().cpu().numpy())
                if finished is not None:
                    finished(len(part))
        return np.concatenate(rows)

    def _inputs(self, pixels: NDArray[np.uint8]) -> Tensor:
        """What the model reads, of bytes [pictures, channels, height, width]."""
        return self.preprocessing.normalise(torch.from_numpy(pixels.copy()).to(self.device))

    def look(
        self, picture: Picture, layers: Sequence[int] | None = None, heads: Sequence[int] | None = None
    ) -> ImageMap:
        """What the class token looked at, over the grid of patches; layers (by default the last) and heads from 0."""
        pixels = self.preprocessing.pixels(picture)
        with torch.inference_mode(), record_own(self.model) as tape:
            logits = self.model(self._inputs(pixels[None]))[0]
        weights = np.stack([tape[name][0].float().cpu().numpy() for name in tape])  # [layers, heads, tokens, tokens]
        chosen_layers = _chosen([-1] if layers is None else layers, weights.shape[0], "layer")
        chosen_heads = _chosen(range(weights.shape[1]) if heads is None else heads, weights.shape[1], "head")
        rows, columns = self.model.grid(*self.preprocessing.shape)
        chances = logits.cpu().double().softmax(-1).numpy()
        return ImageMap(
            image=pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0),
            weights=weights[np.ix_(chosen_layers, chosen_heads)][:, :, 0, 1:].reshape(
                len(chosen_layers), len(chosen_heads), rows, columns
            ),
            rollout=rollout(weights)[0, 1:].reshape(rows, columns),
            patch_size=self.preprocessing.shape[0] // rows,
            layers=tuple(number + 1 for number in chosen_layers),
            heads=tuple(number + 1 for number in chosen_heads),
            label=self.labels[int(chances.argmax())] if self.labels else "",
            probability=float(chances.max()) if self.labels else 0.0,
            name=_name(picture),
        )

    def files(self) -> dict[str, str]:
        labels = as_json({"labels": self.labels})
        return super().files() | {LABELS: labels, PREPROCESSING: self.preprocessing.to_json()}


class ImageClassifier(ImageEmbedder):
    """`classify` pictures, `look` at what decided; `regard.load` makes one."""

    def __init__(self, model: nn.Module, labels: Sequence[str], preprocessing: Preprocessing, config_json: str = "{}"):
        super().__init__(model, preprocessing, config_json)
        self.labels = tuple(labels)

    def classify(
        self,
        pictures: Picture | Sequence[Picture],
        *,
        finished: Callable[[int], None] | None = None,
        unreadable: Callable[[RegardError], object] | None = None,
    ) -> list[ClassifiedImage]:
        """One result per picture, in order; a picture is a file, its bytes, a PIL image or an array uint8
        [height, width (, 3)].

        One that cannot be read is an error, or, when `unreadable` is there to hear of it, a result without a label.
        """
        several = enumerate(_as_list(pictures), 1)
        results = [ClassifiedImage(_name(each, number), "", {}, each, self) for number, each in several]
        with packed(self.model):
            for first in range(0, len(results), self.at_once):
                self._fill(results[first : first + self.at_once], unreadable)
                if finished is not None:
                    finished(len(results[first : first + self.at_once]))
        return results

    def _fill(self, part: list[ClassifiedImage], unreadable: Callable[[RegardError], object] | None) -> None:
        """Say what each of some pictures shows."""
        pixels = [self.preprocessing.read(result.picture, unreadable) for result in part]
        readable = [row for row in pixels if row is not None]
        rows = iter(self.probabilities(np.stack(readable))) if readable else iter(())
        for result, read in zip(part, pixels, strict=True):
            if read is not None:
                row = next(rows)
                result.label = self.labels[int(row.argmax())]
                result.probabilities = dict(zip(self.labels, row.tolist(), strict=True))

    def probabilities(self, pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
        """From bytes [pictures, channels, height, width] to [pictures, labels]."""
        rows = []
        with packed(self.model), torch.inference_mode():
            for part in self._parts(pixels):
                logits = self.model(self._inputs(part))
                rows.append(logits.cpu().double().softmax(-1).numpy())
        return np.concatenate(rows) if rows else np.zeros((0, len(self.labels)))

    def _parts(self, pixels: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
        return (pixels[first : first + self.at_once] for first in range(0, len(pixels), self.at_once))


def _as_list(pictures: Picture | Sequence[Picture]) -> list[Picture]:
    return list(pictures) if isinstance(pictures, list | tuple) else [pictures]  # type: ignore[list-item]


def _name(picture: Picture, number: int | None = None) -> str:
    if isinstance(picture, str | Path):
        return str(picture)
    return "" if number is None else f"picture {number}"


def _chosen(numbers: Sequence[int], count: int, what: str) -> list[int]:
    for number in numbers:
        if not -count <= number < count:
            raise UsageError(f"there is no {what} {number}: this model has {count}, counted from 0")
    return [number % count for number in numbers]
