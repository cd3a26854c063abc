"""`regard translate`: lines in, lines out."""

import json
from typing import Annotated, Any

import typer

from regard.cli.options import (
    Actors,
    AsJson,
    Beam,
    Engine,
    Int8,
    LengthPenalty,
    OutFolder,
    PartRows,
    ReplaceUnknowns,
    RunFolder,
    Seed,
    Temperature,
    TextColumn,
    TopK,
    TopP,
    check_sampling,
    complain,
)
from regard.cli.reading import LINES_AT_ONCE, in_pieces, lines
from regard.errors import UsageError


def translate(
    run: RunFolder,
    file: Annotated[str | None, typer.Argument(metavar="[FILE]", help="One sentence a line (default: stdin).")] = None,
    beam: Beam = None,
    nbest: Annotated[int, typer.Option("--nbest", help="Print the N best translations of each line.")] = 1,
    alignments: Annotated[
        bool, typer.Option("--alignments", help="Add word links (source-target, from 0) behind a tab.")
    ] = False,
    sample: Annotated[bool, typer.Option("--sample", help="Draw translations instead of searching the best.")] = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    length_penalty: LengthPenalty = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Most tokens of a translation.")] = None,
    replace_unknowns: ReplaceUnknowns = False,
    dictionary: Annotated[
        str | None, typer.Option(metavar="FILE.tsv", help="What to put there instead: source<TAB>target, a line each.")
    ] = None,
    text_column: TextColumn = "text",
    out: OutFolder = None,
    engine: Engine = "plain",
    actors: Actors = None,
    part_rows: PartRows = None,
    int8: Int8 = False,
    workers: Annotated[
        int | None,
        typer.Option(help="Processes side by side (default: long inputs are tried with and without; 1: none)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Translate lines, in order. FILE or standard input to standard output; empty lines stay empty."""
    from regard.bulk.verb import Wishes, in_bulk
    from regard.loading import load_for
    from regard.loading import workers as side_by_side

    check_sampling(sample, beam)
    search: dict[str, Any] = {
        "do_sample": sample or None,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
        "length_penalty": length_penalty,
        "max_new_tokens": max_new_tokens,
        "replace_unknowns": replace_unknowns,
        "dictionary": known_words(dictionary, replace_unknowns),
    }
    options = {**search, "num_beams": beam, "alignments": alignments or None}
    wishes = Wishes(out, engine, actors, part_rows, int8, as_json)
    not_in_bulk = {"--nbest": nbest > 1, "--workers": workers is not None}
    if in_bulk("translate", run, file, [text_column], wishes, options, not_with=not_in_bulk):
        return
    translator = load_for("translate", run, int8=int8)
    if alignments:
        translator.check_attention()
    if nbest > 1 and not sample:
        beam = max(nbest, beam or translator.decoding.num_beams)
    asked = {**search, "num_beams": beam, "num_return_sequences": nbest}
    with side_by_side(run, workers, int8=int8) as processes:
        translate_lines(translator, file, {**asked, "workers": processes}, alignments=alignments, as_json=as_json)
    if processes.lost:
        complain(f"{processes.lost} of the workers died, perhaps for want of memory; the others did their share")


def translate_lines(
    translator: Any, file: str | None, asked: dict[str, Any], *, alignments: bool, as_json: bool
) -> None:
    from regard.progress import counting

    with counting("translating") as finished:
        for piece in in_pieces(lines(file), LINES_AT_ONCE * asked["workers"].count, typed=file is None):
            texts = [line for _, line in piece]
            results = translator.translate(texts, **asked, first_number=piece[0][0], finished=finished)
            links = translator.links(results) if alignments else None
            for row, ((number, _), result) in enumerate(zip(piece, results, strict=True)):
                for rank, hypothesis in enumerate(result.nbest or (result,)):
                    link = links[row][rank] if links else None
                    print(translated(number, hypothesis, link, asked["num_return_sequences"], as_json))


def known_words(path: str | None, wanted: bool) -> dict[str, str] | None:
    """The dictionary for unknown words; what of it cannot be used is said."""
    from collections import Counter

    from regard.tasks.unknowns import read_dictionary

    if path is None:
        return None
    if not wanted:
        raise UsageError(f"--dictionary {path} serves only to replace unknown words: add --replace-unknowns")
    skipped: Counter[str] = Counter()
    words = read_dictionary(path, skipped)
    if skipped:
        complain(f"{path}: entries left out: {', '.join(f'{count} {why}' for why, count in skipped.items())}")
    return words


def translated(number: int, result: Any, links: str | None, nbest: int, as_json: bool) -> str:
    if as_json:
        record = {"line": number + 1, "source": result.source, "text": result.text, "score": result.score}
        return json.dumps({**record, **({"alignment": links} if links is not None else {})}, ensure_ascii=False)
    text = f"{number} ||| {result.text} ||| {result.score:.4f}" if nbest > 1 else result.text
    return text if links is None else f"{text}\t{links}"
