"""Questions and commands: inversion, do-support and what Spanish does instead."""

from dataclasses import replace
from random import Random

from regard.data.corpus.adverbs import maybe, when
from regard.data.corpus.clauses import COPULAR_QUESTION, Manner, copula, group, personal, tell
from regard.data.corpus.descriptions import existence, matter, pleasing
from regard.data.corpus.lexicon import FEELINGS, HAVING, NATURE, STATE, WHERE
from regard.data.corpus.nominals import (
    Nominal,
    any_place,
    describe,
    noun_phrase,
    person,
    pick,
    somebody,
    subject,
    thing,
)
from regard.data.corpus.nouns import LONE, MASS
from regard.data.corpus.phrase import EMPTY, Phrase, join, weave, word
from regard.data.corpus.spanish import agree, conjugate, imperative
from regard.data.corpus.statements import manner_for
from regard.data.corpus.verbs import ACTIVITIES, BY_NAME, LIVE, MOTION, TRANSITIVE, Verb

ASKED = "present present present present past past past past future progressive modal"
COMMON = ("comer", "beber", "comprar", "leer", "escribir", "buscar", "necesitar", "querer", "estudiar", "vender")


def asked(rng: Random, verb: Verb, tenses: str = ASKED) -> Manner:
    """How this verb may be asked."""
    return replace(manner_for(rng, verb, tenses), negative=False, short=False, question=True)


def whether(rng: Random) -> Phrase:
    """do you have a red car -> tienes un coche rojo."""
    verb, who = rng.choice(TRANSITIVE), subject(rng)
    manner = asked(rng, verb)
    what = personal(thing(rng, *verb.objects), verb)
    rest = maybe(rng, 0.15, when(rng, manner.tense)) if not verb.stative else EMPTY
    return tell(group(verb, who, manner) | {"object": what, "rest": rest}, manner)


def whether_going(rng: Random) -> Phrase:
    """are you going to travel to rome; does she work here."""
    who = subject(rng)
    if rng.random() < 0.5:
        verb = rng.choice(MOTION)
        goal = pick(rng, *verb.objects)
        rest = join(word("to", "a"), noun_phrase(goal, "the" if goal.kind == "place" else "").phrase)
        manner = asked(rng, verb, "present present past past future modal")
    else:
        verb = rng.choice(ACTIVITIES)
        rest = any_place(rng, " ".join(verb.objects)) if rng.random() < 0.7 else word("here", "aquí")
        manner = asked(rng, verb)
    return tell(group(verb, who, manner) | {"rest": rest}, manner)


def whether_so(rng: Random) -> Phrase:
    """is the door open -> está abierta la puerta; are you hungry -> tienes hambre."""
    manner = Manner(rng.choice(("present", "present", "past")), question=True)
    draw = rng.random()
    if draw < 0.3:
        who = subject(rng)
        verb, quality = "estar", describe(rng.choice(FEELINGS), who.feminine, who.many)
    elif draw < 0.5:
        who = subject(rng)
        need = rng.choice(tuple(HAVING))
        verb, quality = "tener", word(need, HAVING[need][0])
    elif draw < 0.75:
        who = thing(rng, *STATE, bare=False, known=True, plain=True)
        verb, quality = "estar", describe(rng.choice(STATE[who.kind]), who.feminine, who.many)
    else:
        who = somebody(rng) if rng.random() < 0.4 else matter(rng)
        verb, quality = "ser", describe(rng.choice(NATURE[who.kind]), who.feminine, who.many)
    return tell(copula(verb, who, manner) | {"object": quality}, manner, COPULAR_QUESTION)


def what(rng: Random) -> Phrase:
    """what are you eating -> qué estás comiendo; which book; how many apples, which agree."""
    verb, who = BY_NAME[rng.choice(COMMON)], subject(rng)
    manner = asked(rng, verb)
    draw, noun = rng.random(), pick(rng, *verb.objects)
    if draw < 0.4 or noun.kind in MASS:
        ask = word("what", "qué")
    elif draw < 0.65 or noun.kind in LONE:
        ask = join(word("which", "qué"), noun_phrase(noun, "").phrase)
    else:
        ask = join(word("how many", agree("cuánto", noun.feminine, True)), noun_phrase(noun, "", many=True).phrase)
    return tell(group(verb, who, manner), manner, ask=ask)


WONDER = (("when", "cuándo"), ("why", "por qué"), ("how", "cómo"), ("where", "dónde"))


def wonder(rng: Random) -> Phrase:
    """when did they buy the house; why are you sad; where does ana work."""
    left, right = rng.choice(WONDER)
    who = subject(rng)
    draw = rng.random()
    if left == "where" and draw < 0.6:
        verb = rng.choice((LIVE, *ACTIVITIES[:3]))
        manner = asked(rng, verb, "present past future")
        return tell(group(verb, who, manner), manner, ask=word(left, right))
    if left == "why" and draw < 0.4:
        manner = Manner(rng.choice(("present", "past")), question=True)
        mood = describe(rng.choice(FEELINGS), who.feminine, who.many)
        return tell(copula("estar", who, manner) | {"object": mood}, manner, COPULAR_QUESTION, word(left, right))
    usable = [v for v in TRANSITIVE if not v.stative and (left != "where" or v.spanish in WHERE)]
    verb = rng.choice(usable)
    manner = asked(rng, verb, "present past past future" if left != "how" else "past past future")
    what_phrase = personal(thing(rng, *verb.objects, plain=True, known=True), verb)
    return tell(group(verb, who, manner) | {"object": what_phrase}, manner, ask=word(left, right))


