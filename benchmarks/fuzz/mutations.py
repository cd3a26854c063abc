"""Ways to spoil a file, each a function of a random generator and the content: bytes, lines, JSON, YAML, containers.

What is drawn depends on the generator alone, so a case is known by its seed. Structure-aware ways keep the form whole
(valid JSON with one wrong value, a PNG whose checksums are right again): they come past the first check of a reader.
"""

import gzip
import json
import struct
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

Spoil = Callable[[Random, bytes], bytes]

LONGEST = 600_000  # bytes of a spoilt file
NUMBERS = [0, 1, -1, 2, 3, 7, 255, 256, 65_536, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 10**12, -(10**12)]
FLOATS = [0.5, -0.0, 1e308, 1e-320, float("nan"), float("inf"), float("-inf"), 1.0000000000000002]
NAMES = [
    "../../x",
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    "",
    "~/x",
    "~nobody-here/x",
    "n" * 5000,
    "C:\\x",
    "a/../../b",
    "x\0y",
    "a\nb",
    "con",
]
TEXTS = [
    *NAMES,
    "\ud800",
    "\u2028",
    "\ufeff",
    "\x00",
    "\x1b[31m",
    "null",
    "1e9",
    "0x10",
    "-5",
    "nan",
    "{}",
    "!!python/object/apply:os.system [echo]",
    "${HOME}",
    "%s%n",
    "a" * 300,
    "long " * 30_000,
    "9" * 5000,
    "[" * 300,
    "\n".join("abcdefgh"),
    "İ" * 50,
    "\U0001f600",
]


def value(draw: Random) -> Any:
    """Something that hardly any place of a file expects."""
    kind = draw.randrange(8)
    if kind == 0:
        return draw.choice(NUMBERS)
    if kind == 1:
        return draw.choice(FLOATS)
    if kind == 2:
        return draw.choice(TEXTS)
    if kind == 3:
        return draw.choice([None, True, False, [], {}, [[]], {"": ""}, [None], [{}], [0] * 2000])
    if kind == 4:
        return draw.randrange(-20, 300)
    if kind == 5:
        return nested(draw.choice([3, 40, 200, 900]), draw.random() < 0.5)
    if kind == 6:
        return draw.choice([10**400, -(10**400), 2**64, 10**18])
    return [value(draw) for _ in range(draw.randrange(1, 4))]


def nested(depth: int, as_tables: bool) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = {"a": found} if as_tables else [found]
    return found


# Bytes, of whatever they are.


def flip(draw: Random, content: bytes) -> bytes:
    changed = bytearray(content or b"\0")
    for _ in range(draw.choice([1, 1, 2, 8, 64])):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def overwrite(draw: Random, content: bytes) -> bytes:
    """A number as files spell it, somewhere."""
    number = draw.choice([0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1, 10**9])
    width = draw.choice([1, 2, 4, 8])
    place = draw.randrange(len(content) + 1)
    spelt = (number % 256**width).to_bytes(width, draw.choice(["little", "big"]))  # type: ignore[arg-type]
    return content[:place] + spelt + content[place + width :]


def chunk(draw: Random, content: bytes) -> tuple[int, int]:
    start = draw.randrange(len(content) + 1)
    return start, min(len(content), start + draw.choice([1, 4, 16, 100, 1000, len(content)]))


def cut(draw: Random, content: bytes) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def headless(draw: Random, content: bytes) -> bytes:
    return content[draw.randrange(len(content) + 1) :]


def remove(draw: Random, content: bytes) -> bytes:
    start, end = chunk(draw, content)
    return content[:start] + content[end:]


