"""Runs that learn to see from captions: pictures, the frequent words said of them, and an encoder of pictures."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from regard import families, settings
from regard.data.captions import CaptionedImage, readable_pictures
from regard.data.images import ImageSet, LabelledImage, Preprocessing, store_images
from regard.loading import load as load_run
from regard.progress import counting
from regard.recipes import Recipe
from regard.recipes.jobs import EvaluationOptions
from regard.recipes.jobs.kept import own_names, own_preprocessing, run_labels, run_pictures, run_split
from regard.tasks.caption_data import WordData
from regard.tasks.regions import (
    AT_ONCE,
    SeenWords,
    WordFinder,
    WordLearning,
    WordScores,
    frequent_words,
    predictions,
    word_scores,
    word_shares,
)
from regard.tasks.verbs import LABELS
from regard.training.loop import choose_device
from regard.training.run import Run

TASK = "regions"


def check(recipe: Recipe, data: str | Path | None) -> None:
    section = settings.build(WordData, recipe.data, "data")
    families.check(recipe.model, labels=2)
    _, config = families.resolve(recipe.model, labels=2)
    section.preprocessing(config.image_size), section.augmentation()
    section.pictures("train", data), section.pictures("valid", data)  # a missing file should not cost a run folder


def prepare(recipe: Recipe, run: Run, data: str | Path | None) -> tuple[WordFinder, WordLearning]:
    section = settings.build(WordData, recipe.data, "data")
    training = recipe.training_settings()
    pictures = {
        split: run_pictures(run, split, partial(section.pictures, split, data), fingerprints=False)
        for split in ("train", "valid")
    }
    words = run_labels(run, lambda: frequent_words(pictures["train"], section.words, section.frequent), "words.json")
    model, config_json = families.seeded(recipe.model, TASK, training.seed, labels=len(words))
    preprocessing = section.preprocessing(model.config.image_size)
    train, valid = (
        SeenWords(_stored(split, pictures[split], preprocessing, run), word_shares(pictures[split], words))
        for split in ("train", "valid")
    )
    rows, columns = model.encoder.grid
    task = WordLearning(
        train,
        valid,
        rows * columns,
        training,
        preprocessing,
        section.augmentation(),
        choose_device(training.device),
    )
    return WordFinder(model, words, preprocessing, config_json), task


def evaluate(
    run: str | Path, recipe: Recipe, split: str, data: str | Path | None, options: EvaluationOptions
) -> WordScores:
    section = settings.build(WordData, recipe.data, "data")
    finder: WordFinder = load_run(run, int8=options.int8)
    pictures = list(section.pictures(split, data))
    shares = word_shares(pictures, finder.words)
    with counting("looking", len(pictures)) as finished:

        def batches() -> Iterator[tuple[Tensor, Tensor]]:
            readable = readable_pictures(pictures, finder.preprocessing)
            while chunk := list(islice(readable, AT_ONCE)):
                pixels = torch.from_numpy(np.stack([pixels for _, pixels in chunk]))
                yield pixels, torch.from_numpy(shares[[row for row, _ in chunk]])
                finished(len(chunk))

        logits, wanted = predictions(finder.model, batches(), finder.preprocessing)
    return word_scores(logits, wanted)


def load(folder: Path, model: nn.Module, config_json: str) -> WordFinder:
    words = own_names(folder, LABELS, "labels", model.config.labels)  # type: ignore[union-attr, arg-type]
    return WordFinder(model, words, own_preprocessing(folder, 3), config_json)


def _stored(split: str, pictures: Sequence[CaptionedImage], preprocessing: Preprocessing, run: Run) -> ImageSet:
    def write(folder: Path) -> ImageSet:
        numbers = [str(row) for row in range(len(pictures))]
        return store_images(_numbered(pictures, preprocessing, run.log), numbers, preprocessing, folder)

    return run_split(run, split, partial(ImageSet, labels=len(pictures)), write)


def _numbered(
    pictures: Sequence[CaptionedImage], preprocessing: Preprocessing, say: Callable[[str], object]
) -> Iterator[LabelledImage]:
    """The label of each picture is its number, so that one that cannot be read is missed by no other."""
    for row, pixels in readable_pictures(pictures, preprocessing, say):
        yield LabelledImage(pixels.transpose(1, 2, 0), str(row), pictures[row].name)
