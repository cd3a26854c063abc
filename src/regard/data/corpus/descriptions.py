"""How things are: ser and estar, tener, hay, gustar, doler, weather and hours."""

from random import Random

from regard.data.corpus.adverbs import clock, hour, landmark, spot, the, weekday
from regard.data.corpus.clauses import Manner, choose, copula, marked, tell
from regard.data.corpus.lexicon import BIG_NUMBERS, FEELINGS, HAVING, NATURE, NUMBERS, PLACES, STATE
from regard.data.corpus.nominals import (
    AFTER_PREPOSITION,
    Nominal,
    any_place,
    describe,
    name,
    noun_phrase,
    pick,
    relative,
    several,
    somebody,
    subject,
    thing,
    whose,
)
from regard.data.corpus.nouns import GROUPS, NOUNS
from regard.data.corpus.phrase import EMPTY, Phrase, join, weave, word, words
from regard.data.corpus.spanish import EL, ELLOS, NOSOTROS, TU, YO, agree, conjugate
from regard.data.corpus.verbs import ACTIVITIES, TRANSITIVE

STEADY = "present present past"


def feeling(rng: Random) -> Phrase:
    """How somebody is for now: estar. she's tired -> está cansada."""
    who, manner = subject(rng), choose(rng, STEADY)
    mood = describe(rng.choice(FEELINGS), who.feminine, who.many, very=rng.random() < 0.2)
    return tell(copula("estar", who, manner) | {"object": mood}, manner)


def nature(rng: Random, who: Nominal | None = None) -> Phrase:
    """How somebody or something is by nature: ser. the shoes are very expensive -> los zapatos son muy caros."""
    if who is None:
        who = subject(rng) if rng.random() < 0.35 else matter(rng)
    manner = choose(rng, STEADY)
    quality = describe(rng.choice(NATURE[who.kind]), who.feminine, who.many, very=rng.random() < 0.3)
    return tell(copula("ser", who, manner) | {"object": quality}, manner)


def matter(rng: Random) -> Nominal:
    """A known thing that has a nature."""
    kinds = [kind for kind in NATURE if NATURE[kind] and kind not in ("person", "kin", "name", "drink", "food")]
    return thing(rng, *kinds, bare=False, known=True, plain=True)


def state(rng: Random) -> Phrase:
    """How something is for now: the windows aren't open -> las ventanas no están abiertas."""
    who = thing(rng, *STATE, bare=False, known=True, plain=True)
    manner = choose(rng, STEADY)
    quality = describe(rng.choice(STATE[who.kind]), who.feminine, who.many, very=False)
    return tell(copula("estar", who, manner) | {"object": quality}, manner)


def whereabouts(rng: Random) -> Phrase:
    """Where somebody or something is: estar. the keys are on the table -> las llaves están sobre la mesa."""
    manner = choose(rng, STEADY, 0.15)
    draw = rng.random()
    if draw < 0.4:
        who, where = subject(rng), any_place(rng, " ".join(PLACES))
    elif draw < 0.75:
        who = thing(rng, "object", "machine", "tableware", "reading", "animal", bare=False, known=True)
        where = spot(rng)
    else:
        who, where = noun_phrase(pick(rng, "place"), "the"), landmark(rng)
    return tell(copula("estar", who, manner) | {"rest": where}, manner)


def trade(rng: Random) -> Phrase:
    """What somebody is: i am a doctor -> soy médico, without the article; my sisters are nurses."""
    who = rng.choice((subject, name))(rng)
    manner = choose(rng, STEADY)
    fitting = [n for n in NOUNS["person"] if n.feminine == who.feminine and n.english not in NOT_TRADES]
    if who.many:
        fitting = [n for n in fitting if n.english in GROUPS]
    noun = rng.choice(fitting)
    if who.many:
        what = word(noun.plural, noun.plural_spanish)
    else:
        what = word(f"a {noun.english}", noun.spanish)
    return tell(copula("ser", who, manner) | {"object": what}, manner)


NOT_TRADES = {"boy", "girl", "man", "woman", "friend", "neighbor", "boss", "king", "queen", "tourist"}


