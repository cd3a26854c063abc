"""When, where and with whom: the phrases that end (or open) a sentence.

The choice of a time word follows the tense, so "yesterday" never meets a future.
"""

from random import Random

from regard.data.corpus.lexicon import NUMBERS
from regard.data.corpus.nominals import AFTER_PREPOSITION, Nominal, name, noun_phrase, pick, relative
from regard.data.corpus.nouns import NOUNS
from regard.data.corpus.phrase import EMPTY, Phrase, join, word, words
from regard.data.corpus.spanish import EL, NOSOTROS, YO

WEEKDAYS = (
    ("monday", "lunes"),
    ("tuesday", "martes"),
    ("wednesday", "miércoles"),
    ("thursday", "jueves"),
    ("friday", "viernes"),
    ("saturday", "sábado"),
    ("sunday", "domingo"),
)
MONTHS = (
    ("january", "enero"),
    ("february", "febrero"),
    ("march", "marzo"),
    ("april", "abril"),
    ("may", "mayo"),
    ("june", "junio"),
    ("july", "julio"),
    ("august", "agosto"),
    ("september", "septiembre"),
    ("october", "octubre"),
    ("november", "noviembre"),
    ("december", "diciembre"),
)
SEASONS = (("spring", "primavera"), ("summer", "verano"), ("autumn", "otoño"), ("winter", "invierno"))

HABIT = (
    words("every=todos_los", "day=días"),
    words("every=todas_las", "week=semanas"),
    words("every=todas_las", "night=noches"),
    words("every=todos_los", "weekend=fines_de_semana"),
    words("in=por", "the=la", "morning=mañana"),
    words("in=por", "the=la", "afternoon=tarde"),
    words("at=por_la", "night=noche"),
)
PAST = (
    word("yesterday", "ayer"),
    word("yesterday", "ayer"),
    word("last night", "anoche"),
    words("this=esta", "morning=mañana"),
)
FUTURE = (
    word("tomorrow", "mañana"),
    word("tomorrow", "mañana"),
    word("tonight", "esta noche"),
    words("this=esta", "afternoon=tarde"),
    words("this=este", "weekend=fin_de_semana"),
    word("soon", "pronto"),
    word("later", "más tarde"),
)
NOW = (
    word("now", "ahora"),
    word("today", "hoy"),
    word("right now", "ahora mismo"),
    words("at=en", "the=este", "moment=momento"),
)
PERIODS = (("week", "la semana"), ("month", "el mes"), ("year", "el año"))
OFTEN = (
    word("always", "siempre"),
    word("never", "nunca"),
    word("often", "a menudo"),
    word("sometimes", "a veces"),
    word("usually", "normalmente"),
    word("also", "también"),
)


def last(rng: Random) -> Phrase:
    """last week -> la semana pasada."""
    english, spanish = rng.choice(PERIODS)
    article, noun = spanish.split()
    past = "pasada" if article == "la" else "pasado"
    return Phrase(("last", english), (article, noun, past), frozenset({(0, 0), (1, 1), (0, 2)}))


def following(rng: Random) -> Phrase:
    """next month -> el próximo mes."""
    english, spanish = rng.choice(PERIODS)
    article, noun = spanish.split()
    return join(word("next", f"{article} próxim{'a' if article == 'la' else 'o'}"), word(english, noun))


def ago(rng: Random) -> Phrase:
    """two days ago -> hace dos días: the last English word comes first."""
    number, spanish = rng.choice(NUMBERS[:5])
    unit = rng.choice(("days=días", "weeks=semanas", "months=meses", "years=años")).split("=")
    links = frozenset({(0, 1), (1, 2), (2, 0)})
    return Phrase((number, unit[0], "ago"), ("hace", spanish, unit[1]), links)


def weekday(rng: Random, habit: bool = False) -> Phrase:
    """on monday -> el lunes; on mondays -> los lunes."""
    english, spanish = rng.choice(WEEKDAYS)
    if habit:
        many = spanish if spanish.endswith("s") else spanish + "s"
        return join(word("on", "los"), word(english + "s", many))
    return join(word("on", "el"), word(english, spanish))


