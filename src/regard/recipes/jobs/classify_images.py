"""Image classification runs: labelled pictures, kept as bytes of one shape, and a model that reads images."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard import families, settings
from regard.data.images import ImageSet, Preprocessing, label_number, store_images
from regard.errors import RegardError, UsageError
from regard.loading import load as load_run
from regard.progress import counting
from regard.recipes import Recipe
from regard.recipes.jobs import EvaluationOptions
from regard.recipes.jobs.kept import own_names, own_preprocessing, run_labels, run_split
from regard.tasks.classification_scores import ClassificationScores, classification_scores
from regard.tasks.classify_images import ImageClassification, ImageData, token_count
from regard.tasks.image_classifier import ImageClassifier, ImageEmbedder
from regard.tasks.verbs import LABELS
from regard.training.loop import choose_device
from regard.training.run import Run

TASK = "classify-images"


def check(recipe: Recipe, data: str | Path | None) -> None:
    section = settings.build(ImageData, recipe.data, "data")
    families.check(recipe.model, labels=2)
    _, config = families.resolve(recipe.model, labels=2)
    section.preprocessing(config.image_size, config.channels), section.augmentation()
    section.images("train", data), section.images("valid", data)  # a missing folder should not cost a run folder


def prepare(recipe: Recipe, run: Run, data: str | Path | None) -> tuple[ImageClassifier, ImageClassification]:
    section = settings.build(ImageData, recipe.data, "data")
    training = recipe.training_settings()
    labels = run_labels(run, lambda: _labels(section, data))
    model, config_json = families.seeded(recipe.model, TASK, training.seed, labels=len(labels))
    preprocessing = section.preprocessing(model.config.image_size, model.config.channels)
    train, valid = (_stored(split, section, labels, preprocessing, run, data) for split in ("train", "valid"))
    task = ImageClassification(
        train,
        valid,
        token_count(model, preprocessing),
        training,
        preprocessing,
        section.augmentation(),
        choose_device(training.device),
    )
    return ImageClassifier(model, labels, preprocessing, config_json), task


def evaluate(
    run: str | Path, recipe: Recipe, split: str, data: str | Path | None, options: EvaluationOptions
) -> ClassificationScores:
    section = settings.build(ImageData, recipe.data, "data")
    classifier: ImageClassifier = load_run(run, int8=options.int8)
    numbers = {label: number for number, label in enumerate(classifier.labels)}
    gold, pixels, rows = [], [], []
    with counting("classifying") as finished:
        for known in section.images(split, data):
            number = label_number(known, numbers)
            try:
                pixels.append(classifier.preprocessing.pixels(known.image))
            except RegardError:  # left out, as it is in training
                continue
            gold.append(number)
            if len(pixels) == classifier.at_once:
                rows.append(classifier.probabilities(np.stack(pixels)))
                finished(len(pixels))
                pixels = []
    if not gold:
        raise RegardError(f"the {split} split has no usable picture; check the data section")
    if pixels:
        rows.append(classifier.probabilities(np.stack(pixels)))
    return classification_scores(np.concatenate(rows), gold, classifier.labels, unit="picture")


def load(folder: Path, model: nn.Module, config_json: str) -> ImageEmbedder:
    """An ImageClassifier, or, around a model without labels, an ImageEmbedder."""
    config: Any = model.config
    labels = own_names(folder, LABELS, "labels", config.labels)
    preprocessing = own_preprocessing(folder, config.channels)
    if not labels:
        return ImageEmbedder(model, preprocessing, config_json)
    return ImageClassifier(model, labels, preprocessing, config_json)


def _labels(section: ImageData, data: str | Path | None) -> list[str]:
    """Those of the training pictures, in order."""
    labels = sorted({known.label for known in section.images("train", data)})
    if len(labels) < 2:
        raise UsageError(f"all training pictures have the label {labels[0]!r}: there is nothing to learn")
    return labels


def _stored(
    split: str, section: ImageData, labels: list[str], preprocessing: Preprocessing, run: Run, data: str | Path | None
) -> ImageSet:
    def write(folder: Path) -> ImageSet:
        return store_images(section.images(split, data), labels, preprocessing, folder, run.log)

    return run_split(run, split, partial(ImageSet, labels=len(labels)), write)
