"""Marian's tokenizer against that of `transformers`, and what the views and alignments ask of it."""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from marian_checkpoint import LANGUAGES, SOURCES, TARGETS, tokenizer_files
from regard.data.marian_tokenizer import MarianTokenizer, load_tokenizer
from regard.data.pairs import Pair
from regard.data.token_pairs import tokenise
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError, UsageError

TEXTS = [
    *SOURCES,
    *TARGETS,
    "",
    "   ",
    "  the   old\thouse ",
    "The Old House",
    "the ☃ house",
    "☃☃",
    "“the house” – it’s (5 %) …",
    "ﬁve rivers",
    "▁the▁house",
    ">>deu<< the old house",
    ">>deu<<the old house",
    ">>nld<<",
    ">>xyz<< the old house",
    "the >>deu<< house",
    "> > the << house",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("marian")
    tokenizer_files(folder)
    return folder


@pytest.fixture(scope="module")
def ours(folder: Path) -> MarianTokenizer:
    return MarianTokenizer.open(folder)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    transformers = pytest.importorskip("transformers")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")  # which it does not call
        return transformers.MarianTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_are_those_of_transformers_on_both_sides(ours: MarianTokenizer, theirs: Any, text: str) -> None:
    assert ours.encode(text) == theirs(text).input_ids[:-1]
    assert ours.target.encode(text) == theirs(text_target=text).input_ids[:-1]


def test_special_tokens_are_those_of_transformers(ours: MarianTokenizer, theirs: Any) -> None:
    assert (ours.pad, ours.end, ours.unknown) == (theirs.pad_token_id, theirs.eos_token_id, theirs.unk_token_id)
    assert len(ours) == len(theirs)
    assert ours.start == ours.pad


@pytest.mark.parametrize("text", TARGETS)
def test_what_is_said_reads_as_in_transformers(ours: MarianTokenizer, theirs: Any, text: str) -> None:
    tokens = ours.target.encode(text)
    assert ours.decode([ours.start, *tokens, ours.end, ours.pad]) == text
    assert theirs.decode([*tokens, ours.end], skip_special_tokens=True) == text


def test_pieces_of_the_other_language_are_read_with_their_blanks(ours: MarianTokenizer) -> None:
    assert ours.decode(ours.encode("the old house stands")) == "the old house stands"


def test_an_unknown_piece_stays_visible_in_its_place(ours: MarianTokenizer) -> None:
    assert ours.unknown in ours.target.encode("das ☃ haus")
    assert ours.decode(ours.target.encode("das ☃ haus")) == "das <unk> haus"
    assert ours.decode([10**6]) == "<unk>"


def test_a_text_that_spells_a_special_token_is_text(ours: MarianTokenizer) -> None:
    tokens = ours.encode("the </s> house <pad>")
    assert ours.end not in tokens
    assert ours.pad not in tokens


def test_arrows_around_more_than_a_word_are_no_language(ours: MarianTokenizer) -> None:
    assert len(ours.encode(">>the old house<< stands")) > 5


def test_the_languages_of_a_multilingual_vocabulary_are_known(ours: MarianTokenizer) -> None:
    assert ours.languages == LANGUAGES
    assert ours.pieces(ours.encode(">>nld<< the house"))[0] == ">>nld<<"


def test_every_piece_belongs_to_its_word_and_a_language_is_a_word(ours: MarianTokenizer) -> None:
    text = ">>deu<< the old house stands near"
    tokens = ours.encode(text)
    numbers = ours.words([*tokens, ours.end])
    assert numbers[-1] == -1
    spelt: dict[int, str] = {}
    for piece, number in zip(ours.pieces(tokens), numbers, strict=False):
        spelt[number] = spelt.get(number, "") + piece.replace("▁", "")
    assert [spelt[number] for number in sorted(spelt)] == text.split()


def test_a_pair_is_tokenised_side_by_side(ours: MarianTokenizer, tmp_path: Path) -> None:
    pairs = tokenise([Pair(SOURCES[0], TARGETS[0])], ours, tmp_path / "pairs", max_length=99)
    source, target = pairs[0]
    assert source.tolist() == ours.encode(SOURCES[0])
    assert target.tolist() == ours.target.encode(TARGETS[0]) != ours.encode(TARGETS[0])


def test_a_tokenizer_comes_back_from_its_one_file(ours: MarianTokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(ours.to_json(), "utf-8")
    again = load_tokenizer(path)
    assert isinstance(again, MarianTokenizer)
    for text in TEXTS:
        assert again.encode(text) == ours.encode(text)
        assert again.target.encode(text) == ours.target.encode(text)
    assert again.to_json() == ours.to_json()


def test_tokenizers_of_other_kinds_load_as_before(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(Tokenizer.train("word", SOURCES, 50).to_json(), "utf-8")
    tokenizer = load_tokenizer(path)
    assert type(tokenizer) is Tokenizer
    assert tokenizer.target is tokenizer
    with pytest.raises(RegardError, match="not a readable tokenizer"):
        load_tokenizer(tmp_path / "nowhere.json")


def one_line(caught: pytest.ExceptionInfo[BaseException]) -> bool:
    return "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("source.spm", b"", "an empty file is not a SentencePiece model"),
        ("target.spm", b"no model", "not a readable SentencePiece model"),
        ("vocab.json", b"{", "vocab.json: not JSON"),
        ("vocab.json", b"[]", "does not number its pieces"),
        ("vocab.json", b'{"</s>": 0, "<unk>": 2, "<pad>": 3}', "does not number its pieces"),
        ("vocab.json", b'{"</s>": 0, "<unk>": "1", "<pad>": 2}', "does not number its pieces"),
        ("vocab.json", b'{"</s>": 0, "<unk>": 1, "x": 2}', "has no <pad>"),
        ("tokenizer_config.json", b"[", "tokenizer_config.json: damaged"),
        ("tokenizer_config.json", b'{"separate_vocabs": true}', "separate_vocabs"),
    ],
)
def test_a_broken_file_is_one_line(folder: Path, tmp_path: Path, name: str, content: bytes, said: str) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RegardError, match=said) as caught:
        MarianTokenizer.open(tmp_path)
    assert one_line(caught)


@pytest.mark.parametrize("name", ["source.spm", "target.spm", "vocab.json"])
def test_a_missing_file_is_named(folder: Path, tmp_path: Path, name: str) -> None:
    for file in folder.iterdir():
        if file.name != name:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(RegardError, match=rf"{name}: No such file.*source.spm, target.spm and vocab.json") as caught:
        MarianTokenizer.open(tmp_path)
    assert one_line(caught)


@pytest.mark.parametrize("change", [{"source": "%%"}, {"target": None}, {"vocabulary": 3}])
def test_a_broken_tokenizer_json_is_one_line(ours: MarianTokenizer, tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(json.loads(ours.to_json()) | change), "utf-8")
    with pytest.raises(RegardError) as caught:
        load_tokenizer(path)
    assert one_line(caught)
    assert str(path) in str(caught.value)


def test_without_sentencepiece_the_error_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(RegardError, match=r"pip install 'regard\[marian\]'"):
        MarianTokenizer.open(folder)


def test_separate_vocabularies_are_wrong_use(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "tokenizer_config.json").write_text('{"separate_vocabs": true}', "utf-8")
    with pytest.raises(UsageError):
        MarianTokenizer.open(tmp_path)
