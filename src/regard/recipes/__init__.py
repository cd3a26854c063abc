"""Named runs. A recipe is a YAML file with the sections `data`, `model`, `training` and `decoding`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from regard import settings
from regard.decoding.settings import Decoding
from regard.errors import UsageError, shortened, told
from regard.training.settings import Training

# What a recipe may be for, and the module that knows how (see regard.recipes.jobs).
TASKS = {
    "translate": "regard.recipes.jobs.translate",
    "classify": "regard.recipes.jobs.classify",
    "classify-images": "regard.recipes.jobs.classify_images",
    "regions": "regard.recipes.jobs.regions",
    "caption": "regard.recipes.jobs.caption",
    "language-model": "regard.recipes.jobs.language_model",
    "bidirectional-lm": "regard.recipes.jobs.bidirectional_lm",
    "tag": "regard.recipes.jobs.tag",
    "mask-fill": "regard.recipes.jobs.mask_fill",
    "algorithm": "regard.recipes.jobs.algorithm",
    "few-shot": "regard.recipes.jobs.few_shot",
    "bandit": "regard.recipes.jobs.bandit",
}


@dataclass(frozen=True)
class Recipe:
    """What a run is made of; sections that belong to a task or a model stay plain until those read them."""

    about: str = ""  # one line for `regard recipes`
    result: str = ""  # what to expect of it, measured
    task: str = "translate"
    start: str | None = None  # a run or checkpoint to begin with: its tokenizer, and its weights where they fit
    data: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    decoding: dict[str, Any] = field(default_factory=dict)

    def training_settings(self) -> Training:
        return settings.build(Training, self.training, "training")

    def decoding_settings(self) -> Decoding:
        return settings.build(Decoding, self.decoding, "decoding")

    def resolved(self) -> dict[str, Any]:
        """The recipe with every default spelt out where it is known: what `config.yaml` of a run holds."""
        values = asdict(self)
        training = asdict(self.training_settings())
        training["betas"] = list(training["betas"])
        return {**values, "training": training, "decoding": asdict(self.decoding_settings())}


def names() -> list[str]:
    """The recipes that come with regard."""
    folder = resources.files(__name__)
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def load_recipe(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """A recipe by name, or from a YAML file, with `section.key=value` overrides applied."""
    values = _read(name)
    for assignment in overrides:
        settings.override(values, assignment)
    return from_values(values, f"recipe {name}")


def from_values(values: dict[str, Any], where: str) -> Recipe:
    """Check a recipe's keys; the training and decoding sections are checked to the last key."""
    recipe = settings.build(Recipe, values, where)
    if recipe.task not in TASKS:
        raise UsageError(f"{where}: there is no task {shortened(recipe.task)}; choose one of {', '.join(TASKS)}")
    recipe.training_settings(), recipe.decoding_settings()
    return recipe


def _read(name: str) -> dict[str, Any]:
    if name.endswith((".yaml", ".yml")):
        text = _text(Path(name))
    elif name in names():
        text = resources.files(__name__).joinpath(f"{name}.yaml").read_text("utf-8")
    else:
        raise UsageError(
            f"there is no recipe {shortened(name)}{settings.suggestion(name, names())}: "
            f"choose one of {', '.join(names())}, or give a .yaml file"
        )
    values = settings.read_yaml(text, name)
    if not isinstance(values, dict):
        raise UsageError(f"{name}: a recipe has the sections data, model, training and decoding; this file has none")
    return values


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            raise UsageError(f"{path}: no such recipe file")
        with path.open("rb") as file:
            # A few bytes more than can be read as YAML: that reader says what is wrong with a long one.
            return file.read(4 * settings.LONGEST_YAML + 4).decode("utf-8", errors="replace")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read ({told(error)})") from error
