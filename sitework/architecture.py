"""The picture of the house: its parts as boxes, and an arrow wherever one imports another, read from the source.

    python -m sitework.architecture        # draws docs/images/architecture.svg again

A part stands one floor above everything it imports. An arrow that only repeats a longer way (`cli` to `attention`, past
`tasks`) is left out.
"""

import ast
from collections.abc import Iterator
from functools import cache
from itertools import pairwise, product
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "regard"
PICTURE = ROOT / "docs" / "images" / "architecture.svg"
# Used everywhere: they would only cross the picture out.
EVERYWHERE = {"errors", "fallbacks", "files", "processors", "settings", "progress", "int8", "__init__", "__main__"}
# Modules that stand with others.
TOGETHER = {"looking": "loading", "demo": "cli", "diagnosis": "cli"}
SAID = {
    "kernels": "kernels in C",
    "attention": "score, align, read; masks; recording",
    "layers": "positions, blocks, recurrent networks",
    "models": "one file per paper",
    "data": "tokenizers, readers, batches",
    "decoding": "greedy, sampling, beam search",
    "training": "loop, checkpoints, many processes",
    "tasks": "loss, metrics, the verb",
    "views": "pictures from arrays and words",
    "families": "names of models",
    "recipes": "named runs, jobs",
    "loading": "a run, a checkpoint, a model",
    "public": "checkpoints of others",
    "inspect": "heads, steps, lenses",
    "export": "hf, onnx, ctranslate2, gguf",
    "plan": "memory and time, before",
    "bulk": "millions of rows",
    "explorer": "server and web page",
    "cli": "verbs",
}
WIDTH, HEIGHT, BESIDE, BELOW, EDGE = 212, 46, 24, 44, 20


def part_of(path: Path) -> str:
    name = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    return TOGETHER.get(name, name)


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "regard":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard."):
            yield (node.module or "").split(".")[1]


@cache
def uses() -> dict[str, frozenset[str]]:
    """Which parts each part imports."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        part = part_of(path)
        if part not in EVERYWHERE:
            known = {TOGETHER.get(name, name) for name in imported(path)} - EVERYWHERE - {part}
            found.setdefault(part, set()).update(known)
    return {part: frozenset(known & found.keys()) for part, known in found.items()}


def reached(part: str, seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """Everything below a part."""
    for below in uses()[part] - seen:
        seen = reached(below, seen | {below})
    return seen


def floors() -> list[list[str]]:
    """Parts by their height: 0 stands on nothing. Parts that import one another share a floor."""

    def height(part: str) -> int:
        below = [other for other in reached(part) if part not in reached(other)]
        return 1 + max((height(other) for other in below), default=-1)

    heights = {part: height(part) for part in uses()}
    return [sorted(part for part in heights if heights[part] == floor) for floor in range(max(heights.values()) + 1)]


def arrows() -> list[tuple[str, str]]:
    """Imports that no longer way repeats."""
    kept = []
    for part, below in product(uses(), uses()):
        if below in uses()[part]:
            others = uses()[part] - {below}
            if not any(below in reached(other) and part not in reached(other) for other in others):
                kept.append((part, below))
    return kept


def gaps(boxes: list[float]) -> list[float]:
    """Where an arrow can pass a floor: left of it, between its boxes, right of it."""
    return [boxes[0] - BESIDE / 2, *(box + WIDTH + BESIDE / 2 for box in boxes)]


def curve(points: list[tuple[float, float]]) -> str:
    """From point to point, upright at each."""
    path = f"M{points[0][0]:g} {points[0][1]:g}"
    for (x, y), (to_x, to_y) in pairwise(points):
        bend = (to_y - y) / 2
        path += f"C{x:g} {y + bend:g} {to_x:g} {to_y - bend:g} {to_x:g} {to_y:g}"
    return path


def arrow(part: str, below: str, places: dict[str, tuple[float, float]]) -> str:
    (x, y), (to_x, to_y) = places[part], places[below]
    if y == to_y:  # they import one another
        start, end = (x + WIDTH, to_x - 2) if x < to_x else (x, to_x + WIDTH + 2)
        return f"M{start:g} {y + HEIGHT / 2:g}H{end:g}"
    points = [(x + WIDTH / 2, y + HEIGHT)]
    for floor in sorted({place[1] for place in places.values() if y < place[1] < to_y}):
        open_at = gaps(sorted(place[0] for place in places.values() if place[1] == floor))
        passed = min(open_at, key=lambda gap: abs(gap - x - WIDTH / 2) + abs(gap - to_x - WIDTH / 2))
        points += [(passed, floor), (passed, floor + HEIGHT)]
    return curve([*points, (to_x + WIDTH / 2, to_y - 2)])


def drawn() -> str:
    levels = floors()
    widest = max(map(len, levels))
    width = 2 * EDGE + widest * WIDTH + (widest - 1) * BESIDE
    height = 2 * EDGE + len(levels) * HEIGHT + (len(levels) - 1) * BELOW
    places = {}
    for floor, parts in enumerate(levels):
        left = (width - len(parts) * WIDTH - (len(parts) - 1) * BESIDE) / 2
        for number, part in enumerate(parts):
            places[part] = (left + number * (WIDTH + BESIDE), height - EDGE - HEIGHT - floor * (HEIGHT + BELOW))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#555"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for part, below in arrows():
        path = arrow(part, below, places)
        lines.append(f'<path d="{path}" fill="none" stroke="#777" marker-end="url(#tip)"/>')
    for part, (x, y) in places.items():
        size = f'x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}"'
        lines.append(f'<rect {size} rx="6" fill="#e9eef6" stroke="#36548a"/>')
        middle = f'x="{x + WIDTH / 2:g}" text-anchor="middle"'
        lines.append(f'<text {middle} y="{y + 19:g}" font-size="14" font-weight="bold">{part}</text>')
        lines.append(f'<text {middle} y="{y + 35:g}" font-size="10.5">{SAID[part]}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(drawn(), "utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")
