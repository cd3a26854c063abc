"""Statements: one function for each construction, each returning a clause without its full stop."""

from dataclasses import replace
from random import Random

from regard.data.corpus import english, spanish
from regard.data.corpus.adverbs import OFTEN, clock, company, landmark, maybe, when
from regard.data.corpus.clauses import Manner, attach, be, choose, group, personal, tell
from regard.data.corpus.lexicon import NATURE, ONGOING, PLACES, WHERE
from regard.data.corpus.nominals import (
    DATIVE_CLITICS,
    PEOPLE_CLITICS,
    YOU_ALL,
    Nominal,
    again,
    any_place,
    describe,
    name,
    noun_phrase,
    pick,
    place,
    relative,
    somebody,
    subject,
    thing,
)
from regard.data.corpus.phrase import EMPTY, Phrase, join, word, words
from regard.data.corpus.spanish import agree, conjugate
from regard.data.corpus.verbs import (
    ACTIVITIES,
    ARRIVE,
    BY_NAME,
    COME,
    DATIVE,
    LIVE,
    MEALS,
    MOTION,
    REFLEXIVE,
    SPORT,
    TRANSITIVE,
    Verb,
)

UNFOLDING = "present present present present past past past past future progressive modal"
MODAL = ("can", "want", "need", "have")
STEADY = "present present past"


def manner_for(rng: Random, verb: Verb, tenses: str = UNFOLDING) -> Manner:
    """How this verb may be told: states do not unfold, and "read" is told in the past only with did."""
    manner = choose(rng, STEADY if verb.stative else tenses)
    if manner.tense == "modal":
        return replace(manner, tense=rng.choice(MODAL))
    if manner.tense == "progressive" and verb.english not in ONGOING:
        return replace(manner, tense=rng.choice(("present", "past")))
    if verb.english == "read" and manner.tense == "past":
        return replace(manner, negative=True)
    return manner


def told(rng: Random, parts: dict[str, Phrase], manner: Manner, time: float = 0.35) -> Phrase:
    """A clause that perhaps opens or ends with its time."""
    tense = "future" if manner.tense in ("can", "want", "need", "have") else manner.tense
    draw = rng.random()
    if draw < time * 0.2:
        return join(when(rng, tense), tell(parts, manner))
    if draw < time:
        return join(tell(parts, manner), when(rng, tense))
    return tell(parts, manner)


def action(rng: Random) -> Phrase:
    """Somebody does something to something: ana is reading the long book in the library."""
    verb, who = rng.choice(TRANSITIVE), subject(rng)
    manner = manner_for(rng, verb)
    parts = group(verb, who, manner)
    parts["object"] = personal(thing(rng, *verb.objects), verb)
    if manner.tense == "present" and not manner.negative and rng.random() < 0.15:
        parts["often"] = rng.choice(OFTEN)
        return tell(parts, manner)
    if verb.spanish in WHERE and rng.random() < 0.25:
        parts["rest"] = any_place(rng, WHERE[verb.spanish])
        return tell(parts, manner)
    return told(rng, parts, manner, 0.0 if verb.stative else 0.3)


def activity(rng: Random) -> Phrase:
    """Somebody works, swims or dances somewhere, with somebody."""
    verb, who = rng.choice(ACTIVITIES), subject(rng)
    manner = manner_for(rng, verb)
    parts = group(verb, who, manner)
    draw = rng.random()
    if draw < 0.6:
        parts["rest"] = any_place(rng, " ".join(verb.objects))
    elif draw < 0.8:
        parts["rest"] = company(rng, who)
    else:
        how = "fast=rápido" if verb.english in ("run", "swim", "walk") else "well=bien"
        parts["rest"] = words(rng.choice((how, how, "here=aquí", "there=allí", "a_lot=mucho", "too_much=demasiado")))
    return told(rng, parts, manner)