def hour(rng: Random) -> Phrase:
    """three o'clock -> las tres; half past three -> las tres y media; one o'clock -> la una."""
    draw = rng.random()
    if draw < 0.12:
        return Phrase(("one", "o'clock"), ("la", "una"), frozenset({(0, 1), (1, 0)}))
    english, spanish = rng.choice(NUMBERS)
    if draw < 0.7:
        return Phrase((english, "o'clock"), ("las", spanish), frozenset({(0, 1), (1, 0)}))
    links = frozenset({(0, 3), (1, 2), (2, 1), (2, 0)})
    return Phrase(("half", "past", english), ("las", spanish, "y", "media"), links)


def clock(rng: Random) -> Phrase:
    return join(word("at", "a"), hour(rng))


def season(rng: Random) -> Phrase:
    """in january -> en enero; in the summer -> en verano."""
    if rng.random() < 0.6:
        return join(word("in", "en"), word(*rng.choice(MONTHS)))
    english, spanish = rng.choice(SEASONS)
    return join(word("in", "en"), word(f"the {english}", spanish))


def when(rng: Random, tense: str) -> Phrase:
    """A time that fits the tense."""
    if tense == "progressive":
        return rng.choice(NOW)
    draw = rng.random()
    if tense == "past":
        if draw < 0.4:
            return rng.choice(PAST)
        return ago(rng) if draw < 0.55 else weekday(rng) if draw < 0.7 else last(rng) if draw < 0.8 else season(rng)
    if tense == "present":
        if draw < 0.5:
            return rng.choice(HABIT)
        return weekday(rng, habit=True) if draw < 0.7 else season(rng)
    if draw < 0.6:
        return rng.choice(FUTURE)
    return following(rng) if draw < 0.7 else weekday(rng) if draw < 0.82 else season(rng)


def company(rng: Random, who: Nominal) -> Phrase:
    """Somebody else: with me -> conmigo; with my brother -> con mi hermano."""
    draw = rng.random()
    if draw < 0.2 and who.person == EL:
        return rng.choice((word("with me", "conmigo"), word("with you", "contigo")))
    if draw < 0.2:
        return word("with you", "contigo") if who.person in (YO, NOSOTROS) else word("with me", "conmigo")
    if draw < 0.4:
        pronoun = rng.choice(("him", "her", "them"))
        return join(word("with", "con"), word(pronoun, AFTER_PREPOSITION[pronoun]))
    return join(word("with", "con"), (name if draw < 0.6 else relative)(rng).phrase)


# Where things lie: English, Spanish. The last word de may fuse with el.
RELATIONS = (
    words("under=debajo_de"),
    words("behind=detrás_de"),
    words("near=cerca_de"),
    words("next=al_lado", "to=de"),
    Phrase(("in", "front", "of"), ("delante", "de"), frozenset({(0, 0), (1, 0), (2, 1)})),
)


def spot(rng: Random) -> Phrase:
    """A spot in a room: on the table, under the old sofa, in the garden."""
    draw = rng.random()
    if draw < 0.3:
        return join(word("on", "sobre"), noun_phrase(rng.choice(NOUNS["furniture"]), the(rng)).phrase)
    if draw < 0.5:
        return join(word("in", "en"), noun_phrase(pick(rng, "room"), the(rng)).phrase)
    noun = pick(rng, "opening") if draw < 0.6 else pick(rng, "furniture")
    return join(rng.choice(RELATIONS[draw < 0.6 :]), noun_phrase(noun, the(rng)).phrase)


def landmark(rng: Random) -> Phrase:
    """A spot in a town: near the station, behind the church."""
    noun = pick(rng, "place", "sight")
    if noun.english in ("city", "village", "island", "mountain"):
        return join(word("near", "cerca de"), noun_phrase(noun, "the").phrase)
    return join(rng.choice(RELATIONS[1:]), noun_phrase(noun, "the").phrase)


def the(rng: Random) -> str:
    return rng.choice(("the", "the", "the", "my", "this", "your"))


def maybe(rng: Random, chance: float, phrase: Phrase) -> Phrase:
    return phrase if rng.random() < chance else EMPTY
