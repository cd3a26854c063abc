"""What a run keeps of its data, made the first time it is asked for; and what lies beside the weights of a model."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from torch import nn

from regard import settings
from regard.data.captions import CaptionedImage
from regard.data.images import Preprocessing
from regard.data.tokenizer import Tokenizer
from regard.decoding.settings import Decoding
from regard.errors import RegardError, shortened, told
from regard.files import whole_file, write_text
from regard.tasks.verbs import DECODING, LABELS, PREPROCESSING, TOKENIZER
from regard.training.checkpoints import load_json
from regard.training.run import Run


class Stored(Protocol):
    """A split as a run keeps it."""

    report: dict[str, int]  # how much there is of what, and how much was left out and why


Kept = TypeVar("Kept", bound=Stored)
Item = TypeVar("Item")


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


def run_rows(
    run: Run,
    name: str,
    find: Callable[[Counter[str]], Iterable[Any]],
    from_row: Callable[[Any], Item],
    report: Callable[[list[Item], Counter[str]], str],
) -> list[Item]:
    """Return the items of a split that a task holds in memory, from `data/NAME.jsonl` of the run.

    find: returns one JSON value per item and counts what it skips; called the first time only
    from_row: makes the item of a JSON value
    report: returns what the log states of the items and of what was skipped, the first time
    """
    path = run.folder / "data" / f"{name}.jsonl"
    skipped: Counter[str] = Counter()
    is_new = not path.exists()
    if is_new:
        with whole_file(path) as file:
            file.writelines(json.dumps(row).encode() + b"\n" for row in find(skipped))
    try:
        with open(path, encoding="utf-8") as file:
            items = [from_row(json.loads(line)) for line in file]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise RegardError(f"{path}: damaged ({told(error)}); delete it to read the data again") from error
    if is_new:
        run.log(f"{name}: {report(items, skipped)}")
    return items


def run_pictures(
    run: Run, split: str, find: Callable[[Counter[str]], Iterable[CaptionedImage]], fingerprints: bool
) -> list[CaptionedImage]:
    """Return the captioned pictures of a split; the bytes of a picture are looked for in the data when they are read.

    With fingerprints, what an encoder sees of the pictures is found in a cache without the pictures themselves.
    """

    def rows(skipped: Counter[str]) -> Iterator[dict[str, Any]]:
        for picture in find(skipped):
            row = {"name": picture.name, "captions": picture.captions}
            yield row | ({"fingerprint": picture.fingerprint().hex()} if fingerprints else {})

    @cache
    def originals() -> dict[str, CaptionedImage]:
        return {picture.name: picture for picture in find(Counter())}

    def from_row(row: Any) -> CaptionedImage:
        name, fingerprint = row["name"], row.get("fingerprint")
        stored = None if fingerprint is None else bytes.fromhex(fingerprint)
        return CaptionedImage(name, tuple(row["captions"]), lambda: _original(originals(), name).read(), stored)

    def report(pictures: list[CaptionedImage], skipped: Counter[str]) -> str:
        counted = f"{len(pictures)} pictures, {sum(len(picture.captions) for picture in pictures)} captions"
        return counted + "".join(f", left out: {count} {why}" for why, count in skipped.items())

    return run_rows(run, f"{split}-captions", rows, from_row, report)


def _original(pictures: dict[str, CaptionedImage], name: str) -> CaptionedImage:
    if name not in pictures:
        raise RegardError(f"{name}: no longer in the data of the run")
    return pictures[name]


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
