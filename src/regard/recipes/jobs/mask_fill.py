"""Mask-fill runs: documents, a tokenizer, an encoder that learns to fill gaps."""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from regard import families, settings
from regard.data.sentences import TokenSentences, write_sentences
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError, UsageError, shortened
from regard.loading import load as load_run
from regard.progress import counting
from regard.recipes import Recipe
from regard.recipes.jobs import EvaluationOptions
from regard.recipes.jobs.kept import own_tokenizer, run_split, run_tokenizer
from regard.tasks.mask_fill import VALIDATION_SEED, MaskFillData, MaskFilling, MaskFillScores, mask_fill_scores
from regard.tasks.mask_filler import MaskFiller, TextEmbedder
from regard.tasks.verbs import READING
from regard.training import checkpoints
from regard.training.loop import choose_device
from regard.training.run import Run

TASK = "mask-fill"


def check(recipe: Recipe, data: str | Path | None) -> None:
    section = settings.build(MaskFillData, recipe.data, "data")
    families.check(recipe.model, vocabulary=1)
    _, config = families.resolve(recipe.model, vocabulary=1)
    check_length(section, config)
    section.text().files("train", data), section.text().files("valid", data)


def prepare(recipe: Recipe, run: Run, data: str | Path | None) -> tuple[MaskFiller, MaskFilling]:
    section = settings.build(MaskFillData, recipe.data, "data")
    training = recipe.training_settings()
    tokenizer = _tokenizer(section, run, data)
    sentences = [_sentences(split, section, tokenizer, run, data) for split in ("train", "valid")]
    train, valid = (
        section.pairs(part, tokenizer, seed)
        for part, seed in zip(sentences, (training.seed, VALIDATION_SEED), strict=True)
    )
    known = {"vocabulary": len(tokenizer), "pad": tokenizer.pad, "separator": tokenizer.end}
    model, config_json = families.seeded(recipe.model, TASK, training.seed, **known)
    task = MaskFilling(train, valid, training, choose_device(training.device))
    return MaskFiller(model, tokenizer, config_json), task


def evaluate(
    run: str | Path, recipe: Recipe, split: str, data: str | Path | None, options: EvaluationOptions
) -> MaskFillScores:
    section = settings.build(MaskFillData, recipe.data, "data")
    filler: MaskFiller = load_run(run, int8=options.int8)
    sentences = _sentences(split, section, filler.tokenizer, Run.open(run), data)
    pairs = section.pairs(sentences, filler.tokenizer, VALIDATION_SEED)
    with counting("filling gaps", len(pairs.pairs(0))) as finished:
        return mask_fill_scores(filler.model, pairs, filler.device, finished)


def load(folder: Path, model: nn.Module, config_json: str) -> TextEmbedder:
    """A MaskFiller, or, around an encoder that has no words to say, a TextEmbedder."""
    tokenizer = own_tokenizer(folder, model)
    verbs = MaskFiller if hasattr(model, "logits") else TextEmbedder
    reading = folder / READING
    limit = checkpoints.load_json(reading).get("max_length") if reading.is_file() else None
    if limit is not None and (type(limit) is not int or limit < 4):
        raise RegardError(f"{reading}: max_length is {shortened(limit)} but must be a whole number, at least 4")
    return verbs(model, tokenizer, config_json, limit)


def check_length(section: MaskFillData, config: Any) -> None:
    if section.max_length > config.max_length:
        raise UsageError(
            f"data.max_length is {section.max_length} but the model has {config.max_length} positions: "
            "lower it, or raise model.max_length"
        )


def _tokenizer(section: MaskFillData, run: Run, data: str | Path | None) -> Tokenizer:
    def texts() -> Iterable[str]:
        return (sentence.replace("<unk>", " ") for known in section.documents("train", data) for sentence in known)

    return run_tokenizer(run, texts, section.tokenizer, section.vocabulary, section.lowercase)


def _sentences(
    split: str, section: MaskFillData, tokenizer: Tokenizer, run: Run, data: str | Path | None
) -> TokenSentences:
    def write(folder: Path) -> TokenSentences:
        skipped: Counter[str] = Counter()
        return write_sentences(section.documents(split, data, skipped), tokenizer, folder, skipped)

    return run_split(run, split, partial(TokenSentences, vocabulary=len(tokenizer)), write)
