"""`regard fill`: the words behind gaps."""

import json
from typing import Annotated

import typer

from regard.cli.options import AsJson, Int8, RunFolder


def fill(
    run: RunFolder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="With a [MASK] for every word to find.")],
    top: Annotated[int, typer.Option("--top", help="How many words to offer for each gap.")] = 5,
    int8: Int8 = False,
    as_json: AsJson = False,
) -> None:
    """Find the words behind every [MASK] of a text."""
    from dataclasses import asdict

    from regard.loading import load_for

    result = load_for("fill", run, int8=int8).fill(text, top=top)[0]
    if as_json:
        gaps = [[asdict(guess) for guess in gap] for gap in result.guesses]
        record = {"source": text, "text": result.text, "score": result.score, "guesses": gaps}
        print(json.dumps(record, ensure_ascii=False))
        return
    print(result.text)
    for gap in result.guesses:
        print("  ".join(f"{guess.word} {guess.probability:.4f}" for guess in gap))
