"""Translation runs: pairs of sentences, a tokenizer, an encoder-decoder."""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from torch import nn

from regard import families, settings
from regard.data.marian_tokenizer import load_tokenizer
from regard.data.token_pairs import TokenPairs, tokenise
from regard.data.tokenizer import Tokenizer
from regard.loading import load as load_run
from regard.progress import counting
from regard.recipes import Recipe
from regard.recipes.jobs import EvaluationOptions
from regard.recipes.jobs.kept import own_decoding, own_tokenizer, run_split, run_tokenizer
from regard.tasks.evaluate import Evaluation
from regard.tasks.evaluate import evaluate as evaluate_translator
from regard.tasks.translate import Translation, TranslationData
from regard.tasks.translator import Translator
from regard.training.loop import choose_device
from regard.training.run import Run

TASK = "translate"


def check(recipe: Recipe, data: str | Path | None) -> None:
    section = settings.build(TranslationData, recipe.data, "data")
    families.check(recipe.model, vocabulary=1)  # a wrong model section should not cost a tokenised corpus
    section.pairs("train", data), section.pairs("valid", data)  # nor should a missing file cost a run folder


def prepare(recipe: Recipe, run: Run, data: str | Path | None) -> tuple[Translator, Translation]:
    section = settings.build(TranslationData, recipe.data, "data")
    training = recipe.training_settings()
    tokenizer = _tokenizer(section, run, data)
    train, valid = (_tokenised(split, section, tokenizer, run, data) for split in ("train", "valid"))
    offered = {"starts_with_pad": tokenizer.start == tokenizer.pad}
    known = {"vocabulary": len(tokenizer), "pad": tokenizer.pad}
    model, config_json = families.seeded(recipe.model, TASK, training.seed, offered, **known)
    translator = Translator(model, tokenizer, recipe.decoding_settings(), config_json)
    return translator, Translation(tokenizer, train, valid, training, choose_device(training.device))


def evaluate(
    run: str | Path, recipe: Recipe, split: str, data: str | Path | None, options: EvaluationOptions
) -> Evaluation:
    section = settings.build(TranslationData, recipe.data, "data")
    pairs = list(section.pairs(split, data))
    # Only the alignment error needs another split: the heads that are reported are chosen there.
    has_links = any(pair.links is not None for pair in pairs)
    valid = list(section.pairs("valid", data)) if has_links else []
    with counting("translating", len(pairs)) as finished:
        return evaluate_translator(
            load_run(run, int8=options.int8),
            pairs,
            bleu_tokenize=section.bleu_tokenize,
            num_beams=options.num_beams,
            length_penalty=options.length_penalty,
            replace_unknowns=options.replace_unknowns,
            valid=valid,
            finished=finished,
        )


def load(folder: Path, model: nn.Module, config_json: str) -> Translator:
    return Translator(model, own_tokenizer(folder, model, load_tokenizer), own_decoding(folder), config_json)


def _tokenizer(section: TranslationData, run: Run, data: str | Path | None) -> Tokenizer:
    def texts() -> Iterable[str]:
        return (text for pair in section.pairs("train", data) for text in (pair.source, pair.target))

    return run_tokenizer(run, texts, section.tokenizer, section.vocabulary, section.lowercase, load_tokenizer)


def _tokenised(
    split: str, section: TranslationData, tokenizer: Tokenizer, run: Run, data: str | Path | None
) -> TokenPairs:
    def write(folder: Path) -> TokenPairs:
        skipped: Counter[str] = Counter()
        pairs = section.pairs(split, data, skipped)
        return tokenise(pairs, tokenizer, folder, max_length=section.max_length, skipped=skipped)

    return run_split(run, split, partial(TokenPairs, vocabulary=len(tokenizer)), write)
