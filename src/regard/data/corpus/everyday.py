"""Everyday phrases: what people say whole, where words reorder, vanish and fuse.

A line is "english = spanish = links"; the links are pairs like 0-1, or nothing for all with all.
"""

from regard.data.corpus.phrase import Phrase, word

GREETING_LINES = """
    hello = hola
    good morning = buenos días = 0-0 1-1
    good afternoon = buenas tardes = 0-0 1-1
    good evening = buenas noches = 0-0 1-1
    excuse me = perdón
    i'm sorry = lo siento
    thank you = gracias
    thank you very much = muchas gracias = 0-1 1-1 2-0 3-0
    of course = por supuesto
    yes = sí
    no = no
"""
PARTING_LINES = """
    goodbye = adiós
    see you tomorrow = hasta mañana = 0-0 1-0 2-1
    see you later = hasta luego = 0-0 1-0 2-1
    see you soon = hasta pronto = 0-0 1-0 2-1
    good night = buenas noches = 0-0 1-1
    have a nice day = que tengas un buen día = 0-0 0-1 1-2 2-3 3-4
    have a nice trip = buen viaje = 0-0 1-0 2-0 3-1
    good luck = buena suerte = 0-0 1-1
    take care = cuídate
    you are welcome = de nada
    you're welcome = de nada
    nice to meet you = mucho gusto
    don't worry = no te preocupes = 0-0 1-1 1-2
    it does not matter = no importa = 0-1 1-0 2-0 3-1
    it doesn't matter = no importa = 0-1 1-0 2-1
    i don't know = no lo sé = 0-2 1-0 2-1 2-2
    i do not know = no lo sé = 0-2 1-0 2-0 3-1 3-2
    i don't understand = no entiendo = 0-1 1-0 2-1
    i do not understand = no entiendo = 0-1 1-0 2-0 3-1
    i love you = te quiero = 0-1 1-1 2-0
    i miss you = te echo de menos = 0-1 1-1 1-2 1-3 2-0
    i agree = estoy de acuerdo
    it is true = es verdad = 0-0 1-0 2-1
    it's true = es verdad = 0-0 1-1
    that is enough = ya basta
    come here = ven aquí = 0-0 1-1
    hurry up = date prisa
    be careful = ten cuidado = 0-0 1-1
    wait a moment = espera un momento = 0-0 1-1 2-2
    just a moment = un momento = 0-0 1-0 2-1
    i need help = necesito ayuda = 0-0 1-0 2-1
    it is very late = es muy tarde = 0-0 1-0 2-1 3-2
    it's very late = es muy tarde = 0-0 1-1 2-2
    you are right = tienes razón = 0-0 1-0 2-1
    maybe = quizás
    it is a pity = es una lástima = 0-0 1-0 2-1 3-2
    make yourself at home = estás en tu casa = 0-0 1-0 1-2 2-1 3-3
    better late than never = más vale tarde que nunca = 0-0 0-1 1-2 2-3 3-4
    with pleasure = con mucho gusto = 0-0 1-1 1-2
    welcome to my house = bienvenido a mi casa = 0-0 1-1 2-2 3-3
"""
EXCLAMATION_LINES = """
    happy birthday = feliz cumpleaños = 0-0 1-1
    merry christmas = feliz navidad = 0-0 1-1
    happy new year = feliz año nuevo = 0-0 1-2 2-1
    congratulations = felicidades
    cheers = salud
    enjoy your meal = buen provecho
    what a surprise = qué sorpresa = 0-0 1-0 2-1
    what a beautiful day = qué día tan bonito = 0-0 1-0 2-2 2-3 3-1
    how nice = qué bien = 0-0 1-1
    what a shame = qué pena = 0-0 1-0 2-1
    let's go = vámonos
    help = socorro
    be quiet = silencio
"""
INQUIRY_LINES = """
    how are you = cómo estás = 0-0 1-1 2-1
    what is your name = cómo te llamas = 0-0 1-2 2-1 3-2
    what's your name = cómo te llamas = 0-0 1-1 2-2
    where are you from = de dónde eres = 0-1 1-2 2-2 3-0
    how old are you = cuántos años tienes = 0-0 1-1 2-2 3-2
    what time is it = qué hora es = 0-0 1-1 2-2 3-2
    how much is it = cuánto es = 0-0 1-0 2-1 3-1
    what is this = qué es esto = 0-0 1-1 2-2
    what's this = qué es esto = 0-0 0-1 1-2
    what happened = qué pasó = 0-0 1-1
    what's happening = qué pasa = 0-0 1-1
    what's the matter = qué te pasa = 0-0 1-1 2-2
    why not = por qué no = 0-0 0-1 1-2
    is everything all right = está todo bien = 0-0 1-1 2-2 3-2
    can you help me = puedes ayudarme = 0-0 1-0 2-1 3-1
    how do you say this in spanish = cómo se dice esto en español = 0-0 1-2 2-1 3-2 4-3 5-4 6-5
    do you speak english = hablas inglés = 0-0 1-0 2-0 3-1
    what does this word mean = qué significa esta palabra = 0-0 1-1 2-2 3-3 4-1
    who are you = quién eres = 0-0 1-1 2-1
    where do you live = dónde vives = 0-0 1-1 2-1 3-1
    what do you do = a qué te dedicas = 0-0 0-1 1-3 2-2 3-3
    are you ready = estás listo = 0-0 1-0 2-1
    really = de verdad
"""


def _phrases(lines: str) -> tuple[Phrase, ...]:
    phrases = []
    for line in lines.strip().splitlines():
        english, spanish, *links = (side.strip() for side in line.split("="))
        if not links:
            phrases.append(word(english, spanish))
            continue
        pairs = [link.split("-") for link in links[0].split()]
        told = frozenset((int(i), int(j)) for i, j in pairs)
        phrases.append(Phrase(tuple(english.split()), tuple(spanish.split()), told))
    return tuple(phrases)


GREETINGS = _phrases(GREETING_LINES)
PARTINGS = _phrases(PARTING_LINES)
EXCLAMATIONS = _phrases(EXCLAMATION_LINES)
INQUIRIES = _phrases(INQUIRY_LINES)
