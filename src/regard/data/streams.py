"""A text corpus as one stream of tokens on disk, memory-mapped, and the plan by which it is read in chunks.

tokens       uint32: an end token, then the tokens of every line, each line with its end
report.json  how many lines, words and tokens there are, and what was left out

For a tokenizer to which blanks are tokens like others (bytes, char) the end of a line is such a token too, and the text
comes back from the stream to the last character.

A chunk is `chunk` tokens to predict, with up to `context` tokens before them that are only read. What a model knows at
a chunk is made anew from that context by the weights of the moment, so a training step depends on the weights and its
place in the data alone: nothing is carried from step to step that a checkpoint would have to hold, a resumed run is
the same run, and chunks can be shuffled.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from regard.data.batching import Place
from regard.data.index_checks import check_range
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError, told
from regard.files import whole_folder

ENCODE_AT_ONCE = 4096  # texts
PIECE_CHARACTERS = 1 << 14  # of running text encoded as one string, about


def count_words(lines: Iterable[str]) -> int:
    """Words between blanks, and one end for every line: what perplexity is divided by, whatever the tokenizer."""
    return sum(len(line.split()) + 1 for line in lines)


def running_pieces(lines: Iterable[str]) -> Iterator[str]:
    """Lines as running text, each with its end, in pieces whose tokens are those of the whole.

    Byte-level BPE may join blanks, ends of lines among them, but no blank with a letter behind it: so a text is cut
    after a line's end that stands alone between two letters. Where there is none for very long it is cut at any line.
    """
    piece: list[str] = []
    size = 0
    for line in lines:
        between_letters = piece and piece[-1][-1:].strip() and line[:1].strip()
        if between_letters or size > PIECE_CHARACTERS:
            yield "\n".join(piece) + "\n"
            piece, size = [], 0
        piece.append(line)
        size += len(line) + 1
    if piece:
        yield "\n".join(piece) + "\n"


class TokenStream:
    """`stream[a:b]` are tokens. Token 0 ends a text that was not there, so that the first real token has a past.

    With a `vocabulary`, all tokens must be less than it.
    """

    def __init__(self, folder: Path, vocabulary: int | None = None):
        try:
            self._tokens = np.memmap(folder / "tokens", dtype=np.uint32, mode="r")
            self.report: dict[str, int] = json.loads((folder / "report.json").read_text("utf-8"))
            whole = len(self._tokens) == self.report["tokens"] + 1 and isinstance(self.report["words"], int)
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            raise RegardError(
                f"{folder}: not a readable stream of tokens ({told(error)}); delete it to make it anew"
            ) from error
        if not whole:
            raise RegardError(f"{folder}: tokens is cut short; delete the folder to make it anew")
        check_range(self._tokens, vocabulary, folder / "tokens")

    def __len__(self) -> int:
        """How many tokens there are to predict."""
        return len(self._tokens) - 1

    def __getitem__(self, window: slice) -> list[int]:
        return self._tokens[window].tolist()

    @property
    def words(self) -> int:
        return self.report["words"]


def write_stream(
    lines: Iterable[str], tokenizer: Tokenizer, folder: Path, skipped: Counter[str] | None = None
) -> TokenStream:
    """Write the stream into `folder`, all or nothing, and open it."""
    skipped = Counter() if skipped is None else skipped
    report = dict.fromkeys(("lines", "words", "tokens", "unknown"), 0)
    exact = tokenizer.keeps_blanks
    rest = running_pieces(lines) if exact else iter(lines)
    ends = () if exact else (tokenizer.end,)
    with whole_folder(folder) as part:
        with open(part / "tokens", "wb") as file:
            file.write(np.uint32(tokenizer.end).tobytes())
            while some := list(islice(rest, ENCODE_AT_ONCE)):
                tokens = np.array([t for text in tokenizer.encode_all(some) for t in (*text, *ends)], np.uint32)
                file.write(tokens.tobytes())
                some = [line for piece in some for line in piece.removesuffix("\n").split("\n")] if exact else some
                report["lines"] += len(some)
                report["words"] += count_words(some)
                report["tokens"] += len(tokens)
                report["unknown"] += int((tokens == tokenizer.unknown).sum())
        if report["words"] == report["lines"]:
            told = "".join(f", {count} {why}" for why, count in skipped.items())
            raise RegardError(
                f"the text for {folder.name} has no word ({report['lines']} empty lines{told}); check the data section"
            )
        (part / "report.json").write_text(json.dumps({**report, **skipped}), "utf-8")
    return TokenStream(folder)


class ChunkBatches:
    """Plans each epoch: the stream cut at places that differ from epoch to epoch, its chunks shuffled.

    Every token is predicted once per epoch. The plan depends on (seed, epoch) alone.
    """

    def __init__(self, count: int, chunk: int, rows: int, seed: int):
        self.count, self.chunk, self.rows, self.seed = count, chunk, rows, seed

    def epoch(self, number: int) -> list[list[tuple[int, int]]]:
        """Batches of chunks, each (first token, one past the last) counted among the tokens to predict."""
        draw = np.random.default_rng((self.seed, number))
        cuts = range(int(draw.integers(1, self.chunk + 1)), self.count, self.chunk)
        chunks = list(zip([0, *cuts], [*cuts, self.count], strict=True))
        order = draw.permutation(len(chunks)).tolist()
        return [[chunks[item] for item in order[at : at + self.rows]] for at in range(0, len(order), self.rows)]

    def follow(self, place: Place) -> Iterator[tuple[list[tuple[int, int]], Place]]:
        """Batches without end from `place` on, each with the place that comes after it."""
        epoch, batch = place.epoch, place.batch
        while True:
            plan = self.epoch(epoch)
            for index in range(batch, len(plan)):
                yield plan[index], Place(epoch, index + 1) if index + 1 < len(plan) else Place(epoch + 1, 0)
            epoch, batch = epoch + 1, 0
