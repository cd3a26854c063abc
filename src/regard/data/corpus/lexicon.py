"""The other words of the corpus: plain tables by meaning.

No English word has two translations within reach of the same construction: "short" is bajo for people and corto for
things, and the noun decides.
"""

from dataclasses import dataclass

from regard.data.corpus.nouns import NOUNS


@dataclass(frozen=True)
class Adjective:
    """An adjective, masculine singular in Spanish; English comparatives are spelled out where they are one word."""

    english: str
    spanish: str
    comparative: str = ""


# Where things are done: the English names of the places that make sense.
WHERE = {
    "comer": "restaurant kitchen garden park",
    "beber": "restaurant kitchen hotel",
    "cocinar": "kitchen restaurant",
    "leer": "library garden park office",
    "comprar": "market supermarket shop",
    "vender": "market shop street",
    "lavar": "garden bathroom",
    "escribir": "library office",
    "perder": "park station beach airport",
    "encontrar": "street park garden beach",
    "esperar": "station airport square park",
    "estudiar": "library university school",
    "tocar": "theater square street",
    "reparar": "garage factory street",
}
PLACES = {noun.english: noun for kind in ("place", "sight", "room") for noun in NOUNS[kind]}

BIG = Adjective("big", "grande", "bigger")
SMALL = Adjective("small", "pequeño", "smaller")
NEW = Adjective("new", "nuevo")
OLD = Adjective("old", "viejo", "older")
EXPENSIVE = Adjective("expensive", "caro", "more expensive")
CHEAP = Adjective("cheap", "barato", "cheaper")
PRETTY = Adjective("pretty", "bonito")
UGLY = Adjective("ugly", "feo")
MODERN = Adjective("modern", "moderno", "more modern")
FAMOUS = Adjective("famous", "famoso")
QUIET = Adjective("quiet", "tranquilo")
STRANGE = Adjective("strange", "extraño")
CLEAN = Adjective("clean", "limpio")
DIRTY = Adjective("dirty", "sucio")
BROKEN = Adjective("broken", "roto")
OPEN = Adjective("open", "abierto")
CLOSED = Adjective("closed", "cerrado")
EMPTY = Adjective("empty", "vacío")
COLD = Adjective("cold", "frío")
HOT = Adjective("hot", "caliente")
COLORS = (
    Adjective("red", "rojo"),
    Adjective("blue", "azul"),
    Adjective("green", "verde"),
    Adjective("white", "blanco"),
    Adjective("black", "negro"),
    Adjective("brown", "marrón"),
    Adjective("yellow", "amarillo"),
    Adjective("gray", "gris"),
)
HUMAN = (
    Adjective("tall", "alto", "taller"),
    Adjective("short", "bajo", "shorter"),
    Adjective("young", "joven", "younger"),
    OLD,
    Adjective("intelligent", "inteligente", "more intelligent"),
    Adjective("kind", "amable"),
    Adjective("nice", "simpático", "nicer"),
    FAMOUS,
    Adjective("strong", "fuerte", "stronger"),
    Adjective("serious", "serio", "more serious"),
)
GOODS = (BIG, SMALL, NEW, OLD, EXPENSIVE, CHEAP, PRETTY, UGLY)
TEXT = (
    Adjective("interesting", "interesante", "more interesting"),
    Adjective("boring", "aburrido", "more boring"),
    Adjective("long", "largo", "longer"),
    Adjective("short", "corto", "shorter"),
    Adjective("important", "importante", "more important"),
    STRANGE,
)
HARD = (
    Adjective("difficult", "difícil", "more difficult"),
    Adjective("easy", "fácil"),
    Adjective("important", "importante", "more important"),
    STRANGE,
)
TASTY = (Adjective("delicious", "delicioso"), Adjective("fresh", "fresco"))

