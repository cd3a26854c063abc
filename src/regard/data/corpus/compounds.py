"""Sentences with more than one clause: because, when, if, but, that."""

from random import Random

from regard.data.corpus import english
from regard.data.corpus.clauses import Manner, choose, copula, group, personal, tell
from regard.data.corpus.descriptions import feeling, having, mood, nature, state, weather
from regard.data.corpus.lexicon import COLORS, LEFT_UNDONE, MOODS, NATURE, OBSTACLES
from regard.data.corpus.nominals import (
    PRONOUNS,
    Nominal,
    again,
    aloud,
    any_place,
    describe,
    noun_phrase,
    pick,
    relative,
    several,
    subject,
    thing,
)
from regard.data.corpus.nouns import NOUNS
from regard.data.corpus.phrase import Phrase, join, word, words
from regard.data.corpus.statements import action, activity, journey, living
from regard.data.corpus.verbs import ACTIVITIES, ARRIVE, BY_NAME, LIVE, MEALS, SAY, THINK, TRANSITIVE, Verb

COMMA = word(",", ",")
# What one can tell a thing by: the hat that i bought.
READILY = {"comprar", "vender", "leer", "llevar", "ver", "encontrar", "querer", "tener", "conocer", "escribir"}


def deed(rng: Random, choices: str, who: Nominal, manner: Manner) -> Phrase:
    """One of these deeds, each a Spanish verb with the kinds of its object: "dormir; leer reading writing"."""
    options = choices.split(";")
    if manner.tense == "past" and not manner.negative:
        options = [option for option in options if "leer" not in option]  # "i read" would be leo or leí
    name, *kinds = rng.choice(options).split()
    verb = BY_NAME[name]
    parts = group(verb, who, manner)
    if kinds:
        parts["object"] = personal(thing(rng, *kinds, plain=rng.random() < 0.5), verb)
    return tell(parts, manner)


def because(rng: Random) -> Phrase:
    """i'm eating an apple because i'm hungry; she does not work because she is sick."""
    who, short = subject(rng), rng.random() < 0.5
    tense = rng.choice(("present", "past", "past", "future"))
    if rng.random() < 0.6:
        how = rng.choice(tuple(MOODS))
        what = deed(rng, MOODS[how], who, Manner(tense, short=short))
    else:
        how = rng.choice(OBSTACLES)
        what = deed(rng, LEFT_UNDONE, who, Manner(tense, negative=True, short=short))
    return join(what, word("because", "porque"), mood(again(who), how, "past" if tense == "past" else "present", short))


def whenever(rng: Random) -> Phrase:
    """when i am sad , i listen to music; we were tired when my aunt arrived."""
    draw, short = rng.random(), rng.random() < 0.5
    how = rng.choice(tuple(MOODS))
    if draw < 0.6:
        who = subject(rng)
        what = deed(rng, MOODS[how], again(who), Manner("present"))
        return join(word("when", "cuando"), mood(who, how, "present", short), COMMA, what)
    arrival = tell(group(ARRIVE, relative(rng), Manner("past")), Manner("past"))
    felt = mood(rng.choice(PRONOUNS), how, "past", short)
    if draw < 0.8:
        return join(word("when", "cuando"), arrival, COMMA, felt)
    return join(felt, word("when", "cuando"), arrival)


def condition(rng: Random) -> Phrase:
    """if you are hungry , you can eat an apple."""
    who, how = subject(rng), rng.choice(tuple(MOODS))
    what = deed(rng, MOODS[how], again(who), Manner(rng.choice(("can", "can", "have"))))
    return join(word("if", "si"), mood(who, how, "present", rng.random() < 0.5), COMMA, what)


def contrast(rng: Random) -> Phrase:
    """i want to read the book but i am tired; the house is old but pretty."""
    short = rng.random() < 0.5
    if rng.random() < 0.5:
        who = subject(rng)
        wish = deed(rng, LEFT_UNDONE, who, Manner(rng.choice(("want", "have", "need")), short=short))
        return join(wish, word("but", "pero"), mood(again(who), rng.choice(OBSTACLES), "present", short))
    kind = rng.choice(("clothing", "vehicle", "room", "place", "reading", "person", "lesson", "machine"))
    what = noun_phrase(pick(rng, kind), rng.choice(("the", "this", "that")))
    one, other = rng.sample([adjective for adjective in NATURE[kind] if adjective not in COLORS], 2)
    manner = Manner("present")
    very = rng.random() < 0.4
    both = join(describe(one, what.feminine, False), word("but", "pero"), describe(other, what.feminine, False, very))
    return tell(copula("ser", what, manner) | {"object": both}, manner)


