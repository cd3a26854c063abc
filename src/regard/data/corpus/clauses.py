"""What happens: verbs in their tenses with subjects, objects, clitics and negation.

Every clause is one weave of the same named places. English has an auxiliary, "not" and word order where Spanish has an
ending, "no" and clitics:

    English   subject helper not often modal going to main object toward dative rest
    Spanish   subject not often second self clitic modal helper to main object toward dative rest
"""

from dataclasses import dataclass
from random import Random

from regard.data.corpus import english
from regard.data.corpus.nominals import REFLEXIVE_CLITICS, Nominal
from regard.data.corpus.phrase import EMPTY, Phrase, weave, word
from regard.data.corpus.spanish import EL, YO, conjugate, gerund
from regard.data.corpus.verbs import Verb

STATEMENT = (
    "subject helper not often modal going to main object toward dative rest",
    "subject not often second self clitic modal helper to main object toward dative rest",
)
# A question of yes or no has its subject behind the finite verb; after a question word it stands behind all verbs.
YES_NO_QUESTION = (
    "helper subject modal going to main object toward dative rest",
    "second self clitic modal helper subject to main object toward dative rest",
)
QUESTION = (
    "ask helper subject modal going to main object toward dative rest",
    "ask second self clitic modal helper to main subject object toward dative rest",
)
COPULAR_QUESTION = (
    "ask helper subject not object rest",
    "ask not helper object subject rest",
)

# Links that hold in every clause: a reflexive belongs to its verb, a clitic to the object it stands for.
TIES = ("going-helper", "main-self", "object-clitic", "dative-second")

BE_SHORT = {"am": "'m", "are": "'re", "is": "'s"}
DO_SHORT = {"do": "don't", "does": "doesn't", "did": "didn't", "is": "isn't", "are": "aren't", "was": "wasn't"}
DO_SHORT |= {"were": "weren't", "can": "can't"}

# Verbs that take another verb: the English verb, its Spanish, and what stands for "to".
MODALS = {
    "want": ("querer", ""),
    "need": ("necesitar", ""),
    "have": ("tener", "que"),
}


@dataclass(frozen=True)
class Manner:
    """How a clause is told: its tense, whether it is denied, asked or shortened."""

    tense: str = "present"  # present, past, future, progressive, can, want, need, have
    negative: bool = False
    question: bool = False
    short: bool = False


def be(person: int, past: bool = False) -> str:
    """The English "to be" of a Spanish person."""
    if past:
        return "was" if person in (YO, EL) else "were"
    return {YO: "am", EL: "is"}.get(person, "are")


def enclitic(verb: Verb, person: int, clitic: str) -> str:
    """An infinitive with what clings to it: verla, levantarme."""
    return verb.spanish + (REFLEXIVE_CLITICS[person] if verb.reflexive else "") + clitic


def group(verb: Verb, who: Nominal, manner: Manner, clitic: str = "") -> dict[str, Phrase]:
    """The places of a clause that the verb fills, with the subject. A clitic clings to an infinitive here already."""
    person, tense = who.person, manner.tense
    parts = {"subject": who.phrase}
    bare = word(verb.english, enclitic(verb, person, clitic))
    if tense in ("present", "past"):
        past = tense == "past"
        form = conjugate(verb.spanish, ("imperfect" if verb.stative else "preterite") if past else "present")[person]
        if manner.negative or manner.question:
            parts |= {"helper": word(_do(person, past), ""), "main": word(verb.english, form)}
        else:
            told = english.past(verb.english) if past else verb.english
            parts["main"] = word(english.third(told) if person == EL and not past else told, form)
        if verb.reflexive:
            parts["self"] = word("", REFLEXIVE_CLITICS[person])
    elif tense == "future":
        parts |= {
            "helper": word(be(person), conjugate("ir", "present")[person]),
            "going": word("going", ""),
            "to": word("to", "a"),
            "main": bare,
        }
    elif tense == "progressive":
        parts["helper"] = word(be(person), conjugate("estar", "present")[person])
        parts["main"] = word(english.doing(verb.english), gerund(verb.spanish))
        if verb.reflexive:
            parts["self"] = word("", REFLEXIVE_CLITICS[person])
    elif tense == "can":
        parts |= {"helper": word("can", conjugate("poder", "present")[person]), "main": bare}
    else:
        spanish, link = MODALS[tense]
        told = tense if manner.negative or manner.question or person != EL else english.third(tense)
        parts |= {
            "modal": word(told, conjugate(spanish, "present")[person]),
            "to": word("to", link),
            "main": bare,
        }
        if manner.negative or manner.question:
            parts["helper"] = word(_do(person, False), "")
    return parts