# What a noun of each kind may be: by nature (ser) and for now (estar).
NATURE = {
    "person": HUMAN,
    "kin": HUMAN,
    "name": HUMAN,
    "animal": (BIG, SMALL, OLD, PRETTY, *COLORS[3:6]),
    "fruit": (TASTY[1], BIG, SMALL),
    "dish": (TASTY[0], BIG, SMALL),
    "food": TASTY,
    "drink": (COLD, HOT),
    "reading": TEXT,
    "writing": TEXT,
    "show": TEXT,
    "song": TEXT[:4],
    "event": TEXT,
    "clothing": GOODS + COLORS,
    "vehicle": GOODS + COLORS,
    "transport": (BIG, SMALL, NEW, OLD, MODERN),
    "furniture": GOODS + COLORS[:5],
    "opening": (BIG, SMALL, NEW, OLD, *COLORS[:4]),
    "container": (BIG, SMALL, NEW, OLD, *COLORS[:5]),
    "object": GOODS,
    "machine": (*GOODS, MODERN),
    "tableware": (BIG, SMALL, NEW, PRETTY, *COLORS[:4]),
    "place": (BIG, SMALL, NEW, OLD, MODERN, FAMOUS, QUIET),
    "sight": (BIG, SMALL, OLD, PRETTY, FAMOUS, QUIET),
    "room": (BIG, SMALL, NEW, OLD, PRETTY, MODERN, QUIET),
    "instrument": (NEW, OLD, EXPENSIVE, CHEAP, PRETTY),
    "fact": (),
    "lesson": HARD,
}
FEELINGS = (
    Adjective("tired", "cansado"),
    Adjective("happy", "contento"),
    Adjective("sad", "triste"),
    Adjective("sick", "enfermo"),
    Adjective("angry", "enfadado"),
    Adjective("busy", "ocupado"),
    Adjective("ready", "listo"),
    Adjective("worried", "preocupado"),
    Adjective("nervous", "nervioso"),
    Adjective("alone", "solo"),
    Adjective("married", "casado"),
    Adjective("bored", "aburrido"),
    Adjective("surprised", "sorprendido"),
)
STATE = {
    "opening": (OPEN, CLOSED, BROKEN, CLEAN, DIRTY),
    "container": (OPEN, CLOSED, EMPTY),
    "place": (OPEN, CLOSED, EMPTY),
    "room": (CLEAN, DIRTY, EMPTY),
    "tableware": (CLEAN, DIRTY, BROKEN),
    "clothing": (CLEAN, DIRTY, BROKEN),
    "machine": (BROKEN, CLEAN),
    "drink": (COLD, HOT),
    "dish": (COLD, HOT),
}
# Adjectives that stand before the noun: masculine, feminine, and the word whose plural they take.
BEFORE = {
    "good": ("buen", "buena", "bueno"),
    "bad": ("mal", "mala", "malo"),
    "great": ("gran", "gran", "grande"),
    "first": ("primer", "primera", "primero"),
    "last": ("último", "última", "último"),
}
# What one has in Spanish and is in English: noun, feminine.
HAVING = {
    "hungry": ("hambre", True),
    "thirsty": ("sed", True),
    "cold": ("frío", False),
    "hot": ("calor", False),
    "sleepy": ("sueño", False),
    "afraid": ("miedo", False),
    "lucky": ("suerte", True),
    "right": ("razón", True),
    "in a hurry": ("prisa", True),
}
NUMBERS = (
    ("two", "dos"),
    ("three", "tres"),
    ("four", "cuatro"),
    ("five", "cinco"),
    ("six", "seis"),
    ("seven", "siete"),
    ("eight", "ocho"),
    ("nine", "nueve"),
    ("ten", "diez"),
    ("eleven", "once"),
    ("twelve", "doce"),
)
BIG_NUMBERS = (("fifteen", "quince"), ("twenty", "veinte"), ("thirty", "treinta"), ("fifty", "cincuenta"))

# Verbs that are told while they go on: "she is reading".
ONGOING = frozenset(
    ("eat", "drink", "cook", "read", "write", "wash", "clean", "play", "sing", "paint", "study")
    + ("work", "swim", "sleep", "rest", "dance", "look for", "wait for", "listen to")
)

# What people do because of how they feel, with the kinds of object that make sense; and what they then leave undone.
MOODS = {
    "hungry": "comer fruit dish food; cocinar dish food; comprar fruit dish food; hacer dish; cenar",
    "thirsty": "beber drink; comprar drink; traer drink",
    "cold": "cerrar opening; buscar warm; llevar warm; comprar warm",
    "hot": "abrir opening; nadar; beber drink; comprar drink",
    "sleepy": "dormir; descansar; acostar; beber drink",
    "tired": "dormir; descansar; acostar",
    "sick": "descansar; dormir; llamar kin name",
    "happy": "cantar song; bailar; cantar; tocar instrument",
    "sad": "escuchar sound; llamar kin name; caminar; escribir writing",
    "angry": "limpiar room; romper tableware; caminar; correr",
    "bored": "leer reading; ver show; visitar kin name; aprender language; pintar opening furniture",
    "worried": "llamar kin name; buscar animal; esperar kin name; leer writing",
    "nervous": "caminar; limpiar room; lavar tableware; estudiar subject",
    "afraid": "cerrar opening; correr; llamar kin name",
    "in a hurry": "correr; conducir vehicle; buscar object",
    "alone": "llamar kin name; escuchar sound; leer reading writing",
}
OBSTACLES = ("tired", "sick", "sleepy", "busy", "in a hurry")
LEFT_UNDONE = (
    "trabajar; estudiar subject language; nadar; bailar; cocinar dish food; visitar kin name; limpiar room; "
    "leer reading; tocar instrument; lavar clothing tableware vehicle; ayudar kin name; ver show; aprender language; "
    "vender vehicle; reparar machine vehicle; esperar kin name; escribir writing; traer object; abrir container"
)
