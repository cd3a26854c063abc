"""English word forms: regular endings by rule, irregular words by table."""

from functools import cache

# base: past, participle
IRREGULAR = {
    "be": "was been",
    "break": "broke broken",
    "bring": "brought brought",
    "buy": "bought bought",
    "come": "came come",
    "drink": "drank drunk",
    "drive": "drove driven",
    "eat": "ate eaten",
    "find": "found found",
    "forget": "forgot forgotten",
    "get": "got got",
    "give": "gave given",
    "go": "went gone",
    "have": "had had",
    "know": "knew known",
    "leave": "left left",
    "lose": "lost lost",
    "make": "made made",
    "pay": "paid paid",
    "read": "read read",
    "run": "ran run",
    "say": "said said",
    "see": "saw seen",
    "sell": "sold sold",
    "send": "sent sent",
    "sing": "sang sung",
    "sleep": "slept slept",
    "speak": "spoke spoken",
    "swim": "swam swum",
    "teach": "taught taught",
    "think": "thought thought",
    "understand": "understood understood",
    "wake": "woke woken",
    "wear": "wore worn",
    "write": "wrote written",
}
DOUBLED = {"swim", "run", "get", "forget"}  # the last letter doubles before -ing
PLURALS = {"man": "men", "woman": "women", "knife": "knives", "shelf": "shelves", "mouse": "mice", "scarf": "scarves"}
PLURALS |= {"foot": "feet", "tooth": "teeth", "piano": "pianos", "photo": "photos", "radio": "radios", "wife": "wives"}


def _inflect(verb: str, ending: str) -> str:
    """Put an ending on the first word of a verb: look for, looking for."""
    base, _, particle = verb.partition(" ")
    if ending == "s":
        form = {"have": "has", "be": "is", "go": "goes"}.get(base) or plural(base)
    elif ending == "ing":
        form = base[:-1] if base.endswith("e") and not base.endswith("ee") and base != "be" else base
        form += base[-1] * (base in DOUBLED) + "ing"
    elif base in IRREGULAR:
        form = IRREGULAR[base].split()[ending == "en"]
    elif base[-1] == "y" and base[-2] not in "aeiou":
        form = base[:-1] + "ied"
    else:
        form = base + ("d" if base.endswith("e") else "ed")
    return f"{form} {particle}".strip()


@cache
def third(verb: str) -> str:
    """What he, she or it does: watches, looks for."""
    return _inflect(verb, "s")


@cache
def past(verb: str) -> str:
    """What somebody did: bought, looked for."""
    return _inflect(verb, "ed")


@cache
def doing(verb: str) -> str:
    """What is going on: writing, looking for."""
    return _inflect(verb, "ing")


@cache
def done(verb: str) -> str:
    """What has been done: written, opened."""
    return _inflect(verb, "en")


@cache
def plural(noun: str) -> str:
    """More than one: boxes, cities, shelves."""
    if noun in PLURALS:
        return PLURALS[noun]
    if noun.endswith(("s", "x", "ch", "sh", "o")):
        return noun + "es"
    if noun[-1] == "y" and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"
