"""CoNLL-U: words and tags as they stand there, and a line for every fault."""

import gzip
from collections import Counter
from pathlib import Path

import pytest

from regard.data.conllu import TaggedSentence, read_conllu
from regard.data.treebanks import named_treebank
from regard.errors import RegardError, UsageError

TEXT = """\
# sent_id = 1
# text = I don't.
1\tI\tI\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod\t_\t_
3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_
4\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

# text = _
1\t_\t_\tSYM\tNFP\t_\t0\troot\t_\t_
"""


def line(number: object = 1, form: str = "word", upos: str = "NOUN") -> str:
    return f"{number}\t{form}\t_\t{upos}\t_\t_\t_\t_\t_\t_\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "some.conllu"
    path.write_text(text, "utf-8")
    return path


def test_words_are_read_and_what_stands_for_them_or_between_them_is_not(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT)
    assert list(read_conllu(path)) == [
        TaggedSentence(("I", "do", "n't", "."), ("PRON", "AUX", "PART", "PUNCT"), f"{path}, line 1"),
        TaggedSentence(("_",), ("SYM",), f"{path}, line 10"),
    ]


def test_the_finer_tags_are_a_column_further(tmp_path: Path) -> None:
    assert [sentence.tags for sentence in read_conllu(written(tmp_path, TEXT), "xpos")] == [
        ("PRP", "VBP", "RB", "."),
        ("NFP",),
    ]


def test_words_can_be_read_without_tags(tmp_path: Path) -> None:
    (sentence,) = read_conllu(written(tmp_path, line(upos="_")), None)
    assert (sentence.words, sentence.tags) == (("word",), ())


def test_a_gzipped_file_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "some.conllu.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    assert len(list(read_conllu(path))) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1\tword\n", "line 1: 2 columns"),
        (line().replace("\t", " "), "line 1: 1 columns"),
        (line(1) + line(3), "line 2: the ID is '3' where word 2"),
        (line("one"), "line 1: the ID is 'one'"),
        (line(form=" "), "line 1: word 1 has no form"),
        (line(upos="_"), "line 1: word 1 has no UPOS tag; .*data.column=xpos"),
        ("# nothing but a comment\n\n\n", "no sentence"),
        ("", "no sentence"),
    ],
)
def test_a_fault_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(RegardError, match=told) as caught:
        list(read_conllu(written(tmp_path, text)))
    assert "\n" not in str(caught.value)


def test_a_sentence_with_an_endless_line_is_left_out_and_counted(tmp_path: Path) -> None:
    skipped: Counter[str] = Counter()
    text = line(1) + line(2, "x" * 200_000) + line(3) + "\n" + line(1, "short")
    (sentence,) = read_conllu(written(tmp_path, text), skipped=skipped)
    assert (sentence.words, skipped) == (("short",), {"too long": 1})


def test_a_wrong_request_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_conllu(tmp_path / "none.conllu")
    with pytest.raises(UsageError, match="is a folder"):
        read_conllu(tmp_path)
    with pytest.raises(UsageError, match="'lemma'"):
        read_conllu(written(tmp_path, TEXT), "lemma")
    with pytest.raises(UsageError, match="'ewd'"):
        named_treebank("ewd", tmp_path, "train")


@pytest.mark.real_data
def test_the_treebank_has_the_words_its_makers_counted(real_data: Path) -> None:
    if not (real_data / "ud_english_ewt").is_dir():
        pytest.skip("REGARD_DATA has no ud_english_ewt")
    sentences = list(read_conllu(named_treebank("ewt", real_data, "test")))
    assert (len(sentences), sum(len(known.words) for known in sentences)) == (2077, 25094)
    assert len({tag for known in sentences for tag in known.tags}) == 17
