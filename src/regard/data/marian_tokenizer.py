"""The tokenizer of Marian's translators: two SentencePiece models, one for each language, and one vocabulary.

source.spm, target.spm   how a text falls into pieces ("▁" in front of a word's first piece)
vocab.json               the number of each piece; the numbers inside the SentencePiece models are not used

A multilingual model is told the language to translate into by a first word such as `>>deu<<`, one token of the
vocabulary. A checkpoint of ours holds all of it in one `tokenizer.json`, which `load_tokenizer` tells from others.

Tokens are those of `transformers`, except that a text that spells `</s>` is text here, and that only `>>word<<` is
taken for a language, not everything from `>>` to the next `<<`.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.data.tokenizer import END, MARK, NO_TOKEN, PAD, UNKNOWN, Tokenizer
from regard.errors import RegardError, UsageError, told

KIND = "marian"
LANGUAGE = re.compile(r">>[^\s<>]+<<")
HOLE = "\ue000"  # stands for an unknown piece while SentencePiece joins the others; of private use, in no text


class MarianTokenizer(Tokenizer):
    """Encodes sources; `.target` encodes targets. A sentence to be said begins with the padding token."""

    def __init__(self, source: bytes, target: bytes, vocabulary: Mapping[str, int], place: str = "the tokenizer"):
        self._read, self._said = (_pieces_of(model, place) for model in (source, target))
        self._numbers = _checked(vocabulary, place)
        self._tokens = {number: piece for piece, number in self._numbers.items()}
        self.pad, self.end, self.unknown = (self._numbers[token] for token in (PAD, END, UNKNOWN))
        self.start, self.mask = self.pad, NO_TOKEN

    @classmethod
    def open(cls, folder: Path) -> "MarianTokenizer":
        """From the files of a public checkpoint."""
        found = {name: _bytes(folder, name) for name in ("source.spm", "target.spm", "vocab.json")}
        if _options(folder).get("separate_vocabs"):
            raise UsageError(f"{folder}: separate_vocabs, a vocabulary for each language, is not implemented")
        try:
            vocabulary = json.loads(found["vocab.json"])
        except (ValueError, RecursionError) as error:
            raise RegardError(f"{folder / 'vocab.json'}: not JSON ({told(error)})") from error
        return cls(found["source.spm"], found["target.spm"], vocabulary, str(folder))

    @classmethod
    def from_values(cls, values: Mapping[str, Any], place: str) -> "MarianTokenizer":
        """From what `to_json` wrote."""
        try:
            source, target = (base64.b64decode(values[side], validate=True) for side in ("source", "target"))
        except (KeyError, TypeError, ValueError) as error:
            raise RegardError(f"{place}: not a readable tokenizer ({told(error)})") from error
        return cls(source, target, values.get("vocabulary", {}), place)

    def to_json(self) -> str:
        source, target = (
            base64.b64encode(model.serialized_model_proto()).decode("ascii") for model in (self._read, self._said)
        )
        return json.dumps({"kind": KIND, "source": source, "target": target, "vocabulary": self._numbers})

    @cached_property
    def target(self) -> "MarianTokenizer":
        model = self._said.serialized_model_proto()
        return MarianTokenizer(model, model, self._numbers)

    @property
    def languages(self) -> list[str]:
        """What a multilingual model may be asked for, such as `>>deu<<`."""
        return [piece for piece in self._numbers if LANGUAGE.fullmatch(piece)]

    def __len__(self) -> int:
        return len(self._numbers)

    def encode(self, text: str) -> list[int]:
        language = LANGUAGE.match(text)
        first = [language.group()] if language else []
        rest = text[language.end() :] if language else text
        return [self._numbers.get(piece, self.unknown) for piece in (*first, *self._read.encode(rest, out_type=str))]

    def encode_all(self, texts: Sequence[str]) -> Iterator[list[int]]:
        return map(self.encode, texts)

    def decode(self, tokens: Sequence[int]) -> str:
        said = [token for token in tokens if token not in (self.pad, self.end)]
        pieces = [HOLE if piece == UNKNOWN else piece for piece in self.pieces(said)]
        # A piece that its SentencePiece model lacks comes back with the mark still on it.
        text: str = self._said.decode(pieces)
        return text.replace(MARK, " ").replace(HOLE, UNKNOWN).strip()

    @property
    def keeps_blanks(self) -> bool:
        return False

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        return [self._tokens.get(token, UNKNOWN) for token in tokens]

    def _begins_word(self, piece: str) -> bool:
        return piece.startswith(MARK) or LANGUAGE.fullmatch(piece) is not None


def load_tokenizer(path: str | Path) -> Tokenizer:
    """A `tokenizer.json` of any kind."""
    try:
        values = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        values = None  # the other reader says what is wrong
    if isinstance(values, dict) and values.get("kind") == KIND:
        return MarianTokenizer.from_values(values, str(path))
    return Tokenizer.load(path)


def _bytes(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise RegardError(
            f"{folder / name}: {error.strerror or error}; a Marian checkpoint has source.spm, target.spm and vocab.json"
        ) from error


def _options(folder: Path) -> dict[str, Any]:
    path = folder / "tokenizer_config.json"
    if not path.is_file():
        return {}
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RegardError(f"{path}: damaged ({told(error)})") from error
    return values if isinstance(values, dict) else {}


def _pieces_of(model: bytes, place: str) -> Any:
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise RegardError(f"{place}: SentencePiece is needed to read it; run: pip install 'regard[marian]'") from error
    try:
        processor = SentencePieceProcessor(model_proto=model)
    except (RuntimeError, ValueError, TypeError) as error:
        raise RegardError(f"{place}: not a readable SentencePiece model ({told(error)})") from error
    if not model or len(processor) == 0:
        raise RegardError(f"{place}: an empty file is not a SentencePiece model")
    return processor


def _checked(vocabulary: Any, place: str) -> dict[str, int]:
    """Each piece has a number of its own, from 0 on."""
    numbers = vocabulary.values() if isinstance(vocabulary, Mapping) else (None,)
    are_numbers = all(isinstance(number, int) and not isinstance(number, bool) for number in numbers)
    if not are_numbers or sorted(numbers) != list(range(len(numbers))):
        raise RegardError(f"{place}: the vocabulary does not number its pieces from 0 on, each once")
    missing = [token for token in (PAD, END, UNKNOWN) if token not in vocabulary]
    if missing:
        raise RegardError(f"{place}: the vocabulary has no {', '.join(missing)}")
    return dict(vocabulary)
