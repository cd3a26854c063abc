"""`regard classify`: labels of texts and of pictures."""

import json
import sys
from typing import Annotated, Any

import typer

from regard.cli.drawing import Drawn, check_count, check_name, show
from regard.cli.options import (
    Actors,
    AsJson,
    Engine,
    Figure,
    Int8,
    OutFolder,
    PartRows,
    RunFolder,
    TextColumn,
)
from regard.cli.reading import TEXTS_AT_ONCE, UnreadablePictures, documents, in_pieces
from regard.errors import UsageError


def classify(
    run: RunFolder,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE | IMAGE...]",
            help="One text a line (default: stdin), or a .jsonl, .tsv, .csv or .parquet; or pictures or their folders.",
        ),
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="Show the words or patches that weighed most.")] = False,
    output: Figure = None,
    text_column: TextColumn = "text",
    second_column: Annotated[
        str | None, typer.Option("--second-column", help="Of a table of pairs; in lines a tab separates the two texts.")
    ] = None,
    out: OutFolder = None,
    engine: Engine = "plain",
    actors: Actors = None,
    part_rows: PartRows = None,
    int8: Int8 = False,
    as_json: AsJson = False,
) -> None:
    """Classify texts or pictures. Label and probability of each, in order; empty lines stay empty."""
    from regard.bulk.verb import Wishes, in_bulk
    from regard.loading import load_for
    from regard.progress import counting
    from regard.tasks.image_classifier import ImageClassifier

    columns = [text_column] if second_column is None else [text_column, second_column]
    wishes = Wishes(out, engine, actors, part_rows, int8, as_json)
    several = {"a second file (name a folder, or a glob in quotes)": bool(files) and len(files or ()) > 1}
    source, not_with = files[0] if files else None, {"--why": why, "-o": output is not None, **several}
    if in_bulk("classify", run, source, columns, wishes, {}, not_with):
        return
    check_name(output)
    classifier = load_for("classify", run, int8=int8)
    if isinstance(classifier, ImageClassifier):
        classify_pictures(classifier, files or [], why, output, as_json)
        return
    if files and len(files) > 1:
        raise UsageError(f"{run} classifies texts, of one file at a time: leave out {files[1]}")
    file = files[0] if files else None
    texts = documents(file, text_column, second_column, pairs=classifier.frame is not None)
    drawn = Drawn(output, "texts")
    with counting("classifying") as finished:
        for piece in in_pieces(texts, TEXTS_AT_ONCE, typed=file is None):
            results = classifier.classify([text for _, text in piece], finished=finished)
            for (number, _), result in zip(piece, results, strict=True):
                print(verdict(number + 1, result, why, as_json))
                if why and not as_json:
                    show(result)
                drawn.add(result)
    if output is not None and not drawn.looks:
        raise UsageError(f"-o {output}: there is no text with a word in it to draw")
    if output is not None and not output.endswith(".html") and len(drawn.looks) > 1:
        raise UsageError(f"-o {output}: a picture shows one text; give one, or write a page.html of all")
    drawn.draw()


def verdict(number: int, result: Any, why: bool, as_json: bool) -> str:
    if not as_json:
        return f"{result.label}\t{result.probability:.4f}" if result.label else ""
    record: dict[str, Any] = {"line": number, "label": result.label or None, "probabilities": result.probabilities}
    if why and result.label:
        from dataclasses import asdict

        record["sentences"] = [asdict(sentence) for sentence in result.sentences]
    return json.dumps(record, ensure_ascii=False)


def classify_pictures(classifier: Any, files: list[str], why: bool, output: str | None, as_json: bool) -> None:
    """Print a line per picture; one that cannot be read is named on standard error, and its line has no label."""
    from regard.data.images import picture_paths
    from regard.progress import counting

    paths = picture_paths(files)
    if not paths:
        raise UsageError("say which pictures to classify: regard classify RUN IMAGE..., or folders of them")
    check_count(output, len(paths))
    drawn = Drawn(output, "pictures")
    unreadable = UnreadablePictures()
    with counting("classifying", len(paths)) as finished:
        for first in range(0, len(paths), classifier.at_once):
            part = paths[first : first + classifier.at_once]
            for result in classifier.classify(part, finished=finished, unreadable=unreadable):
                print(picture_verdict(result, as_json))
                if why and not as_json:
                    show(result)
                drawn.add(result)
            sys.stdout.flush()
    unreadable.report(len(paths))
    drawn.draw()


def picture_verdict(result: Any, as_json: bool) -> str:
    if as_json:
        record = {"image": result.name, "label": result.label or None, "probabilities": result.probabilities}
        return json.dumps(record, ensure_ascii=False)
    return f"{result.label}\t{result.probability:.4f}\t{result.name}" if result.label else f"\t\t{result.name}"
