"""Spanish word forms: regular endings by rule, irregular words by table.

Verbs have five persons here: yo, tú, él/ella, nosotros, ellos/ustedes (the corpus says ustedes, never vosotros).
"""

from functools import cache

PERSONS = 5
YO, TU, EL, NOSOTROS, ELLOS = range(PERSONS)

ENDINGS = {
    ("present", "ar"): "o as a amos an",
    ("present", "er"): "o es e emos en",
    ("present", "ir"): "o es e imos en",
    ("preterite", "ar"): "é aste ó amos aron",
    ("preterite", "er"): "í iste ió imos ieron",
    ("preterite", "ir"): "í iste ió imos ieron",
    ("imperfect", "ar"): "aba abas aba ábamos aban",
    ("imperfect", "er"): "ía ías ía íamos ían",
    ("imperfect", "ir"): "ía ías ía íamos ían",
}

# The stem under stress, in every person of the present but nosotros.
STRESSED = {
    "acostar": "acuest",
    "cerrar": "cierr",
    "costar": "cuest",
    "doler": "duel",
    "dormir": "duerm",
    "encontrar": "encuentr",
    "entender": "entiend",
    "enviar": "enví",
    "jugar": "jueg",
    "perder": "pierd",
    "poder": "pued",
    "querer": "quier",
}

IRREGULAR = {
    ("present", "conducir"): "conduzco conduces conduce conducimos conducen",
    ("present", "conocer"): "conozco conoces conoce conocemos conocen",
    ("present", "dar"): "doy das da damos dan",
    ("present", "decir"): "digo dices dice decimos dicen",
    ("present", "estar"): "estoy estás está estamos están",
    ("present", "hacer"): "hago haces hace hacemos hacen",
    ("present", "ir"): "voy vas va vamos van",
    ("present", "saber"): "sé sabes sabe sabemos saben",
    ("present", "salir"): "salgo sales sale salimos salen",
    ("present", "ser"): "soy eres es somos son",
    ("present", "tener"): "tengo tienes tiene tenemos tienen",
    ("present", "traer"): "traigo traes trae traemos traen",
    ("present", "venir"): "vengo vienes viene venimos vienen",
    ("present", "ver"): "veo ves ve vemos ven",
    ("preterite", "conducir"): "conduje condujiste condujo condujimos condujeron",
    ("preterite", "creer"): "creí creíste creyó creímos creyeron",
    ("preterite", "dar"): "di diste dio dimos dieron",
    ("preterite", "decir"): "dije dijiste dijo dijimos dijeron",
    ("preterite", "dormir"): "dormí dormiste durmió dormimos durmieron",
    ("preterite", "hacer"): "hice hiciste hizo hicimos hicieron",
    ("preterite", "ir"): "fui fuiste fue fuimos fueron",
    ("preterite", "leer"): "leí leíste leyó leímos leyeron",
    ("preterite", "ser"): "fui fuiste fue fuimos fueron",
    ("preterite", "traer"): "traje trajiste trajo trajimos trajeron",
    ("preterite", "venir"): "vine viniste vino vinimos vinieron",
    ("preterite", "ver"): "vi viste vio vimos vieron",
    ("imperfect", "ir"): "iba ibas iba íbamos iban",
    ("imperfect", "ser"): "era eras era éramos eran",
    ("imperfect", "ver"): "veía veías veía veíamos veían",
}

GERUNDS = {"dormir": "durmiendo", "leer": "leyendo", "traer": "trayendo", "venir": "viniendo", "ir": "yendo"}
PARTICIPLES = {"abrir": "abierto", "escribir": "escrito", "hacer": "hecho", "romper": "roto", "ver": "visto"}
IMPERATIVES = {"hacer": "haz", "venir": "ven", "salir": "sal", "ir": "ve", "tener": "ten", "decir": "di"}
PLURALS = {
    "jersey": "jerséis",
    "joven": "jóvenes",
    "examen": "exámenes",
    "autobús": "autobuses",
    "paraguas": "paraguas",
}
BARE_ACCENTS = str.maketrans("áéíóú", "aeiou")
# The spelling that keeps the sound of a stem before é: buscar, busqué; llegar, llegué; cruzar, crucé.
BEFORE_E = {"c": "qu", "g": "gu", "z": "c"}


@cache
def conjugate(infinitive: str, tense: str) -> tuple[str, ...]:
    """The five persons of a verb in the present, preterite or imperfect."""
    if (tense, infinitive) in IRREGULAR:
        return tuple(IRREGULAR[tense, infinitive].split())
    stem, ending = infinitive[:-2], infinitive[-2:]
    endings = ENDINGS[tense, ending].split()
    if tense == "present":
        stressed = STRESSED.get(infinitive, stem)
        return tuple((stem if person == NOSOTROS else stressed) + end for person, end in enumerate(endings))
    if tense == "preterite" and ending == "ar" and stem[-1] in BEFORE_E:
        return (stem[:-1] + BEFORE_E[stem[-1]] + endings[0], *(stem + end for end in endings[1:]))
    return tuple(stem + end for end in endings)


def gerund(infinitive: str) -> str:
    """What is going on: comer, comiendo."""
    return GERUNDS.get(infinitive, infinitive[:-2] + ("ando" if infinitive.endswith("ar") else "iendo"))


def participle(infinitive: str) -> str:
    """What has been done, masculine: pintar, pintado; an adjective, so it agrees."""
    return PARTICIPLES.get(infinitive, infinitive[:-2] + ("ado" if infinitive.endswith("ar") else "ido"))


def imperative(infinitive: str) -> str:
    """What tú are told to do: abrir, abre."""
    return IMPERATIVES.get(infinitive, conjugate(infinitive, "present")[EL])


@cache
def plural(noun: str) -> str:
    """More than one: casa, casas; pez, peces; canción, canciones."""
    if noun in PLURALS:
        return PLURALS[noun]
    if noun[-1] in "aeiouáéó":
        return noun + "s"
    if noun.endswith("z"):
        return noun[:-1] + "ces"
    if noun[-2:] in ("ón", "án", "ín", "és"):
        return noun[:-2] + noun[-2:].translate(BARE_ACCENTS) + "es"
    return noun + "es"


@cache
def agree(adjective: str, feminine: bool, many: bool) -> str:
    """An adjective, participle or determiner, given as masculine singular, in the noun's gender and number."""
    if feminine:
        if adjective.endswith("o"):
            adjective = adjective[:-1] + "a"
        elif adjective.endswith("or"):
            adjective += "a"
        elif adjective.endswith("és"):
            adjective = adjective[:-2] + "esa"
    return plural(adjective) if many else adjective