def origin(rng: Random) -> Phrase:
    """Where somebody is from, whose something is, whom it is for: all are ser."""
    manner = choose(rng, "present", 0.15)
    draw = rng.random()
    if draw < 0.4:
        rest = join(word("from", "de"), noun_phrase(pick(rng, "town", "country"), "").phrase)
        return tell(copula("ser", subject(rng), manner) | {"rest": rest}, manner)
    what = thing(rng, "object", "clothing", "writing", "dish", bare=False, known=True, plain=True)
    pronoun = rng.choice(tuple(AFTER_PREPOSITION))
    whom = word(pronoun, AFTER_PREPOSITION[pronoun]) if draw < 0.7 else rng.choice((name, relative))(rng).phrase
    return tell(copula("ser", what, manner) | {"rest": join(word("for", "para"), whom)}, manner)


def having(rng: Random) -> Phrase:
    """What English is, Spanish has: i'm very hungry -> tengo mucha hambre; she is ten years old -> tiene diez años."""
    who, manner = subject(rng), choose(rng, STEADY)
    if rng.random() < 0.25:
        years = join(word(*rng.choice(NUMBERS + BIG_NUMBERS)), word("years old", "años"))
        return tell(copula("tener", who, manner) | {"object": years}, manner)
    need = rng.choice(tuple(HAVING))
    noun, feminine = HAVING[need]
    what = word(need, noun)
    if rng.random() < 0.25 and need not in ("right", "in a hurry"):
        what = join(word("very", "mucha" if feminine else "mucho"), what)
    return tell(copula("tener", who, manner) | {"object": what}, manner)


def mood(who: Nominal, how: str, tense: str, short: bool) -> Phrase:
    """A mood by its English name, with the verb it takes: hungry is had, tired is been."""
    manner = Manner(tense, short=short)
    if how in HAVING:
        return tell(copula("tener", who, manner) | {"object": word(how, HAVING[how][0])}, manner)
    felt = next(adjective for adjective in FEELINGS if adjective.english == how)
    return tell(copula("estar", who, manner) | {"object": describe(felt, who.feminine, who.many)}, manner)


CLITIC_OF = {YO: "me", TU: "te", EL: "le", NOSOTROS: "nos", ELLOS: "les"}


PASTIMES = tuple(word(verb.english, verb.spanish) for verb in ACTIVITIES)


def pleasing(rng: Random, question: bool = False) -> Phrase:
    """Liking turned round: i like apples -> me gustan las manzanas; ana loves to dance -> a ana le encanta bailar."""
    who = subject(rng)
    english, infinitive = rng.choice((("like", "gustar"), ("like", "gustar"), ("love", "encantar")))
    negative = english == "like" and not question and rng.random() < 0.3
    manner = Manner("present", negative, question, short=rng.random() < 0.5)
    verb_person, to = EL, EMPTY
    draw = rng.random()
    if draw < 0.35:
        what = generic(rng)
    elif draw < 0.7:
        nominal = thing(rng, "show", "song", "reading", "clothing", "sight", "vehicle", "dish", bare=False, known=True)
        what, verb_person = nominal.phrase, nominal.person
    elif draw < 0.85:
        to, what = word("to", ""), rng.choice(PASTIMES)
    else:
        verb = rng.choice([v for v in TRANSITIVE if v.english in ("read", "cook", "drink", "eat", "study", "speak")])
        noun = pick(rng, *(kind for kind in verb.objects if kind != "dish"))
        what = join(word(verb.english, verb.spanish), noun_phrase(noun, "", many=bool(noun.plural)).phrase)
        to = word("to", "")
    if draw < 0.35 and what.spanish[0] in ("los", "las"):
        verb_person = ELLOS
    form = conjugate(infinitive, "present")[verb_person]
    third = who.person == EL and not negative and not question
    helper = word("does" if who.person == EL else "do", "") if negative or question else EMPTY
    parts = {
        "subject": who.phrase if who.dropped else marked("a", who.phrase),
        "helper": helper,
        "main": word(english + "s" * third, form),
        "to": to,
        "what": what,
        "clitic": word("", CLITIC_OF[who.person]),
    }
    ties = "subject-clitic to-main"
    if negative:
        parts["not"] = word("not", "no")
        ties += " helper-not"
        if manner.short:
            parts |= {"helper": EMPTY, "not": word("doesn't" if who.person == EL else "don't", "no")}
    if question:
        ties += " helper-main"
        return weave("helper subject main to what", "subject clitic main what", ties, **parts)
    return weave("subject helper not main to what", "subject not clitic main what", ties, **parts)


