"""The grammar: which sentences there are, how often each kind is spoken, and how they open and end.

`sentence` draws one. Everything drawn comes from the `Random` it is handed, so a seed fixes the corpus.
"""

from collections.abc import Callable
from random import Random

from regard.data.corpus import compounds, descriptions, questions, statements
from regard.data.corpus.everyday import EXCLAMATIONS, GREETINGS, INQUIRIES, PARTINGS
from regard.data.corpus.nouns import NOUNS
from regard.data.corpus.phrase import EMPTY, Phrase, join, polish, weave, word

Rule = Callable[[Random], Phrase]

STATEMENTS: dict[Rule, int] = {
    statements.action: 90,
    statements.activity: 26,
    statements.journey: 9,
    statements.coming: 9,
    statements.living: 3,
    statements.playing: 8,
    statements.routine: 20,
    statements.with_clitic: 16,
    statements.referring: 8,
    statements.giving: 9,
    statements.made: 5,
    descriptions.feeling: 3,
    descriptions.nature: 5,
    descriptions.state: 2,
    descriptions.whereabouts: 4,
    descriptions.trade: 2,
    descriptions.origin: 3,
    descriptions.having: 3,
    descriptions.pleasing: 6,
    descriptions.aching: 6,
    descriptions.existence: 4,
    descriptions.comparing: 3,
    descriptions.weather: 1,
    descriptions.time: 2,
    descriptions.price: 1,
    descriptions.owning: 5,
    descriptions.named: 1,
    compounds.because: 8,
    compounds.whenever: 6,
    compounds.condition: 5,
    compounds.contrast: 6,
    compounds.addition: 8,
    compounds.opinion: 4,
    compounds.relative_clause: 5,
    compounds.acquaintance: 2,
    compounds.succession: 4,
    compounds.story: 3,
}
QUESTIONS: dict[Rule, int] = {
    questions.whether: 9,
    questions.whether_going: 3,
    questions.whether_so: 4,
    questions.what: 5,
    questions.wonder: 5,
    questions.where: 5,
    questions.who_does: 3,
    questions.how_much: 2,
    questions.liking: 2,
    questions.is_there: 2,
}
COMMANDS: dict[Rule, int] = {questions.command: 5, questions.lets: 2}
# statement, question, command, talk
MOODS = (70, 16, 5, 9)

COMMA, STOP = word(",", ","), word(".", ".")
PLEASE = word("please", "por favor")


def draw(rng: Random, rules: dict[Rule, int]) -> Phrase:
    """One phrase by one of these rules, each as often as its weight."""
    return rng.choices(tuple(rules), tuple(rules.values()))[0](rng)


def ask(phrase: Phrase, opening: Phrase = EMPTY) -> Phrase:
    """A question between its marks; the one English mark is linked to both Spanish ones."""
    marks = {"begin": word("", "¿"), "end": word("?", "?")}
    return weave("opening phrase end", "opening begin phrase end", "end-begin", opening=opening, phrase=phrase, **marks)


def exclaim(phrase: Phrase) -> Phrase:
    """An exclamation between its marks."""
    return weave("phrase end", "begin phrase end", "end-begin", phrase=phrase, begin=word("", "¡"), end=word("!", "!"))


def address(rng: Random) -> Phrase:
    """Whom one speaks to: ana, my friend, doctor."""
    if rng.random() < 0.7:
        noun = rng.choice(NOUNS["name"])
        return word(noun.english, noun.spanish)
    return rng.choice((join(word("my", "mi"), word("friend", "amigo")), word("doctor", "doctor"), word("mom", "mamá")))


def talk(rng: Random) -> Phrase:
    """Everyday phrases with somebody to say them to or something to say next."""
    kind = rng.random()
    if kind < 0.15:
        return join(rng.choice(GREETINGS), COMMA, address(rng), STOP)
    if kind < 0.48:
        return join(rng.choice(PARTINGS), COMMA, address(rng), STOP)
    if kind < 0.6:
        return exclaim(join(rng.choice(EXCLAMATIONS), COMMA, address(rng)))
    if kind < 0.8:
        return ask(rng.choice(INQUIRIES), join(address(rng) if rng.random() < 0.5 else rng.choice(GREETINGS), COMMA))
    if kind < 0.95:
        return join(rng.choice(GREETINGS), COMMA, draw(rng, STATEMENTS), STOP)
    return ask(draw(rng, QUESTIONS), join(rng.choice(GREETINGS), COMMA))


def sentence(rng: Random) -> Phrase:
    """One sentence of the language, spoken to its end; one statement in eight comes without its full stop."""
    mood = rng.choices(range(4), weights=MOODS)[0]
    if mood == 3:
        return polish(talk(rng))
    if mood == 1:
        return polish(ask(draw(rng, QUESTIONS)))
    if mood == 2:
        said = draw(rng, COMMANDS)
        if rng.random() < 0.35:
            said = join(said, COMMA, PLEASE)
    else:
        said = draw(rng, STATEMENTS)
    return polish(said if rng.random() < 1 / 8 else join(said, STOP))


def everyday() -> list[Phrase]:
    """Every everyday phrase by itself, in its own mood, with and without the full stop."""
    plain = (*GREETINGS, *PARTINGS)
    return [
        *plain,
        *(join(phrase, STOP) for phrase in plain),
        *map(ask, INQUIRIES),
        *map(exclaim, EXCLAMATIONS),
    ]
