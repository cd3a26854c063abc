"""Unknown words: replaced by what is looked at, as its writer spelt it, in every hypothesis, by one replay."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from jaxtyping import config as shape_checks

from regard.data.tokenizer import Tokenizer
from regard.decoding.protocol import Hypothesis
from regard.decoding.settings import Decoding
from regard.errors import RegardError, UsageError
from regard.models.transformer import Config, Transformer
from regard.tasks import translator as translating
from regard.tasks.translator import Translator
from regard.tasks.unknowns import read_dictionary, replaced_unknowns, source_words

TEXTS = ["ein Hund läuft über die Straße", "a dog runs across the street", "die kleine Katze", "the small cat"]


@pytest.fixture(autouse=True)
def shapes_go_unchecked() -> Iterator[None]:
    """The shapes are checked in the tests of the model; here the checks would cost far more than the model."""
    before = shape_checks.jaxtyping_disable
    shape_checks.update("jaxtyping_disable", True)
    yield
    shape_checks.update("jaxtyping_disable", before)


def make_translator(kind: str, vocabulary: int) -> Translator:
    tokenizer = Tokenizer.train(kind, TEXTS, vocabulary, lowercase=True)
    torch.manual_seed(3)
    config = Config(len(tokenizer), size=16, hidden_size=24, heads=2, encoder_layers=1, decoder_layers=2)
    return Translator(Transformer(config), tokenizer, Decoding(num_beams=2, max_new_tokens=6))


@pytest.fixture(scope="module")
def translator() -> Translator:
    return make_translator("word", 40)


def say(monkeypatch: pytest.MonkeyPatch, *said: Sequence[Sequence[int]]) -> None:
    """Let the search come up with these tokens: for each full text its hypotheses."""
    found = [[Hypothesis(list(tokens), -1.0, -1.0, True) for tokens in hypotheses] for hypotheses in said]
    monkeypatch.setattr(translating, "generate", lambda *_, **__: found)


# The text


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece", "word"])
def test_a_word_is_copied_as_its_writer_spelt_it(kind: str) -> None:
    tokenizer = Tokenizer.train(kind, TEXTS, 45, lowercase=True)
    source = "  Die\tZyž-Va  <s> \u2003kleine\x1cKatze "
    words = ["Die", "Zyž-Va", "<s>", "kleine\x1cKatze"]
    assert source_words(tokenizer, source) == words
    assert len(words) == max(tokenizer.words(tokenizer.encode(source))) + 1


def test_a_source_that_holds_the_mark_of_a_word_is_split_as_the_tokenizer_splits_it() -> None:
    tokenizer = Tokenizer.train("bpe", TEXTS, 45)
    words = source_words(tokenizer, "a▁dog runs")
    assert len(words) == max(tokenizer.words(tokenizer.encode("a▁dog runs"))) + 1
    assert words[-1] == "runs"


def test_only_unknown_words_are_replaced(translator: Translator) -> None:
    tokenizer = translator.tokenizer
    (dog,), (the,) = tokenizer.encode("dog"), tokenizer.encode("the")
    links = {(0, 0), (1, 1), (1, 2), (0, 3)}
    tokens = [the, tokenizer.unknown, dog, tokenizer.unknown]
    assert replaced_unknowns(tokenizer, "Die Zyzzyva", tokens, links, {}) == "the Zyzzyva dog Die"
    assert replaced_unknowns(tokenizer, "Die Zyzzyva", tokens, {(1, 1)}, {}) == "the Zyzzyva dog <unk>"


def test_the_dictionary_goes_before_the_copy(translator: Translator) -> None:
    tokenizer, unknown = translator.tokenizer, translator.tokenizer.unknown
    dictionary = {"Haus": "house", "maus": "mouse"}
    links = {(0, 0), (1, 1), (2, 2)}
    text = replaced_unknowns(tokenizer, "Haus Maus Zyzzyva", [unknown] * 3, links, dictionary)
    assert text == "house mouse Zyzzyva"  # the second found without its capital


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_word_with_one_unknown_piece_is_replaced_as_a_whole(kind: str) -> None:
    tokenizer = Tokenizer.train(kind, TEXTS, 45)
    tokens = tokenizer.encode("the doŋg runs")
    assert tokenizer.unknown in tokens
    text = replaced_unknowns(tokenizer, "die Zyŋva", tokens, {(0, 0), (1, 1), (0, 2)}, {})
    assert text == "the Zyŋva runs"


# The verb


def test_each_unknown_becomes_the_source_word_its_row_looks_at_most(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = translator.tokenizer.unknown
    (dog,) = translator.encode("dog")
    source = "Der Hund heißt Zyzzyva"
    tokens = [[unknown, dog, unknown], [dog, dog], [unknown, unknown]]
    say(monkeypatch, tokens)
    (result,) = translator.translate(source, num_beams=3, num_return_sequences=3, replace_unknowns=True)
    for known, said in zip(result.nbest, tokens, strict=True):
        ((*links,),) = translator.align([source], [said])
        looked_at = {target: source.split()[word] for word, target in links}
        assert known.text.split() == [looked_at[i] if token == unknown else "dog" for i, token in enumerate(said)]
        assert known.tokens == said
    assert result.nbest[0] is result
    say(monkeypatch, tokens)
    assert translator.translate(source)[0].text == "<unk> dog <unk>"


def test_only_hypotheses_with_unknown_words_are_replayed_and_all_at_once(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = translator.tokenizer.unknown
    (dog,) = translator.encode("dog")
    replayed = []

    def align(sources: Sequence[str], targets: Sequence[Sequence[int]]) -> list[set[tuple[int, int]]]:
        replayed.append((list(sources), list(targets)))
        return [{(0, 0)} for _ in sources]

    monkeypatch.setattr(translator, "align", align)
    say(monkeypatch, [[dog], [unknown]], [[dog], [dog, dog]], [[unknown], [dog]])
    results = translator.translate(["eins", "", "zwei", "drei"], num_return_sequences=2, replace_unknowns=True)
    assert replayed == [(["eins", "drei"], [[unknown], [unknown]])]
    assert [[known.text for known in result.nbest] for result in results] == [
        ["dog", "eins"],
        [],
        ["dog", "dog dog"],
        ["drei", "dog"],
    ]


def test_links_still_count_the_words_of_the_text(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = translator.tokenizer.unknown
    say(monkeypatch, [[unknown, unknown]])
    (result,) = translator.translate("Der Hund", replace_unknowns=True, dictionary={"Der": "the", "Hund": "dog"})
    ((line,),) = translator.links([result])
    assert {int(link.split("-")[1]) for link in line.split()} == set(range(len(result.text.split())))


def test_real_translations_have_no_unknown_word_left() -> None:
    translator = make_translator("word", 6)  # two words are known
    assert any("<unk>" in known.text for known in translator.translate(TEXTS, do_sample=True))
    results = translator.translate(TEXTS, do_sample=True, replace_unknowns=True)
    for text, known in zip(TEXTS, results, strict=True):
        assert "<unk>" not in known.text
        own = {translator.tokenizer.decode([token]) for token in known.tokens}
        assert set(known.text.split()) <= own | set(text.split())


def test_a_dictionary_that_nobody_would_ask_is_refused(translator: Translator) -> None:
    with pytest.raises(UsageError, match="replace_unknowns"):
        translator.translate("Hund", dictionary={"Hund": "dog"})


def test_an_evaluation_can_replace_unknown_words(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.data.pairs import Pair
    from regard.tasks.evaluate import evaluate

    asked = []

    def translate(texts: Sequence[str], *, replace_unknowns: bool, **_: object) -> list[SimpleNamespace]:
        asked.append(replace_unknowns)
        return [SimpleNamespace(text=text) for text in texts]

    monkeypatch.setattr(translator, "translate", translate)
    for wanted in (False, True):
        evaluate(translator, [Pair("ein Hund", "a dog")], replace_unknowns=wanted)
    assert asked == [False, True]


# The dictionary


def test_a_dictionary_keeps_the_first_word_for_a_word(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("Haus\thouse\nHaus\tbuilding\n\nNew York\tNeuyork\nStadt\tbig city\nMaus\tmouse\n", "utf-8")
    skipped: Counter[str] = Counter()
    assert read_dictionary(path, skipped) == {"Haus": "house", "Maus": "mouse"}
    assert skipped == {"of several words": 2, "empty": 1}


def test_a_broken_dictionary_is_told_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("Haus\thouse\nMaus mouse\n", "utf-8")
    with pytest.raises(RegardError, match="line 2: 1 column instead of 2"):
        read_dictionary(path)
    with pytest.raises(UsageError, match="no such file"):
        read_dictionary(tmp_path / "missing.tsv")
