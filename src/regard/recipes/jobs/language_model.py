"""Language-model runs: running text, a tokenizer, a model that reads it."""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from torch import nn

from regard import families, settings
from regard.data.streams import TokenStream, running_pieces, write_stream
from regard.data.tokenizer import Tokenizer
from regard.errors import UsageError
from regard.loading import load as load_run
from regard.progress import counting
from regard.recipes import Recipe
from regard.recipes.jobs import EvaluationOptions
from regard.recipes.jobs.kept import own_decoding, own_tokenizer, run_split, run_tokenizer
from regard.tasks.language_model import LanguageModelling, TextData
from regard.tasks.language_verbs import LanguageModel, TextEvaluation
from regard.training.loop import choose_device
from regard.training.run import Run

TASK = "language-model"
EXACT = ("bytes", "char")  # tokenizers to which the end of a line is a token like others


def check(recipe: Recipe, data: str | Path | None) -> None:
    section = settings.build(TextData, recipe.data, "data")
    families.check(recipe.model, vocabulary=1)
    _check_context(section, recipe)
    section.files("train", data), section.files("valid", data)


def prepare(recipe: Recipe, run: Run, data: str | Path | None) -> tuple[LanguageModel, LanguageModelling]:
    section = settings.build(TextData, recipe.data, "data")
    training = recipe.training_settings()
    tokenizer = _tokenizer(section, run, data)
    train, valid = (_stream(split, section, tokenizer, run, data) for split in ("train", "valid"))
    known = {"vocabulary": len(tokenizer), "pad": tokenizer.pad}
    model, config_json = families.seeded(recipe.model, TASK, training.seed, **known)
    verbs = LanguageModel(model, tokenizer, recipe.decoding_settings(), config_json)
    return verbs, LanguageModelling(tokenizer, train, valid, section, training, choose_device(training.device))


def evaluate(
    run: str | Path, recipe: Recipe, split: str, data: str | Path | None, options: EvaluationOptions
) -> TextEvaluation:
    section = settings.build(TextData, recipe.data, "data")
    model: LanguageModel = load_run(run, int8=options.int8)
    stream = _stream(split, section, model.tokenizer, Run.open(run), data)
    with counting("reading", len(stream)) as finished:
        return model.evaluate(stream, finished, stride=options.stride)


def load(folder: Path, model: nn.Module, config_json: str) -> LanguageModel:
    return LanguageModel(model, own_tokenizer(folder, model), own_decoding(folder), config_json)


def _check_context(section: TextData, recipe: Recipe) -> None:
    """A training example must fit into the context of a model that has one."""
    _, config = families.resolve(recipe.model, vocabulary=1)
    context, needed = getattr(config, "context", None), section.context + section.chunk
    if context is not None and needed > context:
        raise UsageError(
            f"data.context {section.context} and data.chunk {section.chunk} make {needed} tokens, "
            f"but the model holds {context}: lower them, or raise model.context"
        )


def _tokenizer(section: TextData, run: Run, data: str | Path | None) -> Tokenizer:
    def texts() -> Iterable[str]:
        lines = section.lines("train", data)
        return running_pieces(lines) if section.tokenizer in EXACT else lines

    return run_tokenizer(run, texts, section.tokenizer, section.vocabulary, section.lowercase)


def _stream(split: str, section: TextData, tokenizer: Tokenizer, run: Run, data: str | Path | None) -> TokenStream:
    def write(folder: Path) -> TokenStream:
        skipped: Counter[str] = Counter()
        return write_stream(section.lines(split, data, skipped), tokenizer, folder, skipped)

    return run_split(run, split, partial(TokenStream, vocabulary=len(tokenizer)), write)
