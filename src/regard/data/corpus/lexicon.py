"""The words of the corpus: plain tables by meaning, so that people eat food and live in places.

A noun line is "english spanish gender", with _ for a space. Every table's name is the *kind* that verbs, adjectives
and prepositions ask for; a noun may be of several kinds. No English word has two translations within reach of the same
construction: "short" is bajo for people and corto for things, and the noun decides.
"""

from dataclasses import dataclass

from regard.data.corpus import english, spanish


@dataclass(frozen=True)
class Noun:
    """A noun in both languages, singular and plural; a mass noun and a name have no plural."""

    english: str
    spanish: str
    feminine: bool
    kind: str
    plural: str
    plural_spanish: str

    @property
    def human(self) -> bool:
        return self.kind in ("person", "kin", "name")


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


@dataclass(frozen=True)
class Adjective:
    """An adjective, masculine singular in Spanish; English comparatives are spelled out where they are one word."""

    english: str
    spanish: str
    comparative: str = ""


NOUN_TABLES = {
    "person": """
        doctor médico m; teacher maestro m; student estudiante m; nurse enfermera f; lawyer abogado m
        engineer ingeniero m; waiter camarero m; waitress camarera f; writer escritor m; singer cantante m
        painter pintor m; farmer granjero m; baker panadero m; actor actor m; actress actriz f
        tourist turista m; neighbor vecino m; boy niño m; girl niña f; man hombre m; woman mujer f
        friend amigo m; secretary secretaria f; scientist científico m; dentist dentista m; boss jefe m
        soldier soldado m; king rey m; queen reina f""",
    "kin": """
        mother madre f; father padre m; brother hermano m; sister hermana f; son hijo m; daughter hija f
        uncle tío m; aunt tía f; cousin primo m; grandfather abuelo m; grandmother abuela f
        husband marido m; wife esposa f""",
    "name": """
        ana ana f; maria maría f; lucia lucía f; elena elena f; sofia sofía f; juan juan m; pedro pedro m
        carlos carlos m; luis luis m; miguel miguel m""",
    "animal": """
        dog perro m; cat gato m; horse caballo m; bird pájaro m; cow vaca f; rabbit conejo m
        mouse ratón m; duck pato m""",
    "fruit": """
        apple manzana f; orange naranja f; egg huevo m; potato patata f; tomato tomate m
        banana plátano m; strawberry fresa f
        lemon limón m""",
    "dish": """
        cake pastel m; sandwich bocadillo m; cookie galleta f; salad ensalada f; soup sopa f
        pizza pizza f; omelette tortilla f""",
    "food": """
        bread pan m; rice arroz m; meat carne f; cheese queso m; chicken pollo m; fish pescado m
        chocolate chocolate m; pasta pasta f; butter mantequilla f; ice_cream helado m""",
    "drink": """
        water agua f; milk leche f; coffee café m; tea té m; wine vino m; beer cerveza f; juice zumo m
        lemonade limonada f""",
    "reading": """
        book libro m; newspaper periódico m; magazine revista f; novel novela f; dictionary diccionario m""",
    "writing": """
        letter carta f; poem poema m; story cuento m; message mensaje m; report informe m""",
    "clothing": """
        shirt camisa f; hat sombrero m; coat abrigo m; dress vestido m; skirt falda f; jacket chaqueta f
        scarf bufanda f; sweater jersey m; tie corbata f; belt cinturón m; suit traje m; shoe zapato m
        sock calcetín m; glove guante m; boot bota f""",
    "vehicle": """
        car coche m; bus autobús m; truck camión m; taxi taxi m; motorcycle moto f""",
    "transport": """
        train tren m; boat barco m; plane avión m; bicycle bicicleta f""",
    "furniture": """
        table mesa f; chair silla f; bed cama f; sofa sofá m; desk escritorio m; shelf estante m""",
    "opening": """
        door puerta f; window ventana f""",
    "container": """
        box caja f; suitcase maleta f; drawer cajón m; bottle botella f""",
    "object": """
        key llave f; pen bolígrafo m; pencil lápiz m; notebook cuaderno m; ball pelota f; toy juguete m
        gift regalo m; ticket billete m; map mapa m; photo foto f; ring anillo m; wallet cartera f
        flower flor f; umbrella paraguas m; bag bolsa f""",
    "machine": """
        phone teléfono m; computer ordenador m; camera cámara f; lamp lámpara f; clock reloj m
        radio radio f""",
    "tableware": """
        knife cuchillo m; fork tenedor m; spoon cuchara f; plate plato m; cup taza f; glass vaso m""",
    "place": """
        hospital hospital m; restaurant restaurante m; hotel hotel m; museum museo m; library biblioteca f
        bank banco m; shop tienda f; supermarket supermercado m; market mercado m; station estación f
        airport aeropuerto m; park parque m; beach playa f; school escuela f; office oficina f
        university universidad f; theater teatro m; cinema cine m; pharmacy farmacia f; factory fábrica f
        village pueblo m; city ciudad f""",
    "sight": """
        church iglesia f; river río m; mountain montaña f; bridge puente m; square plaza f
        castle castillo m; tower torre f; island isla f; forest bosque m; building edificio m
        street calle f""",
    "room": """
        house casa f; garden jardín m; kitchen cocina f; bathroom baño m; bedroom dormitorio m
        room habitación f; garage garaje m""",
    "instrument": """
        guitar guitarra f; piano piano m; violin violín m; flute flauta f; drum tambor m""",
    "sport": """
        football fútbol m; tennis tenis m; basketball baloncesto m; chess ajedrez m; golf golf m""",
    "song": """
        song canción f""",
    "sound": """
        music música f""",
    "show": """
        film película f; game partido m""",
    "event": """
        party fiesta f; meeting reunión f; class clase f; wedding boda f; exam examen m; dance baile m""",
    "subject": """
        history historia f; music música f; art arte m; biology biología f; medicine medicina f
        physics física f; chemistry química f; geography geografía f""",
    "language": """
        spanish español m; english inglés m; french francés m; german alemán m; italian italiano m
        portuguese portugués m; chinese chino m; japanese japonés m""",
    "fact": """
        answer respuesta f; truth verdad f; address dirección f; name nombre m; secret secreto m""",
    "lesson": """
        question pregunta f; problem problema m; idea idea f; word palabra f; rule regla f
        lesson lección f""",
    "town": """
        madrid madrid m; paris parís m; london londres m; rome roma f; berlin berlín m; lima lima f
        seville sevilla f; barcelona barcelona f; lisbon lisboa f""",
    "country": """
        spain españa f; mexico méxico m; france francia f; germany alemania f; italy italia f
        england inglaterra f; argentina argentina f; peru perú m; japan japón m; china china f
        brazil brasil m; portugal portugal m""",
    "body": """
        head cabeza f; arm brazo m; leg pierna f; back espalda f; stomach estómago m; knee rodilla f
        foot pie m; tooth diente m""",
}
MASS = {"food", "drink", "name", "sport", "sound", "subject", "language", "town", "country"}
# Kinds that the corpus speaks of one at a time, to keep their plurals from being too rare to learn.
LONE = {"vehicle", "transport", "furniture", "machine", "place", "sight", "room", "instrument", "show", "event", "fact"}
LONE |= {"body", "dish", "song"}
TONIC = {"agua"}  # feminine, yet "el agua": two stressed a's do not meet


def _noun(kind: str, line: str) -> Noun:
    left, right, gender = line.split()
    left = left.replace("_", " ")
    many, many_spanish = ("", "") if kind in MASS else (english.plural(left), spanish.plural(right))
    return Noun(left, right, gender == "f", kind, many, many_spanish)


NOUNS: dict[str, tuple[Noun, ...]] = {
    kind: tuple(_noun(kind, line) for row in table.strip().splitlines() for line in row.split(";"))
    for kind, table in NOUN_TABLES.items()
}

WARM = {"coat", "jacket", "scarf", "sweater", "glove", "hat"}
NOUNS["warm"] = tuple(noun for noun in NOUNS["clothing"] if noun.english in WARM)
# People who also come in groups; the others are spoken of one at a time.
GROUPS = {"doctor", "teacher", "student", "boy", "girl", "man", "woman", "friend", "neighbor", "tourist", "nurse"}
OWNED = {"doctor", "teacher", "lawyer", "neighbor", "friend", "secretary", "dentist", "boss", "student"}


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
