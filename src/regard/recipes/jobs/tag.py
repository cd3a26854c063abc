"""Tagging runs: a treebank, a vocabulary of words, a tagger, with or without a pretrained ELMo inside."""

import json
from collections import Counter
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, cast

from torch import nn

from regard import families, settings
from regard.data.conllu import TaggedSentence
from regard.data.written import written
from regard.errors import UsageError
from regard.layers.bilm import ReaderSizes
from regard.loading import checkpoint_folder
from regard.loading import load as load_run
from regard.models.bert import BertTagger
from regard.models.elmo import Config as ElmoConfig
from regard.models.elmo import Elmo, read_original
from regard.progress import counting
from regard.recipes import Recipe
from regard.recipes.jobs import EvaluationOptions
from regard.recipes.jobs.kept import own_names, own_tokenizer, run_rows, run_tokenizer
from regard.tasks.tag import TagData, Tagging
from regard.tasks.tag_scores import TagScores
from regard.tasks.tagger import Tagger
from regard.tasks.token_tagger import TokenTagger
from regard.tasks.verbs import TAGS
from regard.training import checkpoints
from regard.training.loop import choose_device
from regard.training.run import Run

TASK = "tag"


def check(recipe: Recipe, data: str | Path | None) -> None:
    section = settings.build(TagData, recipe.data, "data")
    _refuse_elmo_sizes(recipe)
    known = _known(_elmo(section.elmo).config) if section.elmo else {}
    families.check(recipe.model, vocabulary=1, tags=2, **known)
    section.sentences("train", data), section.sentences("valid", data)


def prepare(recipe: Recipe, run: Run, data: str | Path | None) -> tuple[Tagger, Tagging]:
    section = settings.build(TagData, recipe.data, "data")
    training = recipe.training_settings()
    train, valid = (_sentences(split, section, run, data) for split in ("train", "valid"))
    tags = sorted({tag for sentence in (*train, *valid) for tag in sentence.tags})
    texts = (" ".join(sentence.words) for sentence in train)
    tokenizer = run_tokenizer(run, lambda: texts, "word", section.vocabulary, section.lowercase)
    elmo = _own_elmo(section, run)
    known = _known(elmo.config) if elmo else {}
    known |= {"vocabulary": len(tokenizer), "tags": len(tags)}
    model, config_json = families.seeded(recipe.model, TASK, training.seed, **known)
    if elmo:
        # A tagger that listens to one layer has no place for those above it.
        model.elmo.load_state_dict({name: elmo.reader.state_dict()[name] for name in model.elmo.state_dict()})
    tagger = Tagger(model, tokenizer, tags, config_json)
    return tagger, Tagging(tagger.speller, tags, train, valid, training, choose_device(training.device))


def evaluate(
    run: str | Path, recipe: Recipe, split: str, data: str | Path | None, options: EvaluationOptions
) -> TagScores:
    section = settings.build(TagData, recipe.data, "data")
    sentences = list(section.sentences(split, data))
    tagger: Tagger = load_run(run, int8=options.int8)
    with counting("tagging", len(sentences)) as finished:
        return tagger.evaluate(sentences, finished)


def load(folder: Path, model: nn.Module, config_json: str) -> Tagger | TokenTagger:
    """A Tagger of whole words, or, around a BERT that labels every piece of them, a TokenTagger."""
    tokenizer, config = own_tokenizer(folder, model), cast(Any, model.config)
    if isinstance(model, BertTagger):
        return TokenTagger(model, tokenizer, own_names(folder, TAGS, "tags", config.labels), config_json)
    return Tagger(model, tokenizer, own_names(folder, TAGS, "tags", config.tags), config_json)


def _sentences(split: str, section: TagData, run: Run, data: str | Path | None) -> list[TaggedSentence]:
    def from_row(row: Any) -> TaggedSentence:
        return TaggedSentence(tuple(row["words"]), tuple(row["tags"]), row["place"])

    def report(sentences: list[TaggedSentence], skipped: Counter[str]) -> str:
        counted = f"{len(sentences)} sentences, {sum(len(known.words) for known in sentences)} words"
        return counted + "".join(f", {count} {why}" for why, count in skipped.items())

    return run_rows(run, split, lambda skipped: map(asdict, section.sentences(split, data, skipped)), from_row, report)


def _refuse_elmo_sizes(recipe: Recipe) -> None:
    if "elmo" in recipe.model:
        raise UsageError("model.elmo is read from the language model itself: name its run in data.elmo")


def _known(config: ElmoConfig) -> dict[str, Any]:
    """What an ELMo settles of its tagger: its own sizes, and how long words are."""
    sizes = {field.name: getattr(config, field.name) for field in fields(ReaderSizes)}
    return {"elmo": json.loads(json.dumps(sizes)), "max_chars": config.max_chars}


def _own_elmo(section: TagData, run: Run) -> Elmo | None:
    """The run's own copy of its language model: it can go on when the other run has moved or learnt more."""
    if section.elmo is None:
        return None
    folder = run.folder / "data" / "elmo"
    if not folder.exists():
        elmo = _elmo(section.elmo)
        checkpoints.save(folder, elmo, {"config.json": json.dumps(asdict(elmo.config), indent=1)})
    values = checkpoints.load_json(folder / "config.json")
    elmo = Elmo(settings.build(ElmoConfig, values, str(folder / "config.json")))
    checkpoints.load_weights(elmo, folder)
    return elmo


def _elmo(place: str) -> Elmo:
    """A bidirectional language model of ours, or a published one."""
    folder = written(place)
    if (folder / "options.json").is_file():
        weights = sorted([*folder.glob("*weights*.hdf5"), *folder.glob("*weights*.h5")])
        if len(weights) != 1:
            raise UsageError(f"data.elmo: {place} holds {len(weights)} files named *weights*.hdf5 beside options.json")
        return read_original(folder / "options.json", weights[0])
    values = checkpoints.load_json(checkpoint_folder(folder) / "config.json")
    if values.get("family") != "elmo":
        raise UsageError(f"data.elmo: {place} holds a model of the family {values.get('family')!r}, not an ELMo")
    model: Elmo = load_run(folder, "cpu").model
    return model
