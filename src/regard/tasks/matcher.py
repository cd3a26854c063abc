"""The verb: tell pictures apart by a few labelled examples of one's own.

The model has learnt to compare, N labels with K examples each. It is asked in several rounds, and the probabilities
are their mean: each round gives the labels other numbers and shows the examples in another order, K of each label. A
label with more examples shows others in each round; one with fewer shows some of them again. So the names of files and
folders decide nothing, and any number of examples is defined.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.attention import record_own
from regard.data.drawings import DrawingPreprocessing
from regard.data.episodes_fewshot import HELD_OUT, EpisodeDraws, Shape
from regard.data.images import ImageSet, Picture, Pixels, Preprocessing, image_files
from regard.data.written import written
from regard.errors import RegardError, UsageError
from regard.tasks.classification_scores import Z
from regard.tasks.few_shot import PICTURES_AT_ONCE, answered, embedded
from regard.tasks.verbs import PREPROCESSING, Verbs, as_json
from regard.views.look import Look, Shown
from regard.views.match import MatchMap

FEW_SHOT = "few_shot.json"
ROUNDS = 8
EPISODES = 1000
Heard = Callable[[RegardError], object]


@dataclass(frozen=True)
class FewShotScores:
    """Everything `regard evaluate` reports of a matcher."""

    ways: int
    shots: int
    episodes: int
    accuracy: float
    accuracy_interval: tuple[float, float]  # 95 %, over episodes
    nll: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def told(self) -> str:
        low, high = self.accuracy_interval
        return (
            f"{self.ways}-way {self.shots}-shot: accuracy {100 * self.accuracy:.2f} %"
            f"  [{100 * low:.2f}, {100 * high:.2f}]\nNLL {self.nll:.4f} per query, {self.ways} queries each in "
            f"{self.episodes} episodes"
        )


@dataclass(frozen=True, eq=False)
class Examples:
    """Labelled pictures as the model sees them."""

    labels: list[str]  # of the classes
    classes: NDArray[np.int64]  # [examples]: the number of each one's label
    names: list[str]
    pixels: NDArray[np.uint8]  # [examples, channels, height, width]
    vectors: Tensor  # [examples, size]


@dataclass(eq=False)
class Matched(Shown):
    """One query: its label, the probability of every label, and, when somebody looks, what it attended to.

    A picture that could not be read has no label: it is empty, and so are the probabilities.
    """

    name: str
    label: str
    probabilities: dict[str, float]
    pixels: Pixels | None = field(repr=False)
    examples: Examples = field(repr=False)
    matcher: "Matcher" = field(repr=False)

    @property
    def probability(self) -> float:
        """Of the label."""
        return self.probabilities.get(self.label, 0.0)

    @cached_property
    def attention(self) -> MatchMap:
        """What the query paid to each example, in every attention block."""
        return self.matcher.why(self)

    def told(self) -> str:
        if not self.label:
            return f"{self.name}: a picture that could not be read"
        return f"{self.name}: {self.label} ({self.probability:.1%})"

    def look(self) -> Look | None:
        return Look(self.name, self.attention, score=self.probability) if self.label else None


class Matcher(Verbs):
    """`match` queries with examples, `evaluate` on episodes; `regard.load` makes one."""

    def __init__(self, model: nn.Module, preprocessing: Preprocessing, config_json: str = "{}"):
        super().__init__(model, config_json)
        self.preprocessing = preprocessing

    def match(
        self,
        examples: str | Path | Mapping[str, Sequence[Picture]] | Examples,
        queries: Picture | Sequence[Picture],
        *,
        rounds: int = ROUNDS,
        finished: Callable[[int], None] | None = None,
        unreadable: Heard | None = None,
    ) -> list[Matched]:
        """One result per query, in order; examples are a folder with a folder per label, or pictures by label.

        A picture that cannot be read is an error, or, when `unreadable` is there to hear of it, left out.
        """
        known = examples if isinstance(examples, Examples) else self.examples(examples, unreadable=unreadable)
        several = list(queries) if isinstance(queries, list | tuple) else [queries]
        results = []
        for number, query in enumerate(several, 1):
            name = str(query) if isinstance(query, str | Path) else f"picture {number}"
            results.append(Matched(name, "", {}, self._pixels(query, unreadable), known, self))  # type: ignore[arg-type]
        readable = [result for result in results if result.pixels is not None]
        for first in range(0, len(readable), PICTURES_AT_ONCE):
            part = readable[first : first + PICTURES_AT_ONCE]
            with torch.inference_mode():
                vectors = self._embed(np.stack([result.pixels for result in part if result.pixels is not None]))
                chances = self._chances(known, vectors, rounds)
            for result, row in zip(part, chances, strict=True):
                result.label = known.labels[int(row.argmax())]
                result.probabilities = dict(zip(known.labels, row.tolist(), strict=True))
            if finished is not None:
                finished(len(part))
        return results

    def examples(
        self, given: str | Path | Mapping[str, Sequence[Picture]], *, unreadable: Heard | None = None
    ) -> Examples:
        """Read and embed labelled pictures once, for any number of calls of `match`."""
        by_label = given if isinstance(given, Mapping) else labelled_folder(given)
        ways = self.model.config.ways
        if not 2 <= len(by_label) <= ways:
            where = "these examples" if isinstance(given, Mapping) else str(given)
            raise UsageError(
                f"{where}: {len(by_label)} labels, but this run tells apart 2 to {ways}; "
                "give so many, or train a run with more data.ways"
            )
        classes, names, pixels = [], [], []
        for number, (label, pictures) in enumerate(by_label.items()):
            read = [(picture, self._pixels(picture, unreadable)) for picture in pictures]
            kept = [(picture, found) for picture, found in read if found is not None]
            if not kept:
                reason = f"none of its {len(read)} pictures can be read" if read else "it has no picture"
                raise RegardError(f"there is no example of {label!r}: {reason}; add one, or leave the label out")
            for place, (picture, found) in enumerate(kept, 1):
                classes.append(number)
                names.append(f"{label}/{picture.name}" if isinstance(picture, Path) else f"{label} {place}")
                pixels.append(found)
        stacked = np.stack(pixels)
        with torch.inference_mode():
            vectors = torch.cat(
                [self._embed(stacked[at : at + PICTURES_AT_ONCE]) for at in range(0, len(stacked), PICTURES_AT_ONCE)]
            )
        return Examples(list(by_label), np.array(classes), names, stacked, vectors)

    def why(self, result: Matched, rounds: int = ROUNDS) -> MatchMap:
        """What a query paid to each example and to itself, in every attention block; the mean of all rounds."""
        known = result.examples
        if result.pixels is None:
            raise UsageError(f"{result.name} could not be read: there is nothing to look at")
        shown, _ = self._rounds(known, rounds)
        with torch.inference_mode(), record_own(self.model, queries=-1) as tape:
            self._chances(known, self._embed(result.pixels[None]), rounds)
        weights = np.zeros((len(tape), len(known.names) + 1))
        for block, paid in zip(weights, tape.values(), strict=True):
            rows = paid[:, 0, 0].double().cpu().numpy()  # [rounds, what was shown and the query]
            np.add.at(block, shown.ravel(), rows[:, :-1].ravel() / rounds)
            block[-1] = rows[:, -1].mean()
        return MatchMap(
            query=_image(result.pixels),
            examples=[_image(each) for each in known.pixels],
            labels=[known.labels[number] for number in known.classes],
            weights=weights,
            label=result.label,
            probability=result.probability,
            name=result.name,
            names=known.names,
        )

    def evaluate(
        self,
        images: ImageSet,
        split: str = "test",
        episodes: int = EPISODES,
        finished: Callable[[int], None] | None = None,
        *,
        shots: int | None = None,
    ) -> FewShotScores:
        """On episodes of a split that are the same every time, of as many labels and examples as it has learnt.

        With other `shots` than those, the queries of an episode are matched with its examples as `match` does it.
        """
        if episodes < 1:
            raise UsageError(f"episodes is {episodes} but must be at least 1")
        if split not in HELD_OUT:
            raise UsageError(f"there is no split called {split!r}: choose train, valid or test")
        shape = Shape(self.model.config.ways, self.model.config.shots if shots is None else shots)
        answer = answered if shots is None else self._matched
        shares, losses = [], []
        with torch.inference_mode():
            vectors = embedded(self.model, images, self.preprocessing, self.device)
            for right, nll in answer(self.model, vectors, EpisodeDraws(images.labels, shape), split, episodes):
                shares.append(right)
                losses.append(nll)
                if finished is not None:
                    finished(len(right))
        accuracy, interval = accuracy_and_interval(np.concatenate(shares))
        return FewShotScores(
            shape.ways, shape.shots, episodes, accuracy, interval, float(np.concatenate(losses).mean())
        )

    def _matched(
        self, model: Any, vectors: Tensor, draws: EpisodeDraws, split: str, episodes: int
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """The same as `answered`, one episode after the other, each in rounds."""
        labels = [str(number) for number in range(model.config.ways)]
        for number in range(episodes):
            drawn = draws.draw(HELD_OUT[split], number, 1)
            (shown,), (classes,), (asked,), (answers,) = drawn.examples, drawn.labels, drawn.queries, drawn.answers
            known = Examples(labels, classes, [], np.empty(0, np.uint8), vectors[torch.from_numpy(shown)])
            chances = self._chances(known, vectors[torch.from_numpy(asked)], ROUNDS)
            right = chances.argmax(1) == answers
            nll = -np.log(chances[np.arange(len(answers)), answers])
            yield right.mean(keepdims=True), nll.mean(keepdims=True)

    def files(self) -> dict[str, str]:
        drawings = as_json({"drawings": isinstance(self.preprocessing, DrawingPreprocessing)})
        return super().files() | {PREPROCESSING: self.preprocessing.to_json(), FEW_SHOT: drawings}

    def _pixels(self, picture: Picture, unreadable: Heard | None) -> Pixels | None:
        try:
            return self.preprocessing.pixels(picture)
        except RegardError as error:
            if unreadable is None or isinstance(error, UsageError):
                raise
            unreadable(error)
            return None

    def _embed(self, pixels: NDArray[np.uint8]) -> Tensor:
        inputs = self.preprocessing.normalise(torch.from_numpy(pixels.copy()).to(self.device))
        return self.model.embed(inputs)

    def _chances(self, known: Examples, queries: Tensor, rounds: int) -> NDArray[np.float64]:
        """[queries, labels]: the mean of all rounds, over the labels that were given."""
        shown, numbers = self._rounds(known, rounds)
        labels = torch.from_numpy(np.take_along_axis(numbers, known.classes[shown], 1)).to(self.device)
        asked = queries.expand(rounds, *queries.shape)
        logits = self.model.answer(known.vectors[torch.from_numpy(shown).to(self.device)], labels, asked)
        given = torch.from_numpy(numbers).to(self.device)[:, None].expand(-1, len(queries), -1)
        return logits.gather(-1, given).cpu().double().softmax(-1).mean(0).numpy()

    def _rounds(self, known: Examples, rounds: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which examples each round shows [rounds, shown], and the number each label has in it [rounds, labels].

        The examples of a label take turns: each is shown as often as any other, or once more.
        """
        config, shown, numbers = self.model.config, [], []
        mixed = np.random.default_rng((1707, 3141)).permutation(len(known.classes))
        own = [mixed[known.classes[mixed] == label] for label in range(len(known.labels))]
        for number in range(rounds):
            draw = np.random.default_rng((1707, 3141, number))
            turn = np.arange(number * config.shots, (number + 1) * config.shots)
            shown.append(draw.permutation(np.concatenate([each.take(turn, mode="wrap") for each in own])))
            numbers.append(draw.permutation(config.ways)[: len(known.labels)])
        return np.stack(shown), np.stack(numbers)


def accuracy_and_interval(shares: NDArray[np.float64]) -> tuple[float, tuple[float, float]]:
    """Return the mean of the episodes' shares of right answers, and its 95 % interval.

    The spread cannot be estimated from one episode: its interval is [0, 1].
    """
    accuracy = float(shares.mean())
    if len(shares) == 1:
        return accuracy, (0.0, 1.0)
    half = Z * float(shares.std(ddof=1)) / len(shares) ** 0.5
    return accuracy, (max(0.0, accuracy - half), min(1.0, accuracy + half))


def labelled_folder(folder: str | Path) -> dict[str, list[Path]]:
    """The pictures of a folder that holds a folder per label, in order of their names."""
    folder = written(folder)
    if not folder.is_dir():
        kind = "is a file" if folder.exists() else "no such folder"
        raise UsageError(f"{folder}: {kind}; name a folder that holds one folder of example pictures per label")
    labels = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    found = {label.name: image_files(label) for label in labels}
    for label, pictures in found.items():
        if not pictures:
            raise UsageError(f"{folder / label}: no pictures; put at least one example of {label!r} into it")
    return found


def _image(pixels: Pixels) -> NDArray[np.uint8]:
    return pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)
