"""The tokenizer of a folder in Hugging Face layout: `tokenizer.json`, or the vocabulary files older ones have."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from regard.data.tokenizer import Tokenizer, checked, is_fault_of_a_tokenizer
from regard.errors import RegardError, UsageError, told
from regard.training.checkpoints import load_json

MOST_UNUSED_ROWS = 10_000  # of an embedding, beyond its vocabulary


def read_tokenizer(folder: Path, rows: int) -> Tokenizer:
    """The tokenizer of a model whose embedding has so many rows.

    Rows beyond the vocabulary, which some add to make the number round, get names of their own: so the two always have
    the same size. No text is read as one of them.
    """
    with _readable(folder):
        backend = _backend(folder)
        count = 1 + max(backend.get_vocab().values(), default=-1)
        if not count <= rows <= count + MOST_UNUSED_ROWS:
            raise RegardError(
                f"{folder}: its tokenizer has {count} tokens but the model's embedding {rows} rows; "
                "they do not belong together"
            )
        backend.add_special_tokens([f"<row {number}>" for number in range(count, rows)])
        return checked(backend, str(folder))


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    try:
        yield
    except RegardError:
        raise
    except BaseException as error:
        if is_fault_of_a_tokenizer(error):
            raise RegardError(f"{folder}: its tokenizer cannot be read ({told(error)})") from error
        raise


def _backend(folder: Path) -> Backend:
    if (folder / "tokenizer.json").is_file():
        return Backend.from_file(str(folder / "tokenizer.json"))
    config = load_json(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").is_file() else {}
    if (folder / "vocab.txt").is_file():
        return _word_pieces(folder / "vocab.txt", config)
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        return _byte_pairs(folder / "vocab.json", folder / "merges.txt", config)
    raise UsageError(
        f"{folder} holds no tokenizer: neither tokenizer.json nor vocab.txt nor vocab.json with merges.txt; "
        "add the files the model was trained with"
    )


def _word_pieces(path: Path, config: dict[str, Any]) -> Backend:
    """BERT's: a token per line, its number is the line's."""
    tokens = path.read_text("utf-8").split("\n")
    vocabulary = {token.rstrip("\r"): number for number, token in enumerate(tokens) if token.rstrip("\r")}
    backend = Backend(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(
        lowercase=config.get("do_lower_case", True),
        strip_accents=config.get("strip_accents"),
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    specials = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    backend.add_special_tokens([token for token in specials if token in vocabulary])
    return backend


def _byte_pairs(vocabulary: Path, merges: Path, config: dict[str, Any]) -> Backend:
    """GPT-2's."""
    backend = Backend(models.BPE.from_file(str(vocabulary), str(merges)))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=config.get("add_prefix_space", False))
    backend.decoder = decoders.ByteLevel()
    end = "<|endoftext|>"
    if backend.token_to_id(end) is not None:
        backend.add_special_tokens([AddedToken(end, special=True)])
    return backend
