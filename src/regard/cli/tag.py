"""`regard tag`: a tag for every word."""

import json
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from regard.cli.options import AsJson, RunFolder
from regard.cli.reading import LINES_AT_ONCE, in_pieces, lines


def tag(
    run: RunFolder,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]", help="A sentence a line, blanks between words (default: stdin), or a .conllu."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tag the words of sentences. word/TAG word/TAG ..., a line each, in order; empty lines stay empty."""
    from regard.loading import load_for
    from regard.progress import counting

    tagger = load_for("tag", run)
    with counting("tagging") as finished:
        for piece in in_pieces(sentences_of_words(file), LINES_AT_ONCE, typed=file is None):
            results = tagger.tag([words for _, words in piece], finished=finished)
            for (number, _), result in zip(piece, results, strict=True):
                known = {"words": result.words, "tags": result.tags, "probabilities": result.probabilities}
                record = {"line": number + 1, **known}
                print(json.dumps(record, ensure_ascii=False) if as_json else result.text)


def sentences_of_words(file: str | None) -> Iterator[Sequence[str]]:
    """The sentences to tag, streamed."""
    from regard.data.conllu import read_conllu

    if file is not None and file.lower().endswith((".conllu", ".conllu.gz")):
        return (sentence.words for sentence in read_conllu(file, column=None))
    return (line.split() for line in lines(file))