def addition(rng: Random) -> Phrase:
    """i eat bread and she drinks milk -> yo como pan y ella bebe leche: here the pronouns are said."""
    tense, one = rng.choice(("present", "past", "future")), subject(rng)
    other = rng.choice([pronoun for pronoun in PRONOUNS if pronoun.person != one.person])
    first, second = (deed(rng, LEFT_UNDONE, aloud(who), Manner(tense)) for who in (one, other))
    return join(first, word("and", "y"), second)


def opinion(rng: Random) -> Phrase:
    """i think that the film is boring -> creo que la película es aburrida; ana says that ..."""
    verb, who = rng.choice((THINK, SAY)), subject(rng)
    manner = Manner("present")
    claim = rng.choice((feeling, nature, having, state, weather, living, activity, journey))(rng)
    return join(tell(group(verb, who, manner), manner), word("that", "que"), claim)


def relative_clause(rng: Random) -> Phrase:
    """the book that i bought is interesting; the man that lives here is my uncle."""
    if rng.random() < 0.6:
        verb = rng.choice([v for v in TRANSITIVE if v.spanish in READILY])
        kinds = tuple(kind for kind in verb.objects if NATURE.get(kind) and kind not in ("name", "kin", "food"))
        noun = pick(rng, *kinds)
        what = noun_phrase(noun, "the", several(rng, noun, 0.3))
        manner = Manner("past" if verb.english != "read" and rng.random() < 0.7 else "present")
        inner = tell(group(verb, subject(rng), manner), manner)
    else:
        noun = pick(rng, "person")
        what = noun_phrase(noun, "the", several(rng, noun, 0.3))
        verb, rest = sign(rng)
        manner = Manner("present")
        hidden = Nominal(Phrase(), what.person, what.feminine)
        inner = tell(group(verb, hidden, manner) | {"rest": rest}, manner)
    whole = Nominal(join(what.phrase, word("that", "que"), inner), what.person, what.feminine, what.human, what.kind)
    manner = choose(rng, "present", 0.15)
    quality = describe(rng.choice(NATURE[what.kind]), what.feminine, what.many, very=rng.random() < 0.3)
    return tell(copula("ser", whole, manner) | {"object": quality}, manner)


def sign(rng: Random) -> tuple[Verb, Phrase]:
    """What tells one person from another: lives in rome, works at the bank, speaks french."""
    draw = rng.random()
    if draw < 0.4:
        return LIVE, join(word("in", "en"), noun_phrase(pick(rng, "town", "country"), "").phrase)
    if draw < 0.7:
        verb = ACTIVITIES[0]
        return verb, any_place(rng, " ".join(verb.objects))
    verb = BY_NAME[rng.choice(("hablar", "aprender", "estudiar"))]
    return verb, thing(rng, *verb.objects).phrase


def acquaintance(rng: Random) -> Phrase:
    """i know a girl that speaks french -> conozco a una niña que habla francés."""
    who, noun = subject(rng), rng.choice(NOUNS["person"])
    verb, rest = sign(rng)
    told = noun_phrase(noun, "a")
    know = BY_NAME["conocer"]
    manner = Manner("present")
    inner = tell(group(verb, Nominal(Phrase()), manner) | {"rest": rest}, manner)
    opening = tell(group(know, who, manner) | {"object": personal(told, know)}, manner)
    return join(opening, word("that", "que"), inner)


def succession(rng: Random) -> Phrase:
    """before eating , we wash the plates -> antes de comer , lavamos los platos."""
    verb = rng.choice(ACTIVITIES + MEALS)
    sooner = rng.choice((words("before=antes_de"), words("after=después_de")))
    manner = choose(rng, "present past past future", 0.1)
    what = deed(rng, LEFT_UNDONE, subject(rng), manner)
    return join(sooner, word(english.doing(verb.english), verb.spanish), COMMA, what)


OPENERS = (("first", "primero"), ("then", "entonces"), ("finally", "por fin"), ("after that", "después de eso"))


def story(rng: Random) -> Phrase:
    """then , i bought a hat: an action with its place in a story."""
    opener = rng.choice(OPENERS)
    return join(word(*opener), COMMA, action(rng))
