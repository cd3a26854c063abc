"""Who and what: noun phrases and pronouns that know their person, gender and number.

English "the big house" is Spanish "la casa grande": article and adjective agree with the noun, and the adjective moves
behind it. Subject pronouns vanish in Spanish; object pronouns become clitics, which `clauses` puts in place.
"""

from dataclasses import dataclass, replace
from random import Random

from regard.data.corpus.lexicon import BEFORE, COLORS, NATURE, NUMBERS, PLACES, Adjective
from regard.data.corpus.nouns import GROUPS, LONE, NOUNS, OWNED, TONIC, Noun
from regard.data.corpus.phrase import EMPTY, Phrase, join, weave, word, words
from regard.data.corpus.spanish import EL, ELLOS, NOSOTROS, TU, YO, agree


@dataclass(frozen=True)
class Nominal:
    """A noun phrase or pronoun; a dropped one has no Spanish words and is linked to the verb instead."""

    phrase: Phrase
    person: int = EL
    feminine: bool = False
    human: bool = False
    kind: str = ""

    @property
    def many(self) -> bool:
        return self.person in (NOSOTROS, ELLOS)

    @property
    def dropped(self) -> bool:
        return not self.phrase.spanish


def pronoun(english: str, person: int, feminine: bool = False) -> Nominal:
    return Nominal(word(english, ""), person, feminine, human=True, kind="person")


ME, YOU, WE, THEY = pronoun("i", YO), pronoun("you", TU), pronoun("we", NOSOTROS), pronoun("they", ELLOS)
HE, SHE = pronoun("he", EL), pronoun("she", EL, feminine=True)
YOU_ALL = Nominal(word("you all", "ustedes"), ELLOS, human=True, kind="person")
PRONOUNS = (ME, ME, YOU, YOU, WE, WE, THEY, THEY, HE, SHE)

# Objects: English, the Spanish clitic, and the subjects that cannot act on themselves with it.
PEOPLE_CLITICS = (
    ("me", "me", (YO, NOSOTROS)),
    ("you", "te", (TU,)),
    ("him", "lo", ()),
    ("her", "la", ()),
    ("us", "nos", (YO, NOSOTROS)),
    ("them", "los", ()),
)
DATIVE_CLITICS = {"me": "me", "you": "te", "him": "le", "her": "le", "us": "nos", "them": "les"}
REFLEXIVE_CLITICS = ("me", "te", "se", "nos", "se")
AFTER_PREPOSITION = {"me": "mí", "you": "ti", "him": "él", "her": "ella", "us": "nosotros", "them": "ellos"}

# Determiners, masculine singular in Spanish.
SINGULAR = {"the": "el", "a": "un", "this": "este", "that": "ese", "another": "otro"}
PLURAL = {"the": "los", "some": "algunos", "these": "estos", "those": "esos", "many": "muchos"}
POSSESSIVES = {"my": "mi", "your": "tu", "his": "su", "her": "su", "our": "nuestro", "their": "su"}
GREAT = {"reading", "writing", "show", "song", "sight", "place", "lesson"}
PLENTY = {"fruit", "clothing", "reading", "writing", "object", "animal"}  # stand in the plural without an article
FEMININE = {"el": "la", "un": "una", "este": "esta", "ese": "esa"}


def determiner(english: str, noun: Noun, many: bool) -> Phrase:
    """An article, demonstrative, possessive or quantifier in the gender and number of its noun."""
    if not english:
        return EMPTY
    if english in POSSESSIVES:
        return word(english, agree(POSSESSIVES[english], noun.feminine, many))
    if english == "all the":
        return words("all=todas", "the=las") if noun.feminine else words("all=todos", "the=los")
    spanish = (PLURAL if many else SINGULAR)[english]
    if noun.feminine and not (noun.spanish in TONIC and spanish in ("el", "un")):
        if many:
            spanish = spanish[:-2] + "as"
        else:
            spanish = FEMININE.get(spanish) or agree(spanish, True, False)
    return word(english, spanish)


def describe(adjective: Adjective, feminine: bool, many: bool, very: bool = False) -> Phrase:
    """An adjective in the gender and number of what it describes, perhaps with "very"."""
    phrase = word(adjective.english, agree(adjective.spanish, feminine, many))
    return join(word("very", "muy"), phrase) if very and adjective not in COLORS else phrase


def noun_phrase(
    noun: Noun, article: str, many: bool = False, adjective: Phrase = EMPTY, before: str = "", count: int = 0
) -> Nominal:
    """Article, number, adjectives and noun: the adjective behind the noun in Spanish, except `before`."""
    forms = word(noun.plural, noun.plural_spanish) if many else word(noun.english, noun.spanish)
    ahead = EMPTY
    if before:
        masculine, feminine, lemma = BEFORE[before]
        form = feminine if noun.feminine else masculine
        ahead = word(before, agree(lemma, noun.feminine, True) if many else form)
    phrase = weave(
        "article count ahead adjective noun",
        "article count ahead noun adjective",
        article=determiner(article, noun, many),
        count=word(*NUMBERS[count - 2]) if count else EMPTY,
        ahead=ahead,
        adjective=adjective,
        noun=forms,
    )
    return Nominal(phrase, ELLOS if many else EL, noun.feminine, noun.human, noun.kind)


def pick(rng: Random, *kinds: str) -> Noun:
    return rng.choice(NOUNS[rng.choice(kinds)])


def several(rng: Random, noun: Noun, chance: float) -> bool:
    """Whether to speak of more than one, where the corpus ever does."""
    lone = not noun.plural or noun.kind in LONE or (noun.kind == "person" and noun.english not in GROUPS)
    return not lone and rng.random() < chance


