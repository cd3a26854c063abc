"""A tokenised parallel corpus on disk, memory-mapped: fifty million pairs need no more RAM than fifty.

source.tokens   uint32, all source sentences one after the other
source.offsets  int64, where each sentence begins; one more for the end
target.tokens, target.offsets
report.json     how many pairs were read, kept and left out, and why
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.index_checks import check_range
from regard.data.pairs import Pair
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError, told
from regard.files import whole_folder

SIDES = ("source", "target")
ENCODE_AT_ONCE = 4096


class TokenPairs:
    """Pairs of token lists; `pairs[i]` is (source, target), each without special tokens.

    With a `vocabulary`, all tokens must be less than it.
    """

    def __init__(self, folder: Path, vocabulary: int | None = None):
        self.folder = folder
        try:
            self._offsets = {side: np.memmap(folder / f"{side}.offsets", dtype=np.int64, mode="r") for side in SIDES}
            self._tokens = {side: np.memmap(folder / f"{side}.tokens", dtype=np.uint32, mode="r") for side in SIDES}
            self.report: dict[str, int] = dict(json.loads((folder / "report.json").read_text("utf-8")))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise RegardError(
                f"{folder}: not a readable tokenised corpus ({told(error)}); delete it to make it anew"
            ) from error
        if len(self._offsets["source"]) != len(self._offsets["target"]):
            raise RegardError(f"{folder}: its two sides are not equally long; delete the folder to make it anew")
        for side in SIDES:
            if not are_starts(self._offsets[side], len(self._tokens[side])):
                raise RegardError(f"{folder}: {side}.tokens is cut short; delete the folder to make it anew")
            check_range(self._tokens[side], vocabulary, folder / f"{side}.tokens")

    def __len__(self) -> int:
        return len(self._offsets["source"]) - 1

    def __getitem__(self, index: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        return self._sentence("source", index), self._sentence("target", index)

    def _sentence(self, side: str, index: int) -> NDArray[np.uint32]:
        offsets = self._offsets[side]
        return self._tokens[side][offsets[index] : offsets[index + 1]]

    def lengths(self) -> NDArray[np.int32]:
        """Tokens per sentence, [pairs, 2]: source and target."""
        return np.stack([np.diff(self._offsets[side]).astype(np.int32) for side in SIDES], axis=1)


def are_starts(offsets: NDArray[np.int64], count: int) -> bool:
    """Whether these are places where one after the other begins among `count`, and where the last one ends."""
    return len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == count and bool((np.diff(offsets) >= 0).all())


def tokenise(
    pairs: Iterable[Pair],
    tokenizer: Tokenizer,
    folder: Path,
    *,
    max_length: int,
    skipped: Counter[str] | None = None,
) -> TokenPairs:
    """Write the tokenised corpus into `folder`, all or nothing, and open it.

    Pairs with more than `max_length` tokens on a side are left out and counted beside those the reader skipped.
    """
    skipped = Counter() if skipped is None else skipped
    with whole_folder(folder) as part:
        kept = _write(pairs, tokenizer, part, max_length, skipped)
        if kept == 0:
            told = ", ".join(f"{count} {why}" for why, count in skipped.items()) or "it is empty"
            raise RegardError(f"the corpus for {folder.name} has no usable pair ({told}); check the data section")
        (part / "report.json").write_text(json.dumps({"kept": kept, **skipped}), "utf-8")
    return TokenPairs(folder)


def _write(pairs: Iterable[Pair], tokenizer: Tokenizer, folder: Path, max_length: int, skipped: Counter[str]) -> int:
    """Stream the pairs into the four files; returns how many were kept."""
    kept, ends = 0, dict.fromkeys(SIDES, 0)
    with ExitStack() as stack:
        tokens = {side: stack.enter_context(open(folder / f"{side}.tokens", "wb")) for side in SIDES}
        offsets = {side: stack.enter_context(open(folder / f"{side}.offsets", "wb")) for side in SIDES}
        for side in SIDES:
            offsets[side].write(np.int64(0).tobytes())
        for pair in _encoded(pairs, tokenizer):
            if not all(pair):
                skipped["empty"] += 1
            elif max(map(len, pair)) > max_length:
                skipped[f"longer than {max_length} tokens"] += 1
            else:
                for side, sentence in zip(SIDES, pair, strict=True):
                    tokens[side].write(np.asarray(sentence, dtype=np.uint32).tobytes())
                    ends[side] += len(sentence)
                    offsets[side].write(np.int64(ends[side]).tobytes())
                kept += 1
    return kept


def _encoded(pairs: Iterable[Pair], tokenizer: Tokenizer) -> Iterator[tuple[list[int], list[int]]]:
    stream = iter(pairs)
    while chunk := list(islice(stream, ENCODE_AT_ONCE)):
        sources = tokenizer.encode_all([pair.source for pair in chunk])
        targets = tokenizer.target.encode_all([pair.target for pair in chunk])
        yield from zip(sources, targets, strict=True)