def repeat(draw: Random, content: bytes) -> bytes:
    start, end = chunk(draw, content)
    times = min(draw.choice([2, 2, 3, 10, 2000]), 1 + LONGEST // max(1, end - start))
    return (content[:start] + content[start:end] * times + content[end:])[:LONGEST]


def insert(draw: Random, content: bytes) -> bytes:
    place = draw.randrange(len(content) + 1)
    added = draw.choice(
        [draw.randbytes(draw.choice([1, 5, 200])), b"\0", b"\0" * 5000, b"\xff\xfe", b"\xc3(", b"\xed\xa0\x80", b"\r"]
    )
    return content[:place] + added + content[place:]


def swap(draw: Random, content: bytes) -> bytes:
    (a, b), (c, d) = sorted((chunk(draw, content), chunk(draw, content)))
    return content if b > c else content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def blank(draw: Random, content: bytes) -> bytes:
    start, end = chunk(draw, content)
    return content[:start] + draw.choice([b"\0", b"\xff", b" "]) * (end - start) + content[end:]


def whole(draw: Random, content: bytes) -> bytes:
    """The whole file as something else."""
    choices: list[Callable[[], bytes]] = [
        lambda: b"",
        lambda: b"\xef\xbb\xbf" + content,
        lambda: content.replace(b"\n", b"\r\n"),
        lambda: content.replace(b"\n", b"\r"),
        lambda: content.decode("utf-8", "replace").encode("utf-16"),
        lambda: content.decode("utf-8", "replace").encode("utf-32")[:LONGEST],
        lambda: content.decode("utf-8", "replace").encode("latin-1", "replace"),
        lambda: draw.randbytes(draw.choice([1, 10, 1000])),
        lambda: gzip.compress(content, mtime=0),
        lambda: content + content,
        lambda: b"\n" * 5000,
        lambda: b"{}",
        lambda: b"[]",
        lambda: b"null",
    ]
    return draw.choice(choices)()


BYTES: list[Spoil] = [flip, overwrite, cut, headless, remove, repeat, insert, swap, blank, whole]


# Lines of text.


def as_lines(change: Callable[[Random, list[str]], list[str]]) -> Spoil:
    def spoil(draw: Random, content: bytes) -> bytes:
        lines = content.decode("utf-8", "replace").split("\n")
        return "\n".join(change(draw, lines)).encode("utf-8", "surrogatepass")

    spoil.__name__ = change.__name__
    return spoil


def without_line(draw: Random, lines: list[str]) -> list[str]:
    place = draw.randrange(len(lines))
    return lines[:place] + lines[place + draw.choice([1, 1, 3]) :]


def line_again(draw: Random, lines: list[str]) -> list[str]:
    place = draw.randrange(len(lines))
    return lines[:place] + [lines[place]] * draw.choice([2, 2, 500]) + lines[place:]


def shuffled(draw: Random, lines: list[str]) -> list[str]:
    return draw.sample(lines, len(lines))


def other_cells(draw: Random, lines: list[str]) -> list[str]:
    """One cell between tabs, commas or blanks is something else."""
    place, mark = draw.randrange(len(lines)), draw.choice(["\t", ",", " ", "-", ":"])
    cells = lines[place].split(mark)
    found = value(draw)
    cells[draw.randrange(len(cells))] = found if isinstance(found, str) else json.dumps(found)
    lines[place] = mark.join(cells)
    return lines


def other_marks(draw: Random, lines: list[str]) -> list[str]:
    place = draw.randrange(len(lines))
    old, new = draw.choice("\t ,\"'#-:"), draw.choice(["", "\t", "\t\t", '"', "\u2028", "\x0b", "\x85", "\xa0", "\n"])
    lines[place] = lines[place].replace(old, new, draw.choice([1, 100]))
    return lines


def long_line(draw: Random, lines: list[str]) -> list[str]:
    lines[draw.randrange(len(lines))] += draw.choice(["x", "\t", "é", '"', " a"]) * draw.choice([5000, 150_000])
    return lines


LINES = [as_lines(change) for change in (without_line, line_again, shuffled, other_cells, other_marks, long_line)]


# JSON and YAML, as the values they stand for.


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if len(path) < 8 and isinstance(tree, dict | list):
        steps = list(tree) if isinstance(tree, dict) else range(min(len(tree), 30))
        for step in steps:
            found += places(tree[step], (*path, step))
    return found


def with_changed_place(draw: Random, tree: Any) -> Any:
    """The tree with one of its places replaced, removed, renamed, wrapped or doubled."""
    known = places(tree)
    # The first steps of a file are its settings; deep inside lie a thousand like entries.
    path = draw.choice(known if draw.random() < 0.5 else [path for path in known if len(path) <= 2])
    if not path:
        return draw.choice([value(draw), [tree], {"x": tree}]) if draw.random() < 0.2 else tree
    holder, last = tree, path[-1]
    for step in path[:-1]:
        holder = holder[step]
    way = draw.randrange(6)
    if way == 0:
        del holder[last]
    elif way == 1 and isinstance(holder, dict):
        holder[draw.choice([*TEXTS, *map(str, holder)])] = holder.pop(last)
    elif way == 2:
        holder[last] = draw.choice([[holder[last]], {"a": holder[last]}, [holder[last]] * 3, str(holder[last])[:5000]])
    elif way == 3 and isinstance(holder, list):
        times = draw.choice([1, 3000])
        holder += [holder[last]] * min(times, 1 + LONGEST // len(repr(holder[last])))  # what is longer is cut off
    elif way == 4:
        other = draw.choice([other for other in known if other])
        found = tree
        for step in other:
            found = found[step]
        holder[last] = json.loads(json.dumps(found))
    else:
        holder[last] = value(draw)
    return tree


def json_value(draw: Random, content: bytes) -> bytes:
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        return flip(draw, content)
    try:
        for _ in range(draw.choice([1, 1, 1, 2, 4])):
            tree = with_changed_place(draw, tree)
        return dumped(tree, ensure_ascii=draw.random() < 0.9).encode("utf-8", "surrogatepass")[:LONGEST]
    except (ValueError, RecursionError):  # too deep to be written, or a number too long
        return flip(draw, content)


def dumped(tree: Any, ensure_ascii: bool) -> str:
    """As JSON, so much of it as a file has room for: a place that stands there 3,000 times may have become long."""
    pieces, room = [], LONGEST
    for piece in json.JSONEncoder(ensure_ascii=ensure_ascii).iterencode(tree):
        pieces.append(piece)
        room -= len(piece)
        if room < 0:
            break
    return "".join(pieces)


def json_bomb(draw: Random, content: bytes) -> bytes:
    depth = draw.choice([200, 5000, 100_000])
    inner = draw.choice([b"[", b'{"a":', b'[{"a":'])
    bomb = draw.choice(
        [
            inner * (LONGEST // len(inner) if depth == 100_000 else depth),
            b"[" * depth + b"]" * depth,
            b"1" * draw.choice([400, 5000, 100_000]),
            b'"' + b"\\ud800" * 1000 + b'"',
            b"-",
            b"1e99999",
            b"NaN",
        ]
    )
    if draw.random() < 0.5:
        return bomb[:LONGEST]
    keys = [b'"' + piece for piece in content.split(b'"')[1::2]]
    if not keys:
        return bomb[:LONGEST]
    key = draw.choice(keys)
    return (b"{" + key + b'":' + bomb + b"}")[:LONGEST]


def json_twice(draw: Random, content: bytes) -> bytes:
    """A key that is there twice."""
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        return content
    if not isinstance(tree, dict) or not tree:
        return content
    key = draw.choice(list(tree))
    found = json.dumps({key: value(draw)})[1:-1]
    return (content.rstrip().removesuffix(b"}") + b", " + found.encode("utf-8", "surrogatepass") + b"}")[:LONGEST]


JSON: list[Spoil] = [json_value] * 8 + [json_bomb, json_twice]


def json_line(draw: Random, content: bytes) -> bytes:
    """The same in one line of a file that holds one object a line."""
    lines = content.split(b"\n")
    place = draw.randrange(len(lines))
    lines[place] = draw.choice(JSON)(draw, lines[place]).replace(b"\n", b" ")
    return b"\n".join(lines)


def yaml_value(draw: Random, content: bytes) -> bytes:
    import yaml

    if b"&" in content or len(content) > 20_000:  # a bomb already: to look at its values would set it off
        return flip(draw, content)
    try:
        tree = yaml.safe_load(content)
        for _ in range(draw.choice([1, 1, 1, 2, 4])):
            tree = with_changed_place(draw, tree)
        return yaml.safe_dump(tree, allow_unicode=True).encode("utf-8", "surrogatepass")[:LONGEST]
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return flip(draw, content)


YAML_TRICKS = [
    b"a: &a [1, 1]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n",
    b"a0: &a0 [1]\n"
    + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12)),
    b"m0: &m0 {k: 1}\n"
    + b"".join(b"m%d: &m%d\n  <<: [%s]\n" % (n, n, b", ".join([b"*m%d" % (n - 1)] * 9)) for n in range(1, 12)),
    b"data: &loop [*loop]\n",
    b"data: &loop {a: *loop}\n",
    b"model: !!python/object/apply:os.system ['true']\n",
    b"model: !!python/name:os.system\n",
    b"steps: 2001-99-99\n",
    b"training: {steps: 0x%s}\n" % (b"f" * 9000),
    b"training: {steps: %s}\n" % (b"9" * 9000),
    b"training: {steps: 190:20:30}\n",
    b"training: {steps: !!int ''}\n",
    b"training: {steps: !!bool maybe}\n",
    b"training: {steps: !!timestamp x}\n",
    b"training: {steps: !!float ''}\n",
    b"training: {learning_rate: .nan}\n",
    b"training: {learning_rate: .inf}\n",
    b"? [a, b]\n: c\n",
    b"? {a: b}\n: c\n",
    b"1: 2\n",
    b"null: 2\n",
    b"--- a\n--- b\n",
    b"%YAML 9.9\n---\na: b\n",
    b"about: !!binary '=='\n",
    b"about: !!set {a, b}\n",
    b"data: !!omap [a: 1]\n",
    b"about: |\n" + b"  line\n" * 3000,
    b"[" * 5000,
    b"{a: " * 5000,
    b"- " * 5000,
    b"a: " * 500,
    b"? " * 5000,
    b"&a " * 5000,
    b"*unknown\n",
    b"\t- a\n",
    b"a: 'b\n",
    b"task: {translate: 1}\n",
    b"data: null\nmodel: null\ntraining: null\n",
]


def yaml_trick(draw: Random, content: bytes) -> bytes:
    trick = draw.choice(YAML_TRICKS)
    return draw.choice([trick, content + b"\n" + trick, trick + content])


YAML: list[Spoil] = [yaml_value] * 5 + [yaml_trick] * 2


# Containers, whose checksums and lengths are made right again.


def safetensors_header(draw: Random, content: bytes) -> bytes:
    if len(content) < 8:
        return content
    (length,) = struct.unpack("<Q", content[:8])
    header, data = content[8 : 8 + length], content[8 + length :]
    changed = json_value(draw, header)
    said = draw.choice([len(changed)] * 6 + [0, 1, 2**63, 10**8])
    return struct.pack("<Q", said) + changed + data


def safetensors_integers(draw: Random, content: bytes) -> bytes:
    """The values of one tensor of whole numbers are changed, or another count of them is put there; the rest is kept.

    A file without one is flipped.
    """
    try:
        (length,) = struct.unpack("<Q", content[:8])
        header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
        tensors = [entry for name, entry in header.items() if name != "__metadata__"]
        tensors.sort(key=lambda entry: entry["data_offsets"])
        values = [data[slice(*entry["data_offsets"])] for entry in tensors]
        found = [number for number, entry in enumerate(tensors) if entry["dtype"] in INTEGERS]
        number = draw.choice([number for number in found if tensors[number]["dtype"] == "I64"] or found)
    except (ValueError, LookupError, TypeError, AttributeError, struct.error):
        return flip(draw, content)
    size = INTEGERS[tensors[number]["dtype"]]
    count = draw.choice([len(values[number]) // size] * 3 + [0, 1, 2, 5, 70_000])
    drawn = [draw.choice([*NUMBERS, draw.randrange(-3, 40)]) % 256**size for _ in range(count)]
    if draw.random() < 0.3:  # in the order that is expected
        drawn = sorted(draw.randrange(40) for _ in range(count))
    values[number] = b"".join(value.to_bytes(size, "little") for value in drawn)
    shape = tensors[number].get("shape")
    if (isinstance(shape, list) and len(shape) == 1) or draw.random() < 0.1:
        tensors[number]["shape"] = [count]
    end = 0
    for entry, part in zip(tensors, values, strict=True):
        entry["data_offsets"] = [end, end := end + len(part)]
    spelt = json.dumps(header).encode()
    return struct.pack("<Q", len(spelt)) + spelt + b"".join(values)


INTEGERS = {"I8": 1, "I64": 8, "I32": 4, "U8": 1}  # bytes of a number


def png_chunk(draw: Random, content: bytes) -> bytes:
    """One chunk of a PNG is changed, left out or doubled; its checksum is right."""
    parts, place = [], 8
    while place + 12 <= len(content):
        (length,) = struct.unpack(">I", content[place : place + 4])
        parts.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + length]))
        place += 12 + length
    if not parts:
        return flip(draw, content)
    number, way = draw.randrange(len(parts)), draw.randrange(4)
    kind, payload = parts[number]
    if way == 0:
        parts[number : number + 1] = [(kind, payload)] * draw.choice([0, 2])
    elif way == 1 and kind == b"IHDR" and len(payload) == 13:
        sizes = [draw.choice([0, 1, 7, 5000, 40_000, 2**31 - 1]), draw.choice([0, 1, 7, 5000, 40_000])]
        parts[number] = (kind, struct.pack(">II", *sizes) + payload[8:])
    else:
        parts[number] = (kind, draw.choice(BYTES)(draw, payload))
    spelt = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    )
    return content[:8] + b"".join(spelt)