def name(rng: Random) -> Nominal:
    return noun_phrase(pick(rng, "name"), "")


def relative(rng: Random) -> Nominal:
    """Somebody's relative, sometimes several: my sister, her uncles."""
    noun = pick(rng, "kin")
    many = noun.english not in ("husband", "wife", "mother", "father") and rng.random() < 0.2
    return noun_phrase(noun, whose(rng, noun), many)


def whose(rng: Random, noun: Noun) -> str:
    """A possessive that fits a relative."""
    if noun.english in ("husband", "wife"):
        return rng.choice(("my", "your", "her" if noun.english == "husband" else "his"))
    return rng.choice(tuple(POSSESSIVES))


def person(rng: Random, known: bool = False) -> Nominal:
    """A person by trade or looks; a known one is never "a" but "the" or "this"."""
    noun = pick(rng, "person")
    many = several(rng, noun, 0.3)
    articles = ["the", "the", "these"] if many else ["the", "the", "this", "that"]
    if noun.english in OWNED:
        articles += ["my", "your", "our"]
    if not known and not many:
        articles.append("a")
    adjective = EMPTY
    if rng.random() < 0.2:
        adjective = describe(rng.choice(NATURE["person"]), noun.feminine, many)
    return noun_phrase(noun, rng.choice(articles), many, adjective)


def somebody(rng: Random, known: bool = True) -> Nominal:
    """A name, a relative or a person."""
    return rng.choice((name, relative, lambda r: person(r, known)))(rng)


def couple(rng: Random) -> Nominal:
    """Two people joined by "and": masculine unless both are feminine."""
    first, second = rng.sample(NOUNS["name"], 2)
    one, other = noun_phrase(first, ""), noun_phrase(second, "")
    both = join(one.phrase, word("and", "y"), other.phrase)
    return Nominal(both, ELLOS, one.feminine and other.feminine, human=True, kind="person")


def again(who: Nominal) -> Nominal:
    """The same person, taken up by a pronoun: ana ... she."""
    if who.dropped:
        return who
    if who is YOU_ALL:
        return pronoun("you all", ELLOS)
    return THEY if who.many else SHE if who.feminine else HE


ALOUD = {"i": "yo", "you": "tú", "he": "él", "she": "ella", "we": "nosotros", "they": "ellos"}


def aloud(who: Nominal) -> Nominal:
    """A subject that is said in Spanish too, because it stands against another: yo como y ella bebe."""
    if not who.dropped:
        return who
    said = who.phrase.english[0]
    return replace(who, phrase=word(said, ALOUD[said]))


def subject(rng: Random) -> Nominal:
    """Who does it. Pronouns lead, so that every person of every verb is heard often."""
    draw = rng.random()
    if draw < 0.66:
        return rng.choice(PRONOUNS)
    if draw < 0.70:
        return YOU_ALL
    if draw < 0.74:
        return couple(rng)
    return somebody(rng)


def thing(rng: Random, *kinds: str, bare: bool = True, known: bool = False, plain: bool = False) -> Nominal:
    """Something of these kinds, with an article, a number or an adjective where they fit.

    `bare` lets mass nouns and plurals stand without an article; `known` keeps to the, this and my; `plain` leaves
    adjectives out.
    """
    noun = pick(rng, *kinds)
    kind = noun.kind
    if kind in ("name", "sport", "subject", "language", "town", "country", "sound"):
        return noun_phrase(noun, "")
    if kind == "kin":
        return relative(rng)
    if kind == "person":
        return person(rng, known=True)
    adjective = EMPTY
    natures = NATURE.get(kind, ())
    if kind in ("food", "drink"):
        if natures and rng.random() < 0.2 and not plain:
            adjective = describe(rng.choice(natures), noun.feminine, False)
        return noun_phrase(noun, "" if bare and rng.random() < 0.6 else "the", adjective=adjective)
    many = several(rng, noun, 0.4)
    draw = rng.random()
    before, count = "", 0
    if not plain:
        if draw < 0.3 and natures:
            adjective = describe(rng.choice(natures), noun.feminine, many, very=draw < 0.06)
        elif 0.3 < draw < 0.36:
            before = rng.choice(("first", "last") if known else ("good", "bad", "great" if kind in GREAT else "good"))
    if many:
        articles = ["the", "these", "those", "my", "your", "his", "our", "their", "all the"]
        if not known:
            articles += ["some", "many", "two", "two", "two"] + [""] * 3 * (bare and kind in PLENTY)
    else:
        articles = ["the", "the", "this", "that", "my", "your", "her", "our"]
        if not known:
            articles += ["a", "a", "a", "a", "another"]
    article = rng.choice(articles)
    if kind == "fact":
        article = rng.choice(("the", "the", "your", "his", "her") if noun.english in ("name", "address") else ("the",))
    if before in ("first", "last"):
        article = "the"
    elif before:
        article = "some" if many else "a"
    if article == "two":
        article, count = "", rng.randrange(2, 13)
    return noun_phrase(noun, article, many, adjective, before, count)


def place(noun: Noun, article: str = "the", adjective: Phrase = EMPTY) -> Phrase:
    """Where something happens: at the station, in the kitchen; both are "en"."""
    return join(word(at(noun), "en"), noun_phrase(noun, article, adjective=adjective).phrase)


def at(noun: Noun) -> str:
    """The English preposition of a place."""
    return "at" if noun.kind == "place" and noun.english not in ("city", "village", "park") else "in"


def any_place(rng: Random, names: str) -> Phrase:
    return place(PLACES[rng.choice(names.split())])
