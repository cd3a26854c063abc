"""What is planned: a preset is a recipe of which only the model is said, and a recipe brings its training with it.

Presets leave open what comes from the data. The usual sizes stand here; `model.vocabulary=50000` says others.
"""

import dataclasses
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard import settings
from regard.errors import UsageError
from regard.families import home, known, resolve
from regard.recipes import Recipe, from_values, load_recipe, names

BERTS = ("bert", "bert-classifier", "bert-tagger", "bert-embedder")
# Sizes that come from the data: usual ones, and those of the papers' own.
USUAL = {"vocabulary": 30_000, "labels": 1_000, "tags": 17, "input_size": 10, "output_size": 8}
OWN: dict[str, dict[str, int]] = {
    "luong": {"vocabulary": 50_000},
    "transformer": {"vocabulary": 37_000},
    "lstmn": {"vocabulary": 10_000},
    "lstmn-classifier": {"vocabulary": 20_000, "labels": 5},
    "han": {"vocabulary": 50_000, "labels": 5},
    "elmo": {"vocabulary": 793_471},
    "tagger": {"vocabulary": 8_000},
    **{family: {"vocabulary": 10_000} for family in ("show-tell", "attend-tell", "caption-transformer")},
    **{family: {"vocabulary": 30_522} for family in BERTS},
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
LIMITS = {"gpt2": "context"} | dict.fromkeys(BERTS, "max_length")


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
    return [f"{family}:{size}" for family in known() for size in home(family).PRESETS]


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
    fields = dataclasses.fields(home(family).Config) if family in known() else ()
    left_open = [each.name for each in fields if each.default is each.default_factory is dataclasses.MISSING]
    sizes = {name: USUAL[name] for name in left_open if name in USUAL} | OWN.get(family, {})
    if isinstance(said, int) and any(field.name == "vocabulary" for field in fields):
        sizes["vocabulary"] = said
    return resolve({**sizes, **recipe.model})


def _check(name: str) -> None:
    offered = presets()
    if name in offered:
        return
    close = difflib.get_close_matches(name, [*offered, *names()], n=3)
    family = name.partition(":")[0]
    if not close:
        close = [preset for preset in offered if preset.startswith(f"{family}:")]
    near = f"near to it are {', '.join(close)}" if close else f"a preset is FAMILY:SIZE, of {', '.join(known())}"
    raise UsageError(f"there is no preset or recipe called {name!r}: {near}")
