"""The bundled corpus: what it promises to whoever trains or tests on it."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from regard.data.corpus import corpus
from regard.data.corpus.everyday import EXCLAMATIONS, GREETINGS, INQUIRIES, PARTINGS
from regard.data.corpus.grammar import sentence
from regard.data.corpus.lexicon import NATURE
from regard.data.corpus.nouns import NOUNS
from regard.data.corpus.phrase import Phrase, join, polish, weave, word
from regard.data.corpus.spanish import agree, conjugate, gerund, imperative, participle, plural
from regard.data.pairs import Pair
from regard.errors import UsageError


@pytest.fixture(scope="module")
def train() -> list[Pair]:
    return corpus("train")


@pytest.fixture(scope="module")
def large() -> list[Pair]:
    return corpus("train", count=50_000)


@pytest.fixture(scope="module")
def held_out() -> list[Pair]:
    return corpus("valid") + corpus("test")


def types(pairs: list[Pair], side: str) -> Counter[str]:
    return Counter(word for pair in pairs for word in getattr(pair, side).split())


def fingerprint(pairs: list[Pair]) -> str:
    return hashlib.sha256(repr(pairs).encode()).hexdigest()


def translations(phrases: list[Phrase]) -> dict[str, set[str]]:
    """Every translation of every English sentence."""
    found: dict[str, set[str]] = {}
    for phrase in phrases:
        found.setdefault(" ".join(phrase.english), set()).add(" ".join(phrase.spanish))
    return found


def linked(pair: Pair) -> set[tuple[str, str]]:
    """The links as pairs of words."""
    source, target = pair.source.split(), pair.target.split()
    assert pair.links is not None
    return {(source[i], target[j]) for i, j in pair.links}


# What a caller gets.


def test_the_splits_have_their_default_sizes() -> None:
    assert [len(corpus(split)) for split in ("train", "valid", "test")] == [12_000, 500, 500]


def test_a_smaller_count_is_the_beginning_of_a_larger_one(train: list[Pair], large: list[Pair]) -> None:
    assert large[:12_000] == train
    assert corpus("train", count=100) == train[:100]
    assert corpus("test", count=20) == corpus("test")[:20]
    assert corpus("train", count=0) == []


def test_an_unknown_split_is_refused_with_the_names_of_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'dev'.*train, valid, test"):
        corpus("dev")


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(UsageError, match="-1"):
        corpus("train", count=-1)


def test_the_corpus_is_the_same_in_every_process_whatever_the_hash_seed() -> None:
    script = (
        "import hashlib; from regard.data.corpus import corpus; "
        "print(hashlib.sha256(repr(corpus('train', count=2000)).encode()).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "77")
    }
    assert seen == {fingerprint(corpus("train", count=2000))}


def test_another_seed_gives_other_sentences(train: list[Pair]) -> None:
    other = corpus("train", count=1000, seed=1)
    assert other != train[:1000]
    assert other == corpus("train", count=1000, seed=1)


# What the splits promise one another.


def test_no_held_out_sentence_occurs_in_train_on_either_side(large: list[Pair], held_out: list[Pair]) -> None:
    assert not {pair.source for pair in large} & {pair.source for pair in held_out}
    assert not {pair.target for pair in large} & {pair.target for pair in held_out}


def test_valid_and_test_share_no_sentence() -> None:
    valid, test = corpus("valid"), corpus("test")
    assert not {pair.source for pair in valid} & {pair.source for pair in test}
    assert not {pair.target for pair in valid} & {pair.target for pair in test}


def test_held_out_sentences_of_one_seed_are_new_to_another(held_out: list[Pair]) -> None:
    other = corpus("train", count=10_000, seed=5)
    assert not {pair.target for pair in other} & {pair.target for pair in held_out}


def test_no_split_says_a_sentence_twice(large: list[Pair], held_out: list[Pair]) -> None:
    for pairs in (large, held_out):
        assert len({pair.source for pair in pairs}) == len(pairs)


@pytest.mark.parametrize("seed", [0, 3])
def test_every_held_out_word_is_taught_by_the_default_train_split(seed: int) -> None:
    train = corpus("train", seed=seed)
    held_out = corpus("valid", seed=seed) + corpus("test", seed=seed)
    for side in ("source", "target"):
        taught = types(train, side)
        assert min(taught[token] for token in types(held_out, side)) >= 5


def test_one_english_sentence_never_has_two_translations(large: list[Pair], held_out: list[Pair]) -> None:
    rng = Random(11)
    drawn = translations([sentence(rng) for _ in range(25_000)])
    for pair in large + held_out:
        drawn.setdefault(pair.source, set()).add(pair.target)
    assert [english for english, spanish in drawn.items() if len(spanish) > 1] == []


# What the language is like.


def test_train_has_at_least_eight_hundred_word_types_on_each_side(train: list[Pair]) -> None:
    assert len(types(train, "source")) >= 800
    assert len(types(train, "target")) >= 800


def test_nearly_every_running_word_is_one_that_train_says_often(train: list[Pair]) -> None:
    for side in ("source", "target"):
        counts = types(train, side)
        assert sum(count for count in counts.values() if count >= 8) > 0.97 * sum(counts.values())


def test_sentences_are_lower_case_words_between_single_spaces(train: list[Pair]) -> None:
    for pair in train:
        for text in (pair.source, pair.target):
            assert text == text.lower() == " ".join(text.split())


def test_most_sentences_have_four_to_fourteen_words(train: list[Pair]) -> None:
    lengths = [len(text.split()) for pair in train for text in (pair.source, pair.target)]
    assert sum(4 <= length <= 14 for length in lengths) > 0.85 * len(lengths)
    assert max(lengths) <= 25


def test_every_link_is_in_range_and_every_word_of_both_sides_is_linked(train: list[Pair], held_out: list[Pair]) -> None:
    for pair in train + held_out:
        assert pair.links
        assert list(pair.links) == sorted(set(pair.links))
        assert {i for i, _ in pair.links} == set(range(len(pair.source.split()))), pair
        assert {j for _, j in pair.links} == set(range(len(pair.target.split()))), pair


def test_punctuation_is_linked_to_punctuation_only(train: list[Pair]) -> None:
    marks = set(".,?!¿¡")
    for pair in train:
        assert all((left in marks) == (right in marks) for left, right in linked(pair)), pair


def test_a_name_is_linked_to_itself(train: list[Pair]) -> None:
    for pair in train:
        if "pedro" in pair.source.split():
            assert ("pedro", "pedro") in linked(pair)


def test_there_are_at_least_sixty_everyday_phrases_all_in_train(train: list[Pair]) -> None:
    phrases = (*GREETINGS, *PARTINGS, *EXCLAMATIONS, *INQUIRIES)
    assert len({phrase.english for phrase in phrases}) >= 60
    said = {pair.source.rstrip(" .!?") for pair in train}
    assert {" ".join(phrase.english) for phrase in phrases} <= said


# Every phenomenon the corpus promises, each shown by what it does to words. Left: words of one English sentence.
# Right: words that must follow one another in its translation.
PHENOMENA = {
    "subjects are dropped": ("i speak", "hablo"),
    "subjects are said in contrast": ("and she", "y ella"),
    "adjectives follow": ("red shirt", "camisa roja"),
    "good goes before and is cut short": ("a good book", "un buen libro"),
    "great goes before and is cut short": ("a great film", "una gran película"),
    "plurals agree": ("long letters", "cartas largas"),
    "feminine water takes el": ("the water", "el agua"),
    "objects become clitics": ("i see her", "la veo"),
    "two objects become two clitics": ("it to him", "se lo"),
    "clitics cling to infinitives": ("to see her", "verla"),
    "a clitic agrees with what it stands for": ("key but", "pero no la"),
    "negation": ("she does not", "no"),
    "shortened negation": ("don't", "no"),
    "shortened to be": ("i'm tired", "estoy cansado"),
    "yes-no questions": ("do you have", "¿ tienes"),
    "question words": ("where is the", "¿ dónde está"),
    "how many agrees": ("how many letters", "cuántas cartas"),
    "ser by nature": ("is very intelligent", "es muy inteligente"),
    "estar for states": ("window is open", "ventana está abierta"),
    "estar for places": ("is at the market", "está en el mercado"),
    "de and el fuse": ("from the park", "del parque"),
    "a and el fuse": ("went to the bank", "al banco"),
    "personal a": ("the doctor", "al médico"),
    "personal a before names": ("called ana", "llamó a ana"),
    "preterite": ("they bought", "compraron"),
    "imperfect of states": ("they had", "tenían"),
    "future": ("is going to buy", "va a comprar"),
    "progressive": ("is eating", "está comiendo"),
    "can": ("can swim", "nadar"),
    "have to": ("have to work", "que trabajar"),
    "liking turns round": ("i like", "me gusta"),
    "liking with a named person": ("ana likes", "a ana le gusta"),
    "aches turn round": ("my head hurts", "me duele la cabeza"),
    "tener for to be": ("i am hungry", "tengo hambre"),
    "tener for ages": ("years old", "años"),
    "possessives": ("our house", "nuestra casa"),
    "genitives": ("ana's", "de ana"),
    "demonstratives": ("those gloves", "esos guantes"),
    "numbers": ("three books", "tres libros"),
    "ago comes first": ("two days ago", "hace dos días"),
    "weekdays": ("on monday", "el lunes"),
    "habits on weekdays": ("on mondays", "los lunes"),
    "hours": ("at three o'clock", "a las tres"),
    "one o'clock": ("at one o'clock", "a la una"),
    "last week": ("last week", "la semana pasada"),
    "last night": ("last night", "anoche"),
    "with me": ("with me", "conmigo"),
    "prepositional phrases": ("under the table", "debajo de la mesa"),
    "there is": ("there is a", "hay un"),
    "because": ("because she was sick", "porque estaba enferma"),
    "when": ("when i am", "cuando"),
    "if": ("if you are thirsty", "si tienes sed"),
    "relative clauses": ("that lives in", "que vive en"),
    "reported clauses": ("i think that", "creo que"),
    "comparison": ("older than", "que"),
    "passive participles agree": ("was written by", "escrita por"),
    "reflexives": ("i get up", "me levanto"),
    "word sense of play, games": ("play football", "jugar al fútbol"),
    "word sense of play, instruments": ("play the guitar", "tocar la guitarra"),
    "word sense of know, people": ("he knows", "conoce a"),
    "word sense of know, facts": ("know the truth", "la verdad"),
    "word sense of short, people": ("short boy", "niño bajo"),
    "word sense of short, things": ("short novel", "novela corta"),
    "commands": ("open the window", "abre la ventana"),
    "commands with a clitic": ("give me", "dame"),
    "let's": ("let's", "vamos a"),
    "plural you": ("you all", "ustedes"),
    "trades lose their article": ("is a lawyer", "es abogado"),
    "weather": ("it is cold in", "hace frío en"),
}


@pytest.mark.parametrize("phenomenon", PHENOMENA)
def test_each_phenomenon_is_shown_by_the_corpus(phenomenon: str, large: list[Pair]) -> None:
    english, spanish = PHENOMENA[phenomenon]
    assert any(f" {english} " in f" {pair.source} " and f" {spanish} " in f" {pair.target} " for pair in large)


NOUN_FORMS = {
    form: (noun.feminine, many)
    for nouns in NOUNS.values()
    for noun in nouns
    for form, many in ((noun.spanish, False), (noun.plural_spanish, True))
    if form and noun.spanish not in ("paraguas", "agua", "traje")  # two numbers, two genders, also a verb
}
ADJECTIVES = {adjective.spanish for adjectives in NATURE.values() for adjective in adjectives}
LEMMAS = {
    agree(lemma, feminine, many): lemma for lemma in ADJECTIVES for feminine in (False, True) for many in (False, True)
}


def test_adjectives_follow_their_nouns_and_agree(large: list[Pair]) -> None:
    found = 0
    for pair in large:
        for noun, after in pairwise(pair.target.split()):
            if noun in NOUN_FORMS and after in LEMMAS:
                found += 1
                assert after == agree(LEMMAS[after], *NOUN_FORMS[noun]), pair
    assert found > 1000


def test_articles_agree_with_their_nouns(large: list[Pair]) -> None:
    articles = {"el": (False, False), "la": (True, False), "los": (False, True), "las": (True, True)}
    articles |= {"un": (False, False), "una": (True, False), "este": (False, False), "esta": (True, False)}
    articles |= {"del": (False, False), "al": (False, False), "muchos": (False, True), "muchas": (True, True)}
    for pair in large:
        for article, noun in pairwise(pair.target.split()):
            if article in articles and noun in NOUN_FORMS:
                assert articles[article] == NOUN_FORMS[noun], pair


def test_neighbours_that_must_fuse_never_stand_apart(large: list[Pair]) -> None:
    for pair in large:
        assert not {("de", "el"), ("a", "el")} & set(pairwise(pair.target.split())), pair


def test_an_english_article_before_a_vowel_is_an(large: list[Pair]) -> None:
    assert not [pair for pair in large for slip in (" a apple ", " a old ", " an big ") if slip in f" {pair.source} "]


def test_words_that_reorder_keep_their_links() -> None:
    phrase = weave("adjective noun", "noun adjective", adjective=word("red", "rojo"), noun=word("car", "coche"))
    assert phrase == Phrase(("red", "car"), ("coche", "rojo"), frozenset({(0, 1), (1, 0)}))


def test_a_tie_links_what_one_language_leaves_out() -> None:
    phrase = weave("who verb", "verb", "who-verb", who=word("i", ""), verb=word("eat", "como"))
    assert phrase.links == {(0, 0), (1, 0)}


def test_a_fused_word_keeps_the_links_of_both() -> None:
    phrase = polish(join(word("of", "de"), word("the", "el"), word("car", "coche")))
    assert phrase.spanish == ("del", "coche")
    assert phrase.links == {(0, 0), (1, 0), (2, 1)}


def test_y_becomes_e_before_its_own_sound() -> None:
    assert polish(join(word("and", "y"), word("italy", "italia"))).spanish == ("e", "italia")


@pytest.mark.parametrize(
    ("infinitive", "tense", "forms"),
    [
        ("hablar", "present", "hablo hablas habla hablamos hablan"),
        ("comer", "preterite", "comí comiste comió comimos comieron"),
        ("vivir", "imperfect", "vivía vivías vivía vivíamos vivían"),
        ("cerrar", "present", "cierro cierras cierra cerramos cierran"),
        ("jugar", "preterite", "jugué jugaste jugó jugamos jugaron"),
        ("buscar", "preterite", "busqué buscaste buscó buscamos buscaron"),
        ("dormir", "preterite", "dormí dormiste durmió dormimos durmieron"),
        ("enviar", "present", "envío envías envía enviamos envían"),
        ("traer", "preterite", "traje trajiste trajo trajimos trajeron"),
        ("conocer", "present", "conozco conoces conoce conocemos conocen"),
        ("leer", "preterite", "leí leíste leyó leímos leyeron"),
    ],
)
def test_verbs_are_conjugated_as_in_the_grammar_books(infinitive: str, tense: str, forms: str) -> None:
    assert " ".join(conjugate(infinitive, tense)) == forms


def test_other_forms_are_those_of_the_grammar_books() -> None:
    assert [gerund(verb) for verb in ("comer", "leer", "dormir")] == ["comiendo", "leyendo", "durmiendo"]
    assert [participle(verb) for verb in ("pintar", "escribir", "vender")] == ["pintado", "escrito", "vendido"]
    assert [imperative(verb) for verb in ("abrir", "hacer", "cerrar")] == ["abre", "haz", "cierra"]
    assert [plural(noun) for noun in ("canción", "lápiz", "autobús")] == ["canciones", "lápices", "autobuses"]
    assert [agree("rojo", True, True), agree("azul", True, True), agree("joven", False, True)] == [
        "rojas",
        "azules",
        "jóvenes",
    ]
