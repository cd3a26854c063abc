"""Text to tokens and back, on Hugging Face `tokenizers`.

Four kinds: `bpe`, `unigram` (both with "▁" in front of a word's first piece), `wordpiece` ("##" in front of the
others) and `word`. A tokenizer is trained from an iterator of texts or loaded from a `tokenizer.json`; it knows its
own special tokens, and which word each piece belongs to.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from regard.errors import RegardError, UsageError

PAD, START, END, UNKNOWN = "<pad>", "<s>", "</s>", "<unk>"
SPECIALS = (PAD, START, END, UNKNOWN)
MARK = "▁"  # in front of the first piece of a word


class Tokenizer:
    """Encodes sentences as lists of token numbers; `pad`, `start`, `end` and `unknown` are the special ones."""

    def __init__(self, backend: Backend):
        self.backend = backend
        backend.encode_special_tokens = True  # a text that spells <s> is text
        self.pad, self.start, self.end, self.unknown = (self._special(token) for token in SPECIALS)

    def _special(self, token: str) -> int:
        number = self.backend.token_to_id(token)
        if number is None:
            raise RegardError(f"the tokenizer has no token {token}: train it with regard")
        return number

    @classmethod
    def train(cls, kind: str, texts: Iterable[str], vocabulary: int, lowercase: bool = False) -> "Tokenizer":
        """Learn a vocabulary of at most `vocabulary` tokens from texts, which are read once."""
        if kind not in KINDS:
            raise UsageError(f"there is no tokenizer called {kind!r}: choose one of {', '.join(KINDS)}")
        if vocabulary <= len(SPECIALS):
            raise UsageError(
                f"a vocabulary of {vocabulary} tokens leaves no room beside the special ones; ask for more"
            )
        backend, trainer = KINDS[kind](vocabulary)
        backend.normalizer = normalizers.Sequence(_normal_form(lowercase))
        backend.train_from_iterator(iter(texts), trainer)
        return cls(backend)

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read a `tokenizer.json`."""
        try:
            return cls(Backend.from_file(str(path)))
        except Exception as error:  # tokenizers raises bare Exception for every fault of the file
            if isinstance(error, RegardError):
                raise
            raise RegardError(f"{path}: not a readable tokenizer ({' '.join(str(error).split())})") from error

    def to_json(self) -> str:
        return self.backend.to_str(pretty=False)

    def __len__(self) -> int:
        return self.backend.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        return self.backend.encode(text, add_special_tokens=False).ids

    def encode_all(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Many at once: the backend works on all cores."""
        return (encoding.ids for encoding in self.backend.encode_batch_fast(list(texts), add_special_tokens=False))

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of the tokens; an unknown one stays visible as <unk>."""
        said = [token for token in tokens if token not in (self.pad, self.start, self.end)]
        return self.backend.decode(said, skip_special_tokens=False).strip()

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The tokens as they stand in the vocabulary, word marks included."""
        return [self.backend.id_to_token(token) or UNKNOWN for token in tokens]

    def words(self, tokens: Sequence[int]) -> list[int]:
        """For each token the number of the word it belongs to; -1 for special tokens, which belong to none."""
        silent = {self.pad, self.start, self.end}
        numbers, word = [], -1
        for token, piece in zip(tokens, self.pieces(tokens), strict=True):
            if token in silent:
                numbers.append(-1)
                continue
            if self._begins_word(piece) or word < 0:
                word += 1
            numbers.append(word)
        return numbers

    def _begins_word(self, piece: str) -> bool:
        if isinstance(self.backend.model, models.WordLevel):
            return True
        if isinstance(self.backend.model, models.WordPiece):
            return not (piece.startswith("##") and len(piece) > 2)
        return piece.startswith(MARK)


def _normal_form(lowercase: bool) -> list[normalizers.Normalizer]:
    """Composed characters, single blanks, and no word that looks like a special token."""
    steps: list[normalizers.Normalizer] = [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " ")]
    steps += [normalizers.Strip(), *([normalizers.Lowercase()] if lowercase else [])]
    return steps + [normalizers.Replace(token, f"‹{token[1:-1]}›") for token in SPECIALS]


def _spaced(backend: Backend) -> Backend:
    backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="always")
    backend.decoder = decoders.Metaspace(replacement=MARK, prepend_scheme="always")
    return backend


def _bpe(vocabulary: int) -> tuple[Backend, trainers.Trainer]:
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=list(SPECIALS), show_progress=False)
    return _spaced(Backend(models.BPE(unk_token=UNKNOWN, fuse_unk=True))), trainer


def _unigram(vocabulary: int) -> tuple[Backend, trainers.Trainer]:
    trainer = trainers.UnigramTrainer(
        vocab_size=vocabulary, special_tokens=list(SPECIALS), unk_token=UNKNOWN, show_progress=False
    )
    return _spaced(Backend(models.Unigram())), trainer


def _wordpiece(vocabulary: int) -> tuple[Backend, trainers.Trainer]:
    backend = Backend(models.WordPiece(unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.decoder = decoders.WordPiece(cleanup=False)
    trainer = trainers.WordPieceTrainer(vocab_size=vocabulary, special_tokens=list(SPECIALS), show_progress=False)
    return backend, trainer


def _word(vocabulary: int) -> tuple[Backend, trainers.Trainer]:
    backend = Backend(models.WordLevel(unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordLevelTrainer(vocab_size=vocabulary, special_tokens=list(SPECIALS), show_progress=False)
    return backend, trainer


KINDS = {"bpe": _bpe, "unigram": _unigram, "wordpiece": _wordpiece, "word": _word}
