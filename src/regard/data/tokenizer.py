"""Text to tokens and back, on Hugging Face `tokenizers`.

Kinds: `bpe`, `unigram` (both with "▁" in front of a word's first piece), `wordpiece` ("##" in front of the others) and
`word`; `bert` (BERT's WordPiece: punctuation split off, [CLS], [SEP], [MASK]), `bytes` (GPT-2's byte-level BPE: any
text, blanks included, comes back exactly) and `char`. A tokenizer is trained from an iterator of texts or loaded from a
`tokenizer.json`, a public one too; it knows its own special tokens, and which word each piece belongs to.
"""

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from regard.errors import RegardError, UsageError, shortened, told

PAD, START, END, UNKNOWN = "<pad>", "<s>", "</s>", "<unk>"
SPECIALS = (PAD, START, END, UNKNOWN)
MARK = "▁"  # in front of the first piece of a word
NO_TOKEN = -1  # the number of a special token that a vocabulary does not have

# What the special tokens are called. A vocabulary follows the first of these customs whose tokens it all has. In one
# that follows none, each token is looked for by itself, under all the names it may have.
CUSTOMS: tuple[dict[str, str], ...] = (
    {"pad": PAD, "start": START, "end": END, "unknown": UNKNOWN},
    {"pad": "[PAD]", "start": "[CLS]", "end": "[SEP]", "unknown": "[UNK]", "mask": "[MASK]"},
    {"start": "<|endoftext|>", "end": "<|endoftext|>"},
)
SPELLINGS: dict[str, tuple[str, ...]] = {
    "pad": (PAD, "[PAD]", "<|pad|>"),
    "start": (START, "[CLS]", "<bos>", "[BOS]", "<|endoftext|>"),
    "end": (END, "[SEP]", "<eos>", "[EOS]", "<|endoftext|>"),
    "unknown": (UNKNOWN, "[UNK]"),
    "mask": ("[MASK]", "<mask>"),
}


class Tokenizer:
    """Encodes sentences as lists of token numbers; `pad`, `start`, `end`, `unknown` and `mask` are the special ones.

    A special token that the vocabulary does not have is -1, a number no token has: rows may be filled up with it.
    """

    def __init__(self, backend: Backend):
        self.backend = backend
        backend.encode_special_tokens = True  # a text that spells <s> is text
        # A batch decides how long its rows are. The padding of a file may be a number that no token has.
        backend.no_padding()
        backend.no_truncation()
        known = next((names for names in CUSTOMS if self._has_all(names)), None)
        known = self._found() if known is None else known
        roles = ("pad", "start", "end", "unknown", "mask")
        self.pad, self.start, self.end, self.unknown, self.mask = (self._number(known.get(role)) for role in roles)

    def required(self, role: str) -> int:
        """The number of a special token that a model cannot do without; if there is none, an error names it."""
        number: int = getattr(self, role)
        if number == NO_TOKEN:
            raise RegardError(
                f"the tokenizer has no {role} token, which this model needs: add one of "
                f"{', '.join(SPELLINGS[role])} to its vocabulary"
            )
        return number

    def _found(self) -> dict[str, str]:
        """The special tokens of a vocabulary that follows no custom, as far as it has them."""
        own = unknown_token(self.backend)
        spellings = SPELLINGS | {"unknown": (*([own] if own else []), *SPELLINGS["unknown"])}
        found = {role: next(filter(self._has, names), None) for role, names in spellings.items()}
        return {role: name for role, name in found.items() if name is not None}

    def _has(self, token: str) -> bool:
        return self.backend.token_to_id(token) is not None

    def _number(self, token: str | None) -> int:
        number = None if token is None else self.backend.token_to_id(token)
        return NO_TOKEN if number is None else number

    def _has_all(self, names: dict[str, str]) -> bool:
        return all(map(self._has, names.values()))

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
        backend.normalizer = NORMAL_FORMS.get(kind, _normal_form)(lowercase)
        if isinstance(trainer, trainers.WordPieceTrainer):
            return cls(_train_wordpiece(backend, trainer, texts))
        backend.train_from_iterator(iter(texts), trainer)
        return cls(backend)

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read a `tokenizer.json`."""
        try:
            return checked(Backend.from_file(str(path)), str(path))
        except RegardError:
            raise
        except BaseException as error:
            if is_fault_of_a_tokenizer(error):
                raise RegardError(f"{path}: not a readable tokenizer ({told(error)})") from error
            raise

    @property
    def target(self) -> "Tokenizer":
        """What the other side of a pair is encoded with: the same, unless the two languages have their own pieces."""
        return self

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
        text = self.backend.decode(said, skip_special_tokens=False)
        return text if self.keeps_blanks else text.strip()

    @property
    def keeps_blanks(self) -> bool:
        """Whether blanks are tokens like others (bytes, char), so that a text comes back exactly."""
        return isinstance(self.backend.decoder, decoders.ByteLevel | decoders.Fuse)

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
        if isinstance(self.backend.pre_tokenizer, pre_tokenizers.ByteLevel):
            return piece.startswith(BYTE_MARKS)
        return piece.startswith(MARK)


def unknown_token(backend: Backend) -> str | None:
    """What the model of a tokenizer writes for a word it does not have; None: it has no token for that."""
    token = getattr(backend.model, "unk_token", None)
    return token if isinstance(token, str) else None


TRIAL = "a text, 1 \u3400\n"  # with a character that few vocabularies have


def checked(backend: Backend, place: str) -> Tokenizer:
    """The tokenizer of a file, once it has shown that it works: some faults only show in use."""
    vocabulary = backend.get_vocab()
    if vocabulary and max(vocabulary.values()) != len(vocabulary) - 1:
        raise RegardError(f"{place}: the tokenizer does not number its {len(vocabulary)} tokens from 0 on, each once")
    unknown = unknown_token(backend)
    if unknown is not None and backend.token_to_id(unknown) is None:
        raise RegardError(
            f"{place}: the tokenizer's unk_token {shortened(unknown)} is not in its vocabulary, so that no text with "
            "an unknown word can be read: add it, or set unk_token to a token of the vocabulary"
        )
    tokenizer = Tokenizer(backend)
    tokenizer.decode(tokenizer.encode(TRIAL))
    return tokenizer


def is_fault_of_a_tokenizer(error: BaseException) -> bool:
    """tokenizers raises bare Exception for every fault of a file, and panics, which are not even that, at some."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _normal_form(lowercase: bool) -> normalizers.Normalizer:
    """Composed characters, single blanks, and no word that looks like a special token."""
    steps: list[normalizers.Normalizer] = [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " ")]
    steps += [normalizers.Strip(), *([normalizers.Lowercase()] if lowercase else [])]
    return normalizers.Sequence(steps + [normalizers.Replace(token, f"‹{token[1:-1]}›") for token in SPECIALS])


