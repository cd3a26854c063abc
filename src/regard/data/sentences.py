"""Documents as sentences of tokens on disk, memory-mapped: what BERT is pre-trained on.

tokens       uint32, all sentences one after the other
starts       int64 [sentences + 1], where each sentence begins among the tokens
documents    int64 [documents + 1], where each document begins among the sentences
report.json  how many there are, and what was left out

A document ends at an empty line, or, if a pattern says how documents begin, at the next line that matches it. One of a
single sentence has no next sentence: it is left out and counted. In running text <unk> stands for an unknown word.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np

from regard.data.documents import sentence_spans
from regard.data.frames import encode_around
from regard.data.index_checks import check_range
from regard.data.token_pairs import are_starts
from regard.data.tokenizer import UNKNOWN, Tokenizer
from regard.errors import RegardError, UsageError, told
from regard.files import whole_folder

DOCUMENTS_AT_ONCE = 64  # encoded together; changes speed, never results
DOCUMENT_STARTS = {"wikitext2": r" = [^=].* = $"}  # the title of an article


class TokenSentences:
    """The tokens of sentence i are `tokens[starts[i]:starts[i + 1]]`, the sentences of document j likewise.

    With a `vocabulary`, all tokens must be less than it.
    """

    def __init__(self, folder: Path, vocabulary: int | None = None):
        try:
            self.tokens = np.memmap(folder / "tokens", dtype=np.uint32, mode="r")
            self.starts = np.fromfile(folder / "starts", dtype=np.int64)
            self.documents = np.fromfile(folder / "documents", dtype=np.int64)
            self.report: dict[str, int] = dict(json.loads((folder / "report.json").read_text("utf-8")))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise RegardError(f"{folder}: not readable sentences ({told(error)}); delete it to make it anew") from error
        if not are_starts(self.starts, len(self.tokens)) or not are_starts(self.documents, len(self.starts) - 1):
            raise RegardError(f"{folder}: is cut short; delete the folder to make it anew")
        check_range(self.tokens, vocabulary, folder / "tokens")

    def __len__(self) -> int:
        """How many documents there are."""
        return len(self.documents) - 1


def documents(lines: Iterable[str], beginning: str | None = None) -> Iterator[list[str]]:
    """The sentences of each document."""
    begins = compiled(beginning)
    known: list[str] = []
    for line in lines:
        ended = begins.match(line) if begins else not line.strip()
        if ended and known:
            yield known
            known = []
        known += [line[start:end].strip() for start, end in sentence_spans(line)]
    if known:
        yield known


def compiled(beginning: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(beginning) if beginning else None
    except re.error as error:
        raise UsageError(f"data.document_start {beginning!r} is not a regular expression ({error})") from error


def write_sentences(
    texts: Iterator[list[str]], tokenizer: Tokenizer, folder: Path, skipped: Counter[str] | None = None
) -> TokenSentences:
    """Write the documents into `folder`, all or nothing, and open it."""
    report = Counter() if skipped is None else skipped
    lengths: list[int] = []
    counts: list[int] = []
    unknown = 0
    with whole_folder(folder) as part:
        with open(part / "tokens", "wb") as file:
            while together := list(islice(texts, DOCUMENTS_AT_ONCE)):
                rows = encode_around(tokenizer, chain.from_iterable(together), UNKNOWN, tokenizer.unknown)
                for document in together:
                    sentences = [row for row in islice(rows, len(document)) if row]
                    if len(sentences) < 2:
                        report["documents of one sentence"] += 1
                        continue
                    tokens = np.fromiter(chain.from_iterable(sentences), dtype=np.uint32)
                    file.write(tokens.tobytes())
                    lengths += map(len, sentences)
                    counts.append(len(sentences))
                    unknown += int((tokens == tokenizer.unknown).sum())
        if not counts:
            told = ", ".join(f"{count} {why}" for why, count in report.items()) or "it is empty"
            raise RegardError(f"the {folder.name} split has no document of two sentences ({told}); check the files")
        for name, sizes in (("starts", lengths), ("documents", counts)):
            np.cumsum([0, *sizes], dtype=np.int64).tofile(part / name)
        kept = {"documents": len(counts), "sentences": len(lengths), "tokens": sum(lengths), "unknown": unknown}
        (part / "report.json").write_text(json.dumps({**kept, **report}), "utf-8")
    return TokenSentences(folder)
