"""Text to tokens and back, for every kind of tokenizer."""

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from regard.data.tokenizer import SPECIALS, Tokenizer
from regard.errors import RegardError, UsageError

TEXTS = (
    "ein kleiner Hund läuft über die Straße .",
    "zwei größere Hunde schlafen unter dem Baum .",
    "Mädchen hören schöne Lieder !",
    "el niño pequeño corre por la calle .",
    "¿ dónde está la niña ?",
    "¡ qué sueño tan bonito !",
    "the small dog runs across the street .",
)
WORDS = sorted({word for text in TEXTS for word in text.split()})
KINDS = ("bpe", "unigram", "wordpiece", "word")  # those for sentences; `bert`, `bytes` and `char` are further below
TOKENIZERS = {kind: Tokenizer.train(kind, TEXTS * 3, 150) for kind in KINDS}

every_kind = pytest.mark.parametrize("kind", KINDS)
known_text = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)


def spelled_out(tokenizer: Tokenizer, text: str) -> list[int]:
    """The word number of every piece, found by encoding each word for itself."""
    return [number for number, word in enumerate(text.split()) for _ in tokenizer.encode(word)]


# Round trips


@every_kind
@pytest.mark.parametrize("text", TEXTS)
def test_known_text_comes_back(kind: str, text: str) -> None:
    tokenizer = TOKENIZERS[kind]
    tokens = tokenizer.encode(text)
    assert tokenizer.unknown not in tokens
    assert tokenizer.decode(tokens) == text


@given(known_text)
@settings(max_examples=40, deadline=None)
def test_known_words_come_back_in_any_order(text: str) -> None:
    for tokenizer in TOKENIZERS.values():
        assert tokenizer.decode(tokenizer.encode(text)) == text


