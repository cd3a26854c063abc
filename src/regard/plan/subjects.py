"""What is planned: a preset is a recipe of which only the model is said, and a recipe brings its training with it.

Presets leave open what comes from the data. The usual sizes stand here; `model.vocabulary=50000` says others.
"""

import dataclasses
import difflib
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard import settings
from regard.errors import UsageError
from regard.families import FAMILIES, resolve
from regard.recipes import Recipe, from_values, load_recipe, names

# Sizes that come from the data: those of the papers' own.
OPEN: dict[str, dict[str, int]] = {
    "rnn": {"vocabulary": 30_000},
    "bahdanau": {"vocabulary": 30_000},
    "luong": {"vocabulary": 50_000},
    "transformer": {"vocabulary": 37_000},
    "ntm": {"input_size": 10, "output_size": 8},
    "lstm": {"input_size": 10, "output_size": 8},
    "lstmn": {"vocabulary": 10_000},
    "lstmn-classifier": {"vocabulary": 20_000, "labels": 5},
    "han": {"vocabulary": 50_000, "labels": 5},
    "elmo": {"vocabulary": 793_471},
    "tagger": {"vocabulary": 8_000, "tags": 17},
    "vit": {"labels": 1_000},
    "image-words": {"labels": 1_000},
    "show-tell": {"vocabulary": 10_000},
    "attend-tell": {"vocabulary": 10_000},
    "caption-transformer": {"vocabulary": 10_000},
    "bert": {"vocabulary": 30_522},
    "bert-classifier": {"vocabulary": 30_522},
    "bert-tagger": {"vocabulary": 30_522},
    "bert-embedder": {"vocabulary": 30_522},
}
# Tokens of a row, where the model itself has no limit to fill.
LENGTHS = {
    "ntm": 41,  # twenty vectors to copy, and a mark
    "lstm": 41,
    "lstmn": 64,
    "han": 250,
    "elmo": 20,
    "tagger": 20,
    "show-tell": 12,
    "attend-tell": 12,
    "caption-transformer": 12,
}
USUAL_LENGTH = 25  # a sentence
LIMITS = {"gpt2": "context"} | dict.fromkeys(("bert", "bert-classifier", "bert-tagger", "bert-embedder"), "max_length")


@dataclass(frozen=True)
class Subject:
    """A model to be trained, and what its recipe says of the training."""

    name: str
    family: str
    config: Any
    recipe: Recipe
    is_recipe: bool

    def length(self, asked: int | None) -> int:
        """Tokens of a row: what was asked for, or what is usual."""
        limit = getattr(self.config, LIMITS[self.family]) if self.family in LIMITS else None
        if asked is None:
            return limit or LENGTHS.get(self.family, USUAL_LENGTH)
        if asked < 1:
            raise UsageError(f"--length {asked}: a row has at least 1 token")
        if limit is not None and asked > limit:
            key = LIMITS[self.family]
            raise UsageError(f"--length {asked}: {self.name} reads at most {limit} tokens; add model.{key}={asked}")
        return asked


def presets() -> list[str]:
    """Every `family:size`."""
    sizes = {family: importlib.import_module(module).PRESETS for family, (module, _) in FAMILIES.items()}
    return [f"{family}:{size}" for family, known in sizes.items() for size in known]


def subject(name: str, overrides: Sequence[str] = ()) -> Subject:
    """By the name of a preset or a recipe, with overrides such as `model.size=256` or `training.optimizer=muon`."""
    is_recipe = name in names() or name.endswith((".yaml", ".yml"))
    if is_recipe:
        recipe = load_recipe(name, overrides)
    else:
        _check(name)
        values: dict[str, Any] = {"model": {"preset": name}}
        for assignment in overrides:
            settings.override(values, assignment)
        recipe = from_values(values, f"the plan of {name}")
    return Subject(name, *_model(recipe), recipe, is_recipe)


def _model(recipe: Recipe) -> tuple[str, Any]:
    family = str(recipe.model.get("preset", "")).partition(":")[0]
    said = recipe.data.get("vocabulary")
    known = dict(OPEN.get(family, {}))
    if family in FAMILIES and isinstance(said, int):
        fields = {field.name for field in dataclasses.fields(importlib.import_module(FAMILIES[family][0]).Config)}
        known |= {"vocabulary": said} if "vocabulary" in fields else {}
    return resolve({**known, **recipe.model})


def _check(name: str) -> None:
    known = presets()
    if name in known:
        return
    close = difflib.get_close_matches(name, [*known, *names()], n=3)
    family = name.partition(":")[0]
    if not close:
        close = [preset for preset in known if preset.startswith(f"{family}:")]
    near = f"near to it are {', '.join(close)}" if close else f"a preset is FAMILY:SIZE, of {', '.join(FAMILIES)}"
    raise UsageError(f"there is no preset or recipe called {name!r}: {near}")
