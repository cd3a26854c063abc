"""From a recipe to a trained run folder."""

import shutil
from collections import Counter
from pathlib import Path

import torch

from regard import families, settings
from regard.data.token_pairs import TokenPairs, tokenise
from regard.data.tokenizer import Tokenizer
from regard.files import write_text
from regard.loading import load
from regard.progress import counting
from regard.recipes import Recipe, from_values
from regard.tasks.evaluate import Evaluation
from regard.tasks.evaluate import evaluate as evaluate_translator
from regard.tasks.translate import Translation, TranslationData
from regard.training.loop import Outcome, Trainer, Watcher, choose_device
from regard.training.run import Run


def train(
    recipe: Recipe, out: str | Path, data: str | Path | None = None, watcher: Watcher | None = None
) -> tuple[Run, Outcome]:
    """Train from the start into a new run folder."""
    section = settings.build(TranslationData, recipe.data, "data")
    families.resolve(recipe.model, vocabulary=1)  # a wrong model section should not cost a tokenised corpus
    section.pairs("train", data), section.pairs("valid", data)  # nor should a missing file cost a run folder
    run = Run.create(out, recipe.resolved())
    try:
        trainer = _trainer(recipe, run, data, watcher)
    except BaseException:  # a fault in the data, or Ctrl-C while it is read: leave nothing half-made behind
        shutil.rmtree(run.folder, ignore_errors=True)
        raise
    return run, trainer.train()


def resume(out: str | Path, data: str | Path | None = None, watcher: Watcher | None = None) -> tuple[Run, Outcome]:
    """Go on with a run folder exactly where its last checkpoint stands."""
    run = Run.open(out)
    recipe = recipe_of(run)
    trainer = _trainer(recipe, run, data, watcher)
    trainer.resume()
    return run, trainer.train()


def evaluate(
    run: str | Path,
    split: str = "test",
    *,
    data: str | Path | None = None,
    num_beams: int | None = None,
    length_penalty: float | None = None,
) -> Evaluation:
    """Score a run's best checkpoint on a split of its own data."""
    recipe = recipe_of(Run.open(run))
    section = settings.build(TranslationData, recipe.data, "data")
    pairs, valid = list(section.pairs(split, data)), list(section.pairs("valid", data))
    with counting("translating", len(pairs)) as finished:
        return evaluate_translator(
            load(run),
            pairs,
            bleu_tokenize=section.bleu_tokenize,
            num_beams=num_beams,
            length_penalty=length_penalty,
            valid=valid,
            finished=finished,
        )


def recipe_of(run: Run) -> Recipe:
    """The recipe a run was trained with."""
    return from_values(run.config(), str(run.folder / "config.yaml"))


def _trainer(recipe: Recipe, run: Run, data: str | Path | None, watcher: Watcher | None) -> Trainer:
    section = settings.build(TranslationData, recipe.data, "data")
    training = recipe.training_settings()
    tokenizer = _tokenizer(section, run, data)
    train, valid = (_tokenised(split, section, tokenizer, run, data) for split in ("train", "valid"))
    family, config = families.resolve(recipe.model, vocabulary=len(tokenizer), pad=tokenizer.pad)
    torch.manual_seed(training.seed)
    model = families.build_model(family, config)
    task = Translation(
        tokenizer,
        train,
        valid,
        training,
        recipe.decoding_settings(),
        families.config_json(family, config),
        choose_device(training.device),
    )
    return Trainer(model, task, training, run, watcher)


def _tokenizer(section: TranslationData, run: Run, data: str | Path | None) -> Tokenizer:
    """The run's tokenizer, learnt from its training text the first time."""
    path = run.folder / "data" / "tokenizer.json"
    if not path.exists():
        texts = (text for pair in section.pairs("train", data) for text in (pair.source, pair.target))
        write_text(path, Tokenizer.train(section.tokenizer, texts, section.vocabulary, section.lowercase).to_json())
    return Tokenizer.load(path)


def _tokenised(
    split: str, section: TranslationData, tokenizer: Tokenizer, run: Run, data: str | Path | None
) -> TokenPairs:
    """The run's tokenised corpus, written the first time; what was left out is said in the log."""
    folder = run.folder / "data" / split
    if folder.exists():
        return TokenPairs(folder)
    skipped: Counter[str] = Counter()
    pairs = tokenise(
        section.pairs(split, data, skipped), tokenizer, folder, max_length=section.max_length, skipped=skipped
    )
    told = ", ".join(f"{count} {why}" for why, count in pairs.report.items())
    run.log(f"{split}: {told}")
    return pairs
