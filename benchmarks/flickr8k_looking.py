"""Do captioners look at what they speak of? 30 test pictures of Flickr8k, with people and animals boxed by hand.

    python benchmarks/flickr8k_looking.py [--data DIR] [--out runs] [--only NAME ...]

Runs are those of flickr8k_captions.py. Of each caption the first word for a person or an animal counts: a hit is a word
whose strongest region has its centre in a box. Whether it is the right word is another question: "man" said of a girl
is a hit if the girl was looked at. By chance a region would hit as often as region centres lie in boxes. The boxes
(flickr8k_beings.json: left, top, right, bottom as shares of the picture) are around everybody who can be seen.
"""

import argparse
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import regard
from flickr8k_captions import RUNS, pictures
from result_files import FOLDER, write_result

NAME = "flickr8k-looking"
BOXES = Path(__file__).with_name("flickr8k_beings.json")
PEOPLE = "man men woman women person people boy boys girl girls child children kid kids baby player players crowd"
BEINGS = set(f"{PEOPLE} dog dogs cat horse bird".split())
Box = tuple[float, float, float, float]


def inside(x: float, y: float, boxes: list[Box]) -> bool:
    return any(left <= x <= right and top <= y <= bottom for left, top, right, bottom in boxes)


def chance(rows: int, columns: int, boxes: list[Box]) -> float:
    """The share of regions whose centre is in a box."""
    centres = [((column + 0.5) / columns, (row + 0.5) / rows) for row in range(rows) for column in range(columns)]
    return float(np.mean([inside(x, y, boxes) for x, y in centres]))


def by_luck(hits: int, chances: list[float]) -> float:
    """The probability of as many hits or more if each were a matter of its own chance."""
    counts = np.array([1.0])
    for each in chances:
        counts = np.convolve(counts, [1 - each, each])
    return float(counts[hits:].sum())


def look(captioner: Any, chosen: dict[str, list[Box]], known: dict[str, Any]) -> dict[str, Any]:
    images = [Image.open(io.BytesIO(known[name].read())) for name in chosen]
    rows = []
    for (name, boxes), result in zip(chosen.items(), captioner.caption(images, num_beams=5), strict=True):
        attention = result.attention
        word = next((place for place, said in enumerate(attention.words) if said in BEINGS), None)
        if word is not None:
            left, top, right, bottom = attention.box(word)
            hit = inside((left + right) / 2, (top + bottom) / 2, boxes)
            likely = chance(*attention.weights.shape[1:], boxes)
            rows.append(dict(picture=name, caption=result.text, word=attention.words[word], hit=hit, chance=likely))
    hits, chances = sum(row["hit"] for row in rows), [row["chance"] for row in rows]
    return {
        "pictures": len(chosen),
        "words": len(rows),
        "hits": hits,
        "hits_by_chance": round(sum(chances), 2),
        "probability_by_chance": by_luck(hits, chances),
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--out", default="runs", type=Path)
    parser.add_argument("--only", nargs="*", choices=[name for name in RUNS if name != "Show and Tell"])
    arguments = parser.parse_args()
    path = FOLDER / f"{NAME}.json"
    runs: dict[str, Any] = json.loads(path.read_text("utf-8"))["runs"] if path.exists() else {}
    boxes = json.loads(BOXES.read_text("utf-8"))
    known = {picture.name: picture for picture in pictures("test", arguments.data)}
    for name in arguments.only or [name for name in RUNS if name != "Show and Tell"]:
        found = runs[name] = look(regard.load(arguments.out / RUNS[name]), boxes, known)
        luck = f"{found['hits_by_chance']:.1f} by chance, p = {found['probability_by_chance']:.1g}"
        print(f"{name}: {found['hits']} of {found['words']} words look at somebody ({luck})", flush=True)
        write_result(NAME, "python benchmarks/flickr8k_looking.py", {"runs": runs})


if __name__ == "__main__":
    main()