def generic(rng: Random) -> Phrase:
    """A kind as a whole, which takes the article in Spanish only: coffee -> el café; cats -> los gatos."""
    noun = pick(rng, "food", "drink", "fruit", "animal", "sound", "subject", "sport")
    if noun.plural:
        known = noun_phrase(noun, "the", many=True).phrase
        return word(noun.plural, " ".join(known.spanish))
    known = noun_phrase(noun, "the").phrase
    return word(noun.english, " ".join(known.spanish))


def aching(rng: Random) -> Phrase:
    """my head hurts -> me duele la cabeza: the owner is a clitic, and comes first."""
    noun = pick(rng, "body")
    many = noun.english in ("arm", "leg", "knee", "foot", "tooth") and rng.random() < 0.7
    owner, clitic = rng.choice((("my", "me"), ("your", "te")))
    part = noun_phrase(noun, "the", many)
    negative = rng.random() < 0.2
    form = conjugate("doler", "present")[part.person]
    part_phrase = word(noun.plural if many else noun.english, " ".join(part.phrase.spanish))
    told = ("hurt" if many else "hurts") if not negative else "hurt"
    return weave(
        "owner part deny hurt",
        "deny owner hurt part",
        owner=word(owner, clitic),
        part=part_phrase,
        hurt=word(told, form),
        deny=word("don't" if many else "doesn't", "no") if negative else EMPTY,
    )


def existence(rng: Random, question: bool = False) -> Phrase:
    """there is a cat under the table -> hay un gato debajo de la mesa."""
    draw = rng.random()
    if draw < 0.5:
        noun = pick(rng, "object", "animal", "tableware", "fruit", "reading", "machine")
        where = spot(rng)
    else:
        noun = rng.choice([n for n in NOUNS["place"] if n.english not in ("city", "village", "beach", "airport")])
        where = rng.choice((landmark(rng), word("here", "aquí"), words("near=cerca_de", "here=aquí"), in_town(rng)))
    many = not question and several(rng, noun, 0.7)
    number = rng.randrange(2, 8) if many and rng.random() < 0.5 else 0
    article = ("" if number else rng.choice(("many", "some"))) if many else "a"
    adjective = EMPTY
    if rng.random() < 0.3:
        adjective = describe(rng.choice(NATURE[noun.kind]), noun.feminine, many)
    what = noun_phrase(noun, article, many, adjective, count=number).phrase
    if question:
        return join(word("is there", "hay"), what, where)
    past = rng.random() < 0.2
    be = ("were" if many else "was") if past else ("are" if many else "is")
    return join(word(f"there {be}", "había" if past else "hay"), what, where)


def in_town(rng: Random) -> Phrase:
    return join(word("in", "en"), noun_phrase(pick(rng, "town"), "").phrase)


def comparing(rng: Random) -> Phrase:
    """ana is taller than pedro -> ana es más alta que pedro; as tall as -> tan alta como."""
    if rng.random() < 0.5:
        one, other = somebody(rng), somebody(rng)
        kind = "person"
    else:
        kind = rng.choice(("clothing", "vehicle", "room", "reading", "furniture", "machine"))
        first, second = rng.sample(NOUNS[kind], 2)
        one, other = (noun_phrase(noun, the(rng)) for noun in (first, second))
    adjective = rng.choice([adjective for adjective in NATURE[kind] if adjective.comparative])
    form = agree(adjective.spanish, one.feminine, one.many)
    manner = choose(rng, "present", 0.15)
    if rng.random() < 0.3:
        quality = join(words("as=tan"), word(adjective.english, form), words("as=como"), other.phrase)
    elif adjective.comparative.startswith("more "):
        quality = join(words("more=más"), word(adjective.english, form), words("than=que"), other.phrase)
    else:
        quality = join(word(adjective.comparative, f"más {form}"), words("than=que"), other.phrase)
    return tell(copula("ser", one, manner) | {"object": quality}, manner)


