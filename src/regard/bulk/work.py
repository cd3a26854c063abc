"""What is done to a part: read its rows, let the model answer, write them all with the answers beside them.

Every engine calls this for the same parts, so the batches are the same, and so are the results, whoever computes them.
No row is lost: one without a text, with one that is too long, or with one that the model refuses, has no result (null)
and is counted.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow
import torch

from regard.bulk.answers import VERBS, Columns, Options
from regard.bulk.files import Reader, write
from regard.bulk.parts import KEY, Done, Part, finished, footer
from regard.errors import RegardError, UsageError
from regard.loading import checkpoint_folder, load_for
from regard.public.hub import PREFIX
from regard.training.checkpoints import OPTIMIZER, TRAINER


@dataclass(frozen=True)
class Job:
    """A verb with its options, the texts it is for, and where the results go."""

    verb: str
    run: str
    checkpoint: str  # the fingerprint of its files
    out: str
    columns: tuple[str, ...] = ("text",)  # of the texts; two of them hold pairs
    int8: bool = False
    options: Options = field(default_factory=dict)  # of the verb's function

    def identity(self) -> dict[str, Any]:
        """What the results depend on, beside the input; in JSON's words."""
        given = {name: value for name, value in self.options.items() if value is not None}
        if "dictionary" in given:  # too long for every footer
            given["dictionary"] = hashlib.sha256(json.dumps(given["dictionary"]).encode()).hexdigest()
        options = {**given, "int8": self.int8}
        known = {"verb": self.verb, "checkpoint": self.checkpoint, "column": self.columns, "options": options}
        return dict(json.loads(json.dumps(known, sort_keys=True)))


def fingerprint(folder: Path) -> str:
    """Of everything in a checkpoint but what only a training needs."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in name.parts)
        if path.is_file() and not hidden and path.name not in (OPTIMIZER, TRAINER):
            digest.update(f"{name.as_posix()}\0".encode())
            with open(path, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def pinned(run: str | Path) -> tuple[str, Path]:
    """A RUN by a name that means the same checkpoint later and on every machine, and where it lies here."""
    folder = checkpoint_folder(run)
    if str(run).startswith(PREFIX):
        repository = str(run).removeprefix(PREFIX).partition("@")[0]
        return f"{PREFIX}{repository}@{folder.name}", folder  # a snapshot's folder is called after its commit
    return str(folder.resolve()), folder.resolve()


class Worker:
    """Does parts, one after the other; the model is loaded with the first, and once."""

    def __init__(self, job: Job, threads: int | None = None):
        self.job, self.verb, self.reader = job, VERBS[job.verb], Reader()
        if threads is not None:
            torch.set_num_threads(threads)

    @cached_property
    def model(self) -> Any:
        folder = checkpoint_folder(self.job.run)
        if fingerprint(folder) != self.job.checkpoint:
            raise RegardError(f"{folder} is not the checkpoint this was begun with, or not the same on every machine")
        loaded = load_for(self.job.verb, folder, int8=self.job.int8)
        if not isinstance(loaded, self.verb.kind):
            raise UsageError(f"{folder} holds a {type(loaded).__name__}, which reads no texts, or each word by itself")
        return loaded

    @cached_property
    def blank(self) -> Columns:
        """The answer to a text without a word: wrong options show here, before any part; and it has all columns."""
        return self.answers([("", "") if len(self.job.columns) > 1 else ""], 0)

    def answers(self, texts: Sequence[Any], number: int) -> Columns:
        """The results of texts, the first of which has this number in the corpus."""
        return self.verb.answer(self.model, texts, number, self.job.options)

    def do(self, part: Part) -> Done:
        """Write a part, unless it is there: an actor may have been lost between writing it and saying so."""
        known = finished(self.job.out, part, self.job.identity())
        if known is not None:
            return known
        table = self.reader.rows(part.url, part.first, part.count)
        texts, reasons = self.texts(table)
        columns, refused = self.answered(texts, part.start)
        reasons |= dict.fromkeys(refused, "refused")
        for name, column in columns.items():
            table = table.append_column(name, without(column, reasons))
        if "label" in columns:
            silent = [row for row, label in enumerate(columns["label"].to_pylist()) if label is None]
            reasons = dict.fromkeys(silent, "without a word") | reasons
        done = Done(part.number, len(table), dict(Counter(reasons.values())), next(iter(refused.values()), ""))
        # The features of Hugging Face's datasets would no longer be those of the table.
        kept = {key: value for key, value in (table.schema.metadata or {}).items() if key not in (KEY, b"huggingface")}
        told = {**kept, KEY: footer(part, self.job.identity(), done)}
        write(table.replace_schema_metadata(told), self.job.out, part.name)
        return done

    def texts(self, table: Any) -> tuple[list[Any], dict[int, str]]:
        """A text, or a pair, of every row; it is empty where there is none to be read, and the reason is said."""
        reasons: dict[int, str] = {}
        columns = [texts_of(table.column(name), self.verb.longest, reasons) for name in self.job.columns]
        blank = ("",) * len(columns)
        rows = [blank if row in reasons else cells for row, cells in enumerate(zip(*columns, strict=True))]
        return [cells if len(cells) > 1 else cells[0] for cells in rows], reasons

    def answered(self, texts: Sequence[Any], number: int) -> tuple[Columns, dict[int, str]]:
        """The results of all texts, and what was said of those the model refuses, which get a blank one."""
        pieces = [{name: column.slice(0, 0) for name, column in self.blank.items()}]
        refused: dict[int, str] = {}
        waiting = [(0, len(texts))] if texts else []
        while waiting:
            low, high = waiting.pop()
            try:
                pieces.append(self.answers(texts[low:high], number + low))
            except RegardError as error:
                # One text spoils the others' batch: halve it until that one is alone, the first half first.
                middle = (low + high) // 2
                if low < middle:
                    waiting += [(middle, high), (low, middle)]
                    continue
                pieces.append(self.blank)
                refused[low] = str(error)
        return {name: pyarrow.concat_arrays([piece[name] for piece in pieces]) for name in self.blank}, refused


def texts_of(column: Any, longest: int, reasons: dict[int, str]) -> list[str]:
    """The texts of a column; what is none is empty, and `reasons` says why."""
    texts = []
    for row, cell in enumerate(column.cast(pyarrow.large_string()).cast(pyarrow.large_binary()).to_pylist()):
        try:
            text = "" if cell is None else cell.decode("utf-8")
        except UnicodeDecodeError:  # Parquet promises UTF-8, but nobody checks
            text = ""
            reasons[row] = "not UTF-8"
        if cell is None:
            reasons[row] = "null"
        elif len(text) > longest:
            reasons[row] = "too long"
        texts.append(text)
    return texts


def without(column: Any, rows: dict[int, str]) -> Any:
    """The column with null in these rows."""
    if not rows:
        return column
    return column.take(pyarrow.array([None if row in rows else row for row in range(len(column))], pyarrow.int64()))
