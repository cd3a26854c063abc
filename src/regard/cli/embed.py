"""`regard embed`: a vector for every text."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.options import Actors, AsJson, Engine, Int8, OutFolder, PartRows, RunFolder, TextColumn
from regard.cli.reading import TEXTS_AT_ONCE, documents, in_pieces
from regard.errors import UsageError


def embed(
    run: RunFolder,
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="One text a line (default: stdin), or a .jsonl, .tsv, .csv or .parquet."),
    ] = None,
    pooling: Annotated[str | None, typer.Option("--pooling", help="mean or cls (default: as it was built).")] = None,
    normalize: Annotated[
        bool | None,
        typer.Option("--normalize/--no-normalize", help="Whether vectors get length one (default: as it was built)."),
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="vectors.npy, a row per text, in place of numbers to read.")
    ] = None,
    text_column: TextColumn = "text",
    out: OutFolder = None,
    engine: Engine = "plain",
    actors: Actors = None,
    part_rows: PartRows = None,
    int8: Int8 = False,
    as_json: AsJson = False,
) -> None:
    """One vector per text: a line of numbers each, in order. Of long texts the beginning is read."""
    from regard.bulk.verb import Wishes, in_bulk
    from regard.progress import counting

    wishes = Wishes(out, engine, actors, part_rows, int8, as_json)
    options = {"pooling": pooling, "normalize": normalize}
    if in_bulk("embed", run, file, [text_column], wishes, options, not_with={"-o": output is not None}):
        return
    if output is not None and Path(output).suffix != ".npy":
        raise UsageError(f"-o {output}: the name must end in .npy")
    embedder = load_embedder(run, int8)
    rows: list[Any] = []
    with counting("embedding") as finished:
        for piece in in_pieces(documents(file, text_column), TEXTS_AT_ONCE, typed=file is None):
            read = [text for _, text in piece]
            vectors = embedder.embed(read, pooling=pooling, normalize=normalize, finished=finished)
            if output is not None:
                rows.append(vectors)
                continue
            for (number, _), vector in zip(piece, vectors.tolist(), strict=True):
                plain = " ".join(f"{value:.6g}" for value in vector)
                print(json.dumps({"line": number + 1, "embedding": vector}) if as_json else plain)
    if output is not None:
        save_vectors(rows, output)


def load_embedder(run: str, int8: bool) -> Any:
    """A run that makes one vector of each text, or of each picture."""
    from regard.loading import load_for
    from regard.tasks.bidirectional_lm import BidirectionalLM

    loaded = load_for("embed", run, int8=int8)
    if isinstance(loaded, BidirectionalLM):
        raise UsageError(f"{run} has vectors for words, not for texts: regard.load({run!r}).embed([...]) gives them")
    return loaded


def save_vectors(parts: list[Any], output: str) -> None:
    import numpy as np

    from regard.files import whole_file

    if not parts:
        raise UsageError(f"-o {output}: there is no text to embed")
    with whole_file(Path(output)) as opened:
        np.save(opened, np.concatenate(parts), allow_pickle=False)