def journey(rng: Random) -> Phrase:
    """Somebody goes somewhere: we are going to travel to peru with them."""
    verb, who = rng.choice(MOTION), subject(rng)
    manner = manner_for(rng, verb, "present present past past future modal")
    goal = pick(rng, *verb.objects)
    if verb.spanish != "viajar" and rng.random() < 0.1:
        there = word("home", "a casa")
    else:
        there = join(word("to", "a"), noun_phrase(goal, "the" if goal.kind == "place" else "").phrase)
    parts = group(verb, who, manner) | {"rest": join(there, maybe(rng, 0.2, company(rng, who)))}
    return told(rng, parts, manner)


def coming(rng: Random) -> Phrase:
    """Somebody comes from a place or arrives at one, at an hour."""
    who = subject(rng)
    noun = pick(rng, "place")
    spot_phrase = noun_phrase(noun, "the").phrase
    if rng.random() < 0.5:
        manner = choose(rng, "present past future")
        parts = group(COME, who, manner) | {"rest": join(word("from", "de"), spot_phrase)}
        return told(rng, parts, manner)
    manner = choose(rng, "present past past future", 0.1)
    rest = rng.choice((join(word("at", "a"), spot_phrase), word("home", "a casa"), EMPTY))
    how = clock(rng) if rng.random() < 0.6 else rng.choice((word("late", "tarde"), word("early", "temprano")))
    return tell(group(ARRIVE, who, manner) | {"rest": join(rest, how)}, manner)


def living(rng: Random) -> Phrase:
    """Where somebody lives: she lives near the river, in a small village, in london."""
    manner, who = choose(rng, STEADY), subject(rng)
    draw = rng.random()
    if draw < 0.5:
        where = join(word("in", "en"), noun_phrase(pick(rng, "town", "country"), "").phrase)
    elif draw < 0.75:
        noun = PLACES[rng.choice(("house", "city", "village", "castle"))]
        where = place(noun, "a", describe(rng.choice(NATURE[noun.kind]), noun.feminine, False))
    else:
        where = landmark(rng)
    return tell(group(LIVE, who, manner) | {"rest": where}, manner)


def playing(rng: Random) -> Phrase:
    """to play is jugar a with a game, tocar with an instrument: juego al fútbol, toco la guitarra."""
    manner, who = manner_for(rng, SPORT), subject(rng)
    if rng.random() < 0.5:
        verb, what = BY_NAME["tocar"], noun_phrase(pick(rng, "instrument"), "the").phrase
    else:
        noun = pick(rng, "sport")
        verb, what = SPORT, Phrase((noun.english,), ("a", "el", noun.spanish), frozenset({(0, 0), (0, 1), (0, 2)}))
    rest = maybe(rng, 0.3, company(rng, who))
    return told(rng, group(verb, who, manner) | {"object": what, "rest": rest}, manner, 0.3)


def routine(rng: Random) -> Phrase:
    """The day's round: i get up at seven o'clock -> me levanto a las siete."""
    verb, who = rng.choice(REFLEXIVE + MEALS), subject(rng)
    manner = manner_for(rng, verb, "present present past past future modal")
    rest = clock(rng) if rng.random() < 0.6 else rng.choice((word("late", "tarde"), word("early", "temprano")))
    if not verb.reflexive and rng.random() < 0.3:
        there = any_place(rng, "restaurant kitchen garden hotel")
        rest = rng.choice((there, word("at home", "en casa"), company(rng, who)))
    parts = group(verb, who, manner) | {"rest": rest}
    if manner.tense == "present" and not manner.negative and rng.random() < 0.2:
        parts["often"] = rng.choice(OFTEN)
        return tell(parts, manner)
    return told(rng, parts, manner, 0.25)


def clitic_person(rng: Random, who: Nominal) -> tuple[str, str]:
    """A person as object that is not the subject: her, la."""
    fitting = [(left, right) for left, right, barred in PEOPLE_CLITICS if who.person not in barred]
    return rng.choice([pair for pair in fitting if who is not YOU_ALL or pair[0] != "you"])