def unzipped(spoils: list[Spoil]) -> Spoil:
    """What is inside a .gz is spoilt, and zipped again."""

    def inside(draw: Random, content: bytes) -> bytes:
        try:
            text = gzip.decompress(content)
        except (OSError, EOFError, zlib.error):
            return flip(draw, content)
        return gzip.compress(draw.choice(spoils)(draw, text)[:LONGEST], 1, mtime=0)

    return inside


# How a file may be spoilt, by the ending of its name.
WAYS: dict[str, list[Spoil]] = {
    ".json": JSON * 2 + BYTES,
    ".jsonl": [json_line] * 10 + LINES + BYTES,
    ".yaml": YAML * 2 + LINES + BYTES,
    ".tsv": LINES * 2 + BYTES,
    ".csv": LINES * 2 + BYTES,
    ".txt": LINES * 2 + BYTES,
    ".conllu": LINES * 2 + BYTES,
    ".safetensors": [safetensors_header] * 10 + [safetensors_integers] * 5 + BYTES,
    ".png": [png_chunk] * 10 + BYTES,
    "": BYTES,
}


def ways(name: str) -> list[Spoil]:
    if name.endswith(".gz"):
        return [unzipped(ways(name.removesuffix(".gz")))] * 12 + BYTES
    return next(found for ending, found in WAYS.items() if name.endswith(ending))


def spoilt(draw: Random, name: str, content: bytes) -> bytes:
    """One to three ways after the other."""
    for _ in range(draw.choice([1, 1, 1, 1, 2, 3])):
        content = draw.choice(ways(name))(draw, content)[:LONGEST]
    return content
