"""Few-shot runs: pictures of many classes, kept as bytes of one shape, and a model that learns to compare."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from regard import families, settings
from regard.data.drawings import DrawingPreprocessing
from regard.data.images import ImageSet, Preprocessing, store_images
from regard.errors import UsageError
from regard.loading import load as load_run
from regard.progress import counting
from regard.recipes import Recipe
from regard.recipes.jobs import EvaluationOptions
from regard.recipes.jobs.kept import own_preprocessing
from regard.tasks.few_shot import FewShot, FewShotData
from regard.tasks.matcher import EPISODES, FEW_SHOT, FewShotScores, Matcher
from regard.training import checkpoints
from regard.training.loop import choose_device
from regard.training.run import Run

TASK = "few-shot"


def check(recipe: Recipe, data: str | Path | None) -> None:
    section = settings.build(FewShotData, recipe.data, "data")
    family = str(recipe.model.get("preset")).partition(":")[0]
    if family != "snail":
        raise UsageError(f"few-shot episodes are read by a snail, not by a {family}: set model.preset")
    _, config = families.resolve(recipe.model, ways=section.ways, shots=section.shots)
    section.preprocessing(config.image_size, config.channels)
    families.check(recipe.model, ways=section.ways, shots=section.shots)
    section.images("train", data), section.images("valid", data)  # a missing folder should not cost a run folder
    _refuse_known_classes(section)


def prepare(recipe: Recipe, run: Run, data: str | Path | None) -> tuple[Matcher, FewShot]:
    section = settings.build(FewShotData, recipe.data, "data")
    training, known = recipe.training_settings(), {"ways": section.ways, "shots": section.shots}
    model, config_json = families.seeded(recipe.model, TASK, training.seed, **known)
    preprocessing = section.preprocessing(model.config.image_size, model.config.channels)
    place = run.folder / "data"
    train, valid = (_stored(split, section, preprocessing, place, data, run.log) for split in ("train", "valid"))
    task = FewShot(train, valid, section, training, preprocessing, choose_device(training.device))
    return Matcher(model, preprocessing, config_json), task


def evaluate(
    run: str | Path, recipe: Recipe, split: str, data: str | Path | None, options: EvaluationOptions
) -> FewShotScores:
    section = settings.build(FewShotData, recipe.data, "data")
    matcher: Matcher = load_run(run, int8=options.int8)
    place = Run.open(run).folder / "data"
    with tempfile.TemporaryDirectory() as own, counting("matching", EPISODES) as finished:
        folder = place if (place / split).exists() else Path(own)  # an evaluation leaves nothing behind
        images = _stored(split, section, matcher.preprocessing, folder, data)
        return matcher.evaluate(images, split, finished=finished, shots=options.shots)


def load(folder: Path, model: nn.Module, config_json: str) -> Matcher:
    config: Any = model.config
    kind = DrawingPreprocessing if checkpoints.load_json(folder / FEW_SHOT).get("drawings") else Preprocessing
    return Matcher(model, own_preprocessing(folder, config.channels, kind), config_json)


def _stored(
    split: str,
    section: FewShotData,
    preprocessing: Preprocessing,
    place: Path,
    data: str | Path | None,
    say: Callable[[str], None] = lambda line: None,
) -> ImageSet:
    """The pictures of a split, written below `place` the first time; `say` hears of what was left out."""
    folder = place / split
    if folder.exists():
        return ImageSet(folder)
    classes = sorted({known.label for known in section.images(split, data)})
    images = store_images(section.images(split, data), classes, preprocessing, folder, say)
    say(f"{split}: {len(classes)} classes, " + ", ".join(f"{count} {why}" for why, count in images.report.items()))
    return images


def _refuse_known_classes(section: FewShotData) -> None:
    """Named sets see to it themselves; in folders of one's own a class must not be in two splits."""
    if section.name is None:
        train, valid = ({known.label for known in section.images(split, None)} for split in ("train", "valid"))
        if train & valid:
            raise UsageError(
                f"the class {min(train & valid)!r} is in both {section.train} and {section.valid}: "
                "an episode must hold classes that were never trained on; move it"
            )