def where(rng: Random) -> Phrase:
    """where is the red car -> dónde está el coche rojo; who is that woman; what color is it."""
    draw = rng.random()
    manner = Manner(rng.choice(("present", "present", "past")), question=True)
    if draw < 0.45:
        who = thing(
            rng, "object", "machine", "clothing", "vehicle", "animal", "place", "tableware", bare=False, known=True
        )
        return tell(copula("estar", who, manner), manner, ask=word("where", "dónde"))
    if draw < 0.6:
        who = rng.choice((somebody, subject))(rng)
        return tell(copula("estar", who, manner), manner, ask=word("where", "dónde"))
    if draw < 0.7:
        who = person(rng, known=True)
        return tell(copula("ser", who, manner), manner, ask=word("who", "quién" if not who.many else "quiénes"))
    if draw < 0.8:
        who = somebody(rng)
        return tell(copula("estar", who, manner), manner, ask=word("how", "cómo"))
    if draw < 0.9:
        who = thing(rng, "clothing", "vehicle", "furniture", "opening", bare=False, known=True, plain=True)
        color = Phrase(("what", "color"), ("de", "qué", "color"), frozenset({(0, 0), (0, 1), (1, 2)}))
        return tell(copula("ser", who, manner), manner, ask=color)
    who = subject(rng)
    old = Phrase(("how", "old"), ("cuántos", "años"), frozenset({(0, 0), (1, 1)}))
    return tell(copula("tener", who, manner), manner, ask=old)


def who_does(rng: Random) -> Phrase:
    """who wrote this letter -> quién escribió esta carta."""
    verb = rng.choice([v for v in TRANSITIVE if v.english != "read"])
    manner = replace(manner_for(rng, verb), negative=False)
    who = Nominal(word("who", "quién"))
    return tell(group(verb, who, manner) | {"object": personal(thing(rng, *verb.objects), verb)}, manner)


def how_much(rng: Random) -> Phrase:
    """how much do the shoes cost -> cuánto cuestan los zapatos."""
    who = thing(rng, "clothing", "object", "machine", "fruit", "vehicle", "furniture", bare=False, known=True)
    return weave(
        "ask do who cost",
        "ask cost who",
        "do-cost",
        ask=word("how much", "cuánto"),
        do=word("do" if who.many else "does", ""),
        who=who.phrase,
        cost=word("cost", conjugate("costar", "present")[who.person]),
    )


def liking(rng: Random) -> Phrase:
    return pleasing(rng, question=True)


def is_there(rng: Random) -> Phrase:
    return existence(rng, question=True)


ORDERS = (
    *("comer", "beber", "comprar", "leer", "escribir", "lavar", "limpiar", "abrir", "cerrar", "buscar", "traer"),
    *("ayudar", "llamar", "esperar", "visitar", "escuchar", "estudiar", "pintar", "reparar", "hacer"),
)
# Commands with a pronoun that clings, and the accent that keeps the stress in place.
TO_ME = (("give", "dame"), ("bring", "tráeme"), ("buy", "cómprame"), ("send", "envíame"))
TO_ME_KINDS = {"send": ("writing",), "bring": ("object", "tableware", "drink", "food"), "buy": ("clothing", "object")}
HELPING = (("help", "ayúdame"), ("call", "llámame"), ("wait for", "espérame"))


def command(rng: Random) -> Phrase:
    """open the window -> abre la ventana; give me the key -> dame la llave."""
    draw = rng.random()
    if draw < 0.35:
        verb, form = rng.choice(TO_ME)
        given = thing(rng, *TO_ME_KINDS.get(verb, ("object", "reading", "writing")), bare=False)
        return join(word(f"{verb} me", form), given.phrase)
    if draw < 0.45:
        verb, form = rng.choice(HELPING)
        rest = rng.choice(
            (word("tomorrow", "mañana"), word("here", "aquí"), word("now", "ahora"), word("later", "más tarde"))
        )
        return join(word(f"{verb} me", form), rest)
    chosen = BY_NAME[rng.choice(ORDERS)]
    what = thing(rng, *chosen.objects, known=True)
    act = word(chosen.english, imperative(chosen.spanish))
    rest = maybe(rng, 0.2, rng.choice((word("now", "ahora"), word("tomorrow", "mañana"), word("today", "hoy"))))
    return join(act, personal(what, chosen), rest)


def lets(rng: Random) -> Phrase:
    """let's eat the cake -> vamos a comer el pastel."""
    verb = rng.choice([v for v in TRANSITIVE if not v.stative] + list(ACTIVITIES) * 2)
    what_phrase = EMPTY
    if verb in TRANSITIVE:
        what_phrase = personal(thing(rng, *verb.objects, plain=True, known=True), verb)
    return join(
        word("let's", "vamos a"), word(verb.english, verb.spanish), what_phrase, maybe(rng, 0.2, word("now", "ahora"))
    )
