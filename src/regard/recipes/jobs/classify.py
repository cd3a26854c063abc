"""Classification runs: labelled texts, a tokenizer, a model that reads documents or tokens."""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
from torch import nn

from regard import families, settings
from regard.data.documents import WordEncoder, read_document
from regard.data.frames import Frame
from regard.data.token_documents import TokenDocuments, label_number, tokenise_documents
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError, UsageError
from regard.loading import load as load_run
from regard.progress import counting
from regard.recipes import Recipe
from regard.recipes.jobs import EvaluationOptions
from regard.recipes.jobs.kept import own_names, own_tokenizer, run_labels, run_split, run_tokenizer
from regard.tasks.classification_scores import ClassificationScores, classification_scores
from regard.tasks.classifier import Classifier
from regard.tasks.classify import Classification, ClassificationData, Reading
from regard.tasks.verbs import LABELS, READING
from regard.training import checkpoints
from regard.training.loop import choose_device
from regard.training.run import Run

TASK = "classify"


def check(recipe: Recipe, data: str | Path | None) -> None:
    section = settings.build(ClassificationData, recipe.data, "data")
    families.check(recipe.model, vocabulary=1, labels=2)  # a wrong model section should not cost a tokenised corpus
    section.texts("train", data), section.texts("valid", data)  # nor should a missing file cost a run folder


def prepare(recipe: Recipe, run: Run, data: str | Path | None) -> tuple[Classifier, Classification]:
    section = settings.build(ClassificationData, recipe.data, "data")
    training = recipe.training_settings()
    labels = run_labels(run, lambda: _labels(section, data))
    tokenizer = _tokenizer(section, run, data)
    known = {"vocabulary": len(tokenizer), "labels": len(labels), "pad": tokenizer.pad}
    model, config_json = families.seeded(recipe.model, TASK, training.seed, {"separator": tokenizer.end}, **known)
    reads: str = model.reads
    frame = None
    if getattr(model, "frames", False):
        frame = Frame(tokenizer, min(section.max_length, model.config.max_length))
    train, valid = (
        _tokenised(split, section, tokenizer, labels, reads, frame, run, data) for split in ("train", "valid")
    )
    reading = Reading(section.max_words, section.max_length if frame is None else frame.max_length)
    task = Classification(reads, train, valid, training, tokenizer, choose_device(training.device))
    return Classifier(model, tokenizer, labels, reading, config_json), task


def evaluate(
    run: str | Path, recipe: Recipe, split: str, data: str | Path | None, options: EvaluationOptions
) -> ClassificationScores:
    section = settings.build(ClassificationData, recipe.data, "data")
    classifier: Classifier = load_run(run, int8=options.int8)
    numbers = {label: number for number, label in enumerate(classifier.labels)}
    known = list(section.texts(split, data))
    texts = [text.text if text.second is None else (text.text, text.second) for text in known]
    with counting("classifying", len(known)) as finished:
        results = classifier.probabilities(texts, finished)
    # A text of blanks and breaks only has no label to be given: it is left out here as it is in training.
    usable = np.flatnonzero(~np.isnan(results).any(axis=1))
    if not len(usable):
        raise RegardError(f"the {split} split has no usable text; check the data section")
    gold = [label_number(known[item], numbers) for item in usable]
    return classification_scores(results[usable], gold, classifier.labels)


def load(folder: Path, model: nn.Module, config_json: str) -> Classifier:
    tokenizer = own_tokenizer(folder, model)
    labels = own_names(folder, LABELS, "labels", model.config.labels)  # type: ignore[union-attr, arg-type]
    reading = folder / READING
    values = checkpoints.load_json(reading)
    return Classifier(model, tokenizer, labels, settings.build(Reading, values, str(reading)), config_json)


def _labels(section: ClassificationData, data: str | Path | None) -> list[str]:
    """Those of the training data: numbers in their order, else names in theirs."""
    found = {known.label for known in section.texts("train", data)}
    if len(found) < 2:
        raise UsageError(f"all training texts have the label {next(iter(found))!r}: there is nothing to learn")
    are_numbers = all(label.lstrip("-").isdecimal() for label in found)
    return sorted(found, key=int) if are_numbers else sorted(found)


def _tokenizer(section: ClassificationData, run: Run, data: str | Path | None) -> Tokenizer:
    """Learnt from words as they stand in documents."""

    def texts() -> Iterable[str]:
        found = (text for known in section.texts("train", data) for text in (known.text, known.second) if text)
        return (" ".join(words) for text in found for words in read_document(text).words())

    return run_tokenizer(run, texts, section.tokenizer, section.vocabulary, section.lowercase)


def _tokenised(
    split: str,
    section: ClassificationData,
    tokenizer: Tokenizer,
    labels: list[str],
    reads: str,
    frame: Frame | None,
    run: Run,
    data: str | Path | None,
) -> TokenDocuments:
    def write(folder: Path) -> TokenDocuments:
        skipped: Counter[str] = Counter()
        return tokenise_documents(
            section.texts(split, data, skipped),
            WordEncoder(tokenizer),
            {label: number for number, label in enumerate(labels)},
            folder,
            max_words=section.max_words,
            max_sentences=section.max_sentences if reads == "documents" else None,
            max_length=section.max_length if reads == "tokens" else None,
            frame=frame,
            skipped=skipped,
        )

    known = partial(TokenDocuments, vocabulary=len(tokenizer), labels=len(labels))
    return run_split(run, split, known, write)
