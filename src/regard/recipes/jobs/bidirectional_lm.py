"""Runs of bidirectional language models: sentences, a vocabulary of words, a model that reads characters."""

from collections import Counter
from pathlib import Path

from torch import nn

from regard import families, settings
from regard.loading import load as load_run
from regard.progress import counting
from regard.recipes import Recipe
from regard.recipes.jobs import EvaluationOptions
from regard.recipes.jobs.kept import own_tokenizer, run_rows, run_tokenizer
from regard.tasks.bidirectional_lm import (
    BidirectionalEvaluation,
    BidirectionalLanguageModelling,
    BidirectionalLM,
    SentenceData,
)
from regard.training.loop import choose_device
from regard.training.run import Run

TASK = "bidirectional-lm"


def check(recipe: Recipe, data: str | Path | None) -> None:
    section = settings.build(SentenceData, recipe.data, "data")
    families.check(recipe.model, vocabulary=1)
    section.sentences("train", data), section.sentences("valid", data)


def prepare(
    recipe: Recipe, run: Run, data: str | Path | None
) -> tuple[BidirectionalLM, BidirectionalLanguageModelling]:
    section = settings.build(SentenceData, recipe.data, "data")
    training = recipe.training_settings()
    train, valid = (_sentences(split, section, run, data) for split in ("train", "valid"))
    texts = (" ".join(words) for words in train)
    tokenizer = run_tokenizer(run, lambda: texts, "word", section.vocabulary, section.lowercase)
    model, config_json = families.seeded(recipe.model, TASK, training.seed, vocabulary=len(tokenizer))
    verbs, device = BidirectionalLM(model, tokenizer, config_json), choose_device(training.device)
    return verbs, BidirectionalLanguageModelling(verbs.speller, train, valid, training, device)


def evaluate(
    run: str | Path, recipe: Recipe, split: str, data: str | Path | None, options: EvaluationOptions
) -> BidirectionalEvaluation:
    section = settings.build(SentenceData, recipe.data, "data")
    sentences = section.read(split, data)
    model: BidirectionalLM = load_run(run, int8=options.int8)
    with counting("reading", len(sentences)) as finished:
        return model.evaluate(sentences, finished)


def load(folder: Path, model: nn.Module, config_json: str) -> BidirectionalLM:
    return BidirectionalLM(model, own_tokenizer(folder, model), config_json)


def _sentences(split: str, section: SentenceData, run: Run, data: str | Path | None) -> list[list[str]]:
    def report(sentences: list[list[str]], skipped: Counter[str]) -> str:
        counted = f"{len(sentences)} sentences, {sum(map(len, sentences))} words"
        return counted + "".join(f", {count} lines {why}" for why, count in skipped.items())

    return run_rows(run, split, lambda skipped: section.read(split, data, skipped), list, report)