def _bert_form(lowercase: bool) -> normalizers.Normalizer:
    """As BERT does it: control characters go, Chinese characters stand apart, and accents go with the capitals."""
    return normalizers.BertNormalizer(lowercase=lowercase)


def _as_it_is(lowercase: bool) -> normalizers.Normalizer:
    """Every character counts, blanks too."""
    return normalizers.Lowercase() if lowercase else normalizers.Sequence([])


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


def _train_wordpiece(backend: Backend, trainer: trainers.WordPieceTrainer, texts: Iterable[str]) -> Backend:
    """Train so that the same texts always give the same vocabulary.

    The trainer numbers the pieces "##x" in the order of a hash table, and what it joins first depends on the numbers.
    So they are told it in alphabetical order, as if they were special tokens, which takes a second pass over the texts.
    """
    specials = list(trainer.special_tokens)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as kept:
        inside: set[str] = set()
        for text in texts:
            for word, _ in backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str(text)):
                inside.update(word[1:])
            kept.write(json.dumps(text) + "\n")
        kept.seek(0)
        trainer.special_tokens = [*specials, *(f"##{letter}" for letter in sorted(inside))]
        backend.train_from_iterator((json.loads(line) for line in kept), trainer)
    model = models.WordPiece(backend.get_vocab(), unk_token=backend.model.unk_token)
    plain = Backend(model)
    plain.normalizer, plain.pre_tokenizer, plain.decoder = backend.normalizer, backend.pre_tokenizer, backend.decoder
    plain.add_special_tokens([str(token) for token in specials])
    return plain


def _word(vocabulary: int) -> tuple[Backend, trainers.Trainer]:
    backend = Backend(models.WordLevel(unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordLevelTrainer(vocab_size=vocabulary, special_tokens=list(SPECIALS), show_progress=False)
    return backend, trainer


def _bert(vocabulary: int) -> tuple[Backend, trainers.Trainer]:
    names = CUSTOMS[1]
    backend = Backend(models.WordPiece(unk_token=names["unknown"]))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    specials = [names[role] for role in ("pad", "unknown", "start", "end", "mask")]  # in BERT's order
    return backend, trainers.WordPieceTrainer(vocab_size=vocabulary, special_tokens=specials, show_progress=False)


def _bytes(vocabulary: int) -> tuple[Backend, trainers.Trainer]:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[CUSTOMS[2]["end"]],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    return backend, trainer


def _char(vocabulary: int) -> tuple[Backend, trainers.Trainer]:
    backend = Backend(models.WordLevel(unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    trainer = trainers.WordLevelTrainer(vocab_size=vocabulary, special_tokens=list(SPECIALS), show_progress=False)
    return backend, trainer


KINDS = {
    "bpe": _bpe,
    "unigram": _unigram,
    "wordpiece": _wordpiece,
    "word": _word,
    "bert": _bert,
    "bytes": _bytes,
    "char": _char,
}
NORMAL_FORMS = {"bert": _bert_form, "bytes": _as_it_is, "char": _as_it_is}
BYTE_MARKS = ("Ġ", "Ċ")  # how byte-level BPE spells a blank and the end of a line in front of a word
