"""What a run keeps of its data, made the first time it is asked for; and what lies beside the weights of a model."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, TypeVar

from torch import nn

from regard import settings
from regard.data.images import Preprocessing
from regard.data.tokenizer import Tokenizer
from regard.decoding.settings import Decoding
from regard.errors import RegardError, shortened
from regard.files import write_text
from regard.tasks.verbs import DECODING, LABELS, PREPROCESSING, TOKENIZER
from regard.training.checkpoints import load_json
from regard.training.run import Run


class Stored(Protocol):
    """A split as a run keeps it."""

    report: dict[str, int]  # how much there is of what, and how much was left out and why


Kept = TypeVar("Kept", bound=Stored)


# Of a run. What is there is never read again from the data, which may be gone when a run is resumed.


def run_tokenizer(
    run: Run,
    texts: Callable[[], Iterable[str]],
    kind: str,
    vocabulary: int,
    lowercase: bool = False,
    load: Callable[[Path], Tokenizer] = Tokenizer.load,
) -> Tokenizer:
    """The run's tokenizer, learnt from its training texts the first time."""
    path = run.folder / "data" / TOKENIZER
    if not path.exists():
        write_text(path, Tokenizer.train(kind, texts(), vocabulary, lowercase).to_json())
    return load(path)


def run_labels(run: Run, find: Callable[[], list[str]], name: str = LABELS) -> list[str]:
    """The run's labels, found in its training data the first time."""
    path = run.folder / "data" / name
    if not path.exists():
        write_text(path, json.dumps({"labels": find()}, indent=1, ensure_ascii=False))
    return names_in(path, "labels")


def run_split(run: Run, split: str, opened: Callable[[Path], Kept], write: Callable[[Path], Kept]) -> Kept:
    """A split of the run's data, written the first time; what it holds and what was left out is said in the log."""
    folder = run.folder / "data" / split
    if folder.exists():
        return opened(folder)
    made = write(folder)
    run.log(f"{split}: " + ", ".join(f"{count} {what}" for what, count in made.report.items()))
    return made


# Of a checkpoint.


def own_tokenizer(folder: Path, model: nn.Module, load: Callable[[Path], Tokenizer] = Tokenizer.load) -> Tokenizer:
    """A model's tokenizer, which must have as many tokens as the model."""
    tokenizer = load(folder / TOKENIZER)
    vocabulary = model.config.vocabulary  # type: ignore[union-attr]
    if len(tokenizer) != vocabulary:
        raise RegardError(
            f"{folder}: the tokenizer has {len(tokenizer)} tokens but the model {vocabulary}; "
            "they do not belong together"
        )
    return tokenizer


def own_names(folder: Path, file: str, key: str, count: int) -> list[str]:
    """The names of a model's labels, tags or words, which must be as many as it tells apart."""
    found = names_in(folder / file, key)
    if len(found) != count:
        raise RegardError(f"{folder}: {len(found)} {key} lie beside a model of {count}; they do not belong together")
    return found


def names_in(path: Path, key: str) -> list[str]:
    """The list of names that a JSON file has under a key."""
    found = load_json(path).get(key)
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise RegardError(f"{path}: {key} is {shortened(found)} but must be a list of texts")
    return found


def own_decoding(folder: Path) -> Decoding:
    """How a checkpoint decodes if nothing else is asked for."""
    place = folder / DECODING
    return settings.build(Decoding, load_json(place), str(place))


def own_preprocessing(folder: Path, channels: int, kind: type[Preprocessing] = Preprocessing) -> Preprocessing:
    """How a checkpoint sees pictures."""
    place = folder / PREPROCESSING
    return kind.from_values(load_json(place), channels, str(place))
