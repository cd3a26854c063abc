"""Tokenised, labelled documents on disk, memory-mapped, and their batches.

tokens      uint32, all documents one after the other
lengths     uint32, the tokens of every sentence
offsets     int64 [documents + 1, 2], where each document begins among the tokens and among the sentences
labels      int64, one number per document
report.json how many texts were kept, cut and left out, and why
"""

import json
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.batching import TokenBatches
from regard.data.documents import Encoded, WordEncoder, read_document
from regard.data.frames import Frame
from regard.data.index_checks import check_range
from regard.data.labelled import Labelled
from regard.data.token_pairs import are_starts
from regard.errors import RegardError, UsageError, told
from regard.files import whole_folder

Items = NDArray[np.int64]
KINDS = {"tokens": np.uint32, "lengths": np.uint32, "offsets": np.int64, "labels": np.int64}


class TokenDocuments:
    """`documents[i]` is an encoded document, `documents.labels[i]` the number of its label.

    With a `vocabulary`, all tokens must be less than it, and with a number of `labels`, all labels.
    """

    def __init__(self, folder: Path, vocabulary: int | None = None, labels: int | None = None):
        try:
            files = {name: np.memmap(folder / name, dtype=kind, mode="r") for name, kind in KINDS.items()}
            self.report: dict[str, int] = dict(json.loads((folder / "report.json").read_text("utf-8")))
            self.tokens, self.lengths, self.labels = files["tokens"], files["lengths"], files["labels"]
            self.offsets = files["offsets"].reshape(-1, 2)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise RegardError(f"{folder}: not readable documents ({told(error)}); delete it to make it anew") from error
        if not self._is_whole():
            raise RegardError(f"{folder}: is cut short; delete the folder to make it anew")
        check_range(self.tokens, vocabulary, folder / "tokens")
        check_range(self.labels, labels, folder / "labels")

    def _is_whole(self) -> bool:
        """Documents follow one another, each with a label and a sentence, and their sentences make up their tokens."""
        tokens, sentences = self.offsets[:, 0], self.offsets[:, 1]
        if not are_starts(tokens, len(self.tokens)) or not are_starts(sentences, len(self.lengths)):
            return False
        ends = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])
        has_sentences = bool((np.diff(sentences) > 0).all())
        return has_sentences and np.array_equal(ends[sentences], tokens) and len(self) == len(self.labels)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Encoded:
        (token, sentence), (token_end, sentence_end) = self.offsets[index], self.offsets[index + 1]
        return Encoded(self.tokens[token:token_end], self.lengths[sentence:sentence_end])

    def shapes(self) -> NDArray[np.int64]:
        """For each document [its sentences, the tokens of its longest sentence]."""
        longest = np.maximum.reduceat(self.lengths, self.offsets[:-1, 1])
        return np.stack([np.diff(self.offsets[:, 1]), longest], axis=1)

    def token_counts(self) -> NDArray[np.int64]:
        return np.diff(self.offsets[:, 0])