@every_kind
def test_special_tokens_are_left_out_of_text(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    tokens = [tokenizer.start, *tokenizer.encode(TEXTS[0]), tokenizer.end, tokenizer.pad, tokenizer.pad]
    assert tokenizer.decode(tokens) == TEXTS[0]


@every_kind
def test_nothing_is_no_token(kind: str) -> None:
    assert TOKENIZERS[kind].encode("") == []
    assert TOKENIZERS[kind].decode([]) == ""
    assert TOKENIZERS[kind].words([]) == []


@every_kind
def test_many_texts_at_once_are_encoded_as_each_alone(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    texts = [*TEXTS, "", "☃ unseen ☃"]
    assert list(tokenizer.encode_all(texts)) == [tokenizer.encode(text) for text in texts]


@every_kind
def test_a_composed_and_a_decomposed_umlaut_are_the_same(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    decomposed = unicodedata.normalize("NFD", TEXTS[0])
    assert decomposed != TEXTS[0]
    assert tokenizer.encode(decomposed) == tokenizer.encode(TEXTS[0])
    assert tokenizer.decode(tokenizer.encode(decomposed)) == TEXTS[0]


@every_kind
def test_decomposed_training_text_is_composed_too(kind: str) -> None:
    tokenizer = Tokenizer.train(kind, [unicodedata.normalize("NFD", text) for text in TEXTS], 150)
    assert tokenizer.decode(tokenizer.encode(TEXTS[1])) == TEXTS[1]


@every_kind
def test_lowercase_is_asked_for(kind: str) -> None:
    tokenizer = Tokenizer.train(kind, TEXTS, 150, lowercase=True)
    assert tokenizer.decode(tokenizer.encode("MÄDCHEN Hören")) == "mädchen hören"
    assert TOKENIZERS[kind].decode(TOKENIZERS[kind].encode("Mädchen hören")) == "Mädchen hören"


# The vocabulary


@every_kind
def test_the_special_tokens_come_first(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    assert (tokenizer.pad, tokenizer.start, tokenizer.end, tokenizer.unknown) == (0, 1, 2, 3)
    assert tokenizer.pieces(range(4)) == list(SPECIALS)


@every_kind
def test_the_vocabulary_keeps_to_its_size(kind: str) -> None:
    assert 4 < len(TOKENIZERS[kind]) <= 150
    top = max(token for text in TEXTS for token in TOKENIZERS[kind].encode(text))
    assert top < len(TOKENIZERS[kind])


def test_a_small_vocabulary_of_words_keeps_the_frequent_ones() -> None:
    tokenizer = Tokenizer.train("word", ["a a a b b c"], 6)
    assert tokenizer.encode("a b c") == [4, 5, tokenizer.unknown]


@every_kind
def test_texts_are_read_once_from_any_iterator(kind: str) -> None:
    tokenizer = Tokenizer.train(kind, iter(TEXTS), 150)
    assert tokenizer.decode(tokenizer.encode(TEXTS[0])) == TEXTS[0]


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no tokenizer called 'sentencepiece'.*bpe, unigram, wordpiece, word"):
        Tokenizer.train("sentencepiece", TEXTS, 100)


@every_kind
@pytest.mark.parametrize("vocabulary", [-1, 0, 4])
def test_a_vocabulary_without_room_is_refused(kind: str, vocabulary: int) -> None:
    with pytest.raises(UsageError, match=f"vocabulary of {vocabulary} tokens"):
        Tokenizer.train(kind, TEXTS, vocabulary)


# Unknown characters


@every_kind
@pytest.mark.parametrize("text", ["☃", "☃ ☃☃ Hund", "Hund☃", "日本語 Hund", "\U0001f600", "\x00"])
def test_unknown_characters_are_unknown_tokens(kind: str, text: str) -> None:
    tokenizer = TOKENIZERS[kind]
    tokens = tokenizer.encode(text)
    assert tokenizer.unknown in tokens
    assert isinstance(tokenizer.decode(tokens), str)


@every_kind
def test_an_unknown_word_keeps_its_number(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    tokens = tokenizer.encode("Hund ☃ Hund")
    hund = tokenizer.encode("Hund")
    numbers = tokenizer.words(tokens)
    assert numbers[: len(hund)] == [0] * len(hund)
    assert numbers[-len(hund) :] == [2] * len(hund)
    assert set(numbers) == {0, 1, 2}


# Words


@every_kind
@pytest.mark.parametrize("text", TEXTS)
def test_each_piece_has_the_number_of_its_word(kind: str, text: str) -> None:
    tokenizer = TOKENIZERS[kind]
    numbers = tokenizer.words(tokenizer.encode(text))
    assert numbers == spelled_out(tokenizer, text)
    if kind != "word":
        assert len(numbers) > len(text.split())  # some word has several pieces


@given(known_text)
@settings(max_examples=40, deadline=None)
def test_there_are_as_many_words_as_between_blanks(text: str) -> None:
    for tokenizer in TOKENIZERS.values():
        numbers = tokenizer.words(tokenizer.encode(text))
        assert sorted(set(numbers)) == list(range(len(text.split())))
        assert numbers == sorted(numbers)


@every_kind
@pytest.mark.parametrize("text", ["ein  Hund", "ein Hund ", " ein Hund", "ein   kleiner  Hund"])
def test_more_blanks_are_not_more_words(kind: str, text: str) -> None:
    tokenizer = TOKENIZERS[kind]
    numbers = tokenizer.words(tokenizer.encode(text))
    assert sorted(set(numbers)) == list(range(len(text.split())))


@every_kind
@pytest.mark.parametrize("blank", ["\t", "\u00a0", "\u2009"])
def test_every_blank_parts_words(kind: str, blank: str) -> None:
    tokenizer = TOKENIZERS[kind]
    assert sorted(set(tokenizer.words(tokenizer.encode(f"ein{blank}Hund")))) == [0, 1]


@every_kind
def test_special_tokens_belong_to_no_word(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    inner = tokenizer.encode(TEXTS[0])
    tokens = [tokenizer.start, *inner, tokenizer.end, tokenizer.pad]
    assert tokenizer.words(tokens) == [-1, *tokenizer.words(inner), -1, -1]


@every_kind
def test_a_word_may_begin_like_a_continuation(kind: str) -> None:
    text = "## ein Titel ##"
    tokenizer = Tokenizer.train(kind, [*TEXTS, *[text] * 5], 150)
    tokens = tokenizer.encode(text)
    assert tokenizer.unknown not in tokens
    assert sorted(set(tokenizer.words(tokens))) == [0, 1, 2, 3]


@every_kind
@pytest.mark.parametrize("special", SPECIALS)
def test_text_that_spells_a_special_token_is_only_text(kind: str, special: str) -> None:
    """HTML's <s> must neither vanish from a text nor end or pad a sentence."""
    tokenizer = TOKENIZERS[kind]
    tokens = tokenizer.encode(f"ein {special} Hund")
    assert not {tokenizer.pad, tokenizer.start, tokenizer.end} & set(tokens)
    assert sorted(set(tokenizer.words(tokens))) == [0, 1, 2]


# Files


@every_kind
def test_a_saved_tokenizer_is_the_same(kind: str, tmp_path: Path) -> None:
    tokenizer, path = TOKENIZERS[kind], tmp_path / "tokenizer.json"
    path.write_text(tokenizer.to_json(), "utf-8")
    again = Tokenizer.load(path)
    before, after = json.loads(tokenizer.to_json()), json.loads(again.to_json())
    if kind == "unigram":  # whose scores the backend reads back to all but the last bit
        scores, read = dict(before["model"].pop("vocab")), dict(after["model"].pop("vocab"))
        assert read == pytest.approx(scores, rel=1e-12)
    assert after == before
    assert len(again) == len(tokenizer)
    for text in [*TEXTS, "☃ Hünde"]:
        tokens = tokenizer.encode(text)
        assert again.encode(text) == tokens
        assert again.decode(tokens) == tokenizer.decode(tokens)
        assert again.words(tokens) == tokenizer.words(tokens)


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"\xff\xfe", b"[1]\n"])
def test_a_damaged_file_is_told_in_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(RegardError, match="not a readable tokenizer") as failure:
        Tokenizer.load(path)
    assert "\n" not in str(failure.value)
    assert str(path) in str(failure.value)


def test_a_file_cut_short_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    text = TOKENIZERS["bpe"].to_json()
    path.write_text(text[: len(text) // 2], "utf-8")
    with pytest.raises(RegardError, match="not a readable tokenizer") as failure:
        Tokenizer.load(path)
    assert "\n" not in str(failure.value)


def test_a_missing_file_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"nowhere\.json: not a readable tokenizer") as failure:
        Tokenizer.load(tmp_path / "nowhere.json")
    assert "\n" not in str(failure.value)


def word_level(*tokens: str, unk_token: str) -> Backend:
    backend = Backend(models.WordLevel({token: number for number, token in enumerate(tokens)}, unk_token=unk_token))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return backend


@pytest.mark.parametrize(
    ("specials", "unk_token", "expected"),
    [
        (("<unk>", "<pad>"), "<unk>", (1, -1, -1, 0, -1)),
        (("[UNK]",), "[UNK]", (-1, -1, -1, 0, -1)),
        (("other",), "other", (-1, -1, -1, 0, -1)),
        (("<eos>", "other", "<unk>"), "other", (-1, -1, 0, 1, -1)),
        (("[PAD]", "[UNK]", "[CLS]", "[SEP]"), "[UNK]", (0, 2, 3, 1, -1)),  # BERT's, but for [MASK]
        (("<|endoftext|>", "<unk>", "[MASK]"), "<unk>", (-1, 0, 0, -1, -1)),  # GPT-2's custom goes before
    ],
)
def test_a_vocabulary_of_no_custom_has_the_special_tokens_that_it_has(
    specials: tuple[str, ...], unk_token: str, expected: tuple[int, ...], tmp_path: Path
) -> None:
    """In the order pad, start, end, unknown, mask."""
    path = tmp_path / "tokenizer.json"
    word_level(*specials, "a", "text", unk_token=unk_token).save(str(path))
    tokenizer = Tokenizer.load(path)
    found = (tokenizer.pad, tokenizer.start, tokenizer.end, tokenizer.unknown, tokenizer.mask)
    assert found == expected
    a = len(specials)
    assert tokenizer.encode("a text strange") == [a, a + 1, specials.index(unk_token)]
    assert tokenizer.decode([a, a + 1]) == "a text"
    for role, number in zip(("pad", "start", "end", "unknown", "mask"), expected, strict=True):
        if number >= 0:
            assert tokenizer.required(role) == number
            continue
        with pytest.raises(RegardError, match=f"has no {role} token, which this model needs: add one of"):
            tokenizer.required(role)


def test_a_vocabulary_without_its_own_unknown_token_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    word_level("<pad>", "<s>", "</s>", "a", unk_token="<unk>").save(str(path))
    with pytest.raises(RegardError, match=r"unk_token '<unk>' is not in its vocabulary.*: add it") as failure:
        Tokenizer.load(path)
    assert "\n" not in str(failure.value)


def test_the_file_is_json_that_others_read() -> None:
    assert json.loads(TOKENIZERS["word"].to_json())["model"]["type"] == "WordLevel"


EXACT = {kind: Tokenizer.train(kind, [*TEXTS, "blanks  and\nlines\t"], 400) for kind in ("bytes", "char")}
BERT = Tokenizer.train("bert", TEXTS, 150, lowercase=True)


@pytest.mark.parametrize("kind", EXACT)
def test_where_blanks_are_tokens_a_text_comes_back_exactly(kind: str) -> None:
    tokenizer = EXACT[kind]
    for text in ("blanks  and\nlines\t", " and ", "\n\n"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_bytes_know_every_text_and_have_no_padding_of_their_own() -> None:
    tokenizer = EXACT["bytes"]
    text = "日本語 ​ 🙂 <s>"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert (tokenizer.pad, tokenizer.unknown, tokenizer.mask) == (-1, -1, -1)
    assert tokenizer.start == tokenizer.end == tokenizer.backend.token_to_id("<|endoftext|>")
    assert tokenizer.words(tokenizer.encode("two words")) == sorted(tokenizer.words(tokenizer.encode("two words")))
    assert max(tokenizer.words(tokenizer.encode("two words"))) == 1


def test_bert_has_its_five_special_tokens_in_their_places() -> None:
    assert [BERT.pad, BERT.unknown, BERT.start, BERT.end, BERT.mask] == [0, 1, 2, 3, 4]
    assert BERT.pieces([0, 1, 2, 3, 4]) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert 4 not in BERT.encode("[MASK]")  # a text that spells a special token is only text


def test_bert_splits_punctuation_off_and_drops_accents_with_the_capitals() -> None:
    one, other = BERT.encode("Né, A!"), BERT.encode("ne , a !")
    assert one == other


@pytest.mark.parametrize("tokenizer", [*EXACT.values(), BERT], ids=[*EXACT, "bert"])
def test_the_other_kinds_come_back_from_their_file_too(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer.to_json(), "utf-8")
    again = Tokenizer.load(path)
    assert [again.encode(text) for text in TEXTS] == [tokenizer.encode(text) for text in TEXTS]
    assert again.keeps_blanks == tokenizer.keeps_blanks
    assert (again.pad, again.start, again.end, again.mask) == (
        tokenizer.pad,
        tokenizer.start,
        tokenizer.end,
        tokenizer.mask,
    )