def _do(person: int, past: bool) -> str:
    return "did" if past else "does" if person == EL else "do"


def copula(spanish: str, who: Nominal, manner: Manner) -> dict[str, Phrase]:
    """ "To be", which is ser, estar or tener in Spanish, by what follows."""
    past = manner.tense == "past"
    if manner.tense == "future":
        return {
            "subject": who.phrase,
            "helper": word(be(who.person), conjugate("ir", "present")[who.person]),
            "going": word("going", ""),
            "to": word("to", "a"),
            "main": word("be", spanish),
        }
    form = conjugate(spanish, "imperfect" if past else "present")[who.person]
    return {"subject": who.phrase, "helper": word(be(who.person, past), form)}


def tell(parts: dict[str, Phrase], manner: Manner, order: tuple[str, str] | None = None, ask: Phrase = EMPTY) -> Phrase:
    """Weave a clause from its places: negate it, shorten it, ask it, and tie what has no counterpart to the verb."""
    parts = {"ask": ask} | parts
    ties: list[str] = []
    helper = parts.get("helper", EMPTY)
    if manner.negative:
        parts["not"] = word("not", "no")
        if manner.short and helper.english[0] in DO_SHORT:
            ties.append("not-helper")
            parts["not"] = word(DO_SHORT[helper.english[0]], "no")
            parts["helper"] = Phrase((), helper.spanish)
        elif helper.english == ("can",):
            ties.append("not-helper")
            parts["not"], parts["helper"] = word("cannot", "no"), Phrase((), helper.spanish)
        elif not helper.spanish:
            ties.append("helper-not")
    elif manner.short and helper.english and helper.english[0] in BE_SHORT and not manner.question:
        who = parts["subject"]
        if not who.spanish and len(who.english) == 1:
            parts["subject"] = Phrase((who.english[0] + BE_SHORT[helper.english[0]],))
            parts["helper"] = Phrase((), helper.spanish)
    finite = "modal" if "modal" in parts else "helper" if parts.get("helper", EMPTY).spanish else "main"
    if not parts["subject"].spanish:
        ties.append(f"subject-{finite}")
    if manner.question and not helper.spanish:
        ties.append(f"helper-{finite}")
    if not parts.get("to", EMPTY).spanish:
        ties.append("to-main")
    if parts.get("object", EMPTY).english and not parts["object"].spanish and "clitic" not in parts:
        ties.append("object-main")
    if not parts.get("toward", EMPTY).spanish:
        ties.append("toward-second")
    if order is None:
        asked = QUESTION if ask is not EMPTY or finite == "main" else YES_NO_QUESTION
        order = asked if manner.question else STATEMENT
    left, right = order
    return weave(left, right, " ".join([*ties, *TIES]), **parts)


def attach(verb: Verb, who: Nominal, manner: Manner, pronoun: str, clitic: str) -> dict[str, Phrase]:
    """The places of a clause with a pronoun object: before a finite verb, clinging to an infinitive."""
    if manner.tense in ("present", "past", "progressive"):
        return group(verb, who, manner) | {"object": word(pronoun, ""), "clitic": word("", clitic)}
    return group(verb, who, manner, clitic) | {"object": word(pronoun, "")}


def marked(particle: str, phrase: Phrase) -> Phrase:
    """A phrase behind a Spanish particle that English does without, linked to the phrase's last English word."""
    links = {(i, j + 1) for i, j in phrase.links} | {(len(phrase.english) - 1, 0)}
    return Phrase(phrase.english, (particle, *phrase.spanish), frozenset(links))


def personal(what: Nominal, verb: Verb) -> Phrase:
    """The object as Spanish wants it: people with the personal a."""
    return what.phrase if verb.bare or not what.human else marked("a", what.phrase)


def choose(rng: Random, tenses: str = "present present past past future progressive", negative: float = 0.2) -> Manner:
    """A manner of telling, drawn from these tenses."""
    return Manner(rng.choice(tenses.split()), rng.random() < negative, short=rng.random() < 0.5)