def tokenise_documents(
    texts: Iterable[Labelled],
    encoder: WordEncoder,
    labels: dict[str, int],
    folder: Path,
    *,
    max_words: int,
    max_sentences: int | None = None,
    max_length: int | None = None,
    frame: Frame | None = None,
    skipped: Counter[str] | None = None,
) -> TokenDocuments:
    """Write the documents into `folder`, all or nothing, and open it.

    Of longer documents the first `max_sentences` sentences or `max_length` tokens are kept; how many were cut is
    counted. With a `frame` each text or pair of texts becomes one row of it. A label that has no number is an error
    that names it and its place.
    """
    report = Counter() if skipped is None else skipped
    offsets, numbers = [(0, 0)], []
    with whole_folder(folder) as part:
        with ExitStack() as stack:
            tokens, lengths = (stack.enter_context(open(part / name, "wb")) for name in ("tokens", "lengths"))
            for known in texts:
                number = label_number(known, labels)
                if frame is not None:
                    document, was_cut = frame.encode(known.text, known.second)
                    cuts = [f"cut to {frame.max_length} tokens"] * was_cut
                else:
                    document, cuts = _encoded(known, encoder, max_words, max_sentences, max_length)
                if len(document.tokens) == 0:
                    report["without a word"] += 1
                    continue
                report.update(cuts)
                tokens.write(document.tokens.astype(np.uint32).tobytes())
                lengths.write(document.lengths.astype(np.uint32).tobytes())
                offsets.append((offsets[-1][0] + len(document.tokens), offsets[-1][1] + len(document.lengths)))
                numbers.append(number)
        if not numbers:
            told = ", ".join(f"{count} {why}" for why, count in report.items()) or "it is empty"
            raise RegardError(f"the {folder.name} split has no usable text ({told}); check the data section")
        for name, values in (("offsets", offsets), ("labels", numbers)):
            (part / name).write_bytes(np.asarray(values, dtype=KINDS[name]).tobytes())
        kept = {"kept": len(numbers), **{why: count for why, count in report.items() if count}}
        (part / "report.json").write_text(json.dumps(kept), "utf-8")
    return TokenDocuments(folder)


def _encoded(
    known: Labelled, encoder: WordEncoder, max_words: int, max_sentences: int | None, max_length: int | None
) -> tuple[Encoded, list[str]]:
    """A document, and how it was cut."""
    if known.second is not None:
        raise UsageError(f"{known.place}: a pair of texts needs a model that reads pairs, such as a BERT")
    words = read_document(known.text, max_words).words()
    whole = encoder.encode(words[:max_sentences])
    document = cut(whole, max_length)
    cuts = [f"cut to {max_sentences} sentences"] * (len(words) > len(words[:max_sentences]))
    return document, cuts + [f"cut to {max_length} tokens"] * (len(document.tokens) < len(whole.tokens))


def label_number(known: Labelled, labels: dict[str, int]) -> int:
    if known.label not in labels:
        names = ", ".join(map(repr, list(labels)[:10])) + ", ..." * (len(labels) > 10)
        raise RegardError(f"{known.place}: the label {known.label!r} is not one of those in the training data: {names}")
    return labels[known.label]


def cut(document: Encoded, max_length: int | None) -> Encoded:
    """The first `max_length` tokens of a document."""
    if max_length is None or len(document.tokens) <= max_length:
        return document
    before = np.cumsum(document.lengths) - document.lengths
    lengths = np.clip(max_length - before, 0, document.lengths)
    return Encoded(document.tokens[:max_length], lengths[lengths > 0])


class DocumentBatches(TokenBatches):
    """Plans each epoch's batches of documents in random order. The sentences of a batch are read side by side, so its
    size is their number times the longest of them; documents need not be of like length."""

    def __init__(self, shapes: NDArray[np.int64], budget: int, seed: int):
        super().__init__(shapes[:, 0], budget, seed)
        self.shapes = shapes

    def epoch(self, number: int) -> list[Items]:
        order = np.random.default_rng((self.seed, number)).permutation(len(self.shapes))
        return fill_documents(order, self.shapes, self.budget)


def fill_documents(items: Items, shapes: NDArray[np.int64], budget: int) -> list[Items]:
    """Cut `items`, in their order, into batches of at most `budget` padded words of all sentences."""
    batches, start, sentences, longest = [], 0, 0, 0
    for index, (count, length) in enumerate(shapes[items].tolist()):
        sentences, longest = sentences + count, max(longest, length)
        if index > start and sentences * longest > budget:
            batches.append(items[start:index])
            start, sentences, longest = index, count, length
    if start < len(items):
        batches.append(items[start:])
    return batches


def documents_in_order(shapes: NDArray[np.int64], budget: int) -> list[Items]:
    """Every document once, those with most sentences first: for evaluation."""
    return fill_documents(np.lexsort((-shapes[:, 1], -shapes[:, 0])), shapes, budget)