WEATHER = (
    "hace frío=cold",
    "hace calor=hot",
    "hace sol=sunny",
    "hace viento=windy",
    "está nublado=cloudy",
    "está lloviendo=raining",
    "está nevando=snowing",
)


def weather(rng: Random) -> Phrase:
    """it is cold in madrid -> hace frío en madrid: no subject, and hacer for to be."""
    spanish, english = rng.choice(WEATHER).split("=")
    verb, what = spanish.split()
    short = rng.random() < 0.5
    sky = join(word("it's" if short else "it is", verb), word(english, what))
    draw = rng.random()
    if draw < 0.5:
        return join(sky, word("in", "en"), noun_phrase(pick(rng, "town", "country"), "").phrase)
    if draw < 0.8:
        return join(sky, rng.choice((word("today", "hoy"), word("now", "ahora"))))
    return sky


def time(rng: Random) -> Phrase:
    """it is one o'clock -> es la una; it is three o'clock -> son las tres; events have their hour."""
    if rng.random() < 0.4:
        told = hour(rng)
        return join(word(rng.choice(("it is", "it's")), "es" if told.spanish[0] == "la" else "son"), told)
    event = noun_phrase(pick(rng, "event"), rng.choice(("the", "the", "our", "my")))
    manner = choose(rng, STEADY, 0.15)
    at = rng.choice((weekday(rng), clock(rng), join(weekday(rng), clock(rng))))
    return tell(copula("ser", event, manner) | {"rest": at}, manner)


def price(rng: Random) -> Phrase:
    """the red shirt costs ten euros -> la camisa roja cuesta diez euros."""
    what = thing(rng, "clothing", "object", "machine", "fruit", "dish", bare=False, known=True)
    told = word("cost" if what.many else "costs", conjugate("costar", "present")[what.person])
    return join(what.phrase, told, word(*rng.choice(NUMBERS + BIG_NUMBERS)), word("euros", "euros"))


def owning(rng: Random) -> Phrase:
    """ana's house is big -> la casa de ana es grande: the owner moves behind."""
    noun = pick(rng, "clothing", "vehicle", "room", "animal", "machine", "furniture")
    many = several(rng, noun, 0.3)
    thing_owned = noun_phrase(noun, "the", many)
    owner = name(rng) if rng.random() < 0.6 else parent(rng)
    article, form = thing_owned.phrase.spanish
    phrase = weave(
        "owner what",
        "article what owner",
        "what-article",
        owner=marked("de", possessor(owner.phrase)),
        what=word(noun.plural if many else noun.english, form),
        article=word("", article),
    )
    who = Nominal(phrase, thing_owned.person, noun.feminine, kind=noun.kind)
    return nature(rng, who)


def parent(rng: Random) -> Nominal:
    """Father, mother, brother or sister."""
    noun = rng.choice(NOUNS["kin"][:4])
    return noun_phrase(noun, whose(rng, noun))


def named(rng: Random) -> Phrase:
    """my name is ana -> me llamo ana; my brother's name is luis -> mi hermano se llama luis."""
    if rng.random() < 0.4:
        owner, clitic, form = rng.choice((("my", "me", "llamo"), ("your", "te", "llamas")))
        return join(word(owner, clitic), word("name is", form), name(rng).phrase)
    who = parent(rng)
    called = rng.choice([noun for noun in NOUNS["name"] if noun.feminine == who.feminine])
    return join(possessor(who.phrase), word("name is", "se llama"), word(called.english, called.spanish))


def possessor(who: Phrase) -> Phrase:
    """The English genitive: ana's, my uncle's."""
    *lead, last = who.english
    return Phrase((*lead, last + "'s"), who.spanish, who.links)
