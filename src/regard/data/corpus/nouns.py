"""The nouns of the corpus, by meaning.

A noun line is "english spanish gender", with _ for a space. Every table's name is the *kind* that verbs, adjectives
and prepositions ask for; a noun may be of several kinds.
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
