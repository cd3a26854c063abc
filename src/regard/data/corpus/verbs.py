"""The verbs of the corpus, and the kinds of noun that each takes: people eat food and live in places."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Verb:
    """A verb in both languages with the kinds of object it takes.

    Statives stand in the imperfect where English has its past; a reflexive carries a pronoun in Spanish; a bare verb
    takes people without the personal a.
    """

    english: str
    spanish: str
    objects: tuple[str, ...] = ()
    stative: bool = False
    reflexive: bool = False
    bare: bool = False


def _verb(english_verb: str, spanish_verb: str, objects: str = "", *marks: str) -> Verb:
    return Verb(
        english_verb,
        spanish_verb,
        tuple(objects.split()),
        "stative" in marks,
        "reflexive" in marks,
        "bare" in marks,
    )


TRANSITIVE = (
    _verb("eat", "comer", "fruit dish food"),
    _verb("drink", "beber", "drink"),
    _verb("cook", "cocinar", "dish food"),
    _verb("make", "hacer", "dish"),
    _verb("buy", "comprar", "fruit dish food clothing object machine vehicle furniture"),
    _verb("sell", "vender", "object machine vehicle clothing furniture"),
    _verb("read", "leer", "reading writing"),
    _verb("write", "escribir", "writing"),
    _verb("wear", "llevar", "clothing"),
    _verb("wash", "lavar", "clothing tableware vehicle"),
    _verb("clean", "limpiar", "room furniture"),
    _verb("open", "abrir", "opening container"),
    _verb("close", "cerrar", "opening container"),
    _verb("see", "ver", "person kin name animal animal sight"),
    _verb("watch", "ver", "show"),
    _verb("look for", "buscar", "object machine animal animal clothing"),
    _verb("find", "encontrar", "object machine animal animal clothing"),
    _verb("lose", "perder", "object clothing"),
    _verb("need", "necesitar", "object machine clothing tableware", "stative"),
    _verb("want", "querer", "object food drink dish clothing", "stative"),
    _verb("have", "tener", "object machine vehicle animal animal transport", "stative", "bare"),
    _verb("know", "conocer", "person kin name town", "stative"),
    _verb("know", "saber", "fact", "stative"),
    _verb("visit", "visitar", "kin name sight town"),
    _verb("help", "ayudar", "person kin name"),
    _verb("call", "llamar", "person kin name"),
    _verb("wait for", "esperar", "person kin name transport"),
    _verb("listen to", "escuchar", "song sound sound"),
    _verb("play", "tocar", "instrument"),
    _verb("sing", "cantar", "song"),
    _verb("paint", "pintar", "room furniture opening"),
    _verb("study", "estudiar", "subject language"),
    _verb("learn", "aprender", "language"),
    _verb("speak", "hablar", "language"),
    _verb("drive", "conducir", "vehicle"),
    _verb("repair", "reparar", "machine vehicle transport"),
    _verb("break", "romper", "tableware machine"),
    _verb("understand", "entender", "lesson", "stative"),
    _verb("bring", "traer", "object dish drink food tableware"),
)
DATIVE = (
    _verb("send", "enviar", "writing object"),
    _verb("give", "dar", "object reading clothing"),
)
REFLEXIVE = (
    _verb("get up", "levantar", "", "reflexive"),
    _verb("go to bed", "acostar", "", "reflexive"),
)
MEALS = (_verb("have breakfast", "desayunar"), _verb("have dinner", "cenar"))
MOTION = (
    _verb("go", "ir", "place"),
    _verb("walk", "caminar", "place"),
    _verb("travel", "viajar", "town country"),
)
ACTIVITIES = (
    _verb("work", "trabajar", "office factory hospital restaurant bank school hotel shop"),
    _verb("study", "estudiar", "library university school bedroom"),
    _verb("swim", "nadar", "river"),
    _verb("run", "correr", "park beach forest street"),
    _verb("walk", "caminar", "park beach forest street city"),
    _verb("sleep", "dormir", "bedroom hotel"),
    _verb("rest", "descansar", "garden park beach bedroom"),
    _verb("dance", "bailar", "square street garden"),
    _verb("sing", "cantar", "theater church square bathroom"),
)
LIVE = _verb("live", "vivir", "town country", "stative")
COME = _verb("come", "venir")
ARRIVE = _verb("arrive", "llegar")
SAY = _verb("say", "decir")
THINK = _verb("think", "creer", "", "stative")
SPORT = _verb("play", "jugar", "sport")
BY_NAME = {verb.spanish: verb for verb in (*MOTION, *ACTIVITIES, *REFLEXIVE, *MEALS, *TRANSITIVE[::-1], *DATIVE)}