CLITIC_PEOPLE = ("ver", "ayudar", "llamar", "visitar", "conocer", "esperar")
CLITIC_THINGS = ("comprar", "leer", "vender", "abrir", "lavar", "necesitar", "querer", "tener", "traer", "encontrar")
CLINGING = {"ver", "ayudar", "llamar", "comprar", "leer", "vender"}


def with_clitic(rng: Random) -> Phrase:
    """Object pronouns go before the finite verb and cling to the infinitive: la veo, quiero verla."""
    who = subject(rng)
    if rng.random() < 0.65:
        verb = BY_NAME[rng.choice(CLITIC_PEOPLE)]
        pronoun, clitic = clitic_person(rng, who)
    else:
        verb = BY_NAME[rng.choice(CLITIC_THINGS)]
        pronoun, clitic = rng.choice((("it", "lo"), ("them", "los")))
    manner = manner_for(rng, verb, "present past future modal" if verb.spanish in CLINGING else "present past")
    return told(rng, attach(verb, who, manner, pronoun, clitic), manner, 0.0 if verb.stative else 0.25)


def referring(rng: Random) -> Phrase:
    """A pronoun that agrees with what was said before: i have the key but i don't see it -> ... no la veo."""
    first = rng.choice([v for v in TRANSITIVE if v.spanish in ("comprar", "tener", "encontrar", "buscar")])
    kinds = tuple(kind for kind in first.objects if kind in ("object", "machine", "clothing", "vehicle"))
    who, what = subject(rng), thing(rng, *kinds, bare=False, plain=True)
    tense = "past" if first.spanish in ("comprar", "encontrar") else "present"
    opening = tell(group(first, who, Manner(tense)) | {"object": what.phrase}, Manner(tense))
    second = BY_NAME[rng.choice(("necesitar", "querer", "vender", "traer"))]
    manner = Manner("present", True, short=rng.random() < 0.5)
    clitic = agree("lo", what.feminine, what.many)
    closing = attach(second, again(who), manner, "them" if what.many else "it", clitic)
    return join(opening, word("but", "pero"), tell(closing, manner))


def giving(rng: Random) -> Phrase:
    """Two objects: i give the book to ana -> le doy el libro a ana; i give it to him -> se lo doy."""
    verb, who = rng.choice(DATIVE), subject(rng)
    manner = choose(rng, "present past past")
    what = thing(rng, *verb.objects, bare=False)
    parts = group(verb, who, manner) | {"object": what.phrase}
    if rng.random() < 0.3:
        other = rng.choice((name, relative))(rng)
        doubled = word("", "les" if other.many else "le")
        return tell(parts | {"toward": word("to", "a"), "dative": other.phrase, "second": doubled}, manner)
    pronoun = clitic_person(rng, who)[0]
    second = DATIVE_CLITICS[pronoun]
    parts |= {"dative": word(pronoun, ""), "second": word("", second)}
    draw = rng.random()
    if draw < 0.35:
        return tell(parts, manner, ("subject helper not main dative object", "subject not second main object"))
    parts["toward"] = word("to", "")
    if draw < 0.6:
        return tell(parts, manner)
    it, clitic = rng.choice((("it", "lo"), ("them", "los")))
    parts |= {"object": word(it, ""), "clitic": word("", clitic)}
    if second in ("le", "les"):
        parts["second"] = word("", "se")
    return tell(parts, manner)


def made(rng: Random) -> Phrase:
    """The passive, whose participle agrees: the letters were written by ana -> las cartas fueron escritas por ana."""
    verb = BY_NAME[rng.choice(("escribir", "pintar", "comprar", "vender", "abrir", "cerrar", "reparar", "romper"))]
    what = thing(rng, *verb.objects, bare=False, known=True)
    return join(
        what.phrase,
        word(be(what.person, True), conjugate("ser", "preterite")[what.person]),
        word(english.done(verb.english), agree(spanish.participle(verb.spanish), what.feminine, what.many)),
        word("by", "por"),
        somebody(rng).phrase,
    )
